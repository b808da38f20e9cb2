"""Reports pods that no node accepts after their gate was removed, and evicts workloads whose pods stay unbound.

Ungated pods are expected to be bound. But another pod may take the capacity in between, or a pod may have a term that Stowage
does not know; then kube-scheduler sets PodScheduled=False, Unschedulable. Such a pod is checked again after a moment, when it
may be bound; later it gets another place (pod_displacer.py). The Workload's condition PodsUnschedulable lists these pods with
kube-scheduler's message, and turns False once there are none. After the configured timeout the workload is evicted and queues
again. A workload of a single pod is only reported, since nothing would replace its pod.

Each pending pod costs three events of its watch until it is bound, and in most clusters no pod of a gang is ever refused. So
that watch begins with the first warning FailedScheduling about a pod of a namespace that has Workloads, or when a Workload
lacks bound pods for long, since warnings may be lost. Only the identity is kept of pods that have a node or no such condition.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from sys import intern
from typing import Final

import msgspec

from admission.controllers.nodes.pod_displacer import PodDisplacer
from admission.controllers.state import conditions
from admission.controllers.state.actions import PlannedEvent
from admission.controllers.state.condition_table import Writer
from admission.controllers.state.conditions import is_running
from admission.controllers.state.evictions import Eviction
from admission.controllers.watch.cluster_view import Views
from admission.controllers.watch.projection import ProjectedMeta, ProjectedPod
from admission.controllers.write.evictor import Evictor
from admission.controllers.write.outcome import Outcome
from admission.controllers.write.report_writer import ReportWriter
from admission.engine.ledger.ledger import Ledger
from admission.engine.listed import listed
from admission.metrics import controller as metrics
from api.kube.client import Kube
from api.kube.events import EventRecorder
from api.kube.informers.informer import Informer
from api.kube.informers.lazy_informer import LazyInformer
from api.kube.informers.store import Change, ChangeType
from api.kube.reconcile import Reconciler
from api.kube.resources import EVENTS, PODS
from api.meta import Condition, find_condition, is_true, parse_time
from api.names import HOSTNAME_LABEL, LWS_NAME, PODSET_LABEL, UNSCHEDULABLE, WORKLOAD_ANNOTATION, EvictedReason
from api.pod.pods import PENDING_PODS
from api.workloads import Workload

_BY_WORKLOAD, _BY_NAMESPACE = "workload", "namespace"
# kube-scheduler may have tried too early, and many pods of one gang are reported together.
_SETTLE = 1.0
# kube-scheduler's message changes with every node; an update for the same pods waits this long.
_REWORD = 10.0
# The number of pods that a message names, and the length of kube-scheduler's message in it.
_NAMED, _LONGEST_MESSAGE = 8, 600
_WARNINGS: Final = "reason=FailedScheduling,involvedObject.kind=Pod"
_SOME_LATE: Final = 60.0
"""Seconds in which no further pod was bound, after which the others may have been refused without a warning."""
_ALL_LATE: Final = 600.0
"""Seconds after an admission, the same while none is bound: the controllers that create pods may be behind."""


class _PendingPodOwner(msgspec.Struct, gc=False):
    kind: str = ""
    name: str = ""
    controller: bool | None = None


class _PendingPodMeta(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    owner_references: tuple[_PendingPodOwner, ...] = ()


class _PendingPodSpec(msgspec.Struct, rename="camel", gc=False):
    node_name: str = ""
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    scheduling_gates: tuple[dict[str, str], ...] = ()


class _PendingPodCondition(msgspec.Struct, gc=False):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class _PendingPodStatus(msgspec.Struct, gc=False):
    conditions: tuple[_PendingPodCondition, ...] = ()


class _PendingPod(msgspec.Struct, gc=False):
    metadata: _PendingPodMeta = msgspec.field(default_factory=_PendingPodMeta)
    spec: _PendingPodSpec = msgspec.field(default_factory=_PendingPodSpec)
    status: _PendingPodStatus = msgspec.field(default_factory=_PendingPodStatus)


@dataclass(frozen=True, slots=True)
class UnboundPod:
    """A pending pod."""

    metadata: ProjectedMeta
    workload: str | None = None
    refused: str | None = None
    """kube-scheduler's message; None if it has not refused the pod."""
    place: tuple[str, str] | None = None
    """The assigned pod set and host; None if the pod was assigned no single host."""
    owner: tuple[str, str] | None = None
    """Kind and name of the pod's controller; None if that may not replace the pod alone."""


class UnboundReader:
    """Decodes pods. Raises msgspec's errors."""

    def __init__(self) -> None:
        self._decode = msgspec.json.Decoder(_PendingPod).decode

    def __call__(self, data: bytes) -> UnboundPod:
        pod = self._decode(data)
        meta = pod.metadata
        identity = ProjectedMeta(meta.name, intern(meta.namespace), meta.uid, meta.resource_version)
        if (
            pod.spec.scheduling_gates
            or pod.spec.node_name
            or meta.deletion_timestamp
            or not (name := meta.annotations.get(WORKLOAD_ANNOTATION))
        ):
            return UnboundPod(identity)
        message = next(
            (
                c.message
                for c in pod.status.conditions
                if (c.type, c.status, c.reason) == ("PodScheduled", "False", "Unschedulable")
            ),
            None,
        )
        if message is None:
            return UnboundPod(identity)
        host, pod_set = pod.spec.node_selector.get(HOSTNAME_LABEL), meta.labels.get(PODSET_LABEL)
        place = (pod_set, host) if host and pod_set else None
        return UnboundPod(identity, intern(f"{meta.namespace}/{name}"), message[:_LONGEST_MESSAGE], place, _owner(meta))


def _owner(meta: _PendingPodMeta) -> tuple[str, str] | None:
    """Returns the pod's controller, or None in a LeaderWorkerSet, which recreates groups as a whole."""
    if LWS_NAME in meta.labels:
        return None
    return next(((owner.kind, owner.name) for owner in meta.owner_references if owner.controller), None)


class _Warning(msgspec.Struct, gc=False):
    metadata: _PendingPodMeta


@dataclass(frozen=True, slots=True)
class SchedulingWarning:
    """An event in which kube-scheduler says that it found no node for a pod of this namespace."""

    metadata: ProjectedMeta


class WarningReader:
    """Decodes events. Raises msgspec's errors."""

    def __init__(self) -> None:
        self._decode = msgspec.json.Decoder(_Warning).decode

    def __call__(self, data: bytes) -> SchedulingWarning:
        meta = self._decode(data).metadata
        return SchedulingWarning(ProjectedMeta(meta.name, intern(meta.namespace), meta.uid, meta.resource_version))


def unbound_informer(kube: Kube) -> LazyInformer[UnboundPod]:
    """Returns the informer of pending pods that belong to a pod set."""
    return LazyInformer(kube, PODS, UnboundReader(), label_selector=PODSET_LABEL, field_selector=PENDING_PODS)


def scheduling_warnings(kube: Kube) -> Informer[SchedulingWarning]:
    """Returns the informer of kube-scheduler's warnings about pods."""
    return Informer(kube, EVENTS, WarningReader(), field_selector=_WARNINGS)


class UnboundController:
    """Reports unschedulable pods, and evicts workloads with such pods after `timeout` seconds (None: never)."""

    def __init__(
        self,
        kube: Kube,
        views: Views,
        ledger: Ledger,
        pods: LazyInformer[UnboundPod],
        warnings: Informer[SchedulingWarning],
        evictor: Evictor,
        recorder: EventRecorder,
        timeout: float | None,
        now: Callable[[], float] = time.time,
        *,
        displacer: PodDisplacer | None = None,
    ) -> None:
        self._views, self._ledger, self._evictor = views, ledger, evictor
        self._pods, self._warnings = pods, warnings
        self._timeout, self._now = timeout, now
        self._namespaces: Counter[str] = Counter()  # the number of Workloads by namespace
        self._bound: dict[str, int] = {}  # bound pods of workloads that lack some, at the last look
        self._reports = ReportWriter(kube, Writer.UNBOUND_PODS, recorder, views.workloads.observe)
        self._reported_at: dict[str, tuple[str, float]] = {}
        self._displacer = displacer
        self.reconciler = Reconciler("pods that no node takes", self._reconcile, workers=1)
        # The indexes come first: a handler is told of what is there already.
        warnings.add_index(_BY_NAMESPACE, lambda event: [event.metadata.namespace])
        pods.add_index(_BY_WORKLOAD, lambda pod: [pod.workload] if pod.workload else [])
        pods.add_handler(self._pod_changed)
        views.workloads.add_handler(self._workload_changed)
        views.pods.add_handler(self._bound_pod_changed)
        warnings.add_handler(self._warned)

    # ---- watch handlers

    def _warned(self, change: Change[SchedulingWarning]) -> None:
        if change.type is not ChangeType.DELETED and self._namespaces[change.object.metadata.namespace]:
            self._pods.wake()

    def _pod_changed(self, change: Change[UnboundPod]) -> None:
        before = change.old.workload if change.old else None
        refused = None if change.type is ChangeType.DELETED else change.object.workload
        if refused is not None and before is None:
            metrics.UNSCHEDULABLE.labels(self._queue(refused)).inc()
        for key in {before, refused, change.object.workload} - {None}:
            self.reconciler.add_after(key or "", _SETTLE)

    def _bound_pod_changed(self, change: Change[ProjectedPod]) -> None:
        """Queues a workload that a bound pod has left: what replaces the pod may be refused, too."""
        before = change.old.bound if change.old is not None else None
        ended = change.type is ChangeType.DELETED or change.object.bound is None
        if not self._pods.is_wanted and ended and before is not None and before.workload is not None:
            self.reconciler.add_after(before.workload, _SOME_LATE)

    def _queue(self, key: str) -> str:
        workload = self._views.workloads.objects.get(key)
        admission = workload.status.admission if workload is not None else None
        return "" if admission is None else admission.cluster_queue

    def _workload_changed(self, change: Change[Workload]) -> None:
        """Queues workloads whose condition a former leader wrote, those that start, and those whose pods are being moved."""
        namespace, status = change.object.metadata.namespace or "", change.object.status
        if change.type is ChangeType.DELETED:
            self._namespaces[namespace] -= 1
            if not self._namespaces[namespace]:
                del self._namespaces[namespace]
        elif change.old is None:
            self._namespaces[namespace] += 1
            if self._warnings.count(_BY_NAMESPACE, namespace):
                self._pods.wake()  # the warning came first, as when both lists are new
        if change.old is None and is_true(status.conditions, UNSCHEDULABLE):
            self.reconciler.add_after(change.key, _SETTLE)
        elif (
            not self._pods.is_wanted
            and change.type is not ChangeType.DELETED
            and is_running(status)
            and (change.old is None or not is_running(change.old.status))
        ):
            self.reconciler.add_after(change.key, _SOME_LATE)
        elif self._displacer is not None and self._displacer.is_moving(change.key):
            self.reconciler.add(change.key)

    # ---- one workload

    async def _reconcile(self, key: str) -> float | None:
        workload = self._views.workloads.objects.get(key)
        if workload is None or not is_running(workload.status):
            self._forget(key)
            return None
        if not self._pods.has_synced:
            return self._until_late(workload)
        stuck = sorted(self._pods.by_index(_BY_WORKLOAD, key), key=lambda pod: pod.metadata.name)
        before = find_condition(workload.status.conditions, UNSCHEDULABLE)
        reported = before is not None and before.status == "True"
        if not stuck and not reported:
            return None
        soon = await self._displacer.move(workload, stuck) if self._displacer is not None and stuck else None
        later = await self._report(workload, stuck, before if reported else None)
        return min((each for each in (soon, later) if each is not None), default=None)

    def _until_late(self, workload: Workload) -> float | None:
        """Begins the watch of pending pods if the workload's pods are late; returns the seconds until the next look, if any."""
        bound = len(self._ledger.allocations.pods_of(workload.key))
        reported = is_true(workload.status.conditions, UNSCHEDULABLE)
        if bound >= workload.admitted_pods and not reported:
            self._bound.pop(workload.key, None)
            return None
        before, self._bound[workload.key] = self._bound.get(workload.key, 0), bound
        is_late = bound == before if bound else (workload.admitted_at or 0.0) + _ALL_LATE <= self._now()
        if reported or is_late:
            self._bound.clear()
            self._pods.wake()
        return _SETTLE if self._pods.is_wanted else _SOME_LATE

    def _forget(self, key: str) -> None:
        self._reported_at.pop(key, None)
        self._bound.pop(key, None)
        if self._displacer is not None:
            self._displacer.over(key)

    async def _report(self, workload: Workload, stuck: Sequence[UnboundPod], before: Condition | None) -> float | None:
        """Reports the pods, or evicts the workload after the timeout; `before` is the present condition, if True."""
        reported = before is not None
        if (
            reported
            and before is not None
            and stuck
            and (left := self._seconds_until_eviction(workload, before.last_transition_time)) is not None
        ):
            if left > 0:
                await self._write_status(workload, stuck)
                return left
            refusal = _refusal_message(stuck)
            text = f"Pods could not be bound within {self._timeout:.0f} s after their gate was opened: {refusal}"
            await self._evictor.evict(workload, Eviction(EvictedReason.PODS_UNSCHEDULABLE, text), Writer.UNBOUND_PODS)
            return None
        await self._write_status(workload, stuck)
        return self._timeout if stuck and not reported and not workload.of_one_pod else None

    def _was_reported(self, key: str, stuck: Sequence[UnboundPod]) -> bool:
        """Reports whether the same pods were reported less than `_REWORD` seconds ago."""
        pods, now = _pods(stuck), self._now()
        before, at = self._reported_at.get(key, ("", 0.0))
        if not stuck:
            self._reported_at.pop(key, None)
        elif before != pods or at + _REWORD <= now:
            self._reported_at[key] = pods, now
        return bool(stuck) and before == pods and now < at + _REWORD

    def _seconds_until_eviction(self, workload: Workload, since: str | None) -> float | None:
        """Returns the seconds until the workload is evicted, or None if it is not."""
        if self._timeout is None or workload.of_one_pod:
            return None
        return (parse_time(since) or 0.0) + self._timeout - self._now()

    async def _write_status(self, workload: Workload, stuck: Sequence[UnboundPod]) -> None:
        text, generation = _refusal_message(stuck), workload.metadata.generation
        before = find_condition(workload.status.conditions, UNSCHEDULABLE)
        known = before is not None and before.status == "True"
        if self._was_reported(workload.key, stuck) and known:
            return
        moved = not stuck and self._displacer is not None and self._displacer.has_ended_pods(workload.key)
        status = conditions.unschedulable(workload.status, text, self._now(), generation, moved=moved)
        events = (PlannedEvent("PodsUnschedulable", text, "Warning"),) if stuck and not known else ()
        if await self._reports.write(workload, status, *events) is Outcome.WRITTEN and not stuck:
            self._forget(workload.key)


def _refusal_message(stuck: Sequence[UnboundPod]) -> str:
    """Describes the pods with kube-scheduler's message about the first; empty if there are none."""
    return f"{_pods(stuck)}: {stuck[0].refused}" if stuck else ""


def _pods(stuck: Sequence[UnboundPod]) -> str:
    names = listed([pod.metadata.name for pod in stuck], _NAMED)
    count = "1 pod" if len(stuck) == 1 else f"{len(stuck)} pods"
    return f"no node takes {count} after the gate was opened ({names})"
