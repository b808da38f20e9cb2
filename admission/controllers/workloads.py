"""The Workload reconciler: what `lifecycle.step` says of each Workload, written to the API server.

Woken by the Workload itself and by whatever its situation depends on. It also lets go of Workloads that nobody owns: their
finalizer is taken out when they are deleted, their reservation when they are evicted, since no job will do it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from admission.controllers import conditions, honoured, lifecycle
from admission.controllers.status import patch_status
from admission.controllers.views import BY_CLUSTER_QUEUE, BY_QUEUE, Views
from admission.metrics import EVICTED as EVICTED_METRIC
from api.errors import NotFound
from api.kube.client import Kube, PatchKind
from api.kube.events import EventRecorder, ref_to
from api.kube.reconcile import Reconciler
from api.kube.resources import WORKLOADS
from api.kube.store import Change, ChangeType
from api.meta import is_true
from api.names import EVICTED, FINISHED, IN_USE_FINALIZER, QUOTA_RESERVED
from api.queues import ClusterQueue, LocalQueue
from api.workloads import Workload

log = logging.getLogger(__name__)


class WorkloadController:
    """Keeps each Workload's status in line with its situation while it runs."""

    def __init__(
        self,
        kube: Kube,
        views: Views,
        recorder: EventRecorder,
        misfit: Callable[[Workload], str | None],
        workers: int,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._kube, self._views, self._recorder, self._misfit, self._now = kube, views, recorder, misfit, now
        self._reconciler = Reconciler("workloads", self._reconcile, workers=workers)
        views.workloads.add_handler(self._workload_changed)
        views.local_queues.add_handler(self._local_queue_changed)
        views.cluster_queues.add_handler(self._cluster_queue_changed)
        views.flavors.add_handler(lambda _: self._all_waiting())
        views.topologies.add_handler(lambda _: self._all_waiting())
        views.checks.add_handler(lambda _: self._all_waiting())
        views.cohorts.add_handler(lambda _: self._all_waiting())
        views.namespaces.add_handler(lambda _: self._all_waiting())

    async def run(self) -> None:
        """Until cancelled."""
        await self._reconciler.run()

    # ---- what wakes it

    def _workload_changed(self, change: Change[Workload]) -> None:
        if change.type is not ChangeType.DELETED and not _settled(change.object):
            self._reconciler.add(change.key)

    def _local_queue_changed(self, change: Change[LocalQueue]) -> None:
        if change.old is None or change.type is ChangeType.DELETED or change.old.spec != change.object.spec:
            self._add(self._views.workloads.by_index(BY_QUEUE, change.key))

    def _cluster_queue_changed(self, change: Change[ClusterQueue]) -> None:
        if change.old is not None and change.type is not ChangeType.DELETED and change.old.spec == change.object.spec:
            return
        for local in self._views.local_queues.by_index(BY_CLUSTER_QUEUE, change.key):
            self._add(self._views.workloads.by_index(BY_QUEUE, local.key))

    def _all_waiting(self) -> None:
        self._add(w for w in self._views.workloads.objects.values() if not is_true(w.status.conditions, QUOTA_RESERVED))

    def _add(self, workloads: Iterable[Workload]) -> None:
        for workload in workloads:
            if not _settled(workload):
                self._reconciler.add(workload.key)

    # ---- one Workload

    async def _reconcile(self, key: str) -> float | None:
        workload = self._views.workloads.objects.get(key)
        if workload is None:
            return None
        owned = bool(workload.metadata.owner_references)
        if workload.metadata.deletion_timestamp and not owned:
            await self._let_go(workload)
            return None
        result = lifecycle.step(workload, self._views.situation(workload, self._misfit(workload)), self._now())
        status = result.status
        if is_true(status.conditions, EVICTED) and is_true(status.conditions, QUOTA_RESERVED) and not owned:
            status = conditions.released(status, self._now(), workload.metadata.generation)
        noted = honoured.noted(
            status.conditions, honoured.of_workload(workload), workload.metadata.generation, self._now()
        )
        if noted is not status.conditions:
            status = status.model_copy(update={"conditions": noted})
        if status is not workload.status:
            self._views.workloads.observe(await patch_status(self._kube, workload, status))
            self._tell(workload, result)
        return result.again_in

    def _tell(self, workload: Workload, result: lifecycle.Step) -> None:
        for occurrence in result.occurrences:
            self._recorder.record(ref_to(WORKLOADS, workload), occurrence.type, occurrence.reason, occurrence.message)
            if occurrence.reason.startswith("EvictedDueTo") and workload.status.admission is not None:
                reason = occurrence.reason.removeprefix("EvictedDueTo")
                ref = workload.spec.priority_class_ref
                queue = workload.status.admission.cluster_queue
                EVICTED_METRIC.labels(queue, reason, "", ref.name if ref else "").inc()

    async def _let_go(self, workload: Workload) -> None:
        finalizers = [name for name in workload.metadata.finalizers if name != IN_USE_FINALIZER]
        if len(finalizers) == len(workload.metadata.finalizers):
            return
        meta = workload.metadata
        body = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": finalizers}}
        try:
            await self._kube.patch(WORKLOADS, meta.name, body, meta.namespace, kind=PatchKind.MERGE)
        except NotFound:
            log.debug("already gone", extra={"workload": workload.key})


def _settled(workload: Workload) -> bool:
    """Whether nothing can follow: finished and not being deleted."""
    return is_true(workload.status.conditions, FINISHED) and not workload.metadata.deletion_timestamp
