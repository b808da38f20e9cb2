"""The admission cycle: order, several admissions at once, waits and their words, flavors that fail in placement."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.decision import Admit, Wait
from admission.engine.model import (
    Admission,
    ClusterQueue,
    Cohort,
    Flavor,
    PodSet,
    Quota,
    StopPolicy,
    TopologyRequest,
    Workload,
)
from admission.engine.reasons import Reason
from tests.admission.engine.builders import (
    CPU,
    HOST,
    RACK,
    STRICT,
    Cluster,
    admitted,
    domains,
    host,
    queue,
    racks,
    waits,
    workload,
)
from tests.budgets import examples

ANY = Flavor("any")
IN_A_RACK = TopologyRequest(required=RACK)


def tas_cluster(*more: Workload, quota: int = 100) -> Cluster:
    """Two racks of two hosts with 4 cpus each."""
    nodes = [host(f"{rack}-{i}", rack, 4) for rack in ("r1", "r2") for i in (1, 2)]
    return Cluster(racks(), *nodes, queue(tas=quota), *more)


# ---- order and several admissions


def test_all_that_fit_get_in_by_priority_and_age() -> None:
    cluster = Cluster(
        ANY,
        queue(any=3),
        workload("old", queued=1),
        workload("new", queued=2),
        workload("urgent", queued=3, priority=1),
        workload("late", queued=4),
    )
    report = cluster.cycle()
    assert admitted(report) == ["urgent", "old", "new"]
    assert waits(report) == {
        "late": "WaitingForQuota: couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor "
        "any, 1 more needed"
    }
    assert (report.admitted, report.waiting, report.more) == (3, 1, False)


def test_best_effort_fills_the_gap_behind_a_big_one_and_strict_fifo_does_not() -> None:
    drawn = (workload("first", queued=1), workload("big", 9, queued=2), workload("small", queued=3))
    assert admitted(Cluster(ANY, queue(any=4), *drawn).cycle()) == ["first", "small"]
    strict = Cluster(ANY, queue(any=4, strategy=STRICT), *drawn)
    report = strict.cycle()
    assert admitted(report) == ["first"]
    [big] = [d for d in report.decisions if isinstance(d, Wait)]
    assert (big.workload, big.retry) == ("big", True)
    assert strict.cycle().decisions == (), "nothing changed, nothing to say"


def test_a_wait_carries_the_totals_that_were_asked_for() -> None:
    [wait] = Cluster(ANY, queue(any=1), workload("w", 3, 2)).cycle().decisions
    assert isinstance(wait, Wait)
    assert wait.requested == {"main": {"cpu": 6 * CPU}}
    assert wait.retry is False


def test_the_budget_bounds_the_decisions_of_a_call() -> None:
    cluster = Cluster(ANY, queue(any=9), *(workload(f"w{i}", cpus=i % 3 + 1, queued=i) for i in range(4)))
    first = cluster.cycle(budget=3)
    assert (admitted(first), first.more) == (["w0", "w1", "w2"], True)
    assert (admitted(cluster.cycle(budget=3)), cluster.cycle().more) == (["w3"], False)


def test_queues_take_turns_by_borrowing_then_priority_then_age() -> None:
    cluster = Cluster(
        ANY,
        queue("a", cohort="c", any=2),
        queue("b", cohort="c", any=2),
        workload("a1", queued=1, to="a"),
        workload("a2", 2, queued=2, to="a", priority=9),
        workload("b1", queued=5, to="b"),
        workload("b2", queued=6, to="b"),
    )
    report = cluster.cycle()
    assert admitted(report) == ["a2", "b1", "b2"], "a1 would have to borrow, so b's workloads come first"
    assert list(waits(report)) == ["a1"]


def tenants(weights: dict[str, int], quota: int) -> Cluster:
    """Queues of these weights (in thousandths) that have nothing of their own, and a cohort with quota for all."""
    own = {("any", "cpu"): Quota(quota * CPU)}
    specs = [replace(queue(name, cohort="all", any=0), weight_milli=weight) for name, weight in weights.items()]
    return Cluster(ANY, Cohort("all", quotas=own), *specs)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [({"a": 3000, "b": 1000}, {"a": 9, "b": 3}), ({"a": 1000, "b": 1000, "c": 2000}, {"a": 3, "b": 3, "c": 6})],
    ids=["3 to 1", "1 to 1 to 2"],
)
def test_fair_shares_give_each_by_its_weight(weights: dict[str, int], expected: dict[str, int]) -> None:
    cluster = tenants(weights, 12)
    for number, name in enumerate(weights):
        cluster.tell(*(workload(f"{name}{i}", to=name, queued=100 * number + i, priority=number) for i in range(20)))
    report = cluster.cycle(fair=True)
    assert Counter(key[0] for key in admitted(report)) == expected


def test_fair_shares_count_what_runs_already() -> None:
    cluster = tenants({"a": 1000, "b": 1000}, 8)
    cluster.tell(*(workload(f"a{i}", to="a", queued=i) for i in range(3)))
    cluster.cycle(fair=True)
    cluster.tell(*(workload(f"a{i}", to="a", queued=i) for i in range(3, 9)))
    cluster.tell(*(workload(f"b{i}", to="b", queued=50 + i) for i in range(9)))
    assert admitted(cluster.cycle(fair=True))[:3] == ["b0", "b1", "b2"]
    assert cluster.ledger.quota.usage("a") == cluster.ledger.quota.usage("b")


def test_trees_that_share_only_nodes_take_turns_by_priority_and_age() -> None:
    specs = [queue(name, cohort=f"tree-{name}", tas=9) for name in ("a", "b")]
    cluster = Cluster(racks(), host("h", "r", 2), *specs)
    cluster.tell(workload("a1", to="a", queued=2), workload("a2", to="a", queued=3), workload("b1", to="b", queued=1))
    assert admitted(cluster.cycle(fair=True)) == ["b1", "a1"]


def test_an_admission_names_the_flavors_that_did_not_fit_at_once() -> None:
    specs = [queue("q", cohort="all", small=1, own=1), queue("rich", cohort="all", own=9)]
    cluster = Cluster(Flavor("small"), Flavor("own"), *specs, workload("w", 1, 3))
    [decision] = cluster.cycle().decisions
    assert isinstance(decision, Admit)
    assert decision.considered == (
        "; Flavors considered: main: small(NoFit;insufficient quota for cpu in flavor small, previously considered podsets "
        "requests (0) + current podset request (3) > maximum capacity (1)), own(Fit;borrow=1)"
    )


def test_a_stopped_queue_has_its_say_among_fair_ones() -> None:
    cluster = tenants({"a": 1000, "b": 1000}, 8)
    cluster.tell(replace(queue("a", cohort="all", any=0), stop=StopPolicy.HOLD))
    cluster.tell(workload("a1", to="a"), workload("b1", to="b"))
    report = cluster.cycle(fair=True)
    assert (admitted(report), waits(report)) == (["b1"], {"a1": "Suspended: ClusterQueue a is inactive"})


def test_equivalents_of_a_refused_workload_get_its_reason_without_a_try() -> None:
    cluster = Cluster(ANY, queue(any=2), *(workload(f"w{i}", 3, queued=i) for i in range(50)))
    report = cluster.cycle()
    assert [d.workload for d in report.decisions] == ["w0"]
    assert len(report.notices) == 49
    assert {notice.reason for notice in report.notices} == {Reason.EXCEEDS_MAX_QUOTA}


def test_freed_quota_requeues_the_next() -> None:
    cluster = Cluster(ANY, queue(any=1), workload("a", queued=1), workload("b", queued=2))
    assert admitted(cluster.cycle()) == ["a"]
    cluster.finish("a")
    assert admitted(cluster.cycle()) == ["b"]


def test_a_charged_workload_that_is_still_pending_in_the_cache_is_not_admitted_twice() -> None:
    cluster = Cluster(ANY, queue(any=5), workload("a"))
    assert admitted(cluster.cycle()) == ["a"]
    cluster.queues.put(workload("a"))
    assert cluster.cycle().decisions == ()
    assert cluster.ledger.quota.usage("q") == {("any", "cpu"): CPU}


def test_a_failed_write_is_taken_back() -> None:
    cluster = Cluster(ANY, queue(any=1), workload("a"))
    cluster.cycle()
    cluster.ledger.release("a")
    cluster.queues.put(workload("a"))
    assert admitted(cluster.cycle()) == ["a"]


def test_backoff_is_kept() -> None:
    cluster = Cluster(ANY, queue(any=1), replace(workload("a"), not_before=10.0))
    assert cluster.cycle(now=9.0).decisions == ()
    assert admitted(cluster.cycle(now=10.0)) == ["a"]


# ---- queues that admit nothing


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        pytest.param(None, "Misconfigured", "ClusterQueue q not found", id="missing"),
        pytest.param(
            replace(queue(any=9), inactive="no flavor"), "Suspended", "ClusterQueue q is inactive", id="inactive"
        ),
        pytest.param(
            replace(queue(any=9), stop=StopPolicy.HOLD), "Suspended", "ClusterQueue q is inactive", id="stopped"
        ),
    ],
)
def test_a_queue_that_admits_nothing_says_so(spec: ClusterQueue | None, reason: str, message: str) -> None:
    cluster = Cluster(ANY, *([spec] if spec else []), workload("a"))
    assert waits(cluster.cycle()) == {"a": f"{reason}: {message}"}
    cluster.tell(queue(any=9))
    assert admitted(cluster.cycle()) == ["a"]


def test_a_queue_below_a_cycle_of_cohorts_is_inactive() -> None:
    cluster = Cluster(ANY, Cohort("x", "y"), Cohort("y", "x"), queue(any=9, cohort="x"), workload("a"))
    assert waits(cluster.cycle()) == {"a": "Suspended: ClusterQueue q is inactive"}


def test_a_blocked_workload_is_reported_and_not_tried() -> None:
    why = ("Misconfigured", "LocalQueue q doesn't exist")
    report = Cluster(ANY, queue(any=9), replace(workload("a"), blocked=why)).cycle()
    assert report.decisions == ()
    assert [(n.workload.key, n.reason, n.message) for n in report.notices] == [("a", Reason.MISCONFIGURED, why[1])]


# ---- placement


def test_require_keeps_all_pods_in_one_rack() -> None:
    report = tas_cluster(workload("a", 7, topology=IN_A_RACK)).cycle()
    assert domains(report, "a") == {"r1-1": 4, "r1-2": 3}


def test_admissions_of_one_cycle_see_each_other_on_the_nodes() -> None:
    cluster = tas_cluster(*(workload(f"w{i}", 5, topology=IN_A_RACK, queued=i) for i in range(3)))
    report = cluster.cycle()
    assert admitted(report) == ["w0", "w1"]
    racks_used = [{name.split("-")[0] for name in domains(report, key)} for key in ("w0", "w1")]
    assert racks_used == [{"r1"}, {"r2"}]
    assert waits(report) == {
        "w2": 'TopologyPlacementFailed: couldn\'t assign flavors to pod set main: topology "default" allows to fit only 3 '
        'out of 5 pod(s). Total nodes: 4; excluded: resource "cpu": 2'
    }
    assert cluster.ledger.audit() == []


def test_what_an_empty_cluster_could_not_hold_says_so() -> None:
    cluster = tas_cluster(workload("small", 2, topology=IN_A_RACK, priority=1), workload("huge", 9, topology=IN_A_RACK))
    report = cluster.cycle()
    assert admitted(report) == ["small"]
    assert waits(report)["huge"].endswith('topology "default" allows to fit only 8 out of 9 pod(s)')


def test_a_queue_of_topology_flavors_implies_topology() -> None:
    report = tas_cluster(workload("a", 3)).cycle()
    assert sum(domains(report, "a").values()) == 3


def test_the_next_flavor_is_tried_where_the_first_has_no_place() -> None:
    cluster = Cluster(
        racks("near", topology="t-near"),
        racks("far", topology="t-far"),
        host("n1", "r1", 2, "near"),
        host("f1", "r1", 4, "far"),
        queue(near=10, far=10),
        workload("a", 4, topology=TopologyRequest(required=HOST)),
        workload("b", 4, topology=TopologyRequest(required=HOST), queued=1, priority=-1),
    )
    report = cluster.cycle()
    assert domains(report, "a") == {"f1": 4}
    assert waits(report)["b"] == (
        "TopologyPlacementFailed: couldn't assign flavors to pod set main: "
        'topology "t-far" doesn\'t allow to fit any of 4 pod(s). Total nodes: 1; excluded: resource "cpu": 1, '
        'topology "t-near" allows to fit only 2 out of 4 pod(s)'
    )


def test_quota_is_named_where_it_is_short_and_the_nodes_are_not_asked() -> None:
    report = tas_cluster(workload("a", 20, topology=IN_A_RACK), quota=10).cycle()
    assert waits(report)["a"].startswith("ExceedsMaxQuota: couldn't assign flavors to pod set main: insufficient quota")


def test_several_pod_sets_get_their_own_places_and_usage() -> None:
    two = (
        PodSet("driver", 1, {"cpu": CPU}, topology=TopologyRequest(required=HOST)),
        PodSet("workers", 8, {"cpu": CPU}, topology=IN_A_RACK),
    )
    cluster = tas_cluster(replace(workload("a"), pod_sets=two))
    [decision] = cluster.cycle().decisions
    assert isinstance(decision, Admit)
    driver, workers = decision.admission.pod_sets
    assert (driver.flavors, driver.usage, driver.count) == ({"cpu": "tas"}, {"cpu": CPU}, 1)
    assert driver.assignment
    assert workers.assignment
    assert {d.values[0][:2] for d in driver.assignment.domains} != {d.values[0][:2] for d in workers.assignment.domains}
    assert cluster.ledger.quota.usage("q") == {("tas", "cpu"): 9 * CPU}


def test_a_new_node_makes_a_waiting_workload_admissible() -> None:
    cluster = tas_cluster(workload("a", 9, topology=IN_A_RACK))
    before = cluster.ledger.generation("tas")
    assert admitted(cluster.cycle()) == []
    cluster.tell(host("r1-3", "r1", 4))
    assert cluster.ledger.generation("tas") > before
    cluster.queues.lines.requeue(cluster.queues.lines.queues_of(["tas"]))
    assert admitted(cluster.cycle()) == ["a"]


# ---- properties

DrawnWorkloads = list[tuple[int, int, str, int, TopologyRequest | None]]
jobs = st.lists(
    st.tuples(
        st.integers(1, 6),
        st.integers(1, 2),
        st.sampled_from(["a", "b", "s"]),
        st.integers(0, 1),
        st.sampled_from([None, IN_A_RACK, TopologyRequest(preferred=RACK)]),
    ),
    max_size=14,
)


def mixed(drawn: DrawnWorkloads) -> Cluster:
    """Three queues over two topology flavors, two of them in a cohort that lends and borrows."""
    nodes = [host(f"{f}-{r}-{i}", f"{r}", 4, f) for f in ("x", "y") for r in ("r1", "r2") for i in (1, 2)]
    return Cluster(
        racks("x"),
        racks("y"),
        *nodes,
        Cohort("team", quotas={("x", "cpu"): Quota(3 * CPU)}),
        queue("a", cohort="team", x=Quota(8 * CPU, borrowing_limit=4 * CPU), y=4),
        queue("b", cohort="team", x=Quota(6 * CPU, lending_limit=2 * CPU), y=Quota(6 * CPU)),
        queue("s", strategy=STRICT, y=9),
        *(
            workload(f"w{i:02}", pods, cpus, to=to, topology=topology, queued=float(i), priority=priority)
            for i, (pods, cpus, to, priority, topology) in enumerate(drawn)
        ),
    )


@settings(max_examples=examples(25), deadline=None)
@given(jobs)
def test_one_cycle_with_many_admissions_equals_one_by_one(
    drawn: DrawnWorkloads,
) -> None:
    at_once, one_by_one = mixed(drawn), mixed(drawn)
    got = {d.workload: d.admission for d in at_once.cycle(1000).decisions if isinstance(d, Admit)}
    steps: dict[str, Admission] = {}
    while True:
        report = one_by_one.cycle(1)
        steps |= {d.workload: d.admission for d in report.decisions if isinstance(d, Admit)}
        if not report.more:
            break
    assert list(got.items()) == list(steps.items())


@settings(max_examples=examples(12), deadline=None)
@given(jobs, st.lists(st.integers(0, 13), max_size=6))
def test_usage_is_the_sum_of_the_admissions_and_nothing_is_overcommitted(
    drawn: DrawnWorkloads, finished: list[int]
) -> None:
    cluster = mixed(drawn)
    charged: dict[str, Admission] = {}
    for number in [None, *finished]:
        if number is not None:
            charged.pop(f"w{number:02}", None)
            cluster.finish(f"w{number:02}")
        charged |= {d.workload: d.admission for d in cluster.cycle().decisions if isinstance(d, Admit)}
        for name in ("a", "b", "s"):
            total: dict[tuple[str, str], int] = {}
            for admission in charged.values():
                for pair, amount in admission.usage().items() if admission.cluster_queue == name else ():
                    total[pair] = total.get(pair, 0) + amount
            assert cluster.ledger.quota.usage(name) == total
        assert cluster.ledger.audit() == []
        used: dict[str, int] = {}
        for key, admission in charged.items():
            for pod_set in admission.pod_sets:
                assert pod_set.assignment
                cpus = drawn[int(key[1:])][1]
                for domain in pod_set.assignment.domains:
                    used[domain.values[-1]] = used.get(domain.values[-1], 0) + domain.count * cpus
        assert all(amount <= 4 for amount in used.values())


@settings(max_examples=examples(25), deadline=None)
@given(jobs)
def test_strict_fifo_is_never_overtaken(drawn: DrawnWorkloads) -> None:
    cluster = mixed(drawn)
    line = [each.key for each in cluster.queues.active("s")]
    got = [key for key in admitted(cluster.cycle()) if key in line]
    assert got == line[: len(got)]


@settings(max_examples=examples(25), deadline=None)
@given(jobs)
def test_best_effort_skips_no_workload_that_would_fit(
    drawn: DrawnWorkloads,
) -> None:
    cluster = mixed(drawn)
    cluster.cycle(1000)
    cluster.queues.lines.requeue(["a", "b"])
    assert admitted(cluster.cycle(1000)) == []


# ---- one at a time


def test_no_more_start_than_may_and_the_others_start_when_requeued() -> None:
    cluster = Cluster(ANY, queue(any=3), *(workload(f"w{n}", queued=n) for n in range(3)))
    first = cluster.cycle(startable=1)
    assert admitted(first) == ["w0"]
    assert waits(first) == {
        "w1": "WaitingForPodsReady: waiting for all admitted workloads to be in PodsReady condition"
    }
    assert admitted(cluster.cycle(startable=1)) == [], "they sleep"
    cluster.queues.lines.requeue(["q"])
    assert admitted(cluster.cycle(startable=0)) == []
    cluster.queues.lines.requeue(["q"])
    assert admitted(cluster.cycle(startable=1)) == ["w1"]
    cluster.queues.lines.requeue(["q"])
    assert admitted(cluster.cycle()) == ["w2"]


def test_a_workload_that_would_not_fit_gets_that_reason_not_pods_ready() -> None:
    cluster = Cluster(ANY, queue(any=1), workload("wide", cpus=2))
    assert waits(cluster.cycle(startable=0))["wide"].startswith("ExceedsMaxQuota")
