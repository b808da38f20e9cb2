"""The cycle makes room: who is evicted for whom, what is kept free meanwhile, who starts with fewer pods."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.cycle.cycle import CycleReport
from admission.engine.cycle.nominate import Nominator
from admission.engine.cycle.reservations import Reservations
from admission.engine.decision import Admit, Preempt
from admission.engine.model import (
    Cohort,
    Flavor,
    Node,
    PodSet,
    PreemptionPolicy,
    QueueingStrategy,
    TopologyRequest,
    Workload,
)
from admission.engine.preemption.preemptor import Preemptor
from admission.engine.queue.evictions import TIMES
from admission.engine.quota import cohorts
from tests.admission.engine.builders import (
    BEST,
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
from tests.admission.engine.cycle.evicting_cluster import RECLAIM, Evicting, evicting, preempted, running
from tests.admission.engine.dump import dump
from tests.budgets import examples

ANY = Flavor("any")


def test_the_higher_evicts_the_lower_and_starts_when_it_has_left() -> None:
    cluster = running(ANY, evicting(queue(any=4)), first=[workload("low", 4)])
    cluster.tell(workload("high", 3, priority=1))
    report = cluster.cycle()
    assert preempted(report) == {"high": ["low"]}
    [decision] = report.decisions
    assert isinstance(decision, Preempt)
    assert decision.message == (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor any, 3 more needed. "
        "Pending the preemption of 1 workload(s)"
    )
    assert decision.requested == {"main": {"cpu": 3 * CPU}}
    assert cluster.cycle().decisions == (), "it is not asked again before something changes"
    cluster.finish("low")
    assert admitted(cluster.cycle()) == ["high"]


@pytest.mark.parametrize("fair", [True, False], ids=["fair sharing", "reclaim"])
def test_the_owner_of_the_quota_gets_one_rack_of_two_where_the_newest_are_in_both(fair: bool) -> None:
    nodes = [host(f"{rack}-{i}", rack, 4) for rack in ("r1", "r2") for i in (1, 2)]
    shared = [evicting(queue(name, cohort="all", tas=8), RECLAIM) for name in ("a", "b")]
    low = [workload(f"low{i}", 4, to="a", topology=TopologyRequest(required=HOST), queued=i) for i in range(4)]
    cluster = running(racks(), *nodes, *shared, first=low)
    for at, key in enumerate(("low0", "low2", "low1", "low3")):
        charged = cluster.ledger.workload(key)
        assert charged is not None
        cluster.ledger.apply(replace(charged, reserved=float(9 - at)))
    cluster.tell(workload("owner", 8, to="b", topology=TopologyRequest(required=RACK), queued=9))
    victims = preempted(cluster.cycle(now=10, fair=fair))["owner"]
    assert victims in (["low0", "low1"], ["low2", "low3"])
    for key in victims:
        cluster.finish(key)
    assert admitted(cluster.cycle(now=11, fair=fair)) == ["owner"]


def test_what_it_waits_for_is_not_given_to_those_behind_it() -> None:
    shared = [evicting(queue(name, cohort="all", any=2), RECLAIM) for name in ("a", "b")]
    cluster = running(ANY, *shared, first=[workload("low", 4, to="a")])
    cluster.tell(workload("owner", 2, to="b", priority=1))
    assert preempted(cluster.cycle()) == {"owner": ["low"]}
    cluster.tell(workload("sneaks", to="a", queued=1))
    assert admitted(cluster.cycle()) == []
    cluster.finish("low")
    assert admitted(cluster.cycle()) == ["owner", "sneaks"]


@pytest.mark.parametrize(("strategy", "others"), [(BEST, ["small"]), (STRICT, [])], ids=["best effort", "strict"])
def test_workloads_that_may_overtake_it(strategy: QueueingStrategy, others: list[str]) -> None:
    cluster = running(ANY, evicting(queue(any=5, strategy=strategy)), first=[workload("low", 4)])
    cluster.tell(workload("high", 4, priority=1), workload("small", queued=9))
    report = cluster.cycle()
    assert preempted(report) == {"high": ["low"]}
    assert admitted(report) == others


def test_an_earlier_workload_takes_the_reserved_capacity() -> None:
    cluster = running(ANY, evicting(queue(any=4)), first=[workload("low", 2)])
    cluster.tell(workload("high", 3, priority=1))
    assert preempted(cluster.cycle()) == {"high": ["low"]}
    cluster.tell(workload("higher", 2, priority=2, queued=1))
    assert admitted(cluster.cycle(now=2)) == ["higher"]
    cluster.finish("low")
    assert waits(cluster.cycle(now=3))["high"].startswith("WaitingForQuota")


def test_one_that_evicted_others_is_considered_before_those_it_waited_behind() -> None:
    """Else what became free goes to the evicted one again, which is evicted again, and so on."""
    cluster = running(ANY, evicting(queue(any=4)), first=[workload("low", 1, queued=1), workload("old", 3, queued=0)])
    cluster.tell(workload("wide", 5, priority=2, queued=2), workload("high", 4, priority=1, queued=3))
    assert preempted(cluster.cycle()) == {"high": ["low", "old"]}
    cluster.tell(workload("older", 1, priority=2, queued=1))
    cluster.finish("low")
    cluster.finish("old")
    assert admitted(cluster.cycle()) == ["high"]


def test_two_in_one_cycle_do_not_count_on_the_same_victim() -> None:
    cluster = running(ANY, evicting(queue(any=4)), first=[workload(f"low{i}", 2, queued=i) for i in (1, 2)])
    cluster.tell(workload("high1", 2, priority=1), workload("high2", 2, 1, priority=1, queued=1))
    victims = preempted(cluster.cycle())
    assert sorted(victims["high1"] + victims["high2"]) == ["low1", "low2"]


def test_a_workload_that_fits_beside_the_victims_of_another_waits_for_them_too() -> None:
    cluster = running(ANY, evicting(queue(any=4)), first=[workload("low", 4)])
    cluster.tell(workload("high", 3, priority=2), workload("next", 1, priority=1))
    report = cluster.cycle()
    assert preempted(report) == {"high": ["low"]}
    assert waits(report) == {
        "next": "WaitingForPreemptedWorkloads: Workload has overlapping preemption targets with another workload, but will "
        "fit after these preemptions complete"
    }
    cluster.finish("low")
    assert admitted(cluster.cycle()) == ["high", "next"]


def test_victims_free_a_domain_of_the_requested_shape() -> None:
    nodes = [host(f"{rack}-{i}", rack, 2) for rack in ("r1", "r2") for i in (1, 2)]
    low = [workload(f"low{i}", 2, priority=0, queued=i, topology=TopologyRequest(required=RACK)) for i in range(4)]
    cluster = running(racks(), *nodes, evicting(queue(tas=8)), first=low)
    cluster.tell(workload("gang", 4, priority=1, topology=TopologyRequest(required=RACK)))
    victims = preempted(cluster.cycle())["gang"]
    assert len(victims) == 2
    for victim in victims:
        cluster.finish(victim)
    report = cluster.cycle()
    assert len({name.split("-")[0] for name in domains(report, "gang")}) == 1


def test_nothing_is_evicted_where_it_would_not_help() -> None:
    nodes = [host(f"{rack}-1", rack, 2) for rack in ("r1", "r2")]
    cluster = running(racks(), *nodes, evicting(queue(tas=8)), first=[workload("low", 4)])
    cluster.tell(workload("wide", 3, priority=1, topology=TopologyRequest(required=RACK)))
    report = cluster.cycle()
    assert preempted(report) == {}
    assert waits(report)["wide"].startswith("TopologyPlacementFailed")


@pytest.mark.parametrize(
    ("nodes", "others"),
    [
        pytest.param([], [], id="which has no node"),
        pytest.param([host("two", "two-r", 2, "two")], [], id="whose node is too small even if it is empty"),
        pytest.param([host("two", "two-r", 4, "two")], [("better", 9)], id="whose node is full of its betters"),
    ],
)
def test_it_evicts_in_one_flavor_where_only_quota_is_free_in_the_next(
    nodes: list[Node], others: list[tuple[str, int]]
) -> None:
    here, spec = host("one", "one-r", 4, "one"), evicting(queue(one=4, two=8))
    cluster = running(racks("one"), racks("two"), here, *nodes, spec, first=[workload("low", 4)])
    cluster.tell(*(workload(key, 4, priority=priority, queued=1) for key, priority in others))
    assert len(admitted(cluster.cycle())) == len(others)
    cluster.tell(workload("high", 4, priority=5, queued=9))
    assert preempted(cluster.cycle()) == {"high": ["low"]}
    cluster.finish("low")
    assert admitted(cluster.cycle()) == ["high"]


def waiting_behind() -> Evicting:
    """`high` evicts `low`; `other`, of a relative that borrows, waits for what is kept for it."""
    shared = [evicting(queue("a", cohort="all", any=4)), queue("b", cohort="all", any=0)]
    cluster = running(ANY, *shared, first=[workload("low", 3, to="a")])
    cluster.tell(workload("high", 4, to="a", priority=1))
    assert preempted(cluster.cycle()) == {"high": ["low"]}
    cluster.tell(workload("other", to="b"))
    assert admitted(cluster.cycle()) == []
    return cluster


def test_what_was_kept_for_one_that_is_gone_is_free_again() -> None:
    cluster = waiting_behind()
    cluster.queues.remove("high")
    assert admitted(cluster.cycle()) == ["other"]


def test_what_was_kept_for_one_whose_chance_is_over_is_free_again() -> None:
    cluster = waiting_behind()
    cluster.tell(queue("a", cohort="all", any=4))
    report = cluster.cycle()
    assert "high" in waits(report)
    assert admitted(report) == ["other"]


def test_quota_afterwards_is_counted_without_changing_the_ledger() -> None:
    shared = [evicting(queue(name, cohort="all", any=4), RECLAIM) for name in ("a", "b")]
    cluster = running(ANY, *shared, first=[workload(f"low{i}", 2, to="a", queued=i) for i in range(4)])
    cluster.tell(workload("own", 3, to="b", priority=1), workload("up", 2, to="a", priority=2))
    assert set(preempted(cluster.cycle())) == {"own", "up"}
    reservations = Reservations(cluster.ledger, cluster.queues)
    reservations.hold_all()
    with cluster.ledger.trial():
        for key in reservations.leaving:
            cluster.ledger.remove_with_pods(key)
        for _, reservation in cluster.queues.capacity_reservations():
            cluster.ledger.quota.add(reservation.admission.cluster_queue, reservation.admission.usage())
        emptied = cluster.ledger.quota.state()
    with reservations.afterwards():
        assert cluster.ledger.quota.state() == emptied
        holders = {allocation.workload.key for name in ("a", "b") for allocation in cluster.ledger.charged_to(name)}
        assert holders == {f"low{i}" for i in range(4)} - reservations.leaving
    reservations.end()
    assert cluster.ledger.audit() == []


# ---- fewer pods


def fewer(key: str, pods: int, least: int, **more: int) -> Workload:
    pod_set = PodSet("main", pods, {"cpu": CPU}, min_count=least)
    return replace(workload(key, priority=more.get("priority", 0)), pod_sets=(pod_set,))


def count_of(report: CycleReport, key: str) -> int:
    [decision] = [d for d in report.decisions if isinstance(d, Admit) and d.workload == key]
    return decision.admission.pod_sets[0].count


@pytest.mark.parametrize(
    ("quota", "least", "expected"),
    [(10, 2, 10), (7, 2, 7), (2, 2, 2), (1, 2, None)],
    ids=["all fit", "some", "just enough", "too few"],
)
def test_it_starts_with_as_many_pods_as_fit(quota: int, least: int, expected: int | None) -> None:
    report = Cluster(ANY, queue(any=quota), fewer("w", 10, least)).cycle()
    if expected is None:
        assert waits(report)["w"].startswith("ExceedsMaxQuota")
    else:
        assert count_of(report, "w") == expected


def test_it_starts_with_as_many_as_a_rack_holds() -> None:
    spread = PodSet("main", 9, {"cpu": CPU}, min_count=2, topology=TopologyRequest(required=RACK))
    asked = replace(workload("w"), pod_sets=(spread,))
    report = Cluster(racks(), host("a", "r1", 4), host("b", "r2", 3), queue(tas=99), asked).cycle()
    assert domains(report, "w") == {"a": 4}


def test_it_starts_with_fewer_pods_in_the_second_flavor_where_the_first_has_quota_and_no_capacity() -> None:
    """The first flavor has quota for all and a node for one; the second quota for four and room for more."""
    flavors = [racks(name, topology=name) for name in ("near", "far")]
    nodes = [host("n", "r1", 1, "near"), host("f", "r1", 8, "far")]
    pod_set = PodSet("main", 8, {"cpu": CPU}, min_count=4, topology=TopologyRequest(required=RACK))
    asked = replace(workload("w"), pod_sets=(pod_set,))
    report = Cluster(*flavors, *nodes, queue(near=8, far=4), asked).cycle()
    assert domains(report, "w") == {"f": 4}


def test_nodes_are_emptied_where_quota_would_do() -> None:
    """There is quota for all; but only the second rack can be made free."""
    hosts = [host(f"{rack}-1", rack, 4) for rack in ("r1", "r2")]
    everybody = [
        workload(key, 4, priority=priority, topology=TopologyRequest(required=RACK), queued=priority)
        for key, priority in (("mighty", 9), ("low", 0))
    ]
    cluster = running(racks(), *hosts, evicting(queue(tas=99)), first=everybody)
    cluster.tell(workload("high", 4, priority=5, topology=TopologyRequest(required=RACK)))
    assert preempted(cluster.cycle()) == {"high": ["low"]}
    cluster.finish("low")
    assert admitted(cluster.cycle()) == ["high"]


def test_evicting_for_all_pods_comes_before_starting_with_fewer() -> None:
    cluster = running(ANY, evicting(queue(any=4)), first=[workload("low", 2)])
    cluster.tell(fewer("high", 4, 1, priority=1))
    assert preempted(cluster.cycle()) == {"high": ["low"]}


@pytest.mark.parametrize(
    ("priority", "victims"),
    [(0, None), (-1, None), (1, ["wide"])],
    ids=["of the same priority", "of higher priority", "of lower priority"],
)
def test_partial_jobs_of_two_queues_do_not_oust_each_other(priority: int, victims: list[str] | None) -> None:
    """The wide job borrows one of 8; the late one, with a quota of 4, starts with the 3 that are free instead of evicting it
    for a fourth. It evicts the wide job only if that has a lower priority.
    """
    shared = [evicting(queue(name, cohort="all", any=4), RECLAIM) for name in ("a", "b")]
    cluster = running(ANY, *shared, first=[replace(fewer("wide", 5, 1), cluster_queue="a")])
    cluster.tell(replace(fewer("late", 5, 1, priority=priority), cluster_queue="b"))
    report = cluster.cycle()
    if victims is None:
        assert preempted(report) == {}
        assert count_of(report, "late") == 3
    else:
        assert preempted(report) == {"late": victims}


def test_it_evicts_for_its_least_number_of_pods_if_fewer_are_free() -> None:
    shared = [evicting(queue(name, cohort="all", any=4), RECLAIM) for name in ("a", "b")]
    cluster = running(ANY, *shared, first=[replace(fewer("wide", 5, 1), cluster_queue="a")])
    cluster.tell(replace(fewer("late", 5, 4), cluster_queue="b"))
    assert preempted(cluster.cycle()) == {"late": ["wide"]}


def test_fewer_pods_start_after_a_repeated_preemption() -> None:
    """The owner may evict the borrower for all its pods, but not the third time: then it starts with those that fit."""
    shared = [evicting(queue(name, cohort="all", any=4), RECLAIM) for name in ("a", "b")]
    cluster = running(ANY, *shared, first=[workload("borrower", 6, to="a")])
    for turn in range(TIMES):
        cluster.queues.evictions.evict("owner", ["borrower"], 10.0 * turn)
        cluster.queues.evictions.pending("borrower")
    cluster.tell(replace(fewer("owner", 4, 1), cluster_queue="b"))
    report = cluster.cycle(now=30)
    assert preempted(report) == {}
    assert count_of(report, "owner") == 2


# ---- any history


QUEUES = ("a", "b", "c")
arrivals = st.tuples(
    st.sampled_from(QUEUES), st.integers(1, 4), st.integers(1, 2), st.integers(0, 3), st.booleans(), st.booleans()
)
steps = st.lists(st.one_of(arrivals, st.integers(0, 20), st.just("cycle"), st.just("leave")), max_size=25)


def tenants() -> Evicting:
    nodes = [host(f"{rack}-{i}", rack, 4) for rack in ("r1", "r2") for i in (1, 2)]
    specs = [evicting(queue(name, cohort="all" if name != "c" else "half", tas=5), RECLAIM) for name in QUEUES]
    return Evicting(racks(), *nodes, Cohort("half", "all"), *specs)


@settings(deadline=None, max_examples=examples(25))
@given(steps)
def test_no_history_overcommits_anything_or_evicts_in_vain(history: list[object]) -> None:
    """Usage is the sum over the admitted (audit, each cycle), no quota is exceeded, and victims suffice."""
    cluster, evicted = tenants(), dict[str, frozenset[str]]()
    for index, step in enumerate(history):
        match step:
            case (str() as name, int() as pods, int() as cpus, int() as priority, bool() as rack, bool() as few):
                topology = TopologyRequest(required=RACK) if rack else None
                new = workload(f"w{index}", pods, cpus, to=name, priority=priority, queued=index, topology=topology)
                if few:
                    new = replace(new, pod_sets=(replace(new.pod_sets[0], min_count=1),))
                cluster.tell(new)
            case int() as which:
                running = sorted(cluster.ledger.admissions)
                if running:
                    cluster.finish(running[which % len(running)])
            case "leave":
                for key in sorted(set[str]().union(*evicted.values())):
                    cluster.finish(key)
                evicted.clear()
            case _:
                report = cluster.cycle(now=index)
                evicted.update({key: frozenset(victims) for key, victims in preempted(report).items()})
        for name in QUEUES:
            node = cluster.ledger.quota.node(name)
            assert node is not None
            for fr in node.root().subtree:
                assert cohorts.available(node, fr) >= 0


@settings(deadline=None, max_examples=examples(15))
@given(st.lists(arrivals, min_size=1, max_size=9))
def test_a_nomination_leaves_no_trace(coming: list[tuple[str, int, int, int, bool, bool]]) -> None:
    cluster = tenants()
    for index, (name, pods, cpus, priority, rack, _) in enumerate(coming):
        cluster.cycle()
        topology = TopologyRequest(required=RACK) if rack else None
        cluster.tell(workload(f"w{index}", pods, cpus, to=name, priority=priority, queued=index, topology=topology))
    last = cluster.queues.workload(f"w{len(coming) - 1}")
    assert last is not None
    spec = cluster.ledger.quota.spec(last.cluster_queue)
    assert spec is not None
    before = dump(cluster.ledger)
    found = Nominator(cluster.ledger, Preemptor(cluster.ledger, 0.0), 0.0).nominate(last, spec)
    assert dump(cluster.ledger) == before
    if found.starts:
        with cluster.ledger.trial():
            for victim in found.victims:
                cluster.ledger.remove_with_pods(victim.workload)
            assert cluster.ledger.quota.fits(last.cluster_queue, found.assignment.usage)
            assert cluster.ledger.placement.fits(found.workload, found.admission())


def test_a_workload_that_may_preempt_is_requeued_when_a_relative_borrows() -> None:
    a = replace(queue("a", tas=8, cohort="c"), preemption=RECLAIM)
    cluster = Evicting(racks(), host("n1", "r1", 4), host("n2", "r2", 2), a, queue("b", tas=3, cohort="c"))
    one_rack = TopologyRequest(required=RACK)
    cluster.tell(workload("within", 1, 3, to="b", topology=one_rack, priority=-1))
    assert admitted(cluster.cycle()) == ["within"]
    cluster.tell(workload("head", 3, 1, to="a", topology=one_rack, queued=1.0))
    assert list(waits(cluster.cycle())) == ["head"], "b has no more than its own"
    assert cluster.cycle().decisions == ()
    cluster.tell(workload("beyond", 1, 1, to="b", topology=one_rack, queued=2.0))
    assert admitted(cluster.cycle()) == ["beyond"]
    (decision,) = cluster.cycle().decisions
    assert isinstance(decision, Preempt)
    assert [victim.workload for victim in decision.victims] == ["within"]


def test_a_workload_whose_reservation_ends_during_a_cycle_waits_on() -> None:
    """What is kept for it until then is no admission: it is considered again, and starts when its victim has left."""
    a, b = (evicting(queue(name, cohort="all", any=4)) for name in ("a", "b"))
    cluster = running(ANY, a, b, first=[workload("low-a", 4, to="a"), workload("low-b", 4, to="b")])
    cluster.tell(workload("high-a", 4, to="a", priority=5), workload("high-b", 4, to="b", priority=9, queued=-1))
    assert preempted(cluster.cycle()) == {"high-a": ["low-a"], "high-b": ["low-b"]}
    cluster.tell(workload("behind", 4, to="a", priority=1, queued=1))
    # b may evict nobody any more: its head is refused, and what was promised to it is free for others
    cluster.ledger.apply(replace(b, preemption=PreemptionPolicy()))
    cluster.queues.lines.requeue(("b",))
    report = cluster.cycle()
    assert "high-b" in waits(report)
    assert [key for key in ("high-a", "high-b", "behind") if key not in cluster.queues] == []
    cluster.finish("low-a")
    assert admitted(cluster.cycle()) == ["high-a"]
