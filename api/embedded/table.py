"""The objects of one kind in key order, the history of changes, and the watches.

Objects are immutable: a write replaces a record. JSON is encoded once per record, on first use. Contains no rules about
objects. Called by store.py; watchers read `history`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import msgspec

from api.embedded.selectors import Filter
from api.embedded.status import Obj

Path = tuple[str, ...]


class FieldManager(NamedTuple):
    """A field manager, its subresource ("" for the main object), and whether it applies or updates."""

    manager: str
    subresource: str
    applies: bool


Owners = Mapping[FieldManager, frozenset[Path]]

_encode = msgspec.json.Encoder().encode
_TYPE = frozenset(("kind", "apiVersion"))


def key_of(namespace: str | None, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


@dataclass(slots=True)
class StoredObject:
    """One stored version of an object. `owners` tracks field ownership once the object was applied."""

    key: str
    obj: Obj
    rv: int
    writer: str = ""
    owners: Owners = field(default_factory=dict)
    _body: bytes | None = None

    @property
    def body(self) -> bytes:
        """The object as JSON without kind and apiVersion, as in lists of built-in kinds; encoded once."""
        if self._body is None:
            self._body = _encode({name: value for name, value in self.obj.items() if name not in _TYPE})
        return self._body

    def typed(self, kind: str, api_version: str) -> bytes:
        """Returns the object as JSON with kind and apiVersion."""
        return b'{"kind":"%b","apiVersion":"%b",%b' % (kind.encode(), api_version.encode(), self.body[1:])

    @property
    def uid(self) -> str:
        return str(self.obj["metadata"]["uid"])


@dataclass(frozen=True, slots=True)
class StoreEvent:
    """One change. `old` is the previous version, None if added."""

    type: str
    record: StoredObject
    old: StoredObject | None


class Listener(Protocol):
    """A watch, as the table calls it."""

    def push(self, event: StoreEvent) -> None:
        """Receives each change."""
        ...

    def close(self) -> None:
        """Ends the watch when the table is deleted or the server stops."""
        ...


class Table:
    """The table. `floor` is the newest resourceVersion that history has lost; watches must start at it or later."""

    def __init__(self, history: int) -> None:
        self.records: dict[str, StoredObject] = {}
        self._keys: list[str] = []  # sorted, without new keys
        self._new: dict[str, None] = {}
        self.history: deque[StoreEvent] = deque(maxlen=history)
        self.floor = 0
        self.watchers: set[Listener] = set()

    def put(self, record: StoredObject) -> StoreEvent:
        old = self.records.get(record.key)
        if old is None:
            self._insert(record.key)
        self.records[record.key] = record
        return self._note(StoreEvent("MODIFIED" if old else "ADDED", record, old))

    def _insert(self, key: str) -> None:
        if not self._new and (not self._keys or key > self._keys[-1]):
            self._keys.append(key)
        else:
            self._new[key] = None

    def _ordered(self) -> list[str]:
        """Returns all keys sorted; new keys are merged in at this call."""
        if self._new:
            self._keys += self._new
            self._keys.sort()
            self._new = {}
        return self._keys

    def remove(self, last: StoredObject) -> StoreEvent:
        """Removes an object. `last` is its final version, with the resourceVersion of the deletion."""
        old = self.records.pop(last.key)
        if last.key in self._new:
            del self._new[last.key]
        else:
            keys = self._ordered()
            del keys[bisect_left(keys, last.key)]
        return self._note(StoreEvent("DELETED", last, old))

    def _note(self, event: StoreEvent) -> StoreEvent:
        if len(self.history) == self.history.maxlen:
            self.floor = self.history[0].record.rv
        self.history.append(event)
        for watcher in self.watchers:
            watcher.push(event)
        return event

    def compact(self, rv: int) -> None:
        """Drops the history, as etcd does every few minutes."""
        self.history.clear()
        self.floor = rv

    def since(self, rv: int) -> list[StoreEvent]:
        """Returns events newer than `rv`, oldest first. Complete only if rv >= floor."""
        newer = []
        for event in reversed(self.history):
            if event.record.rv <= rv:
                break
            newer.append(event)
        return newer[::-1]

    def span(self, namespace: str | None, after: str = "") -> list[str]:
        """Returns the keys of a namespace (or all) greater than `after`, in order."""
        keys = self._ordered()
        low = bisect_left(keys, f"{namespace}/") if namespace else 0
        high = bisect_left(keys, f"{namespace}0") if namespace else len(keys)  # "0" follows "/"
        if after:
            low = max(low, bisect_left(keys, after + "\0"))
        return keys[low:high]

    def select(self, namespace: str | None, wanted: Filter) -> Iterator[StoredObject]:
        records = self.records
        for key in self.span(namespace):
            record = records[key]
            if not wanted or wanted.matches(record.obj):
                yield record

    def at(self, rv: int, namespace: str | None, after: str) -> tuple[list[str], Callable[[str], StoredObject]]:
        """Returns the keys of a namespace greater than `after`, and a function to their records, as of `rv` (>= floor)."""
        undo: dict[str, StoredObject | None] = {event.record.key: event.old for event in reversed(self.since(rv))}
        now = self.span(namespace, after)
        if not undo:
            return now, self.records.__getitem__
        prefix = f"{namespace}/" if namespace else ""
        then = {key: old for key, old in undo.items() if key.startswith(prefix) and key > after}
        keys = sorted({*now, *then} - {key for key, old in then.items() if old is None})
        return keys, lambda key: then.get(key) or self.records[key]
