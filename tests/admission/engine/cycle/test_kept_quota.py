"""Quota that the refused head of a StrictFIFO queue keeps from borrowers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admission.engine.decision import Preempt
from admission.engine.explain.changes import LetReclaim, RaiseQuota
from admission.engine.explain.cycle_decision import DecisionInputs
from admission.engine.explain.explain import explain
from admission.engine.explain.explanation import Verdict
from admission.engine.explain.wording import headline
from admission.engine.model import ClusterQueue, Flavor, PodSet, PreemptionPolicy, QueueingStrategy, Workload
from admission.engine.reasons import Reason
from tests.admission.engine.builders import BEST, CPU, STRICT, admitted, group, host, queue, racks, waits, workload
from tests.admission.engine.cycle.evicting_cluster import Evicting, evicting, preempted, running

ANY = Flavor("any")
LOWER = PreemptionPolicy(reclaim_within_cohort="LowerPriority", within_cluster_queue="LowerPriority")
RECLAIM = PreemptionPolicy(reclaim_within_cohort="Any")

OURS = queue("ours", strategy=STRICT, cohort="all", any=4)
THEIRS = queue("theirs", cohort="all", any=1)


def scene(ours: ClusterQueue = OURS, topologies: int = 3, borrows: int = 2) -> Evicting:
    """Ours has 2 of its 4 cpus in use; its head asks for 3. Theirs has 1 of its own and would borrow."""
    cluster = running(ANY, ours, THEIRS, first=[workload("runs", 2, to="ours"), workload("theirs-runs", to="theirs")])
    cluster.tell(
        workload("head", topologies, to="ours", queued=1.0), workload("borrows", borrows, to="theirs", queued=2.0)
    )
    return cluster


@pytest.mark.parametrize("fair", [False, True], ids=["by borrowing", "by shares"])
@pytest.mark.parametrize(
    ("ours", "topologies", "borrows", "lent"),
    [
        pytest.param(OURS, 3, 2, False, id="what it has left is kept"),
        pytest.param(OURS, 3, 1, False, id="all of it"),
        pytest.param(evicting(OURS, LOWER), 3, 2, False, id="it may reclaim from lower priorities only"),
        pytest.param(evicting(OURS, RECLAIM), 3, 2, True, id="it may take back whatever it lends"),
        pytest.param(queue("ours", cohort="all", any=4), 3, 2, True, id="BestEffortFIFO lets others pass"),
        pytest.param(OURS, 5, 2, True, id="its own quota is never enough"),
    ],
)
def test_a_refused_strict_head_keeps_its_queues_unused_quota(
    ours: ClusterQueue, topologies: int, borrows: int, lent: bool, fair: bool
) -> None:
    cluster = scene(ours, topologies, borrows)
    for _ in range(3):  # as long as it waits, not only in the cycle that refuses it
        report = cluster.cycle(fair=fair)
        assert ("borrows" not in cluster.queues) is lent
        assert not any(isinstance(decision, Preempt) for decision in report.decisions)
        cluster.queues.lines.requeue(("theirs",))
    assert "head" in cluster.queues


def test_a_workload_refused_because_of_it_gets_a_reason_and_starts_afterwards() -> None:
    cluster = scene()
    told = waits(cluster.cycle())
    assert told["borrows"].startswith(f"{Reason.WAITING_FOR_QUOTA}: ")
    assert "insufficient unused quota for cpu in flavor any" in told["borrows"]
    cluster.queues.remove("head")  # its user has deleted it
    assert admitted(cluster.cycle()) == ["borrows"]


def test_a_new_head_of_the_queue_ends_what_the_old_one_kept() -> None:
    """As in Kueue, where only the head of a queue keeps quota: the new head may borrow beside what the old one asks for."""
    ours, theirs = queue("ours", strategy=STRICT, cohort="all", tas=6), queue("theirs", cohort="all", tas=1)
    hosts = [*(host(name, "r", 2) for name in "nm"), *(host(name, "r", 1) for name in "opq")]
    cluster = running(racks(), *hosts, ours, theirs, first=[workload("runs", 1, 2, to="ours")])
    cluster.tell(workload("old", 2, 2, to="ours", queued=2.0))
    assert waits(cluster.cycle())["old"].startswith(Reason.TOPOLOGY_PLACEMENT_FAILED)
    cluster.tell(workload("first", 5, to="ours", queued=1.0))
    assert admitted(cluster.cycle()) == ["first"]


def test_an_older_borrower_comes_first() -> None:
    """As in Kueue: the head would borrow as well in the end, so it keeps quota only from those behind it."""
    cluster = running(ANY, OURS, THEIRS, first=[workload("runs", 2, to="ours"), workload("theirs-runs", to="theirs")])
    cluster.tell(workload("borrows", 2, to="theirs", queued=1.0), workload("head", 3, to="ours", queued=2.0))
    assert admitted(cluster.cycle()) == ["borrows"]


def test_a_queue_that_becomes_best_effort_keeps_nothing_any_more() -> None:
    cluster = scene()
    cluster.cycle()
    cluster.tell(queue("ours", cohort="all", any=4))
    assert admitted(cluster.cycle()) + admitted(cluster.cycle()) == ["borrows"]


def test_the_explanation_knows_what_is_kept() -> None:
    cluster = scene()
    told = waits(cluster.cycle())
    borrows = cluster.queues.workload("borrows")
    assert borrows is not None
    found = explain(cluster.ledger, borrows, 0.0, inputs=DecisionInputs(cluster.queues))
    assert (found.verdict, f"{found.reason}: {found.message}") == (Verdict.WAITS, told["borrows"])


@pytest.mark.parametrize(("borrows", "raised"), [(1, 1000), (2, 2000)])
def test_the_explanation_names_the_head_and_the_quota_that_would_suffice(borrows: int, raised: int) -> None:
    """Beside what is kept for the head, the least that admits the borrower."""
    cluster = scene(borrows=borrows)
    cluster.cycle()
    waits_for = cluster.queues.workload("borrows")
    assert waits_for is not None
    found = explain(cluster.ledger, waits_for, 0.0, inputs=DecisionInputs(cluster.queues))
    assert "quota is kept for head" in headline(found)
    lending, quota = found.remedies
    assert lending.changes == (LetReclaim("ours", "head"),)
    (change,) = quota.changes
    assert isinstance(change, RaiseQuota)
    assert (change.cluster_queue, change.by) == ("theirs", raised)
    cluster.tell(queue("theirs", cohort="all", any=1 + raised // 1000))
    cluster.queues.lines.requeue(("theirs",))
    assert "borrows" in admitted(cluster.cycle())


def test_it_starts_with_what_it_kept_and_what_is_left_is_lent() -> None:
    cluster = scene(borrows=1)
    cluster.cycle()
    cluster.finish("runs")
    assert admitted(cluster.cycle()) == ["head", "borrows"]


def test_a_head_with_quota_but_without_capacity_keeps_it_as_well() -> None:
    """As in Kueue: its nodes are too full, its quota is not."""
    ours, theirs = queue("ours", strategy=STRICT, cohort="all", tas=4), queue("theirs", cohort="all", tas=0)
    cluster = running(racks(), host("n", "r", 3), ours, theirs, first=[workload("runs", to="ours")])
    cluster.tell(workload("head", 1, 3, to="ours", queued=1.0), workload("borrows", to="theirs", queued=2.0))
    told = waits(cluster.cycle())
    assert told["head"].startswith(Reason.TOPOLOGY_PLACEMENT_FAILED)
    assert told["borrows"].startswith(Reason.WAITING_FOR_QUOTA)
    cluster.finish("runs")
    assert admitted(cluster.cycle()) == ["head"]


def test_a_head_that_no_nodes_will_ever_hold_keeps_nothing() -> None:
    ours, theirs = queue("ours", strategy=STRICT, cohort="all", tas=4), queue("theirs", cohort="all", tas=0)
    cluster = running(racks(), host("n", "r", 2), ours, theirs, first=[])
    cluster.tell(workload("head", 1, 3, to="ours", queued=1.0), workload("borrows", to="theirs", queued=2.0))
    assert admitted(cluster.cycle()) == ["borrows"]


GPU, NONE = "gpu", PreemptionPolicy()


def devices(name: str, cpus: int, policy: PreemptionPolicy = NONE) -> ClusterQueue:
    """A queue of cohort `all` with so many cpus and devices without end."""
    return ClusterQueue(name, (group({"tas": {"cpu": cpus * CPU, GPU: 100}}),), "all", preemption=policy)


def asks(key: str, to: str, priority: int, pods: int, cpus: int, gpus: int, queued: float = 0.0) -> Workload:
    """A workload of pods with devices."""
    pod_set = PodSet("main", pods, {"cpu": cpus * CPU, **({GPU: gpus} if gpus else {})})
    return replace(workload(key, to=to, priority=priority, queued=queued), pod_sets=(pod_set,))


@pytest.mark.parametrize("strategy", [STRICT, BEST], ids=["quota is kept", "nothing is kept"])
def test_nobody_is_evicted_because_quota_is_kept_for_the_head_of_its_queue(strategy: QueueingStrategy) -> None:
    """`mine` stays within its queue's own quota: only with what its head waits for does the queue exceed it."""
    greedy = PreemptionPolicy("Any", "LowerPriority", "LowerPriority")
    owner = replace(devices("owner", 2, PreemptionPolicy("LowerPriority")), strategy=strategy)
    nodes = [replace(host("g", "r", 4), allocatable={"cpu": 4 * CPU, GPU: 2, "pods": 110}), host("h", "r", 16)]
    here = running(
        racks(),
        *nodes,
        owner,
        devices("other", 4, greedy),
        devices("lender", 10),
        first=[asks("mine", "owner", 3, 1, 1, 2), asks("low", "other", 0, 4, 1, 0, 1.0)],
    )
    here.tell(asks("head", "owner", 2, 2, 2, 1, 2.0))
    here.cycle()
    here.tell(asks("taker", "other", 1, 1, 2, 2, 3.0))
    assert preempted(here.cycle()) == {}
    here.finish("mine")
    assert admitted(here.cycle()) != []
