"""The part of an informer that its readers use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from api.kube.informers.store import Change

T = TypeVar("T")


class Copy(Protocol[T]):
    """A local copy of one resource with change notifications: an informer, or a store filled from elsewhere."""

    @property
    def objects(self) -> Mapping[str, T]:
        """A live view of the objects by key."""

    def add_handler(self, fn: Callable[[Change[T]], None], /) -> None:
        """Calls `fn` for every change and for every object already present."""

    def add_index(self, name: str, fn: Callable[[T], Iterable[str]], /) -> None:
        """Indexes the objects by the values that `fn` returns."""

    def by_index(self, name: str, value: str) -> list[T]:
        """Returns the objects indexed under the value."""
