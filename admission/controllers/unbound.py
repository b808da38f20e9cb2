"""Pods that no node takes after their gate was opened: the Workload reports them, and is evicted whole if they stay unbound.

What lets pods through counts on their binding. A pod from elsewhere may still take the place in between, and a pod may have a
term that no rule here knows; then the stock scheduler says PodScheduled=False, Unschedulable. Such a pod is checked again
after a moment, as it may be bound by then; after a while it gets another place (pod_mover.py). The Workload's condition
PodsUnschedulable lists them with the scheduler's words, and turns False once there are none. If that takes longer than the
settings allow, the workload is evicted and queues again, with the books as they are then. A workload of one plain pod only
tells it: nothing would replace its pod.

The watch shows pods without a node alone, and of those without such a condition only their identity is kept.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from sys import intern
from typing import Final

import msgspec

from admission import metrics
from admission.controllers import conditions
from admission.controllers.cluster_view import Views
from admission.controllers.conditions import is_running
from admission.controllers.evictions import Eviction
from admission.controllers.evictor import Evictor
from admission.controllers.pod_mover import PodMover
from admission.controllers.projection import ProjectedMeta
from admission.controllers.status import patch_status
from api.errors import NotFound
from api.kube.client import Kube
from api.kube.events import EventRecorder, ref_to
from api.kube.informer import Informer
from api.kube.reconcile import Reconciler
from api.kube.resources import PODS, WORKLOADS
from api.kube.store import Change, ChangeType
from api.meta import Condition, find_condition, is_true, parse_time
from api.names import (
    HOSTNAME_LABEL,
    LWS_NAME,
    PODSET_LABEL,
    WORKLOAD_ANNOTATION,
    EvictedReason,
)
from api.workloads import Workload

log = logging.getLogger(__name__)

UNBOUND: Final = "spec.nodeName=,status.phase=Pending"
_BY_WORKLOAD = "workload"
# The scheduler may have looked a moment too early; and many pods of one gang are reported together.
_SETTLE = 1.0
# The scheduler's words change whenever a node does: they are reported again for the same pods only after this time.
_REWORD = 10.0
# How many pods a message names, and how much of what the scheduler says of them.
_NAMED, _SAID = 8, 600


class _Owner(msgspec.Struct, gc=False):
    kind: str = ""
    name: str = ""
    controller: bool | None = None


class _Meta(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    owner_references: tuple[_Owner, ...] = ()


class _Spec(msgspec.Struct, rename="camel", gc=False):
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    scheduling_gates: tuple[dict[str, str], ...] = ()


class _Condition(msgspec.Struct, gc=False):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class _Status(msgspec.Struct, gc=False):
    conditions: tuple[_Condition, ...] = ()


class _Pod(msgspec.Struct, gc=False):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


@dataclass(frozen=True, slots=True)
class UnboundPod:
    """A pod without a node. `refused`: what the scheduler says of it, None while it has not refused it.

    `place`: the pod set and host that it was sent to, None where it was sent to no single host. `owner`: kind and name of what
    controls it, None where that may not replace it alone.
    """

    metadata: ProjectedMeta
    workload: str | None = None
    refused: str | None = None
    place: tuple[str, str] | None = None
    owner: tuple[str, str] | None = None


class UnboundReader:
    """Decodes pods. Raises msgspec's errors."""

    def __init__(self) -> None:
        self._decode = msgspec.json.Decoder(_Pod).decode

    def __call__(self, data: bytes) -> UnboundPod:
        pod = self._decode(data)
        meta = pod.metadata
        identity = ProjectedMeta(meta.name, intern(meta.namespace), meta.uid, meta.resource_version)
        if (
            pod.spec.scheduling_gates
            or meta.deletion_timestamp
            or not (name := meta.annotations.get(WORKLOAD_ANNOTATION))
        ):
            return UnboundPod(identity)
        said = next(
            (
                c.message
                for c in pod.status.conditions
                if (c.type, c.status, c.reason) == ("PodScheduled", "False", "Unschedulable")
            ),
            None,
        )
        if said is None:
            return UnboundPod(identity)
        host, pod_set = pod.spec.node_selector.get(HOSTNAME_LABEL), meta.labels.get(PODSET_LABEL)
        place = (pod_set, host) if host and pod_set else None
        return UnboundPod(identity, intern(f"{meta.namespace}/{name}"), said[:_SAID], place, _owner(meta))


def _owner(meta: _Meta) -> tuple[str, str] | None:
    """What makes a successor of the pod; the groups of a LeaderWorkerSet are made anew whole."""
    if LWS_NAME in meta.labels:
        return None
    return next(((owner.kind, owner.name) for owner in meta.owner_references if owner.controller), None)


def unbound_informer(kube: Kube) -> Informer[UnboundPod]:
    """The pods that belong to a pod set and have no node."""
    return Informer(kube, PODS, UnboundReader(), label_selector=PODSET_LABEL, field_selector=UNBOUND)


class UnboundController:
    """Tells which pods no node takes, and evicts workloads of which some stay so for `timeout` seconds (None: never)."""

    def __init__(
        self,
        kube: Kube,
        views: Views,
        pods: Informer[UnboundPod],
        evictor: Evictor,
        recorder: EventRecorder,
        timeout: float | None,
        now: Callable[[], float] = time.time,
        *,
        mover: PodMover | None = None,
    ) -> None:
        self._kube, self._views, self._pods, self._evictor = kube, views, pods, evictor
        self._recorder, self._timeout, self._now = recorder, timeout, now
        self._worded: dict[str, tuple[str, float]] = {}
        self._mover = mover
        self.reconciler = Reconciler("pods that no node takes", self._reconcile, workers=1)
        pods.add_index(_BY_WORKLOAD, lambda pod: [pod.workload] if pod.workload else [])
        pods.add_handler(self._pod_changed)
        views.workloads.add_handler(self._workload_changed)

    # ---- what wakes it

    def _pod_changed(self, change: Change[UnboundPod]) -> None:
        before = change.old.workload if change.old else None
        refused = None if change.type is ChangeType.DELETED else change.object.workload
        if refused is not None and before is None:
            metrics.UNSCHEDULABLE.labels(self._queue(refused)).inc()
        for key in {before, refused, change.object.workload} - {None}:
            self.reconciler.add_after(key or "", _SETTLE)

    def _queue(self, key: str) -> str:
        workload = self._views.workloads.objects.get(key)
        admission = workload.status.admission if workload is not None else None
        return "" if admission is None else admission.cluster_queue

    def _workload_changed(self, change: Change[Workload]) -> None:
        """A leader finds the conditions of the one before."""
        if change.old is None and is_true(change.object.status.conditions, conditions.UNSCHEDULABLE):
            self.reconciler.add_after(change.key, _SETTLE)
        elif self._mover is not None and self._mover.is_moving(change.key):
            self.reconciler.add(change.key)

    # ---- one workload

    async def _reconcile(self, key: str) -> float | None:
        workload = self._views.workloads.objects.get(key)
        if workload is None or not is_running(workload.status):
            self._forget(key)
            return None
        stuck = sorted(self._pods.by_index(_BY_WORKLOAD, key), key=lambda pod: pod.metadata.name)
        before = find_condition(workload.status.conditions, conditions.UNSCHEDULABLE)
        reported = before is not None and before.status == "True"
        if not stuck and not reported:
            return None
        soon = await self._mover.move(workload, stuck) if self._mover is not None and stuck else None
        later = await self._report(workload, stuck, before if reported else None)
        return min((each for each in (soon, later) if each is not None), default=None)

    def _forget(self, key: str) -> None:
        self._worded.pop(key, None)
        if self._mover is not None:
            self._mover.over(key)

    async def _report(self, workload: Workload, stuck: Sequence[UnboundPod], before: Condition | None) -> float | None:
        """Tells, or evicts the workload when the time is up; `before`: what it is told already, if that is so."""
        reported = before is not None
        if (
            reported
            and before is not None
            and stuck
            and (left := self._left(workload, before.last_transition_time)) is not None
        ):
            if left > 0:
                await self._tell(workload, stuck)
                return left
            text = f"Pods could not be bound within {self._timeout:.0f} s after their gate was opened: {_text(stuck)}"
            await self._evictor.evict(workload, Eviction(EvictedReason.PODS_UNSCHEDULABLE, text))
            return None
        await self._tell(workload, stuck)
        return self._timeout if stuck and not reported and not workload.of_one_pod else None

    def _again(self, key: str, stuck: Sequence[UnboundPod]) -> bool:
        """Whether the same pods were reported a moment ago."""
        pods, now = _pods(stuck), self._now()
        before, at = self._worded.get(key, ("", 0.0))
        if not stuck:
            self._worded.pop(key, None)
        elif before != pods or at + _REWORD <= now:
            self._worded[key] = pods, now
        return bool(stuck) and before == pods and now < at + _REWORD

    def _left(self, workload: Workload, since: str | None) -> float | None:
        """Seconds until it goes back; None: it stays."""
        if self._timeout is None or workload.of_one_pod:
            return None
        return (parse_time(since) or 0.0) + self._timeout - self._now()

    async def _tell(self, workload: Workload, stuck: Sequence[UnboundPod]) -> None:
        text, generation = _text(stuck), workload.metadata.generation
        before = find_condition(workload.status.conditions, conditions.UNSCHEDULABLE)
        known = before is not None and before.status == "True"
        if self._again(workload.key, stuck) and known:
            return
        moved = not stuck and self._mover is not None and self._mover.has_ended_pods(workload.key)
        status = conditions.unschedulable(workload.status, text, self._now(), generation, moved=moved)
        if status is workload.status:
            return
        try:
            answer = await patch_status(self._kube, workload, status)
        except NotFound:
            log.debug("already gone", extra={"workload": workload.key})
            return
        self._views.workloads.observe(answer)
        if not stuck:
            self._forget(workload.key)
        if stuck and not known:
            self._recorder.record(ref_to(WORKLOADS, answer), "Warning", "PodsUnschedulable", text)


def _text(stuck: Sequence[UnboundPod]) -> str:
    """Which pods, and why: the scheduler's words of the first of them. Empty where there are none."""
    return f"{_pods(stuck)}: {stuck[0].refused}" if stuck else ""


def _pods(stuck: Sequence[UnboundPod]) -> str:
    names = ", ".join(pod.metadata.name for pod in stuck[:_NAMED])
    more = f" and {len(stuck) - _NAMED} more" if len(stuck) > _NAMED else ""
    count = "1 pod" if len(stuck) == 1 else f"{len(stuck)} pods"
    return f"no node takes {count} after the gate was opened ({names}{more})"
