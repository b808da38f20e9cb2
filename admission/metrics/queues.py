"""Gauges of ClusterQueues, LocalQueues and Cohorts, with the names that Kueue's dashboards query.

controllers/report/gauges.py sets them, and removes those of deleted objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from prometheus_client import REGISTRY, Gauge
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class _Nameless(Collector):
    """A gauge named like a counter without `_total`, which the registry would refuse as a duplicate."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge

    def describe(self) -> Iterable[Metric]:
        """Returns no names, so that the registry finds no duplicate."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Returns the gauge's samples."""
        return self._gauge.collect()


def _gauge_named_like_counter(name: str, text: str, labels: Sequence[str]) -> Gauge:
    gauge = Gauge(name, text, labels, registry=None)
    REGISTRY.register(_Nameless(gauge))
    return gauge


_CQ: Final = ("cluster_queue",)
_LQ: Final = ("name", "namespace")
_QUOTA: Final = ("cohort", "cluster_queue", "flavor", "resource")

PENDING = Gauge("kueue_pending_workloads", "Pending workloads.", (*_CQ, "status"))
CLASSES = Gauge("kueue_pending_scheduling_hashes", "Classes of equivalent pending workloads.", (*_CQ, "status"))
RESERVING = Gauge("kueue_reserving_active_workloads", "Workloads with reserved quota, not finished.", _CQ)
ADMITTED_ACTIVE = Gauge("kueue_admitted_active_workloads", "Admitted workloads, not finished.", _CQ)
FINISHED_KEPT = _gauge_named_like_counter(
    "kueue_finished_workloads", "Finished Workloads that are not deleted yet.", _CQ
)
UNADMITTED = Gauge(
    "kueue_unadmitted_workloads",
    "Workloads that are neither admitted nor finished, by reason.",
    (*_CQ, "reason", "underlying_cause"),
)
CANNOT_RUN = Gauge(
    "stowage_workloads_cannot_run", "Waiting workloads that would not fit if no other workload ran.", _CQ
)
FLAVOR_OF = Gauge(
    "stowage_cluster_queue_flavor", "Always 1; the labels give the flavors that a ClusterQueue names.", (*_CQ, "flavor")
)
WITHOUT_QUEUE = Gauge(
    "stowage_workloads_without_queue", "Waiting workloads that name a LocalQueue that does not exist.", ("namespace",)
)
STATUS = Gauge("kueue_cluster_queue_status", "1 for the present status, 0 for others.", (*_CQ, "status"))
INFO = Gauge(
    "kueue_cluster_queue_info", "Always 1; the labels give the queue's cohorts.", (*_CQ, "parent_cohort", "root_cohort")
)
SHARE = Gauge("kueue_cluster_queue_weighted_share", "Borrowed quota relative to the weight.", (*_CQ, "cohort"))

RESERVATION = Gauge("kueue_cluster_queue_resource_reservation", "Reserved quota.", _QUOTA)
USAGE = Gauge("kueue_cluster_queue_resource_usage", "Quota used by admitted workloads.", _QUOTA)
NOMINAL = Gauge("kueue_cluster_queue_nominal_quota", "Nominal quota.", _QUOTA)
BORROWING = Gauge("kueue_cluster_queue_borrowing_limit", "Borrowing limit.", _QUOTA)
LENDING = Gauge("kueue_cluster_queue_lending_limit", "Lending limit.", _QUOTA)
PENDING_RESOURCE = Gauge(
    "kueue_cluster_queue_resource_pending", "Requests of all pending workloads.", (*_CQ, "resource")
)

COHORT_SHARE = Gauge("kueue_cohort_weighted_share", "Borrowed quota relative to the weight.", ("cohort",))
COHORT_INFO = Gauge(
    "kueue_cohort_info", "Always 1; the labels give the cohort's ancestors.", ("cohort", "parent_cohort", "root_cohort")
)
COHORT_QUOTA = Gauge(
    "kueue_cohort_subtree_quota",
    "Quota of the cohort, and quota that its members lend.",
    ("cohort", "flavor", "resource"),
)
COHORT_RESERVED = Gauge(
    "kueue_cohort_subtree_resource_reservations",
    "Quota reserved in the cohort's subtree.",
    ("cohort", "flavor", "resource"),
)
COHORT_ACTIVE = Gauge(
    "kueue_cohort_subtree_admitted_active_workloads",
    "Admitted workloads in the cohort's subtree, not finished.",
    ("cohort",),
)

LOCAL_PENDING = Gauge("kueue_local_queue_pending_workloads", "Pending workloads.", (*_LQ, "status"))
LOCAL_RESERVING = Gauge(
    "kueue_local_queue_reserving_active_workloads", "Workloads with reserved quota, not finished.", _LQ
)
LOCAL_ACTIVE = Gauge("kueue_local_queue_admitted_active_workloads", "Admitted workloads, not finished.", _LQ)
LOCAL_FINISHED = _gauge_named_like_counter(
    "kueue_local_queue_finished_workloads", "Finished Workloads that are not deleted yet.", _LQ
)
LOCAL_UNADMITTED = Gauge(
    "kueue_local_queue_unadmitted_workloads",
    "Workloads that are neither admitted nor finished, by reason.",
    (*_LQ, "cluster_queue", "reason", "underlying_cause"),
)
LOCAL_PAST_USAGE = Gauge(
    "kueue_local_queue_admission_fair_sharing_usage",
    "Past usage with the penalties of recent admissions, weighted by resource and divided by the weight of the LocalQueue.",
    (*_LQ, "cluster_queue"),
)
LOCAL_STATUS = Gauge("kueue_local_queue_status", "1 for the present status, 0 for others.", (*_LQ, "active"))
LOCAL_RESERVATION = Gauge("kueue_local_queue_resource_reservation", "Reserved quota.", (*_LQ, "flavor", "resource"))
LOCAL_USAGE = Gauge(
    "kueue_local_queue_resource_usage", "Quota used by admitted workloads.", (*_LQ, "flavor", "resource")
)
