"""Paths into decoded objects: reading what stands there, and copies with another value there. Pure.

A path is a tuple of field names and of positions in lists. Foreign objects may hold anything: a path into what is no map or
list leads to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Location = tuple[str | int, ...]


def value_at(obj: Any, path: Location) -> Any:
    """What stands at the path, None for nothing."""
    found = obj
    for step in path:
        if isinstance(step, int):
            found = found[step] if isinstance(found, list) and 0 <= step < len(found) else None
        else:
            found = found.get(step) if isinstance(found, Mapping) else None
    return found


def with_value(obj: Any, path: Location, value: Any) -> Any:
    """A copy of the object with that value at the path; maps on the way are made where they are missing."""
    if not path:
        return value
    first, rest = path[0], path[1:]
    if isinstance(first, int):
        return [with_value(one, rest, value) if at == first else one for at, one in enumerate(obj)]
    below = obj if isinstance(obj, Mapping) else {}
    return {**below, first: with_value(below.get(first), rest, value)}


def written(path: Location) -> str:
    """The path as messages and field errors have it, such as `spec.groups[2].template`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def fields(path: str) -> tuple[str, ...]:
    """The fields of a path of names divided by dots."""
    return tuple(path.split(".")) if path else ()


def without(obj: Any, path: Location) -> Any:
    """A copy of the object without what stands at the path; the same object where nothing stands there."""
    if value_at(obj, path[:-1]) is None or not path:
        return obj
    first, rest = path[0], path[1:]
    if not rest:
        return {key: value for key, value in obj.items() if key != first} if isinstance(obj, Mapping) else obj
    if isinstance(first, int):
        return [without(one, rest) if at == first else one for at, one in enumerate(obj)]
    return {**obj, first: without(obj[first], rest)}
