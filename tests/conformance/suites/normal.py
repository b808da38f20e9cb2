"""Shared by handlers: objects without the differences that mean nothing on the wire."""

from __future__ import annotations

from typing import Any


def normal(value: Any) -> Any:
    """Without nulls, empty maps and empty lists, at any depth."""
    if isinstance(value, dict):
        kept = {key: normal(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item is not None and item != {} and item != []}
    if isinstance(value, list | tuple):
        return [normal(item) for item in value]
    return value
