"""Reports pods of admitted workloads that the API server refuses to create, and evicts workloads that stay without them.

A ResourceQuota, Pod Security, a missing ServiceAccount or another webhook may refuse pods of a gang after its admission. The
controller that creates them says so only in events of the job, and the gang would hold its capacity with half of its pods. So
warnings about objects that own pods are watched. An event concerns a Workload if its object, or a controller above that, owns
the Workload. While fewer pods are bound than were admitted, the condition PodsNotCreated carries the API server's message. A
workload whose pods are still refused after the configured timeout is evicted, and queues again after a backoff that doubles.

A Job waits before it replaces pods that failed or were drained, longer each time, and says so nowhere. A workload all of whose
pods have gone holds its quota and hosts meanwhile; the condition says that too, once no pod was bound for some seconds.

A user with the right to write events can write anything there, so an event alone decides nothing: it counts only while pods are
not bound, and only for Workloads of its namespace. No event is kept, only the latest message for each Workload.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Final

import msgspec
from cachetools import TTLCache

from admission.controllers.state import conditions
from admission.controllers.state.actions import PlannedEvent
from admission.controllers.state.condition_table import Writer
from admission.controllers.state.conditions import is_running
from admission.controllers.state.evictions import Eviction, evicted
from admission.controllers.state.timeouts import RequeueBackoff
from admission.controllers.watch.cluster_view import Views
from admission.controllers.watch.projection import ProjectedMeta, ProjectedPod
from admission.controllers.write.evictor import Evictor
from admission.controllers.write.outcome import Outcome
from admission.controllers.write.report_writer import ReportWriter
from admission.engine.ledger.ledger import Ledger
from admission.integrations.owners import owner_resources
from admission.integrations.registry import REFERENCED_KINDS
from admission.metrics import controller as metrics
from api.errors import NotFound
from api.kube.client import Kube
from api.kube.events import EventRecorder
from api.kube.informers.informer import Informer
from api.kube.informers.store import Change, ChangeType
from api.kube.reconcile import Reconciler
from api.kube.resources import EVENTS, JOBS, Resource
from api.meta import find_condition, parse_time, rfc3339
from api.names import NOT_CREATED, EvictedReason, WorkloadStateReason
from api.workloads import RequeueState, Workload

_REASONS: Final = frozenset(("FailedCreate", "FailedCreatePod", "FailedToCreateHeadPod", "FailedToCreateWorkerPod"))
"""Of Kubernetes' own controllers, of Kubeflow's Trainer, and of KubeRay."""
_SELECTOR: Final = "type=Warning,involvedObject.kind!=Pod,involvedObject.kind!=Node,involvedObject.kind!=Workload"
_BY_OWNER: Final = "owner"
_LONGEST_MESSAGE: Final = 600
_DEPTH: Final = 4
"""Controllers between the object that creates pods and the owner of the Workload: a TrainJob's Job has two."""
_SETTLE: Final = 1.0
_AGAIN: Final = 5.0
"""Seconds between two looks at a workload that lacks pods."""
_FRESH: Final = 120.0
"""Seconds for which a refusal counts as the present state: the Job controller tries again after 60 s at most."""
_STALE: Final = 900.0
"""Seconds without a refusal after which it is over. A controller that has written 25 events about an object writes few more."""
_GONE: Final = 10.0
"""Seconds without any bound pod after which the Workload says so: a Job replaces a pod that failed first after 10 s."""
_STRANGERS: Final = 4096
_STRANGER_FOR: Final = 60.0
"""Seconds for which an object that belongs to no Workload is not looked up again."""
_LOOKUPS: Final = 60
"""Lookups of objects for the events of one namespace in `_STRANGER_FOR` seconds."""
_BACKOFF: Final = RequeueBackoff()


class _Involved(msgspec.Struct, rename="camel", gc=False):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class _EventMeta(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Series(msgspec.Struct, rename="camel", gc=False):
    last_observed_time: str | None = None


class _Event(msgspec.Struct, rename="camel", gc=False):
    metadata: _EventMeta = msgspec.field(default_factory=_EventMeta)
    involved_object: _Involved = msgspec.field(default_factory=_Involved)
    reason: str = ""
    message: str = ""
    last_timestamp: str | None = None
    event_time: str | None = None
    series: _Series | None = None


@dataclass(frozen=True, slots=True)
class CreationEvent:
    """An event. Of one that says nothing about pods that were refused, only the identity is kept."""

    metadata: ProjectedMeta
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The API server's message about a pod that it refused, when (epoch seconds), and to which object."""

    message: str
    at: float
    group: str
    kind: str
    name: str
    uid: str


class CreationEventReader:
    """Decodes events. Raises msgspec's errors."""

    def __init__(self) -> None:
        self._decode = msgspec.json.Decoder(_Event).decode

    def __call__(self, data: bytes) -> CreationEvent:
        event = self._decode(data)
        meta, about = event.metadata, event.involved_object
        identity = ProjectedMeta(meta.name, meta.namespace, meta.uid, meta.resource_version)
        if event.reason not in _REASONS or not about.uid:
            return CreationEvent(identity)
        times = (event.series.last_observed_time if event.series else None, event.last_timestamp, event.event_time)
        at = max((parse_time(each) or 0.0 for each in times), default=0.0)
        group = about.api_version.partition("/")[0] if "/" in about.api_version else ""
        message = event.message[:_LONGEST_MESSAGE]
        return CreationEvent(identity, Refusal(message, at, group, about.kind, about.name, about.uid))


def creation_events(kube: Kube) -> Informer[CreationEvent]:
    """Returns the informer of warnings about objects that own pods."""
    return Informer(kube, EVENTS, CreationEventReader(), field_selector=_SELECTOR)


class UncreatedController:
    """Reports pods that are refused, and evicts workloads that lack pods for `timeout` seconds (None: never)."""

    def __init__(
        self,
        kube: Kube,
        views: Views,
        ledger: Ledger,
        events: Informer[CreationEvent],
        evictor: Evictor,
        recorder: EventRecorder,
        timeout: float | None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._kube, self._views, self._ledger, self._events = kube, views, ledger, events
        self._evictor, self._timeout, self._now = evictor, timeout, now
        self._reports = ReportWriter(kube, Writer.REFUSED_PODS, recorder, views.workloads.observe)
        self._refusals: dict[str, Refusal] = {}
        self._left: dict[str, float] = {}
        self._strangers: TTLCache[str, bool] = TTLCache(_STRANGERS, _STRANGER_FOR)
        self._lookups: TTLCache[str, count[int]] = TTLCache(_STRANGERS, _STRANGER_FOR)
        self._kinds = {(each.group, each.kind): each for each in (JOBS, *REFERENCED_KINDS)}
        self.reconciler = Reconciler("workloads without pods", self._reconcile, workers=1)
        self.attribution = Reconciler("refused pods", self._attribute, workers=1)
        views.workloads.add_index(_BY_OWNER, lambda w: [owner.uid for owner in w.metadata.owner_references])
        views.workloads.add_handler(self._workload_changed)
        views.pods.add_handler(self._pod_changed)
        events.add_handler(self._event_changed)

    # ---- watch handlers

    def _event_changed(self, change: Change[CreationEvent]) -> None:
        if change.type is not ChangeType.DELETED and change.object.refusal is not None:
            self.attribution.add(change.key)

    def _pod_changed(self, change: Change[ProjectedPod]) -> None:
        """Notes when the last pod of a Workload has left its node."""
        before = change.old.bound if change.old is not None else change.object.bound
        ended = change.type is ChangeType.DELETED or change.object.bound is None
        if ended and before is not None and before.workload is not None:
            self._left[before.workload] = self._now()
            self.reconciler.add_after(before.workload, _GONE)

    def _workload_changed(self, change: Change[Workload]) -> None:
        if change.type is ChangeType.DELETED:
            self._refusals.pop(change.key, None)
            self._left.pop(change.key, None)
        elif change.key in self._refusals or find_condition(change.object.status.conditions, NOT_CREATED) is not None:
            self.reconciler.add_after(change.key, _SETTLE)

    # ---- one event

    async def _attribute(self, key: str) -> None:
        """Finds the Workloads that the event concerns."""
        event = self._events.objects.get(key)
        if event is None or event.refusal is None or event.refusal.uid in self._strangers:
            return
        refusal, namespace = event.refusal, event.metadata.namespace
        workloads = await self._owned(refusal, namespace)
        if not workloads:
            self._strangers[refusal.uid] = True
        for workload in workloads:
            self._refusals[workload.key] = refusal
            self.reconciler.add_after(workload.key, _SETTLE)

    async def _owned(self, refusal: Refusal, namespace: str) -> list[Workload]:
        """Returns the Workloads of the object, or else of the nearest controller above it that owns any."""
        group, kind, name, uid = refusal.group, refusal.kind, refusal.name, refusal.uid
        for _ in range(_DEPTH):
            by_owner = [w for w in self._views.workloads.by_index(_BY_OWNER, uid) if w.metadata.namespace == namespace]
            resource = self._resource(group, kind)
            if by_owner or resource is None or not self._may_look_up(namespace):
                return by_owner
            try:
                owned = await self._kube.get(resource, name, namespace)
            except NotFound:
                return []
            if owned["metadata"].get("uid") != uid:
                return []
            owners = owned["metadata"].get("ownerReferences") or ()
            owner = next((each for each in owners if each.get("controller")), None)
            if owner is None:
                return []
            group, slash, _ = owner["apiVersion"].partition("/")
            group, kind, name, uid = group if slash else "", owner["kind"], owner["name"], owner["uid"]
        return []

    def _may_look_up(self, namespace: str) -> bool:
        """Counts a lookup for the namespace; False for one too many, which a user who makes events up can cause there."""
        return next(self._lookups.setdefault(namespace, count(1))) <= _LOOKUPS

    def _resource(self, group: str, kind: str) -> Resource | None:
        owners = {(each.group, each.kind): each for each in owner_resources()}
        return owners.get((group, kind)) or self._kinds.get((group, kind))

    # ---- one Workload

    async def _reconcile(self, key: str) -> float | None:
        workload = self._views.workloads.objects.get(key)
        if workload is None or not is_running(workload.status):
            self._refusals.pop(key, None)
            self._left.pop(key, None)
            return None
        before = find_condition(workload.status.conditions, NOT_CREATED)
        is_refused = before is not None and before.status == "True" and before.reason == WorkloadStateReason.REFUSED
        since = parse_time(before.last_transition_time) if before is not None and is_refused else None
        admitted, bound = workload.admitted_pods, len(self._ledger.allocations.pods_of(workload.key))
        refusal = self._refusals.get(key)
        if bound >= admitted or refusal is None or self._is_over(refusal, workload):
            self._refusals.pop(key, None)
            return await self._all_gone(workload, admitted, bound)
        text = f"{admitted - bound} of {admitted} pods are not bound: {refusal.message}"
        if since is not None and self._is_overdue(since, refusal):
            await self._evict(workload, text)
            return None
        await self._write(workload, text)
        return _AGAIN

    async def _all_gone(self, workload: Workload, admitted: int, bound: int) -> float | None:
        """Writes whether all pods of the Workload have gone and none has come back."""
        left = self._left.get(workload.key)
        if bound or left is None or admitted <= 0:
            self._left.pop(workload.key, None)
            await self._write(workload, "")
            return None
        if (wait := left + _GONE - self._now()) > 0:
            return wait
        text = (
            f"all {admitted} pods have gone, and no other is bound: a Job waits longer before each replacement of pods that "
            "failed; quota and hosts stay held meanwhile"
        )
        await self._write(workload, text, refused=False)
        return _AGAIN

    def _is_over(self, refusal: Refusal, workload: Workload) -> bool:
        return refusal.at < max(workload.admitted_at or 0.0, self._now() - _STALE)

    def _is_overdue(self, since: float, refusal: Refusal) -> bool:
        now = self._now()
        return self._timeout is not None and since + self._timeout <= now <= refusal.at + _FRESH

    async def _write(self, workload: Workload, text: str, *, refused: bool = True) -> None:
        before, generation = find_condition(workload.status.conditions, NOT_CREATED), workload.metadata.generation
        status = conditions.not_created(workload.status, text, self._now(), generation, refused=refused)
        begins = bool(text) and (before is None or before.status != "True")
        events = (PlannedEvent("PodsNotCreated", text, "Warning"),) if begins else ()
        if await self._reports.write(workload, status, *events) is Outcome.WRITTEN and begins and refused:
            admission = workload.status.admission
            metrics.NOT_CREATED.labels(admission.cluster_queue if admission is not None else "").inc()

    async def _evict(self, workload: Workload, text: str) -> None:
        """Evicts it, to queue again after a backoff: what refuses its pods rarely goes within a moment."""
        status, now = workload.status, self._now()
        times = ((status.requeue_state.count if status.requeue_state else 0) or 0) + 1
        again = now + _BACKOFF.wait(times, workload.metadata.uid)
        state = RequeueState(count=times, requeue_at=rfc3339(again + 1))
        eviction = Eviction(EvictedReason.PODS_NOT_CREATED, f"Pods were not created within {self._timeout:g} s: {text}")
        status = evicted(status, eviction, now, workload.metadata.generation)
        status = status.model_copy(update={"requeue_state": state})
        await self._evictor.write(workload, status, eviction, Writer.REFUSED_PODS)
