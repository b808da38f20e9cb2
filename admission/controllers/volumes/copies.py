"""What is used of a local copy of one kind of objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from api.kube.store import Change

T = TypeVar("T")


class Copy(Protocol[T]):
    """A local copy, by key."""

    @property
    def objects(self) -> Mapping[str, T]:
        """A live view, by key."""

    def add_handler(self, fn: Callable[[Change[T]], None], /) -> None:
        """Called for every change, and for what is there already."""

    def add_index(self, name: str, fn: Callable[[T], Iterable[str]], /) -> None:
        """Files the objects by the values that `fn` gives for each."""

    def by_index(self, name: str, value: str) -> list[T]:
        """The objects filed under the value."""
