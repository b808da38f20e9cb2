"""A local, always current copy of one resource: list, then watch. (Signatures; the body follows.)"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from api.kube.client import Kube
from api.kube.decode import Decoder
from api.kube.resources import Resource

T = TypeVar("T")


class ChangeType(StrEnum):
    """What happened to an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """One change, as handlers get it; `old` is None for ADDED, `object` is the last known state for DELETED."""

    type: ChangeType
    key: str
    object: T
    old: T | None


class Informer(Generic[T]):
    """See the module."""

    objects: Mapping[str, T]

    def __init__(
        self,
        kube: Kube,
        resource: Resource,
        item_type: type[T] | Decoder[T],
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> None:
        raise NotImplementedError

    @property
    def has_synced(self) -> bool:
        """Whether the first list is in `objects` and was shown to the handlers."""
        raise NotImplementedError

    def add_handler(self, fn: Callable[[Change[T]], None]) -> None:
        """Sync, called on the loop in order; objects already known are shown as ADDED at once."""
        raise NotImplementedError

    def add_index(self, name: str, fn: Callable[[T], Iterable[str]]) -> None:
        """Group the objects by the values that `fn` gives."""
        raise NotImplementedError

    def by_index(self, name: str, value: str) -> list[T]:
        """The objects under that value, by key."""
        raise NotImplementedError

    async def run(self) -> None:
        """Until cancelled."""
        raise NotImplementedError

    async def synced(self, timeout: float) -> None:  # noqa: ASYNC109 - its error says what is wrong
        """Waits for the first list; TimeoutError names the resource and the last error."""
        raise NotImplementedError
