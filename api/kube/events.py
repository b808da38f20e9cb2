"""Records Kubernetes Events, which `kubectl describe` shows, as best effort; callers never wait.

`record` queues an event and one task sends the queue. A repeated event on the same object increments the count of the existing
Event. If the API server is slow the queue fills up, and further events are counted and dropped. Events of an object that is
deleted while they wait are dropped once they are late, so that they never delay those of living objects for long.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cachetools import TTLCache

from api.errors import NotFound, StowageError
from api.kube import metrics
from api.kube.client import Kube, PatchKind
from api.kube.clock import SYSTEM, Clock
from api.kube.decode import identity
from api.kube.resources import EVENTS, Resource
from api.meta import rfc3339

log = logging.getLogger(__name__)

MESSAGE_LIMIT = 1024
NORMAL, WARNING = "Normal", "Warning"

# How long, and how many, sent Events are remembered so that repetitions increment their count.
_REMEMBERED_SECONDS, _REMEMBERED = 600.0, 4096
# How long (seconds) an event waits to be sent after its object is gone; one that explains a deletion is sent soon after it.
_PATIENCE = 60.0
# An Event's name is that of its object plus a unique suffix; names have at most 253 characters.
_NAME_LIMIT = 220


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """The object of an Event (core/v1 ObjectReference)."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    def to_wire(self) -> dict[str, str]:
        """Returns the fields of involvedObject without empty ones."""
        wire = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "namespace": self.namespace,
            "uid": self.uid,
            "resourceVersion": self.resource_version,
        }
        return {field: value for field, value in wire.items() if value}


def ref_to(resource: Resource, obj: object) -> ObjectRef:
    """Returns the reference to an object of any decoded type (dict, struct, pydantic model)."""
    object_identity = identity(obj)
    return ObjectRef(
        resource.api_version,
        resource.kind,
        object_identity.name,
        object_identity.namespace,
        object_identity.uid,
        object_identity.resource_version,
    )


@dataclass(frozen=True, slots=True)
class _EventKey:
    """The fields that make two events equal; the object's resourceVersion is not among them."""

    kind: str
    namespace: str
    name: str
    uid: str
    type: str
    reason: str
    message: str


@dataclass(slots=True)
class _PendingEvent:
    """An event that waits to be sent."""

    ref: ObjectRef
    first: float
    last: float
    count: int = 1
    gone: bool = False


@dataclass(slots=True)
class _SentEvent:
    """The name and count of an Event at the API server."""

    name: str
    count: int


class EventRecorder:
    """Queues and sends events. Call `record` on the loop; one task runs `run`. At most `limit` events wait."""

    def __init__(
        self,
        kube: Kube,
        component: str,
        *,
        limit: int = 1000,
        clock: Clock = SYSTEM,
        now: Callable[[], float] = time.time,
    ) -> None:
        # Separate limits, so that a flood of events does not take the slots of other requests, or vice versa.
        self._kube = kube.tuned(attempts=2, timeout=min(10.0, kube.settings.timeout), concurrency=1)
        self._component, self._limit, self._now = component, limit, now
        self._filed: dict[_EventKey, _PendingEvent] = {}
        self._by_uid: dict[str, set[_EventKey]] = {}
        self._sent: TTLCache[_EventKey, _SentEvent] = TTLCache(_REMEMBERED, _REMEMBERED_SECONDS, timer=clock.now)
        self._wake = asyncio.Event()
        self._numbers = itertools.count(int(now() * 1_000_000))

    @property
    def waiting(self) -> int:
        """Number of events that wait to be sent."""
        return len(self._filed)

    def record(self, ref: ObjectRef, event_type: str, reason: str, message: str) -> None:
        """Queues an event; `event_type` is NORMAL or WARNING. Returns at once and never fails."""
        if len(message) > MESSAGE_LIMIT:
            message = message[: MESSAGE_LIMIT - 3] + "..."
        sentence = _EventKey(ref.kind, ref.namespace, ref.name, ref.uid, event_type, reason, message)
        filed = self._filed.get(sentence)
        if filed is not None:
            filed.count += 1
            filed.last = self._now()
        elif len(self._filed) >= self._limit:
            metrics.EVENTS_DROPPED.labels(self._component, "full").inc()
        else:
            self._filed[sentence] = _PendingEvent(ref, self._now(), self._now())
            self._by_uid.setdefault(ref.uid, set()).add(sentence)
            self._wake.set()

    def object_gone(self, uid: str) -> None:
        """Tells that the object is deleted: its waiting events are dropped if they are not sent soon."""
        for sentence in self._by_uid.get(uid, ()) if uid else ():
            self._filed[sentence].gone = True

    async def run(self) -> None:
        """Sends events, oldest first, until cancelled."""
        while True:
            await self._wake.wait()
            await self.flush()

    async def flush(self) -> None:
        """Sends all waiting events; those that the server refuses are counted and dropped."""
        self._wake.clear()
        while self._filed:
            sentence, filed = self._next()
            if filed.gone and self._now() - filed.last > _PATIENCE:
                metrics.EVENTS_DROPPED.labels(self._component, "gone").inc()
                await asyncio.sleep(0)
                continue
            try:
                await self._send(sentence, filed)
            except StowageError as error:
                metrics.EVENTS_DROPPED.labels(self._component, type(error).__name__).inc()
                log.info("event lost", extra={"object": filed.ref.name, "reason": sentence.reason, "error": str(error)})
            else:
                metrics.EVENTS_SENT.labels(self._component).inc()

    def _next(self) -> tuple[_EventKey, _PendingEvent]:
        sentence = next(iter(self._filed))
        same_object = self._by_uid[sentence.uid]
        same_object.discard(sentence)
        if not same_object:
            del self._by_uid[sentence.uid]
        return sentence, self._filed.pop(sentence)

    async def _send(self, sentence: _EventKey, filed: _PendingEvent) -> None:
        sent = self._sent.get(sentence)
        if sent is not None:
            try:
                await self._count_up(sentence, sent, filed)
            except NotFound:
                pass  # the server deletes Events after an hour, and users may delete them
            else:
                return
        name = f"{filed.ref.name[:_NAME_LIMIT]}.{next(self._numbers):x}"
        await self._kube.create(EVENTS, self._event(name, sentence, filed))
        self._sent[sentence] = _SentEvent(name, filed.count)

    async def _count_up(self, sentence: _EventKey, sent: _SentEvent, filed: _PendingEvent) -> None:
        count = sent.count + filed.count
        body = {"count": count, "lastTimestamp": rfc3339(filed.last)}
        namespace = _namespace(sentence)
        await self._kube.patch(EVENTS, sent.name, body, namespace, kind=PatchKind.MERGE, repeatable=True)
        self._sent[sentence] = _SentEvent(sent.name, count)

    def _event(self, name: str, sentence: _EventKey, filed: _PendingEvent) -> dict[str, Any]:
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": _namespace(sentence)},
            "involvedObject": filed.ref.to_wire(),
            "type": sentence.type,
            "reason": sentence.reason,
            "message": sentence.message,
            "count": filed.count,
            "firstTimestamp": rfc3339(filed.first),
            "lastTimestamp": rfc3339(filed.last),
            "source": {"component": self._component},
            "reportingComponent": self._component,
        }


def _namespace(sentence: _EventKey) -> str:
    """Returns the Event's namespace: the object's, or `default` for a cluster-scoped object."""
    return sentence.namespace or "default"
