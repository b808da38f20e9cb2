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


def _size(one: Any) -> int | None:
    if isinstance(one, cachetools.Cache):
        return None
    if isinstance(one, np.ndarray):
        return int(one.size)
    if isinstance(one, functools._lru_cache_wrapper):
        return one.cache_info().currsize if one.cache_info().maxsize is None else None
    return len(one) if isinstance(one, (Mapping, Set, list, tuple, deque, bytearray)) else None


def _parts(one: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(one, cachetools.Cache):
        return  # its maximum bounds it
    if isinstance(one, types.ModuleType):
        yield from ((f".{name}", part) for name, part in vars(one).items() if not name.startswith("__"))
        return
    if isinstance(one, Mapping):
        for key, part in list(one.items()):
            yield _ITEM, key
            yield _ITEM, part
    elif isinstance(one, (Set, list, tuple, deque)):
        yield from ((_ITEM, part) for part in list(one))
    elif isinstance(one, types.FunctionType):
        for name, cell in zip(one.__code__.co_freevars, one.__closure__ or (), strict=False):
            try:
                yield f".<{name}>", cell.cell_contents
            except ValueError:  # not yet assigned
                continue
    elif isinstance(one, types.MethodType):
        yield "", one.__self__
        yield "", one.__func__
    elif isinstance(one, functools.partial):
        yield from ((".partial", part) for part in (one.func, one.args, one.keywords))
    elif isinstance(one, asyncio.Task):
        yield "", one.get_coro()
    elif isinstance(one, (types.CoroutineType, types.AsyncGeneratorType, types.GeneratorType)):
        yield from _frame(one)
        return
    elif type(one).__module__.startswith(_FOREIGN):
        return
    yield from _attributes(one)


def _frame(one: Any) -> Iterator[tuple[str, Any]]:
    prefix = {types.CoroutineType: "cr", types.AsyncGeneratorType: "ag", types.GeneratorType: "gi"}[type(one)]
    frame = getattr(one, f"{prefix}_frame")
    if frame is not None:
        yield from ((f" {one.__qualname__}().{name}", part) for name, part in frame.f_locals.items())
    awaited = getattr(one, "gi_yieldfrom" if prefix == "gi" else f"{prefix}_await", None)
    if awaited is not None:
        yield "", awaited


def _attributes(one: Any) -> Iterator[tuple[str, Any]]:
    attributes = getattr(one, "__dict__", None)
    if isinstance(attributes, dict):
        yield from ((f".{name}", part) for name, part in list(attributes.items()))
    for kind in type(one).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            name = f"_{kind.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name
            try:
                yield f".{name}", object.__getattribute__(one, name)
            except AttributeError:
                continue
    for name in getattr(type(one), "__struct_fields__", ()):
        yield f".{name}", getattr(one, name)


def grown(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """The sizes before and after of the outermost containers that have grown, by path."""
    more = {path: (before.get(path, 0), size) for path, size in after.items() if size > before.get(path, 0)}
    return {path: pair for path, pair in more.items() if not any(_is_inside(path, other) for other in more)}


def _is_inside(path: str, other: str) -> bool:
    return path != other and path.startswith((f"{other}[", f"{other}."))
