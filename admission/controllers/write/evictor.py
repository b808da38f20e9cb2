"""Writes evictions of every origin to the API server, with events and metrics.

The reconciler of workloads and the scheduler call it. The job controllers then stop the job, and its quota is released only
once its pods are gone (jobs/plan/job_plan.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from admission.controllers.state.condition_table import Writer
from admission.controllers.state.evictions import Eviction, evicted
from admission.controllers.watch.cluster_view import Views
from admission.controllers.write.status import patch_status
from admission.metrics import lives
from api.kube.client import Kube
from api.kube.events import EventRecorder, ref_to
from api.kube.resources import WORKLOADS
from api.workloads import Workload, WorkloadStatus


class Evictor:
    """Writes evictions and records their events and metrics."""

    def __init__(self, kube: Kube, views: Views, recorder: EventRecorder, now: Callable[[], float] = time.time) -> None:
        self._kube, self._views, self._recorder, self._now = kube, views, recorder, now

    async def evict(self, workload: Workload, eviction: Eviction, by: Writer) -> Workload:
        """Evicts the Workload in the observed version, in the name of `by`. Raises Conflict, NotFound and other ApiErrors."""
        status = evicted(workload.status, eviction, self._now(), workload.metadata.generation)
        return await self.write(workload, status, eviction, by)

    async def write(self, workload: Workload, status: WorkloadStatus, eviction: Eviction, by: Writer) -> Workload:
        """Evicts like `evict`, with a status that has further changes."""
        answer = await patch_status(self._kube, workload, status, by)
        self._views.workloads.observe(answer)
        self._record_events(workload, answer, eviction)
        return answer

    def _record_events(self, before: Workload, after: Workload, eviction: Eviction) -> None:
        about = ref_to(WORKLOADS, after)
        self._recorder.record(about, "Normal", eviction.event, eviction.message)
        if eviction.preemption:
            self._recorder.record(about, "Normal", "Preempted", eviction.event_message or eviction.message)
        if before.status.admission is None:
            return
        ref = after.spec.priority_class_ref
        labels = (before.status.admission.cluster_queue, eviction.reason, eviction.cause, ref.name if ref else "")
        lives.EVICTED.labels(*labels).inc()
        if _times(after.status, eviction) == 1:
            lives.EVICTED_ONCE.labels(*labels).inc()


def _times(status: WorkloadStatus, eviction: Eviction) -> int:
    """Returns how often the workload was evicted for the eviction's reason and cause."""
    counts = status.scheduling_stats.evictions if status.scheduling_stats else ()
    wanted = (eviction.reason, eviction.cause)
    return next((c.count for c in counts if (c.reason, c.underlying_cause) == wanted), 0)
