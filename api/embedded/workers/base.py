"""The base class of workers: follows the store's events, collects affected keys, and processes each key once per step.

A step is level-triggered like the real controllers: it reconciles a key from any state, and a second step without changes
writes nothing. Time is the store's clock. Single-threaded and synchronous. Writes do not pass admission webhooks. Driven by
driver.py and by tests.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterable
from typing import ClassVar

from api.embedded.status import Obj, StatusError
from api.embedded.store import ObjectStorage
from api.embedded.table import StoreEvent
from api.kube.resources import Resource

log = logging.getLogger(__name__)


class Worker:
    """A worker. It follows `kinds`; `seen` maps an event to keys; `sync` reconciles one key."""

    kinds: ClassVar[tuple[Resource, ...]]

    def __init__(self, store: ObjectStorage) -> None:
        self.store = store
        self._watches = [(kind, store.watch(kind)) for kind in self.kinds]
        self._keys: dict[str, None] = {}  # in order of their first event
        self._timers: list[tuple[float, str]] = []
        self._started = False

    def seen(self, kind: Resource, event: StoreEvent) -> None:
        raise NotImplementedError

    def sync(self, key: str) -> None:
        raise NotImplementedError

    def order(self, keys: Iterable[str]) -> list[str]:
        """Returns the order in which the keys of one step are processed."""
        return list(keys)

    def look_at(self, key: str) -> None:
        self._keys[key] = None

    def look_later(self, key: str, when: float) -> None:
        """Schedules a key for `when`, in epoch seconds of the store's clock."""
        heapq.heappush(self._timers, (when, key))

    def next_due(self) -> float | None:
        """Returns the time of the next scheduled key, or None if only a change can make one due."""
        return self._timers[0][0] if self._timers else None

    def step(self) -> bool:
        """Processes all due keys. Returns False if there were none."""
        self._read()
        keys = self.order(self._keys)
        self._keys = {}
        for key in keys:
            try:
                self.sync(key)
            except StatusError as refused:
                # the real controller retries with a backoff; here the object's next change triggers the next attempt
                log.warning("%s: %s: %s", type(self).__name__, key, refused.message)
            except Exception as unreadable:  # noqa: BLE001  one bad object must not stop the work on others
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
        """Returns the object of a key, or None."""
        record = self.store.record(kind, key)
        return record.obj if record else None


class Dependents:
    """Indexes dependents by the key of their controller of `kind`."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._keys: dict[str, dict[str, None]] = {}

    def note(self, event: StoreEvent) -> str | None:
        """Updates the index with a dependent's event. Returns the key of its controller, else that which it left, or None."""
        key, owner = event.record.key, self._owner(event.record.obj)
        former = None if event.old is None else self._owner(event.old.obj)
        if former is not None and former != owner:
            self._drop(former, key)
        if owner is not None:
            if event.type == "DELETED":
                self._drop(owner, key)
            else:
                self._keys.setdefault(owner, {})[key] = None
        return owner or former

    def _owner(self, obj: Obj) -> str | None:
        ref = controller_of(obj)
        if ref is None or ref["kind"] != self._kind:
            return None
        return f"{obj['metadata']['namespace']}/{ref['name']}"

    def _drop(self, owner: str, key: str) -> None:
        held = self._keys.get(owner, {})
        held.pop(key, None)
        if not held:
            self._keys.pop(owner, None)

    def of(self, owner: str) -> list[str]:
        return list(self._keys.get(owner, ()))


def controller_of(obj: Obj) -> Obj | None:
    """Returns the owner reference to the controller, or None."""
    refs: list[Obj] = obj["metadata"].get("ownerReferences") or []
    return next((ref for ref in refs if ref.get("controller")), None)


def controller_ref(owner: Obj) -> Obj:
    """Returns an owner reference to `owner` as controller."""
    meta = owner["metadata"]
    ref = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {**ref, "controller": True, "blockOwnerDeletion": True}


def set_condition(status: Obj, kind: str, value: str, reason: str, message: str, now: str) -> bool:
    """Sets a condition in place and reports whether its status changed. A new condition that is False is not written."""
    conditions = status.setdefault("conditions", [])
    condition = next((item for item in conditions if item["type"] == kind), None)
    if condition is None and value == "False":
        return False
    if condition is not None and condition["status"] == value:
        return False
    if condition is not None:
        conditions.remove(condition)
    conditions.append({"type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": now})
    return True


def holds(status: Obj, *kinds: str) -> bool:
    """Reports whether any of these conditions is True."""
    return any(item["type"] in kinds and item["status"] == "True" for item in status.get("conditions") or ())
