"""What a write is about, said in values: target, options, the points where webhooks are asked, what it needs of the store.

Shared by change.py, complete.py, admission.py and the REST face; decides nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

from api.fake.kinds import ServedKind
from api.fake.rules.base import ClusterLookup
from api.fake.status import Obj
from api.fake.table import StoredObject, key_of


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """What a request is about. `version` is the one in its path."""

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
    """Parameters of a write. `manager` is the fieldManager; `strict` refuses unknown fields of custom kinds."""

    dry_run: bool = False
    manager: str = "unknown"
    force: bool = False
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Review:
    """A point where webhooks are asked. The generator goes on with the object that comes back."""

    mutating: bool
    operation: str  # CREATE, UPDATE, DELETE
    target: RequestTarget
    obj: Obj | None
    old: Obj | None
    dry_run: bool


class WriteStore(ClusterLookup, Protocol):
    """What a write needs of the store."""

    def record(self, kind: ServedKind, key: str) -> StoredObject | None: ...
    def stamp(self, kind: ServedKind, obj: Obj) -> None: ...
    def write(self, kind: ServedKind, record: StoredObject) -> StoredObject: ...
    def erase(self, kind: ServedKind, record: StoredObject) -> StoredObject: ...
    def clock(self) -> float: ...


Steps = Generator[Review, Obj, StoredObject]
