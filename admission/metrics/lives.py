"""Metrics of a workload's lifecycle by ClusterQueue and LocalQueue: number of workloads per stage, and durations.

The names are those that Kueue's dashboards query. Those who write an admission or an eviction (controllers/write) count it by
ClusterQueue; controllers/report/lifecycle_metrics.py sets all others from what is observed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from prometheus_client import Counter, Histogram

from api.kube.owned_series import owned

# Kueue's buckets: 1, 2.5, 5, 10, then doubling; two more for durations of days
WAIT: Final = (1, 2.5, 5, *(10 * 2**n for n in range(11)))
_LONG: Final = (*WAIT, 10 * 2**11, 10 * 2**12)

_QUEUE: Final = ("cluster_queue", "priority_class")
_LOCAL: Final = ("name", "namespace", "priority_class")
_EVICTION: Final = ("reason", "underlying_cause")

Local = tuple[str, str] | None
"""Name and namespace of a LocalQueue; None if its metrics are off."""


class Count:
    """A counter by ClusterQueue (`kueue_...`) and by LocalQueue (`kueue_local_queue_...`)."""

    def __init__(self, name: str, text: str) -> None:
        self._whole = owned(Counter, f"kueue_{name}", text, _QUEUE)
        self._local = owned(Counter, f"kueue_local_queue_{name}", text, _LOCAL)

    def add(self, queue: str, local: Local, priority: str) -> None:
        """Adds one workload."""
        self.add_whole(queue, priority)
        self.add_local(local, priority)

    def add_whole(self, queue: str, priority: str) -> None:
        """Adds one workload by ClusterQueue alone, for those who write what is counted."""
        self._whole.labels(queue, priority).inc()

    def add_local(self, local: Local, priority: str) -> None:
        """Adds one workload by LocalQueue alone."""
        if local is not None:
            self._local.labels(*local, priority).inc()


class Time:
    """A histogram of seconds by ClusterQueue and LocalQueue; see `Count`."""

    def __init__(self, name: str, text: str, buckets: Sequence[float] = WAIT) -> None:
        self._whole = owned(Histogram, f"kueue_{name}", text, _QUEUE, buckets=buckets)
        self._local = owned(Histogram, f"kueue_local_queue_{name}", text, _LOCAL, buckets=buckets)

    def add(self, queue: str, local: Local, priority: str, seconds: float) -> None:
        """Adds one duration."""
        self.add_whole(queue, priority, seconds)
        self.add_local(local, priority, seconds)

    def add_whole(self, queue: str, priority: str, seconds: float) -> None:
        """Adds one duration by ClusterQueue alone, for those who write what is timed."""
        self._whole.labels(queue, priority).observe(seconds)

    def add_local(self, local: Local, priority: str, seconds: float) -> None:
        """Adds one duration by LocalQueue alone."""
        if local is not None:
            self._local.labels(*local, priority).observe(seconds)


RESERVED = Count("quota_reserved_workloads", "Workloads that reserved quota.")
RESERVED_WAIT = Time("quota_reserved_wait_time_seconds", "Seconds from queueing to the quota reservation.")
ADMITTED = Count("admitted_workloads", "Workloads admitted.")
ADMITTED_WAIT = Time("admission_wait_time_seconds", "Seconds from queueing to the admission.", _LONG)
CHECKS_WAIT = Time("admission_checks_wait_time_seconds", "Seconds from the quota reservation to the admission.")
READY_WAIT = Time("ready_wait_time_seconds", "Seconds from queueing until all pods were ready.")
ADMITTED_READY = Time("admitted_until_ready_wait_time_seconds", "Seconds from the admission until all pods were ready.")
FINISHED = Count("finished_workloads", "Workloads that finished.")
EXECUTION = Time("execution_time_seconds", "Seconds from the admission to the end.", _LONG)

EVICTED = owned(
    Counter,
    "kueue_evicted_workloads",
    "Workloads evicted.",
    ("cluster_queue", "reason", "underlying_cause", "priority_class"),
)
EVICTED_ONCE = owned(
    Counter,
    "kueue_evicted_workloads_once",
    "Workloads evicted for this reason and cause for the first time.",
    ("cluster_queue", "reason", "underlying_cause", "priority_class"),
)
PREEMPTED = owned(
    Counter,
    "kueue_preempted_workloads",
    "Workloads preempted by others.",
    ("preempting_cluster_queue", "reason"),
)
LOCAL_EVICTED = owned(
    Counter, "kueue_local_queue_evicted_workloads", "Workloads evicted.", (*_LOCAL[:2], *_EVICTION, "priority_class")
)
READY_TO_EVICTED = owned(
    Histogram,
    "kueue_pods_ready_to_evicted_time_seconds",
    "Seconds from when all pods were ready to the eviction.",
    ("cluster_queue", *_EVICTION),
    buckets=_LONG,
)
EVICTION_LATENCY = owned(
    Histogram,
    "kueue_workload_eviction_latency_seconds",
    "Seconds from the eviction until the quota was released.",
    ("cluster_queue", "reason"),
    buckets=WAIT,
)
CREATION_LATENCY = Histogram(
    "kueue_workload_creation_latency_seconds",
    "Seconds from the creation of a job to that of its Workload.",
    ("job_kind",),
    buckets=tuple(0.01 * 2**n for n in range(11)),
)
COHORT_ADMITTED = owned(
    Counter,
    "kueue_cohort_subtree_admitted_workloads",
    "Workloads admitted in the cohort's subtree.",
    ("cohort", "priority_class"),
)
