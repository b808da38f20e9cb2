"""The errors of conversion name object and field. Used by convert_workloads.py, convert_queues.py and convert_nodes.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from api.errors import InvalidObject

T = TypeVar("T")


class about:  # noqa: N801 - read as a verb: `with about("Pod", key):`
    """Opens a context whose InvalidObject errors name this object.

    A class, as each pod and node is read within one: contextlib's generator would cost as much as what it protects.
    """

    __slots__ = ("_key", "_kind")

    def __init__(self, kind: str, key: str) -> None:
        self._kind, self._key = kind, key

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: type[BaseException] | None, bad: BaseException | None, __: TracebackType | None) -> None:
        if isinstance(bad, InvalidObject):
            raise InvalidObject(bad.field, bad.given, bad.allowed, f"{self._kind} {self._key}") from bad


class within:  # noqa: N801 - as `about`
    """Opens a context whose InvalidObject errors have this path before their field."""

    __slots__ = ("_field",)

    def __init__(self, field: str) -> None:
        self._field = field

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: type[BaseException] | None, bad: BaseException | None, __: TracebackType | None) -> None:
        if isinstance(bad, InvalidObject):
            raise InvalidObject(f"{self._field}{bad.field}", bad.given, bad.allowed) from bad


def structs(values: Sequence[Mapping[str, Any]], kind: type[T], field: str) -> tuple[T, ...]:
    try:
        return msgspec.convert(values, tuple[kind, ...])  # type: ignore[valid-type]  # a type made at run time
    except msgspec.ValidationError as bad:
        raise InvalidObject(field, list(values), str(bad)) from None
