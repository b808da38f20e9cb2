"""The copy of an informer: objects by key, indexes, and handlers of changes. No IO, and never waits.

It turns watch events, with repetitions, leftovers of broken connections and complete lists, into a clean sequence of changes
per object: ADDED, then MODIFIED any number of times, then DELETED. An object that was deleted and created again under the
same name is DELETED and ADDED. informer.py calls it; handlers run in order, after the copy has changed.
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
    """The kind of a change."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """A change for handlers."""

    type: ChangeType
    key: str
    object: T
    """The last known state for DELETED."""
    old: T | None
    """None for ADDED."""


Handler = Callable[[Change[T]], None]


class Index(Generic[T]):
    """Keys of objects by the values that a function returns for them."""

    def __init__(self, values_of: Callable[[T], Iterable[str]]) -> None:
        self._values_of = values_of
        self._values: dict[str, tuple[str, ...]] = {}
        self._keys: dict[str, dict[str, None]] = {}

    def put(self, key: str, obj: T) -> None:
        """Indexes the object again; with unchanged values it keeps its position."""
        values = tuple(self._values_of(obj))
        if self._values.get(key) == values:
            return
        self.drop(key)
        self._values[key] = values
        for value in values:
            self._keys.setdefault(value, {})[key] = None

    def drop(self, key: str) -> None:
        """Removes the object."""
        for value in self._values.pop(key, ()):
            keys = self._keys[value]
            keys.pop(key, None)
            if not keys:
                del self._keys[value]

    def keys(self, value: str) -> Collection[str]:
        """Returns the keys with this value, in the order of indexing."""
        return self._keys.get(value, {})


class Store(Generic[T]):
    """The copy; see the module. `label` names the resource in logs and metrics, `selection` the watched part of it."""

    def __init__(self, label: str, selection: str = "") -> None:
        self._label = label
        self._objects: dict[str, T] = {}
        self._handlers: list[Handler[T]] = []
        self._indexes: dict[str, Index[T]] = {}
        self._seen = {kind: metrics.INFORMER_EVENTS.labels(label, kind.value) for kind in ChangeType}
        metrics.asked(metrics.INFORMER_OBJECTS.labels(label, selection), self, lambda store: len(store.objects))

    @property
    def objects(self) -> Mapping[str, T]:
        """The objects by key, as a live view."""
        return self._objects

    def add_handler(self, fn: Handler[T]) -> None:
        """Adds a handler. It receives known objects as ADDED at once."""
        self._handlers.append(fn)
        for key, obj in list(self._objects.items()):
            self._show(fn, Change(ChangeType.ADDED, key, obj, None))

    def add_index(self, name: str, values_of: Callable[[T], Iterable[str]]) -> None:
        """Indexes all objects, also known ones, by the values that `values_of` returns."""
        index = self._indexes[name] = Index(values_of)
        for key, obj in self._objects.items():
            self._file(name, index, key, obj)

    def file_again(self, name: str, key: str) -> None:
        """Indexes the object of the key again, if it is there, after the values that the index's function returns changed."""
        if (obj := self._objects.get(key)) is not None:
            self._file(name, self._indexes[name], key, obj)

    def by_index(self, name: str, value: str) -> list[T]:
        """Returns the objects with this value in the index."""
        return [self._objects[key] for key in self._indexes[name].keys(value)]

    def filed(self, name: str, value: str) -> Iterator[T]:
        """Yields these objects one by one, for callers that need few of many. The store must not change meanwhile."""
        return (self._objects[key] for key in self._indexes[name].keys(value))

    def count(self, name: str, value: str) -> int:
        """Returns the number of objects with this value in the index."""
        return len(self._indexes[name].keys(value))

    def observe(self, obj: T) -> None:
        """Stores the response of a write, so that the copy is never older than this process's own writes.

        Ignores objects that are not in the copy: a response that arrives after a deletion must not restore the object.
        """
        object_identity = identity(obj)
        old = self._objects.get(object_identity.key)
        if old is not None and identity(old).uid == object_identity.uid:
            self.upsert(obj)

    def holds(self, object_identity: ObjectIdentity) -> bool:
        """Reports whether the copy has this version or a later one, as when the watch delivers an observed write."""
        old = self._objects.get(object_identity.key)
        if old is None or not object_identity.resource_version:
            return False
        was = identity(old)
        return object_identity.uid == was.uid and (
            object_identity.resource_version == was.resource_version or _is_older(object_identity, was)
        )

    def upsert(self, obj: T) -> None:
        """Handles ADDED or MODIFIED; repetitions and older states change nothing."""
        for change in self._upsert(obj):
            self._emit(change)

    def delete(self, obj: T) -> None:
        """Handles DELETED; `obj` is the state at deletion."""
        object_identity = identity(obj)
        old = self._objects.get(object_identity.key)
        if old is not None and not _is_older(object_identity, identity(old)):
            self._emit(Change(ChangeType.DELETED, object_identity.key, obj, old))

    def delete_key(self, key: str) -> None:
        """Handles DELETED of an object that did not decode, with its last known state."""
        old = self._objects.get(key)
        if old is not None:
            self._emit(Change(ChangeType.DELETED, key, old, old))

    def replace(self, items: dict[str, T]) -> Iterator[None]:
        """Applies a complete list and yields after each known and each listed object: there may be 100,000, all unchanged.

        Deletions come first, to release capacity early. Takes each object out of `items`: to free them all at once takes long.
        """
        for key in list(self._objects):
            if key not in items:
                self.delete_key(key)
            yield
        for key in list(items):
            for change in self._upsert(items.pop(key), listed=True):
                self._emit(change)
            yield

    def _upsert(self, obj: T, *, listed: bool = False) -> tuple[Change[T], ...]:
        new = identity(obj)
        old = self._objects.get(new.key)
        if old is None:
            return (Change(ChangeType.ADDED, new.key, obj, None),)
        was = identity(old)
        if _is_same(new, was, obj, old) or (_is_older(new, was) and not listed):
            return ()
        if new.uid != was.uid:
            return (Change(ChangeType.DELETED, new.key, old, old), Change(ChangeType.ADDED, new.key, obj, None))
        return (Change(ChangeType.MODIFIED, new.key, obj, old),)

    def _emit(self, change: Change[T]) -> None:
        if change.type is ChangeType.DELETED:
            del self._objects[change.key]
            for index in self._indexes.values():
                index.drop(change.key)
        else:
            self._objects[change.key] = change.object
            for name, index in self._indexes.items():
                self._file(name, index, change.key, change.object)
        self._seen[change.type].inc()
        for fn in self._handlers:
            self._show(fn, change)

    def _file(self, name: str, index: Index[T], key: str, obj: T) -> None:
        """Indexes one object. If that fails the object is only found by key; the failure must not end the watch."""
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
    """Reports whether the versions are equal; objects without versions are compared as a whole."""
    if new.resource_version or was.resource_version:
        return new.resource_version == was.resource_version and new.uid == was.uid
    return obj == old


def _is_older(new: ObjectIdentity, was: ObjectIdentity) -> bool:
    """Reports whether `new` is older. Kubernetes orders a resource's resourceVersions as integers; others never compare."""
    if new.resource_version.isdigit() and was.resource_version.isdigit():
        return int(new.resource_version) < int(was.resource_version)
    return False
