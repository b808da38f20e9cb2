"""The values of a write: target, options, points at which webhooks are called, and the operations on the store.

Shared by change.py, complete.py, admission.py and the REST API.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

from api.embedded.kinds import ServedKind
from api.embedded.rules.base import ClusterLookup
from api.embedded.status import Obj
from api.embedded.table import StoredObject, key_of


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The object or collection of a request. `version` is the one in its path."""

    kind: ServedKind
    version: str
    namespace: str | None = None
    name: str | None = None
    subresource: str = ""

    @property
    def key(self) -> str:
        return key_of(self.namespace, self.name or "")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Parameters of a write."""

    dry_run: bool = False
    manager: str = "unknown"
    """The fieldManager."""
    force: bool = False
    strict: bool = False
    """Whether unknown fields of custom kinds are refused."""


@dataclass(frozen=True, slots=True)
class Review:
    """A point at which webhooks are called; the generator continues with the object that is sent back."""

    mutating: bool
    operation: str  # CREATE, UPDATE, DELETE
    target: RequestTarget
    obj: Obj | None
    old: Obj | None
    dry_run: bool


class WriteStore(ClusterLookup, Protocol):
    """The operations of a write on the store."""

    def record(self, kind: ServedKind, key: str) -> StoredObject | None: ...
    def stamp(self, kind: ServedKind, obj: Obj) -> None: ...
    def write(self, kind: ServedKind, record: StoredObject) -> StoredObject: ...
    def erase(self, kind: ServedKind, record: StoredObject) -> StoredObject: ...
    def clock(self) -> float: ...


Steps = Generator[Review, Obj, StoredObject]
