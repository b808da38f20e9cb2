"""The frame of a worker: it follows the store's events, collects the keys they touch, and looks at each key once a step.

A step brings what a key names to where it should be, from whatever state it finds (level-triggered, as the real
controllers are): a second step without a change in between writes nothing. Time is the store's clock. Single-threaded and
synchronous. A worker's writes don't pass admission webhooks. Subclassed by the workers; stepped by driver.py and by tests.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterable
from typing import ClassVar

from api.fake.status import Obj, StatusError
from api.fake.store import Storage
from api.fake.table import StoreEvent
from api.kube.resources import Resource

log = logging.getLogger(__name__)


class Worker:
    """`kinds` are what it follows; `seen` says which keys an event touches; `sync` does the work for one key."""

    kinds: ClassVar[tuple[Resource, ...]]

    def __init__(self, store: Storage) -> None:
        self.store = store
        self._watches = [(kind, store.watch(kind)) for kind in self.kinds]
        self._keys: dict[str, None] = {}  # in the order in which they were touched
        self._timers: list[tuple[float, str]] = []
        self._started = False

    def seen(self, kind: Resource, event: StoreEvent) -> None:
        raise NotImplementedError

    def sync(self, key: str) -> None:
        raise NotImplementedError

    def order(self, keys: Iterable[str]) -> list[str]:
        """In which order the keys of one step are looked at."""
        return list(keys)

    def look_at(self, key: str) -> None:
        self._keys[key] = None

    def look_later(self, key: str, when: float) -> None:
        """`when` in epoch seconds of the store's clock."""
        heapq.heappush(self._timers, (when, key))

    def next_due(self) -> float | None:
        """When the clock alone makes something due; None when only a change can."""
        return self._timers[0][0] if self._timers else None

    def step(self) -> bool:
        """Does everything that is due. False when there was nothing to look at."""
        self._read()
        keys = self.order(self._keys)
        self._keys = {}
        for key in keys:
            try:
                self.sync(key)
            except StatusError as refused:
                # the real one retries with a backoff; here the next change of the object is the next try
                log.warning("%s: %s: %s", type(self).__name__, key, refused.message)
            except Exception as unreadable:  # noqa: BLE001  one object must not end the work on all others
                cause = f"{type(unreadable).__name__}: {unreadable}"
                log.warning("%s: %s is left as it is: %s", type(self).__name__, key, cause)
        return bool(keys)

    def close(self) -> None:
        """Stops following the store."""
        for _, watch in self._watches:
            watch.close()

    def _read(self) -> None:
        if not self._started:
            self._started = True
            for kind, watch in self._watches:
                watch.drain()
                for record in self.store.table(kind).records.values():
                    self.seen(kind, StoreEvent("ADDED", record, None))
        for kind, watch in self._watches:
            for event in watch.drain():
                self.seen(kind, event)
        while self._timers and self._timers[0][0] <= self.store.clock():
            self.look_at(heapq.heappop(self._timers)[1])

    def at(self, kind: Resource, key: str) -> Obj | None:
        """Returns the object of a key, if it is there."""
        record = self.store.record(kind, key)
        return record.obj if record else None


class Dependents:
    """Keys of dependents by the key of their controller, which is of `kind`."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._keys: dict[str, dict[str, None]] = {}

    def note(self, event: StoreEvent) -> str | None:
        """Follows one dependent's event; the key of its controller."""
        obj, key = event.record.obj, event.record.key
        ref = controller_of(obj)
        if ref is None or ref["kind"] != self._kind:
            return None
        owner = f"{obj['metadata']['namespace']}/{ref['name']}"
        held = self._keys.setdefault(owner, {})
        if event.type == "DELETED":
            held.pop(key, None)
        else:
            held[key] = None
        if not held:
            del self._keys[owner]
        return owner

    def of(self, owner: str) -> list[str]:
        return list(self._keys.get(owner, ()))


def controller_of(obj: Obj) -> Obj | None:
    """Returns the owner reference that says controller, if any."""
    refs: list[Obj] = obj["metadata"].get("ownerReferences") or []
    return next((ref for ref in refs if ref.get("controller")), None)


def controller_ref(owner: Obj) -> Obj:
    """Returns the reference that a controller puts into what it creates."""
    meta = owner["metadata"]
    ref = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {**ref, "controller": True, "blockOwnerDeletion": True}


def set_condition(status: Obj, kind: str, value: str, reason: str, message: str, now: str) -> bool:
    """Sets a condition in place; whether its status changed. A False that was never True is not written."""
    conditions = status.setdefault("conditions", [])
    found = next((item for item in conditions if item["type"] == kind), None)
    if found is None and value == "False":
        return False
    if found is not None and found["status"] == value:
        return False
    if found is not None:
        conditions.remove(found)
    conditions.append({"type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": now})
    return True


def holds(status: Obj, *kinds: str) -> bool:
    """Reports whether any of these conditions is True."""
    return any(item["type"] in kinds and item["status"] == "True" for item in status.get("conditions") or ())
