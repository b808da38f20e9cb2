"""The embedded API server without HTTP: kinds, objects, versions, watches; get, list, create, update, patch, delete.

Workers, tests and `stowage simulate` use it directly; HTTP is a thin layer above. All methods are synchronous and belong to one
thread. Returned objects are shared with the store and must not be changed; objects passed in are copied. Webhooks are not
called here: `calls.Calls` does the same with them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from api.embedded import meta
from api.embedded.gc import GarbageCollector, Place
from api.embedded.kinds import BUILTIN, Ref, ServedKind, from_crd
from api.embedded.patch import clone
from api.embedded.request import RequestTarget, Review, WriteOptions
from api.embedded.rules.base import StorageRules
from api.embedded.selectors import EVERYTHING, Filter, parse_fields, parse_labels
from api.embedded.status import Obj, no_such_path, not_found
from api.embedded.table import StoredObject, StoreEvent, Table, key_of
from api.embedded.watch import Watcher
from api.embedded.writes import change
from api.embedded.writes.binding import bind
from api.embedded.writes.change import APPLY, JSON, MERGE, STRATEGIC
from api.embedded.writes.deletion import DeleteOptions, is_over

__all__ = ["APPLY", "JSON", "MERGE", "STRATEGIC", "DeleteOptions", "ObjectStorage", "WriteOptions"]

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
PRIORITY_CLASSES = (("system-cluster-critical", 2000000000), ("system-node-critical", 2000001000))
_CRDS = ("apiextensions.k8s.io", "customresourcedefinitions")
_PLAIN, _AT_ONCE = WriteOptions(), DeleteOptions()
T = TypeVar("T")


class ObjectStorage:
    """The store. `clock` returns epoch seconds; `seed` makes uids and names repeatable; `history` is events kept per kind."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        seed: int | None = None,
        history: int = 50_000,
        collect: bool = True,
    ) -> None:
        self.clock = clock
        self.kinds: dict[tuple[str, str], ServedKind] = {}
        self._tables: dict[tuple[str, str], Table] = {}
        self._rng = random.Random(seed)  # noqa: S311 - names and uids of a test server, no secrets
        self._history = history
        self._rv = 0
        self._collector = GarbageCollector(self) if collect else None
        for kind in BUILTIN:
            self._register(kind)
        for name in NAMESPACES:
            self.create(self.kinds["", "namespaces"], {"metadata": {"name": name}})
        for name, value in PRIORITY_CLASSES:
            self.create(
                self.kinds["scheduling.k8s.io", "priorityclasses"], {"metadata": {"name": name}, "value": value}
            )

    # ---- kinds

    def _register(self, kind: ServedKind) -> None:
        self.kinds[kind.group, kind.plural] = kind
        self._tables.setdefault((kind.group, kind.plural), Table(self._history))

    def kind(self, ref: Ref) -> ServedKind:
        """Returns the kind of a resource as currently served. Raises status 404 if there is none."""
        served = self.kinds.get((ref.group, ref.plural))
        if served is None:
            raise no_such_path()
        return served

    def table(self, ref: Ref) -> Table:
        return self._tables[ref.group, ref.plural]

    def _follow_crd(self, event: StoreEvent) -> None:
        spec = event.record.obj["spec"]
        at = (spec["group"], spec["names"]["plural"])
        known = self.kinds.get(at)
        if event.type == "DELETED":
            if known is not None:  # its objects go first, and watches show it
                for record in list(self._tables[at].records.values()):
                    self.erase(known, record)
            self.kinds.pop(at, None)
            table = self._tables.pop(at, None)
            for watcher in list(table.watchers) if table else ():
                watcher.close()
        else:
            made = from_crd(event.record.obj, known.rules if known else StorageRules())
            self._register(made)
            if (
                known is not None and known.versions != made.versions
            ):  # as the API server ends watches of a changed kind
                for watcher in list(self._tables[at].watchers):
                    watcher.close()

    # ---- reading

    @property
    def resource_version(self) -> int:
        return self._rv

    def now(self) -> str:
        return meta.rfc3339(self.clock())

    def find(self, group: str, plural: str, name: str, namespace: str | None = None) -> Obj | None:
        record = self._tables[group, plural].records.get(key_of(namespace, name))
        return record.obj if record else None

    def record(self, kind: Ref, key: str) -> StoredObject | None:
        return self.table(self.kind(kind)).records.get(key)

    def get(self, ref: Ref, name: str, namespace: str | None = None) -> Obj:
        """Returns an object. Raises status 404 if it does not exist."""
        kind = self.kind(ref)
        record = self.record(kind, key_of(namespace, name))
        if record is None:
            raise not_found(kind, name)
        return record.obj

    def list(self, ref: Ref, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Sequence[Obj]:
        """Returns objects in key order, filtered by selectors as in a request."""
        kind = self.kind(ref)
        return [record.obj for record in self.table(kind).select(namespace, self.filter(kind, labels, fields))]

    def filter(self, kind: ServedKind, labels: str = "", fields: str = "") -> Filter:
        if not labels and not fields:
            return EVERYTHING
        return Filter(parse_labels(labels), parse_fields(fields, kind.selectable))

    def watch(self, ref: Ref, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Watcher:
        """Returns a watch for events from now on: use `drain()` or `async for`, and `close()` at the end."""
        kind = self.kind(ref)
        return Watcher(self.table(kind), namespace, self.filter(kind, labels, fields))

    # ---- writing

    def create(
        self, ref: Ref, obj: Mapping[str, Any], namespace: str | None = None, *, options: WriteOptions = _PLAIN
    ) -> Obj:
        kind = self.kind(ref)
        body = _typed(kind, obj)
        namespace = namespace or (body.get("metadata") or {}).get("namespace") if kind.namespaced else None
        return _run(change.create(self, RequestTarget(kind, _version(kind, body), namespace), body, options)).obj

    def update(self, ref: Ref, obj: Mapping[str, Any], *, subresource: str = "", options: WriteOptions = _PLAIN) -> Obj:
        """Replaces the object or its status. Raises status 409 if a given metadata.resourceVersion is not current."""
        kind = self.kind(ref)
        body = _typed(kind, obj)
        target = RequestTarget(
            kind, _version(kind, body), body["metadata"].get("namespace"), body["metadata"]["name"], subresource
        )
        return _run(change.update(self, target, body, options)).obj

    def patch(
        self, ref: Ref, name: str, body: Any, namespace: str | None = None, *,
        content: str = MERGE, subresource: str = "", options: WriteOptions = _PLAIN,
    ) -> Obj:  # fmt: skip
        """Patches an object. `content` is the content type: JSON, MERGE, STRATEGIC or APPLY."""
        kind = self.kind(ref)
        target = RequestTarget(kind, kind.version, namespace, name, subresource)
        return _run(change.patch(self, target, clone(body), content, options)).obj

    def delete(self, ref: Ref, name: str, namespace: str | None = None, *, options: DeleteOptions = _AT_ONCE) -> bool:
        """Deletes an object. Returns False if finalizers or a grace period still hold it."""
        kind = self.kind(ref)
        return _run(change.delete(self, RequestTarget(kind, kind.version, namespace, name), options))[1]

    def bind(self, namespace: str, name: str, node: str) -> Obj:
        """Binds a pod to a node, as POST pods/NAME/binding does."""
        kind = self.kinds["", "pods"]
        target = RequestTarget(kind, kind.version, namespace, name, "binding")
        return bind(self, target, {"target": {"kind": "Node", "name": node}}, WriteOptions()).obj

    def seed(self, ref: Ref, objects: Iterable[Obj]) -> None:
        """Loads objects including status without any rules, for large clusters. The store takes ownership of them."""
        kind = self.kind(ref)
        for obj in objects:
            obj.setdefault("apiVersion", kind.api_version)
            obj.setdefault("kind", kind.kind)
            self.stamp(kind, obj)
            self.write(
                kind, StoredObject(key_of(obj["metadata"].get("namespace"), obj["metadata"]["name"]), obj, 0, "seed")
            )

    def compact(self) -> None:
        """Drops the history, so that older resourceVersions and continue tokens get status 410."""
        for table in self._tables.values():
            table.compact(self._rv)

    def hang_up(self) -> None:
        """Ends all watches."""
        for table in self._tables.values():
            for watcher in list(table.watchers):
                watcher.close()

    # ---- operations for change.py and gc.py

    def stamp(self, kind: ServedKind, obj: Obj) -> None:
        meta.complete(kind, obj, self.now(), self._rng)

    def write(self, kind: ServedKind, record: StoredObject) -> StoredObject:
        self._rv += 1
        record.rv = self._rv
        record.obj["metadata"]["resourceVersion"] = str(self._rv)
        self._note(kind, self.table(kind).put(record))
        return record

    def erase(self, kind: ServedKind, record: StoredObject) -> StoredObject:
        self._rv += 1
        record.rv = self._rv
        record.obj["metadata"]["resourceVersion"] = str(self._rv)
        self._note(kind, self.table(kind).remove(record))
        return record

    def _note(self, kind: ServedKind, event: StoreEvent) -> None:
        if (kind.group, kind.plural) == _CRDS:
            self._follow_crd(event)
        if self._collector is not None:
            self._collector.note((kind.group, kind.plural, event.record.key), event)
            self._collector.settle()

    def record_at(self, place: Place) -> StoredObject | None:
        table = self._tables.get(place[:2])
        return table.records.get(place[2]) if table else None

    def kind_at(self, place: Place) -> ServedKind:
        return self.kinds[place[:2]]

    def remove(self, place: Place, options: DeleteOptions) -> None:
        kind = self.kind_at(place)
        namespace, _, name = place[2].rpartition("/")
        _run(change.delete(self, RequestTarget(kind, kind.version, namespace or None, name), options))

    def rewrite(self, place: Place, obj: Obj) -> None:
        """Updates an object for the collector, without any rules, and removes it if nothing holds it."""
        kind, old = self.kind_at(place), self.record_at(place)
        record = StoredObject(place[2], {**obj, "metadata": dict(obj["metadata"])}, 0, "gc", old.owners if old else {})
        if not record.obj["metadata"].get("finalizers"):
            record.obj["metadata"].pop("finalizers", None)
        if is_over(record.obj):
            self.erase(kind, record)
        else:
            self.write(kind, record)

    def places_in(self, namespace: str) -> Sequence[Place]:
        return [
            (group, plural, key)
            for (group, plural), table in self._tables.items()
            if self.kinds[group, plural].namespaced
            for key in table.span(namespace)
        ]


def _typed(kind: ServedKind, obj: Mapping[str, Any]) -> Obj:
    """Returns a copy with apiVersion and kind, which callers in this process may omit."""
    body: Obj = clone(dict(obj))
    body.setdefault("apiVersion", kind.api_version)
    body.setdefault("kind", kind.kind)
    return body


def _version(kind: ServedKind, body: Obj) -> str:
    """Returns the version of a body, by default the stored version."""
    given = str(body.get("apiVersion") or kind.api_version).rpartition("/")[2]
    return given if given in kind.served else kind.version


def _run(steps: Generator[Review, Obj, T]) -> T:
    """Runs a write without webhooks: each review returns the object unchanged."""
    try:
        review = next(steps)
        while True:
            review = steps.send(review.obj or {})
    except StopIteration as done:
        result: T = done.value
        return result
