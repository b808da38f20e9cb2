"""Gauges of ClusterQueues, LocalQueues and Cohorts, with the names that Kueue's dashboards query.

controllers/gauges.py sets them, and removes those of deleted objects.
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


def _beside_a_counter(name: str, text: str, labels: Sequence[str]) -> Gauge:
    gauge = Gauge(name, text, labels, registry=None)
    REGISTRY.register(_Nameless(gauge))
    return gauge


_CQ: Final = ("cluster_queue",)
_LQ: Final = ("name", "namespace")
_QUOTA: Final = ("cohort", "cluster_queue", "flavor", "resource")

PENDING = Gauge("kueue_pending_workloads", "Workloads that wait.", (*_CQ, "status"))
CLASSES = Gauge("kueue_pending_scheduling_hashes", "Kinds of equal workloads that wait.", (*_CQ, "status"))
RESERVING = Gauge("kueue_reserving_active_workloads", "Workloads with quota.", _CQ)
ADMITTED_ACTIVE = Gauge("kueue_admitted_active_workloads", "Admitted and not finished.", _CQ)
FINISHED_KEPT = _beside_a_counter("kueue_finished_workloads", "Finished Workloads that are still there.", _CQ)
UNADMITTED = Gauge(
    "kueue_unadmitted_workloads", "Not admitted and not finished, by why.", (*_CQ, "reason", "underlying_cause")
)
STATUS = Gauge("kueue_cluster_queue_status", "1 for the status that holds.", (*_CQ, "status"))
INFO = Gauge("kueue_cluster_queue_info", "Always 1: the queue's place.", (*_CQ, "parent_cohort", "root_cohort"))
SHARE = Gauge("kueue_cluster_queue_weighted_share", "What it borrows against its weight.", (*_CQ, "cohort"))

RESERVATION = Gauge("kueue_cluster_queue_resource_reservation", "Reserved.", _QUOTA)
USAGE = Gauge("kueue_cluster_queue_resource_usage", "Used by admitted workloads.", _QUOTA)
NOMINAL = Gauge("kueue_cluster_queue_nominal_quota", "Its own quota.", _QUOTA)
BORROWING = Gauge("kueue_cluster_queue_borrowing_limit", "The most that it may borrow.", _QUOTA)
LENDING = Gauge("kueue_cluster_queue_lending_limit", "The most that it lends.", _QUOTA)
PENDING_RESOURCE = Gauge("kueue_cluster_queue_resource_pending", "Asked for by all that wait.", (*_CQ, "resource"))

COHORT_SHARE = Gauge("kueue_cohort_weighted_share", "What it borrows against its weight.", ("cohort",))
COHORT_INFO = Gauge("kueue_cohort_info", "Always 1: the cohort's place.", ("cohort", "parent_cohort", "root_cohort"))
COHORT_QUOTA = Gauge(
    "kueue_cohort_subtree_quota", "Its own quota and what its members lend.", ("cohort", "flavor", "resource")
)
COHORT_RESERVED = Gauge(
    "kueue_cohort_subtree_resource_reservations", "Reserved by all below it.", ("cohort", "flavor", "resource")
)
COHORT_ACTIVE = Gauge("kueue_cohort_subtree_admitted_active_workloads", "Admitted below it, not finished.", ("cohort",))

LOCAL_PENDING = Gauge("kueue_local_queue_pending_workloads", "Workloads that wait.", (*_LQ, "status"))
LOCAL_RESERVING = Gauge("kueue_local_queue_reserving_active_workloads", "Workloads with quota.", _LQ)
LOCAL_ACTIVE = Gauge("kueue_local_queue_admitted_active_workloads", "Admitted and not finished.", _LQ)
LOCAL_FINISHED = _beside_a_counter("kueue_local_queue_finished_workloads", "Finished Workloads still there.", _LQ)
LOCAL_UNADMITTED = Gauge(
    "kueue_local_queue_unadmitted_workloads",
    "Not admitted and not finished, by why.",
    (*_LQ, "cluster_queue", "reason", "underlying_cause"),
)
LOCAL_STATUS = Gauge("kueue_local_queue_status", "1 for the status that holds.", (*_LQ, "active"))
LOCAL_RESERVATION = Gauge("kueue_local_queue_resource_reservation", "Reserved.", (*_LQ, "flavor", "resource"))
LOCAL_USAGE = Gauge("kueue_local_queue_resource_usage", "Used by admitted workloads.", (*_LQ, "flavor", "resource"))
