"""The copy that an informer keeps: objects by key, indexes over them, handlers of their changes. No IO, no waiting.

It turns what comes over the wire, with repetitions, leftovers of a broken connection and whole new lists, into a clean
sequence of changes: each object ADDED, then MODIFIED any number of times, then DELETED; an object that was deleted and
made again under its name is DELETED and ADDED. Called by informer.py; handlers are called in order, after the copy
holds the change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from api.kube import metrics
from api.kube.decode import ObjectIdentity, identity

T = TypeVar("T")
log = logging.getLogger(__name__)


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


Handler = Callable[[Change[T]], None]


class Index(Generic[T]):
    """The keys of the objects by the values that a function gives for them."""

    def __init__(self, values_of: Callable[[T], Iterable[str]]) -> None:
        self._values_of = values_of
        self._values: dict[str, tuple[str, ...]] = {}
        self._keys: dict[str, dict[str, None]] = {}

    def put(self, key: str, obj: T) -> None:
        """Files the object again; one whose values are what they were keeps its place."""
        values = tuple(self._values_of(obj))
        if self._values.get(key) == values:
            return
        self.drop(key)
        self._values[key] = values
        for value in values:
            self._keys.setdefault(value, {})[key] = None

    def drop(self, key: str) -> None:
        """Forgets the object."""
        for value in self._values.pop(key, ()):
            keys = self._keys[value]
            keys.pop(key, None)
            if not keys:
                del self._keys[value]

    def keys(self, value: str) -> Collection[str]:
        """In the order in which they were filed."""
        return self._keys.get(value, {})


class Store(Generic[T]):
    """See the module. `label` names the resource in logs and metrics, `selection` which part of it is kept."""

    def __init__(self, label: str, selection: str = "") -> None:
        self._label = label
        self._objects: dict[str, T] = {}
        self._handlers: list[Handler[T]] = []
        self._indexes: dict[str, Index[T]] = {}
        self._seen = {kind: metrics.INFORMER_EVENTS.labels(label, kind.value) for kind in ChangeType}
        self._kept = metrics.INFORMER_OBJECTS.labels(label, selection)

    @property
    def objects(self) -> Mapping[str, T]:
        """A live view."""
        return self._objects

    def add_handler(self, fn: Handler[T]) -> None:
        """Objects already known are shown to it as ADDED at once."""
        self._handlers.append(fn)
        for key, obj in list(self._objects.items()):
            self._show(fn, Change(ChangeType.ADDED, key, obj, None))

    def add_index(self, name: str, values_of: Callable[[T], Iterable[str]]) -> None:
        """Groups the objects, also those already known, by the values given."""
        index = self._indexes[name] = Index(values_of)
        for key, obj in self._objects.items():
            self._file(name, index, key, obj)

    def by_index(self, name: str, value: str) -> list[T]:
        """The objects filed under the value."""
        return [self._objects[key] for key in self._indexes[name].keys(value)]

    def filed(self, name: str, value: str) -> Iterator[T]:
        """The same one by one, for callers that need a few of many; the store must not change meanwhile."""
        return (self._objects[key] for key in self._indexes[name].keys(value))

    def count(self, name: str, value: str) -> int:
        """How many objects are filed under the value."""
        return len(self._indexes[name].keys(value))

    def observe(self, obj: T) -> None:
        """Takes the answer to a write of ours, so that the copy is never older than what we wrote ourselves.

        Only of an object that is here: an answer that comes after the object's end must not bring it back.
        """
        object_identity = identity(obj)
        old = self._objects.get(object_identity.key)
        if old is not None and identity(old).uid == object_identity.uid:
            self.upsert(obj)

    def holds(self, object_identity: ObjectIdentity) -> bool:
        """Whether the copy has this version, or a later one: so it is when the watch shows a write that was observed."""
        old = self._objects.get(object_identity.key)
        if old is None or not object_identity.resource_version:
            return False
        was = identity(old)
        return object_identity.uid == was.uid and (
            object_identity.resource_version == was.resource_version or _is_older(object_identity, was)
        )

    def upsert(self, obj: T) -> None:
        """Takes an ADDED or MODIFIED; repetitions and older states change nothing."""
        for change in self._upsert(obj):
            self._emit(change)

    def delete(self, obj: T) -> None:
        """Takes a DELETED; `obj` is the state at deletion."""
        object_identity = identity(obj)
        old = self._objects.get(object_identity.key)
        if old is not None and not _is_older(object_identity, identity(old)):
            self._emit(Change(ChangeType.DELETED, object_identity.key, obj, old))

    def delete_key(self, key: str) -> None:
        """Takes a DELETED whose object did not decode: the last known state stands for it."""
        old = self._objects.get(key)
        if old is not None:
            self._emit(Change(ChangeType.DELETED, key, old, old))

    def replace(self, items: Mapping[str, T]) -> Iterator[Change[T]]:
        """Takes a whole list: yields each change after it was made; deletions come first, to free before filling."""
        for key in [key for key in self._objects if key not in items]:
            change = Change(ChangeType.DELETED, key, self._objects[key], self._objects[key])
            yield self._emit(change)
        for obj in items.values():
            for change in self._upsert(obj, listed=True):
                yield self._emit(change)

    def _upsert(self, obj: T, *, listed: bool = False) -> Iterator[Change[T]]:
        new = identity(obj)
        old = self._objects.get(new.key)
        if old is None:
            yield Change(ChangeType.ADDED, new.key, obj, None)
            return
        was = identity(old)
        if _is_same(new, was, obj, old) or (_is_older(new, was) and not listed):
            return
        if new.uid != was.uid:
            yield Change(ChangeType.DELETED, new.key, old, old)
            yield Change(ChangeType.ADDED, new.key, obj, None)
        else:
            yield Change(ChangeType.MODIFIED, new.key, obj, old)

    def _emit(self, change: Change[T]) -> Change[T]:
        if change.type is ChangeType.DELETED:
            del self._objects[change.key]
            for index in self._indexes.values():
                index.drop(change.key)
        else:
            self._objects[change.key] = change.object
            for name, index in self._indexes.items():
                self._file(name, index, change.key, change.object)
        self._seen[change.type].inc()
        self._kept.set(len(self._objects))
        for fn in self._handlers:
            self._show(fn, change)
        return change

    def _file(self, name: str, index: Index[T], key: str, obj: T) -> None:
        """One object that an index cannot take is found by its key alone; it must not end the watch of all others."""
        try:
            index.put(key, obj)
        except Exception:
            index.drop(key)
            metrics.HANDLER_ERRORS.labels(self._label).inc()
            log.exception("object not indexed", extra={"resource": self._label, "key": key, "index": name})

    def _show(self, fn: Handler[T], change: Change[T]) -> None:
        try:
            fn(change)
        except Exception:
            metrics.HANDLER_ERRORS.labels(self._label).inc()
            log.exception("handler failed", extra={"resource": self._label, "key": change.key, "change": change.type})


def _is_same(new: ObjectIdentity, was: ObjectIdentity, obj: object, old: object) -> bool:
    """Equal versions; types that carry none are compared whole."""
    if new.resource_version or was.resource_version:
        return new.resource_version == was.resource_version and new.uid == was.uid
    return obj == old


def _is_older(new: ObjectIdentity, was: ObjectIdentity) -> bool:
    """Kubernetes orders resourceVersions of one resource as integers; what is no integer is never called older."""
    if new.resource_version.isdigit() and was.resource_version.isdigit():
        return int(new.resource_version) < int(was.resource_version)
    return False
