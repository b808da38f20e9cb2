"""The JSON patch (RFC 6902) between two JSON values, as a mutating review returns it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Operation = dict[str, Any]


def json_patch(old: Any, new: Any, path: str = "") -> list[Operation]:
    """Returns the operations that turn `old` into `new`, empty if they are equal. Appends to lists that only grew."""
    if old == new:
        return []
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return _between_maps(old, new, path)
    if isinstance(old, list) and isinstance(new, list) and len(old) <= len(new):
        return _between_lists(old, new, path)
    return [{"op": "replace", "path": path, "value": new}]


def _between_maps(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> list[Operation]:
    patch: list[Operation] = [{"op": "remove", "path": _below(path, key)} for key in old if key not in new]
    for key, value in new.items():
        if key in old:
            patch += json_patch(old[key], value, _below(path, key))
        else:
            patch.append({"op": "add", "path": _below(path, key), "value": value})
    return patch


def _between_lists(old: Sequence[Any], new: Sequence[Any], path: str) -> list[Operation]:
    patch: list[Operation] = []
    for i, value in enumerate(old):
        patch += json_patch(value, new[i], f"{path}/{i}")
    return patch + [{"op": "add", "path": f"{path}/-", "value": value} for value in new[len(old) :]]


def _below(path: str, key: str) -> str:
    return f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
