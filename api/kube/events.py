"""Events: the sentences that `kubectl describe` shows under an object. Best effort; callers never wait.

`record` only queues the event; one task sends what is queued. The same event about the same object increments the count of
one Event. When the API server is slow the queue fills up; events that do not fit are counted and dropped.
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

# How long, and how many, Events are remembered to be counted up.
_REMEMBERED_SECONDS, _REMEMBERED = 600.0, 4096
# An Event's name is its object's plus a unique end; names have at most 253 characters.
_NAME_LIMIT = 220


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """What an Event is about (core/v1 ObjectReference)."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    def to_wire(self) -> dict[str, str]:
        """As in involvedObject, without what is empty."""
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
    """The reference to an object of any decoded type (dict, struct, pydantic model)."""
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
    """What makes two events the same one. The object's resourceVersion does not."""

    kind: str
    namespace: str
    name: str
    uid: str
    type: str
    reason: str
    message: str


@dataclass(slots=True)
class _PendingEvent:
    """Waits to be sent."""

    ref: ObjectRef
    first: float
    last: float
    count: int = 1


@dataclass(slots=True)
class _SentEvent:
    """Is at the API server under that name, with that count."""

    name: str
    count: int


class EventRecorder:
    """`record` from anywhere on the loop; one task runs `run`. `limit`: sentences that may wait to be sent."""

    def __init__(
        self,
        kube: Kube,
        component: str,
        *,
        limit: int = 1000,
        clock: Clock = SYSTEM,
        now: Callable[[], float] = time.time,
    ) -> None:
        # Limits of its own: a flood of events must not take the slots of real work, and the other way round.
        self._kube = kube.tuned(attempts=2, timeout=min(10.0, kube.settings.timeout), concurrency=1)
        self._component, self._limit, self._now = component, limit, now
        self._filed: dict[_EventKey, _PendingEvent] = {}
        self._sent: TTLCache[_EventKey, _SentEvent] = TTLCache(_REMEMBERED, _REMEMBERED_SECONDS, timer=clock.now)
        self._wake = asyncio.Event()
        self._numbers = itertools.count(int(now() * 1_000_000))

    @property
    def waiting(self) -> int:
        """Sentences not sent yet."""
        return len(self._filed)

    def record(self, ref: ObjectRef, event_type: str, reason: str, message: str) -> None:
        """Files a sentence; `event_type` is Normal or Warning. Returns at once and never fails."""
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
            self._wake.set()

    async def run(self) -> None:
        """Sends, oldest first, until cancelled."""
        while True:
            await self._wake.wait()
            await self.flush()

    async def flush(self) -> None:
        """Sends all that waits now; what the server refuses is counted and lost."""
        self._wake.clear()
        while self._filed:
            sentence = next(iter(self._filed))
            filed = self._filed.pop(sentence)
            try:
                await self._send(sentence, filed)
            except StowageError as error:
                metrics.EVENTS_DROPPED.labels(self._component, type(error).__name__).inc()
                log.info("event lost", extra={"object": filed.ref.name, "reason": sentence.reason, "error": str(error)})
            else:
                metrics.EVENTS_SENT.labels(self._component).inc()

    async def _send(self, sentence: _EventKey, filed: _PendingEvent) -> None:
        sent = self._sent.get(sentence)
        if sent is not None:
            try:
                await self._count_up(sentence, sent, filed)
            except NotFound:
                pass  # the server forgets Events after an hour, or a user deleted it
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
    """Events of cluster-scoped objects live in `default`."""
    return sentence.namespace or "default"
