"""Counts the lifecycle stages of workloads from the watch: reserved, admitted, ready, evicted, released, finished.

Each stage counts once, when its condition changes, whichever process changed it, and only while this process leads. Counters
that the writers keep per ClusterQueue (reservations, admissions, evictions) are not counted here. Times are those of the
conditions, in whole seconds. The series of a queue or cohort are removed with it (owned_series.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from admission.controllers.state.active_conditions import cohorts_above
from admission.controllers.watch.cluster_view import ClusterView
from admission.metrics import lives as metrics
from api.kube import owned_series
from api.kube.informers.store import Change, ChangeType
from api.kube.owned_series import Living, OwnerKind
from api.meta import Condition, find_condition, parse_time
from api.names import ADMITTED, EVICTED, FINISHED, PODS_READY, QUOTA_RESERVED, REQUEUED, PodsReadyReason
from api.workloads import Workload

States = dict[str, Condition]
"""The conditions that are True, by type."""


class LifecycleMetrics:
    """Counts lifecycle stages; `by_local_queue` adds metrics per LocalQueue."""

    def __init__(
        self, views: ClusterView, *, by_local_queue: bool = True, now: Callable[[], float] = time.time
    ) -> None:
        self._views, self._by_local_queue, self._now = views, by_local_queue, now
        self._counting = False
        views.workloads.add_handler(self._changed)

    async def run(self) -> None:
        """Counts until cancelled."""
        self._counting = True
        try:
            await owned_series.keep(lambda: living(self._views))
        finally:
            self._counting = False

    def _changed(self, change: Change[Workload]) -> None:
        if not self._counting or change.old is None or change.type is ChangeType.DELETED:
            return
        was, now = _holding(change.old), _holding(change.object)
        admission = change.object.status.admission or change.old.status.admission
        if was.keys() == now.keys() or admission is None:
            return
        self._turned(change.object, admission.cluster_queue, was, now)
        if EVICTED in now and EVICTED not in was:
            self._evicted(change.object, change.old, admission.cluster_queue, was)

    def _turned(self, workload: Workload, queue: str, was: States, now: States) -> None:
        labels, at = (queue, self._local(workload), _priority(workload)), self._now()
        new = now.keys() - was.keys()
        if QUOTA_RESERVED in new:
            metrics.RESERVED.add_local(*labels[1:])
            metrics.RESERVED_WAIT.add_local(*labels[1:], _spent(_queued(workload), at))
        if ADMITTED in new:
            metrics.ADMITTED.add_local(*labels[1:])
            metrics.ADMITTED_WAIT.add(*labels, _spent(_queued(workload), at))
            metrics.CHECKS_WAIT.add(*labels, _spent(_since(now, QUOTA_RESERVED), at))
            for cohort in self._cohorts(queue):
                metrics.COHORT_ADMITTED.labels(cohort, labels[2]).inc()
        if PODS_READY in new and now[PODS_READY].reason == PodsReadyReason.STARTED:
            metrics.READY_WAIT.add(*labels, _spent(_queued(workload), at))
            metrics.ADMITTED_READY.add(*labels, _spent(_since(now, ADMITTED), at))
        if FINISHED in new:
            metrics.FINISHED.add(*labels)
            if ADMITTED in was:
                metrics.EXECUTION.add(*labels, _spent(_since(was, ADMITTED), at))
        if EVICTED in now and QUOTA_RESERVED in was and QUOTA_RESERVED not in now:
            reason = now[EVICTED].reason.partition("DueTo")[0]
            metrics.EVICTION_LATENCY.labels(queue, reason).observe(_spent(_since(now, EVICTED), at))

    def _evicted(self, workload: Workload, old: Workload, queue: str, was: States) -> None:
        local, why = self._local(workload), _eviction(workload, old)
        if local is not None:
            metrics.LOCAL_EVICTED.labels(*local, *why, _priority(workload)).inc()
        if PODS_READY in was:
            metrics.READY_TO_EVICTED.labels(queue, *why).observe(_spent(_since(was, PODS_READY), self._now()))

    def _local(self, workload: Workload) -> metrics.Local:
        return (workload.spec.queue_name, workload.metadata.namespace or "") if self._by_local_queue else None

    def _cohorts(self, queue: str) -> list[str]:
        cluster_queue = self._views.cluster_queues.objects.get(queue)
        return cohorts_above(cluster_queue.spec.cohort_name, self._views.cohorts.objects) if cluster_queue else []


def living(views: ClusterView) -> Living:
    """Returns the existing queues and cohorts by kind, including cohorts that only their members name."""
    queues, cohorts = views.cluster_queues.objects, views.cohorts.objects
    named = {queue.spec.cohort_name for queue in queues.values()}.union(cohorts)
    return {
        OwnerKind.CLUSTER_QUEUE: queues.keys(),
        OwnerKind.PREEMPTING_QUEUE: queues.keys(),
        OwnerKind.LOCAL_QUEUE: views.local_queues.objects.keys(),
        OwnerKind.COHORT: {above for name in named for above in cohorts_above(name, cohorts)},
    }


def _holding(workload: Workload) -> States:
    return {condition.type: condition for condition in workload.status.conditions if condition.status == "True"}


def _priority(workload: Workload) -> str:
    ref = workload.spec.priority_class_ref
    return ref.name if ref else ""


def _eviction(workload: Workload, old: Workload) -> tuple[str, str]:
    """Returns reason and cause of the latest eviction: those whose count increased."""
    before, after = (
        {(c.reason, c.underlying_cause): c.count for c in stats.evictions} if stats else {}
        for stats in (old.status.scheduling_stats, workload.status.scheduling_stats)
    )
    return next((why for why, count in after.items() if count > before.get(why, 0)), ("", ""))


def _since(states: States, kind: str) -> float | None:
    return parse_time(states[kind].last_transition_time) if kind in states else None


def _queued(workload: Workload) -> float | None:
    """Returns since when the workload has queued: its last requeue, else its creation."""
    again = find_condition(workload.status.conditions, REQUEUED)
    came_back = parse_time(again.last_transition_time) if again is not None and again.status == "True" else None
    return came_back or parse_time(workload.metadata.creation_timestamp)


def _spent(since: float | None, now: float) -> float:
    return 0.0 if since is None else max(0.0, now - since)
