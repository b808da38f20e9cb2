"""The garbage collector: deletes dependents with their owners, and the content of namespaces.

Supports background, foreground and orphan propagation like the real collector, but at the end of the write that triggers them
instead of later. store.py calls it for every event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from api.embedded.kinds import ServedKind
from api.embedded.status import Obj
from api.embedded.table import StoredObject, StoreEvent
from api.embedded.writes.deletion import FOREGROUND, ORPHAN, DeleteOptions

Place = tuple[str, str, str]  # group, plural, key


class CollectorStore(Protocol):
    """The operations of the collector on the store."""

    def record_at(self, place: Place) -> StoredObject | None: ...
    def kind_at(self, place: Place) -> ServedKind: ...
    def remove(self, place: Place, options: DeleteOptions) -> None: ...
    def rewrite(self, place: Place, obj: Obj) -> None: ...
    def places_in(self, namespace: str) -> Sequence[Place]: ...


class GarbageCollector:
    """Tracks live objects by uid, and their dependents."""

    def __init__(self, hands: CollectorStore) -> None:
        self._hands = hands
        self._living: dict[str, Place] = {}
        self._dependents: dict[str, set[Place]] = {}
        self._due: deque[Place] = deque()
        self._leaving: set[str] = set()  # namespaces
        self._busy = False

    def note(self, place: Place, event: StoreEvent) -> None:
        """Updates the index and queues affected objects, which `settle` processes."""
        obj, old = event.record.obj, event.old.obj if event.old else None
        refs, was = _owners(obj), _owners(old) if old else []
        gone = event.type == "DELETED"
        for uid in was:
            if gone or uid not in refs:
                self._forget(uid, place)
        if gone:
            self._removed(place, event.record)
            return
        self._living[event.record.uid] = place
        for uid in refs:
            self._dependents.setdefault(uid, set()).add(place)
        if (refs and refs != was) or "deletionTimestamp" in obj["metadata"]:
            self._due.append(place)

    def _forget(self, uid: str, place: Place) -> None:
        held = self._dependents.get(uid)
        if held:
            held.discard(place)

    def _removed(self, place: Place, record: StoredObject) -> None:
        self._living.pop(record.uid, None)
        self._due.extend(sorted(self._dependents.pop(record.uid, ())))
        for uid in _owners(record.obj):
            if owner := self._living.get(uid):
                self._due.append(owner)
        namespace = record.obj["metadata"].get("namespace")
        if namespace in self._leaving:
            self._due.append(("", "namespaces", str(namespace)))
        if place[:2] == ("", "namespaces"):
            self._leaving.discard(place[2])

    def settle(self) -> None:
        """Processes the queue until it is empty. A recursive call does nothing: the outer one continues."""
        if self._busy:
            return
        self._busy = True
        try:
            while self._due:
                self._look_at(self._due.popleft())
        finally:
            self._busy = False

    def _look_at(self, place: Place) -> None:
        record = self._hands.record_at(place)
        if record is None:
            return
        if "deletionTimestamp" in record.obj["metadata"]:
            self._leave(place, record)
        elif record.obj["metadata"].get("ownerReferences"):
            self._owned(place, record)

    def _owned(self, place: Place, record: StoredObject) -> None:
        """Deletes an object whose owners are all gone (or wait for it), else removes references to missing owners."""
        refs = record.obj["metadata"]["ownerReferences"]
        solid = [ref for ref in refs if ref["uid"] in self._living and not self._waits_for(ref)]
        waited = [ref for ref in refs if ref["uid"] in self._living and self._waits_for(ref)]
        if len(solid) == len(refs):
            return
        if not solid:
            policy = "Foreground" if waited and self._dependents.get(record.uid) else "Background"
            self._hands.remove(place, DeleteOptions(policy, uid=record.uid))
        else:
            self._hands.rewrite(place, _with_owners(record.obj, solid))

    def _waits_for(self, ref: Obj) -> bool:
        owner = self._hands.record_at(self._living[ref["uid"]])
        return owner is not None and FOREGROUND in (owner.obj["metadata"].get("finalizers") or ())

    def _leave(self, place: Place, record: StoredObject) -> None:
        finalizers = record.obj["metadata"].get("finalizers") or ()
        if place[:2] == ("", "namespaces"):
            self._empty_namespace(place, record)
        elif ORPHAN in finalizers:
            self._orphan(place, record)
        elif FOREGROUND in finalizers:
            self._foreground(place, record)

    def _orphan(self, place: Place, record: StoredObject) -> None:
        for dependent in sorted(self._dependents.get(record.uid, ())):
            stored = self._hands.record_at(dependent)
            if stored is not None:
                refs = [ref for ref in stored.obj["metadata"]["ownerReferences"] if ref["uid"] != record.uid]
                self._hands.rewrite(dependent, _with_owners(stored.obj, refs))
        self._drop_finalizer(place, ORPHAN)

    def _foreground(self, place: Place, record: StoredObject) -> None:
        """Deletes dependents; removes the owner's finalizer when none is left that blocks it."""
        dependents = sorted(self._dependents.get(record.uid, ()))
        for dependent in dependents:
            stored = self._hands.record_at(dependent)
            if stored is not None and "deletionTimestamp" not in stored.obj["metadata"]:
                self._owned(dependent, stored)
        if not any(self._blocks(dependent, record.uid) for dependent in dependents):
            self._drop_finalizer(place, FOREGROUND)

    def _blocks(self, dependent: Place, uid: str) -> bool:
        record = self._hands.record_at(dependent)
        refs = record.obj["metadata"].get("ownerReferences") or () if record else ()
        return any(ref["uid"] == uid and ref.get("blockOwnerDeletion") for ref in refs)

    def _drop_finalizer(self, place: Place, finalizer: str) -> None:
        record = self._hands.record_at(place)
        if record is not None:
            meta = record.obj["metadata"]
            left = [item for item in meta.get("finalizers") or () if item != finalizer]
            self._hands.rewrite(place, {**record.obj, "metadata": {**meta, "finalizers": left}})

    def _empty_namespace(self, place: Place, record: StoredObject) -> None:
        namespace = place[2]
        first = namespace not in self._leaving
        self._leaving.add(namespace)
        places = self._hands.places_in(namespace)
        if first:
            for inner in places:
                self._hands.remove(inner, DeleteOptions("Background", grace=0))
            places = self._hands.places_in(namespace)
        if not places and (record.obj.get("spec") or {}).get("finalizers"):
            self._hands.rewrite(place, {**record.obj, "spec": {}})


def _owners(obj: Obj) -> list[str]:
    return [ref["uid"] for ref in obj["metadata"].get("ownerReferences") or ()]


def _with_owners(obj: Obj, refs: list[Obj]) -> Obj:
    meta = {**obj["metadata"], "ownerReferences": refs}
    if not refs:
        del meta["ownerReferences"]
    return {**obj, "metadata": meta}
