"""The gauges of queues and cohorts: which series there are, and that those go which nobody names any more."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from prometheus_client import REGISTRY, generate_latest

from admission.controllers.report.gauges import QueueFigures, QueueGauges, of_cohort, of_local_queue
from admission.controllers.report.queue_totals import QueueTotals, QueueTotalsIndex
from admission.controllers.state.active_conditions import Activity
from admission.engine.journal import Journal
from admission.engine.model import ClusterQueue as Spec
from admission.engine.model import FlavorQuotas, Quota, ResourceGroup
from admission.engine.queue.pending_counts import PendingCounts
from admission.engine.quota.tree import QuotaTree
from admission.metrics import queues as metrics
from api.kube.informers.store import Change, ChangeType
from api.queues import ClusterQueue, LocalQueue
from tests.builders import condition, workload

OPEN, CLOSED = Activity(True, "Ready", ""), Activity(False, "Stopped", "")


def value(metric: str, /, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(metric, labels)


def queue(**more: Any) -> ClusterQueue:
    resources = [{"name": "cpu", "nominalQuota": "2500m", "lendingLimit": 1}]
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "tas", "resources": resources}]}]
    return ClusterQueue.from_wire({"metadata": {"name": "cq", **more}, "spec": {"resourceGroups": groups}})


def figures(**changes: Any) -> QueueFigures:
    usual: dict[str, Any] = {
        "queue": queue(), "activity": OPEN, "tally": QueueTotals(), "standing": PendingCounts(), "locals": (),
    }  # fmt: skip
    return QueueFigures(**{**usual, **changes})


@pytest.fixture
def sheet() -> QueueGauges:
    return QueueGauges()


def test_who_waits_and_why(sheet: QueueGauges) -> None:
    tallies = QueueTotalsIndex()
    waiting = {
        "a": [condition("QuotaReserved", "False", "WaitingForQuota"), condition("Admitted", "False", "NoReservation")],
        "b": [],
        "c": [condition("QuotaReserved"), condition("Admitted", "False", "UnsatisfiedAdmissionChecks")],
        "d": [condition("QuotaReserved"), condition("Admitted")],
        "e": [condition("Finished")],
    }
    for name, conditions in waiting.items():
        tallies.changed(Change(ChangeType.ADDED, f"ns/{name}", workload(name, conditions=conditions), None))
    local = tallies.local_queue("ns/lq")
    sheet.show("q", figures(standing=PendingCounts(1, 1, 1, 1), locals=(local,)).table())
    unadmitted = {
        why: value("kueue_unadmitted_workloads", cluster_queue="cq", reason=why[0], underlying_cause=why[1])
        for why in (
            ("NoReservation", "WaitingForQuota"),
            ("NoReservation", "PendingEvaluation"),
            ("UnsatisfiedAdmissionChecks", "ChecksNotReady"),
        )
    }
    assert set(unadmitted.values()) == {1}
    assert value("kueue_pending_workloads", cluster_queue="cq", status="inadmissible") == 1
    assert value("kueue_finished_workloads", cluster_queue="cq") == 1
    target = LocalQueue.from_wire({"metadata": {"name": "lq", "namespace": "ns"}, "spec": {"clusterQueue": "cq"}})
    sheet.show("l", of_local_queue(target, OPEN, local))
    at = {"name": "lq", "namespace": "ns"}
    assert value("kueue_local_queue_pending_workloads", **at, status="active") == 1
    assert value("kueue_local_queue_finished_workloads", **at) == 1
    assert value("kueue_local_queue_status", **at, active="True") == 1
    sheet.show("q", figures().table())
    assert value("kueue_unadmitted_workloads", cluster_queue="cq", reason="NoReservation",
                 underlying_cause="WaitingForQuota") is None  # fmt: skip
    for owner in ("q", "l"):
        sheet.forget(owner)
    assert value("kueue_pending_workloads", cluster_queue="cq", status="active") is None


@pytest.mark.parametrize(
    ("activity", "going", "status"),
    [
        pytest.param(OPEN, None, "active", id="open"),
        pytest.param(CLOSED, None, "pending", id="closed"),
        pytest.param(OPEN, "2026-01-01T00:00:00Z", "terminating", id="going"),
    ],
)
def test_one_status_holds(sheet: QueueGauges, activity: Activity, going: str | None, status: str) -> None:
    sheet.show("q", figures(queue=queue(deletionTimestamp=going), activity=activity).table())
    held = {
        name: value("kueue_cluster_queue_status", cluster_queue="cq", status=name)
        for name in ("active", "pending", "terminating")
    }
    assert held == {name: float(name == status) for name in held}
    sheet.forget("q")


def test_a_queue_that_moves_has_one_place(sheet: QueueGauges) -> None:
    sheet.show("q", figures(cohorts=("team", "all"), share=250).table())
    assert value("kueue_cluster_queue_info", cluster_queue="cq", parent_cohort="team", root_cohort="all") == 1
    assert value("kueue_cluster_queue_weighted_share", cluster_queue="cq", cohort="team") == 250
    sheet.show("q", figures(cohorts=("other",), share=0).table())
    assert value("kueue_cluster_queue_info", cluster_queue="cq", parent_cohort="team", root_cohort="all") is None
    assert value("kueue_cluster_queue_info", cluster_queue="cq", parent_cohort="other", root_cohort="other") == 1
    assert value("kueue_cluster_queue_weighted_share", cluster_queue="cq", cohort="team") is None
    sheet.forget("q")


def test_quotas_by_flavor_and_resource_where_they_are_asked_for(sheet: QueueGauges) -> None:
    tally = QueueTotals(reserved=Counter({("tas", "cpu"): 1500}), used=Counter({("tas", "cpu"): 500}))
    asked = figures(tally=tally, standing=PendingCounts(requested={"cpu": 3000}), resources=True)
    sheet.show("q", asked.table())
    labels = {"cohort": "", "cluster_queue": "cq", "flavor": "tas", "resource": "cpu"}
    shown = {
        name: value(f"kueue_cluster_queue_{name}", **labels)
        for name in (
            "resource_reservation",
            "resource_usage",
            "nominal_quota",
            "lending_limit",
            "borrowing_limit",
        )
    }
    assert shown == {
        "resource_reservation": 1.5,
        "resource_usage": 0.5,
        "nominal_quota": 2.5,
        "lending_limit": 1,
        "borrowing_limit": None,
    }
    assert value("kueue_cluster_queue_resource_pending", cluster_queue="cq", resource="cpu") == 3
    sheet.show("q", figures(tally=tally).table())
    assert value("kueue_cluster_queue_nominal_quota", **labels) is None
    sheet.forget("q")


def test_a_cohort_adds_up_what_is_below_it(sheet: QueueGauges) -> None:
    tree = QuotaTree(Journal())
    for name in ("a", "b"):
        group = ResourceGroup(("cpu",), (FlavorQuotas("tas", {"cpu": Quota(4000)}),))
        tree.set_queue(Spec(name, (group,), "team"))
    tallies = {
        "a": QueueTotals(admitted=1, reserved=Counter({("tas", "cpu"): 1000})),
        "b": QueueTotals(admitted=2, reserved=Counter({("tas", "cpu"): 500})),
    }
    sheet.show("c", of_cohort("team", ("team", "all"), tree.cohort("team"), tallies, None))
    assert value("kueue_cohort_info", cohort="team", parent_cohort="all", root_cohort="all") == 1
    assert value("kueue_cohort_subtree_quota", cohort="team", flavor="tas", resource="cpu") == 8
    assert value("kueue_cohort_subtree_resource_reservations", cohort="team", flavor="tas", resource="cpu") == 1.5
    assert value("kueue_cohort_subtree_admitted_active_workloads", cohort="team") == 3
    assert value("kueue_cohort_weighted_share", cohort="team") is None
    sheet.forget("c")


def test_a_gauge_and_a_counter_of_one_name_are_both_exported() -> None:
    metrics.FINISHED_KEPT.labels("cq-both").set(2)
    text = generate_latest().decode()
    assert 'kueue_finished_workloads{cluster_queue="cq-both"} 2.0' in text
    assert "# TYPE kueue_finished_workloads gauge" in text
    metrics.FINISHED_KEPT.remove("cq-both")
