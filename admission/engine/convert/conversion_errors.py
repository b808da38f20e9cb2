"""The errors of conversion name object and field. Used by convert_workloads.py, convert_queues.py and convert_nodes.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from api.errors import InvalidObject

T = TypeVar("T")


@contextmanager
def about(kind: str, key: str) -> Iterator[None]:
    """Opens a context whose InvalidObject errors name this object."""
    try:
        yield
    except InvalidObject as bad:
        raise InvalidObject(bad.field, bad.given, bad.allowed, f"{kind} {key}") from bad


@contextmanager
def within(field: str) -> Iterator[None]:
    """Opens a context whose InvalidObject errors have this path before their field."""
    try:
        yield
    except InvalidObject as bad:
        raise InvalidObject(f"{field}{bad.field}", bad.given, bad.allowed) from bad


def structs(values: Sequence[Mapping[str, Any]], kind: type[T], field: str) -> tuple[T, ...]:
    try:
        return msgspec.convert(values, tuple[kind, ...])  # type: ignore[valid-type]  # a type made at run time
    except msgspec.ValidationError as bad:
        raise InvalidObject(field, list(values), str(bad)) from None
