"""The containers that long-lived objects of a process hold, found by walking from its tasks and modules.

A container that a test's objects made longer, and that is as long once they are gone, is a leak: `sizes` before and after tell
its path. What is bounded by its type (an LRU cache) is left out.
"""

from __future__ import annotations

import asyncio
import functools
import sys
import types
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, Final

import cachetools
import numpy as np

OURS: Final = ("admission", "api", "ungater")
_NOT_OURS: Final = ("api.embedded",)
_ATOMS: Final = (
    str, bytes, int, float, bool, type(None), type, types.ModuleType, types.BuiltinFunctionType, types.CodeType,
    asyncio.AbstractEventLoop,
)  # fmt: skip
_FOREIGN: Final = ("logging", "aiohttp", "re", "enum", "typing", "threading", "asyncio.events", "contextvars", "uvloop")
"""Packages whose objects are not entered: their containers are not ours."""
_ITEM: Final = "[*]"


def sizes(roots: Iterable[asyncio.Task[Any]]) -> Counter[str]:
    """The number of elements of all containers that can be reached from these tasks and from the modules, by path.

    Elements of a container share its path with `[*]`, so that a leak is found at the container that grows.
    """
    found: Counter[str] = Counter()
    queue: deque[tuple[str, Any]] = deque((task.get_name(), task) for task in roots)
    queue.extend((name, module) for name, module in sorted(sys.modules.items()) if _is_ours(name))
    seen: set[int] = set()
    keep: list[Any] = []
    while queue:
        path, one = queue.popleft()
        if id(one) in seen:
            continue
        seen.add(id(one))
        keep.append(one)  # so that no other object gets its id
        if (size := _size(one)) is not None:
            found[path] += size
        queue.extend((path + name, part) for name, part in _parts(one) if not isinstance(part, _ATOMS))
    return found


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in OURS and not module.startswith(_NOT_OURS)


def _size(first: Any) -> int | None:
    if isinstance(first, cachetools.Cache):
        return None
    if isinstance(first, np.ndarray):
        return int(first.size)
    if isinstance(first, functools._lru_cache_wrapper):
        return first.cache_info().currsize if first.cache_info().maxsize is None else None
    return len(first) if isinstance(first, (Mapping, Set, list, tuple, deque, bytearray)) else None


def _parts(first: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(first, cachetools.Cache):
        return  # its maximum bounds it
    if isinstance(first, types.ModuleType):
        yield from ((f".{name}", part) for name, part in vars(first).items() if not name.startswith("__"))
        return
    if isinstance(first, Mapping):
        for key, part in list(first.items()):
            yield _ITEM, key
            yield _ITEM, part
    elif isinstance(first, (Set, list, tuple, deque)):
        yield from ((_ITEM, part) for part in list(first))
    elif isinstance(first, types.FunctionType):
        for name, cell in zip(first.__code__.co_freevars, first.__closure__ or (), strict=False):
            try:
                yield f".<{name}>", cell.cell_contents
            except ValueError:  # not yet assigned
                continue
    elif isinstance(first, types.MethodType):
        yield "", first.__self__
        yield "", first.__func__
    elif isinstance(first, functools.partial):
        yield from ((".partial", part) for part in (first.func, first.args, first.keywords))
    elif isinstance(first, asyncio.Task):
        yield "", first.get_coro()
    elif isinstance(first, (types.CoroutineType, types.AsyncGeneratorType, types.GeneratorType)):
        yield from _frame(first)
        return
    elif type(first).__module__.startswith(_FOREIGN):
        return
    yield from _attributes(first)


def _frame(first: Any) -> Iterator[tuple[str, Any]]:
    prefix = {types.CoroutineType: "cr", types.AsyncGeneratorType: "ag", types.GeneratorType: "gi"}[type(first)]
    frame = getattr(first, f"{prefix}_frame")
    if frame is not None:
        yield from ((f" {first.__qualname__}().{name}", part) for name, part in frame.f_locals.items())
    awaited = getattr(first, "gi_yieldfrom" if prefix == "gi" else f"{prefix}_await", None)
    if awaited is not None:
        yield "", awaited


def _attributes(first: Any) -> Iterator[tuple[str, Any]]:
    attributes = getattr(first, "__dict__", None)
    if isinstance(attributes, dict):
        yield from ((f".{name}", part) for name, part in list(attributes.items()))
    for kind in type(first).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            name = f"_{kind.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name
            try:
                yield f".{name}", object.__getattribute__(first, name)
            except AttributeError:
                continue
    for name in getattr(type(first), "__struct_fields__", ()):
        yield f".{name}", getattr(first, name)


def grown(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """The sizes before and after of the outermost containers that have grown, by path."""
    more = {path: (before.get(path, 0), size) for path, size in after.items() if size > before.get(path, 0)}
    return {path: pair for path, pair in more.items() if not any(_is_inside(path, other) for other in more)}


def _is_inside(path: str, other: str) -> bool:
    return path != other and path.startswith((f"{other}[", f"{other}."))
