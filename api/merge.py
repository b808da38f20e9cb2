"""JSON merge patches (RFC 7386): the difference between two states of an object. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge_diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the patch from `old` to `new`: maps by key, null for a removed key, other values (lists too) as a whole."""
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            inner = merge_diff(before, value)
            if inner:
                patch[name] = inner
        elif name not in old or value != before:
            patch[name] = value
    return patch
