"""Reads and copies values at paths in decoded objects. Pure.

A path is a tuple of field names and list positions. Objects are untrusted: a path through a value that is neither map nor list
leads to None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Location = tuple[str | int, ...]


def value_at(obj: Any, path: Location) -> Any:
    """Returns the value at the path, or None."""
    value = obj
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and 0 <= step < len(value) else None
        else:
            value = value.get(step) if isinstance(value, Mapping) else None
    return value


def with_value(obj: Any, path: Location, value: Any) -> Any:
    """Returns a copy with `value` at the path, creating missing maps on the way."""
    if not path:
        return value
    first, rest = path[0], path[1:]
    if isinstance(first, int):
        return [with_value(one, rest, value) if at == first else one for at, one in enumerate(obj)]
    below = obj if isinstance(obj, Mapping) else {}
    return {**below, first: with_value(below.get(first), rest, value)}


def written(path: Location) -> str:
    """Formats the path for messages and field errors, such as `spec.groups[2].template`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def fields(path: str) -> tuple[str, ...]:
    """Splits a dotted path of field names."""
    return tuple(path.split(".")) if path else ()


def without(obj: Any, path: Location) -> Any:
    """Returns a copy without the value at the path, or the same object if there is none."""
    if value_at(obj, path[:-1]) is None or not path:
        return obj
    first, rest = path[0], path[1:]
    if not rest:
        return {key: value for key, value in obj.items() if key != first} if isinstance(obj, Mapping) else obj
    if isinstance(first, int):
        return [without(one, rest) if at == first else one for at, one in enumerate(obj)]
    return {**obj, first: without(obj[first], rest)}


def not_kept(patch: Mapping[str, Any], obj: Any, at: Location = ()) -> Location | None:
    """Returns the path of the first value of a merge patch that the patched object lacks, or None.

    An object may have more than the patch, such as defaults of its schema.
    """
    for key, wanted in patch.items():
        lost = _lost(wanted, value_at(obj, (key,)), (*at, key))
        if lost is not None:
            return lost
    return None


def _lost(wanted: Any, kept: Any, at: Location) -> Location | None:
    if isinstance(wanted, Mapping):
        return not_kept(wanted, kept, at)
    if isinstance(wanted, list):
        if not isinstance(kept, list) or len(kept) != len(wanted):
            return at
        each = (_lost(one, other, (*at, n)) for n, (one, other) in enumerate(zip(wanted, kept, strict=True)))
        return next((lost for lost in each if lost is not None), None)
    return at if wanted is not None and kept != wanted else None
