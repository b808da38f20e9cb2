"""Ends pods that run beyond what was admitted, and says so.

The webhook and the ungater let no more of a workload's pods start than were admitted. What slips through all the same (pods
whose labels were changed, so that their Job replaced them; a gate that was removed while the webhook was away) is charged for
what it uses (engine/quota/bound.py), so nobody else starts on it. Kubernetes lets nobody put a gate back. So pods beyond the
admission that are still there after `PATIENCE` are deleted: first those that no controller owns, then the youngest. An event
and the condition PodsBeyondAdmission on the Workload tell it, and a metric counts them.

Pods count by the Workload and the pod set that they name. Those that are being deleted already, and those on nodes that do not
respond, are left alone; so are pods of a Workload that has finished or is being evicted, whose owner ends them. A workload is
looked at `PATIENCE` after a pod of it was bound beyond the number that was admitted, or after it was admitted for fewer pods or
lost its admission while pods are bound; one of several pod sets `PATIENCE` after any pod of it was bound, since one set may
have too many pods while another one lacks some.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from admission.controllers.state import conditions
from admission.controllers.state.actions import PlannedEvent
from admission.controllers.state.condition_table import Writer
from admission.controllers.watch.cluster_view import Views
from admission.controllers.watch.projection import ProjectedPod
from admission.controllers.write.report_writer import ReportWriter
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import BoundPod
from admission.metrics import controller as metrics
from api.errors import Conflict, NotFound
from api.kube.client import Kube
from api.kube.events import EventRecorder, ref_to
from api.kube.informers.store import Change, ChangeType
from api.kube.reconcile import Reconciler
from api.kube.resources import PODS, WORKLOADS
from api.meta import is_true
from api.names import FINISHED
from api.workloads import Workload

log = logging.getLogger(__name__)

PATIENCE: Final = 15.0
"""Seconds that the owner of surplus pods has to end them: a job that shrank, a job that was stopped."""
GRACE: Final = 30
"""Seconds that a surplus pod has at most to end; less if the pod allows itself less."""
_AGAIN: Final = 1.0
"""Seconds after which a workload is looked at again whose surplus pods were deleted, to say that no more pods run."""
_NAMED: Final = 8
"""The number of pods that a message names."""


class _Owner(msgspec.Struct, gc=False):
    controller: bool | None = None


class _Meta(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    uid: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    owner_references: tuple[_Owner, ...] = ()


class _Spec(msgspec.Struct, rename="camel", gc=False):
    termination_grace_period_seconds: int = GRACE


class _Status(msgspec.Struct, gc=False):
    phase: str = ""


class _Pod(msgspec.Struct, gc=False):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def stays(self) -> bool:
        """Whether the pod has not ended and is not being deleted."""
        return self.metadata.deletion_timestamp is None and self.status.phase not in ("Succeeded", "Failed")


class SurplusPodsController:
    """Ends pods beyond the admission while it runs; `wall` returns epoch seconds."""

    def __init__(
        self,
        kube: Kube,
        views: Views,
        ledger: Ledger,
        recorder: EventRecorder,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._kube, self._views, self._ledger, self._recorder, self._wall = kube, views, ledger, recorder, wall
        self._reports = ReportWriter(kube, Writer.SURPLUS_PODS, recorder, views.workloads.observe)
        self._since: dict[str, float] = {}
        self.reconciler = Reconciler("pods beyond the admission", self._reconcile, workers=1)
        views.pods.add_handler(self._pod_changed)
        views.workloads.add_handler(self._workload_changed)

    # ---- watch handlers, after those of the feed

    def _pod_changed(self, change: Change[ProjectedPod]) -> None:
        """Looks at a workload when one of its pods is bound: this is frequent, so only numbers are compared."""
        bound = None if change.type is ChangeType.DELETED else change.object.bound
        if bound is None or bound.workload is None or change.object.deleting:
            return
        pod = self._ledger.allocations.pods.get(bound.key)
        if pod is not None and pod.workload is not None:
            self._look(pod.workload)

    def _workload_changed(self, change: Change[Workload]) -> None:
        if change.type is not ChangeType.DELETED:
            self._look(change.key)

    def _look(self, key: str) -> None:
        admitted, bound = self._admitted(key), self._ledger.bound.pods_bound(key)
        if bound > sum(admitted.values()) or (len(admitted) > 1 and bound > min(admitted.values())):
            self.reconciler.add_after(key, PATIENCE)

    # ---- one workload

    def _admitted(self, key: str) -> dict[str, int]:
        """Returns the admitted number of pods by pod set."""
        admission = self._ledger.admission(key)
        return {} if admission is None else {got.name: got.count for got in admission.pod_sets}

    async def _reconcile(self, key: str) -> float | None:
        workload = self._views.workloads.objects.get(key)
        if workload is None or is_true(workload.status.conditions, FINISHED) or self._ledger.is_evicted(key):
            self._since.pop(key, None)
            return None
        surplus = self._surplus(key)
        if not surplus:
            self._since.pop(key, None)
            await self._tell(workload, "")
            return None
        left = self._since.setdefault(key, self._wall()) + PATIENCE - self._wall()
        await self._tell(workload, _text(surplus, self._admitted(key)))
        if left > 0:
            return left
        return _AGAIN if await self._end(workload, surplus) else PATIENCE

    def _surplus(self, key: str) -> dict[str, list[BoundPod]]:
        """Returns the pods of each pod set that has more than were admitted: all of its pods that stay."""
        admitted = self._admitted(key)
        only = next(iter(admitted)) if len(admitted) == 1 else ""
        surplus: dict[str, list[BoundPod]] = {}
        for pod in self._ledger.bound.staying(key):
            seen = self._views.pods.objects.get(pod.key)
            if seen is not None and not seen.deleting:
                surplus.setdefault(only if pod.pod_set is None else pod.pod_set, []).append(pod)
        return {name: pods for name, pods in sorted(surplus.items()) if len(pods) > admitted.get(name, 0)}

    async def _tell(self, workload: Workload, text: str) -> None:
        now, generation = self._wall(), workload.metadata.generation
        status = conditions.beyond_admission(workload.status, text, now, generation)
        events = (PlannedEvent("PodsBeyondAdmission", text, "Warning"),) if text else ()
        await self._reports.write(workload, status, *events)

    async def _end(self, workload: Workload, surplus: dict[str, list[BoundPod]]) -> bool:
        """Deletes surplus pods. Reports whether there were any."""
        ended = False
        namespace, admitted = workload.metadata.namespace or "", self._admitted(workload.key)
        page = await self._kube.list(PODS, namespace, decode=_Pod)
        known = {f"{namespace}/{pod.metadata.name}": pod for pod in page.items if pod.stays}
        for name, pods in surplus.items():
            there = [known[pod.key] for pod in pods if pod.key in known]
            number = len(there) - admitted.get(name, 0)
            for pod in _to_go(there)[: max(0, number)]:
                await self._delete(workload, pod, namespace)
                ended = True
        return ended

    async def _delete(self, workload: Workload, pod: _Pod, namespace: str) -> None:
        meta, seconds = pod.metadata, min(GRACE, pod.spec.termination_grace_period_seconds)
        try:
            await self._kube.delete(PODS, meta.name, namespace, uid=meta.uid, grace_seconds=seconds)
        except (NotFound, Conflict):
            return
        payer = self._ledger.bound.payer_of(workload.key)
        metrics.SURPLUS_PODS.labels(payer.cluster_queue if payer is not None else "").inc()
        text = f"Pod {meta.name} was ended: more pods ran than were admitted"
        self._recorder.record(ref_to(WORKLOADS, workload), "Warning", "SurplusPodEnded", text)
        log.warning("surplus pod ended", extra={"workload": workload.key, "pod": f"{namespace}/{meta.name}"})


def _to_go(pods: Iterable[_Pod]) -> list[_Pod]:
    """Returns the pods in the order in which they are ended: those without a controller first, then the youngest."""
    by_name = sorted(pods, key=lambda pod: pod.metadata.name)
    youngest = sorted(by_name, key=lambda pod: pod.metadata.creation_timestamp, reverse=True)
    return sorted(youngest, key=lambda pod: any(owner.controller for owner in pod.metadata.owner_references))


def _text(surplus: dict[str, list[BoundPod]], admitted: dict[str, int]) -> str:
    counts = Counter({name: len(pods) for name, pods in surplus.items()})
    parts = [f"{count} pods of pod set {name or '(none)'} run, {admitted.get(name, 0)} were admitted" for name, count in
             sorted(counts.items())[:_NAMED]]  # fmt: skip
    more = f"; and {len(counts) - _NAMED} more pod sets" if len(counts) > _NAMED else ""
    return f"{'; '.join(parts)}{more}. Those beyond the admission are ended"
