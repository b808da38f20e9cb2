"""A GangGroup makes room: for all of its members or for none, and nobody leaves who need not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.cycle.cycle import CycleReport, run_cycle
from admission.engine.decision import Preempt
from admission.engine.model import ClusterQueue, Event, Flavor, Gang, TopologyRequest, Workload
from tests.admission.engine.builders import CPU, RACK, Cluster, admitted, domains, host, queue, racks, waits, workload
from tests.admission.engine.cycle.evicting_cluster import RECLAIM, Evicting, evicting, preempted, running
from tests.admission.engine.dump import dump
from tests.admission.engine.features.test_gang_groups import with_minimum
from tests.budgets import quick

A, B, C = "ns/a", "ns/b", "other/c"
BOTH = (A, B)
FLAT = Flavor("flat", {})


def member(
    key: str,
    pods: int,
    *,
    to: str = "q",
    group: tuple[str, ...] = BOTH,
    priority: int = 5,
    topology: TopologyRequest | None = None,
    joins: str = "",
    queued: float = 0.0,
) -> Workload:
    """A gang of that GangGroup; `joins`: one that came late."""
    made = workload(key, pods, to=to, topology=topology, priority=priority, queued=queued)
    return replace(made, gang=Gang(f"gang-{joins or key}", group, joins=joins))


def test_victims_are_chosen_over_the_whole_group_and_all_start_when_they_have_left() -> None:
    cluster = running(
        FLAT, evicting(queue(flat=6)), first=[workload("small", 1), workload("low", 2), workload("mid", 3, priority=1)]
    )
    cluster.tell(member(A, 1), member(B, 2))
    report = cluster.cycle()
    assert preempted(report) == {A: ["low", "small"]}, "the least important that suffice for both"
    [decision] = [d for d in report.decisions if isinstance(d, Preempt)]
    assert decision.message == "2 gangs of the group start together. Pending the preemption of 2 workload(s)"
    assert decision.requested == {"main": {"cpu": CPU}}
    assert (
        waits(report)[B]
        == f"WaitingForPreemptedWorkloads: gang {A} of the group: others are still to leave for the whole group"
    )
    assert admitted(cluster.cycle()) == []
    cluster.finish("low")
    assert admitted(cluster.cycle()) == [], "half of the room is none"
    cluster.finish("small")
    assert sorted(admitted(cluster.cycle())) == [A, B]


def test_nobody_is_evicted_for_pods_of_a_group_beyond_its_minimum() -> None:
    cluster = running(FLAT, evicting(queue(flat=6)), first=[workload(f"low{n}", 1) for n in range(6)])
    cluster.tell(*(with_minimum(member(key, 6), 2) for key in BOTH))
    [victims] = preempted(cluster.cycle()).values()
    assert len(victims) == 4
    for victim in victims:
        cluster.finish(victim)
    assert sorted(admitted(cluster.cycle())) == [A, B]


def test_nothing_is_evicted_where_one_member_would_still_not_fit() -> None:
    cluster = running(FLAT, evicting(queue(flat=4)), evicting(queue("p", flat=2)), first=[workload("low", 4)])
    cluster.tell(member(A, 4), member(B, 3, to="p"))
    assert preempted(cluster.cycle()) == {}, "b asks for more than there ever is"
    cluster = running(
        FLAT,
        evicting(queue(flat=4)),
        evicting(queue("p", flat=2)),
        first=[workload("low", 4), workload("equal", 2, to="p", priority=5)],
    )
    cluster.tell(member(A, 4), member(B, 2, to="p"))
    assert preempted(cluster.cycle()) == {}, "the one in p is as important"


def test_a_queue_that_may_not_evict_keeps_the_whole_group_waiting() -> None:
    cluster = running(
        FLAT, evicting(queue(flat=4)), queue("p", flat=2), first=[workload("low", 4), workload("keeps", 2, to="p")]
    )
    cluster.tell(member(A, 4), member(B, 2, to="p"))
    assert preempted(cluster.cycle()) == {}


def test_a_closed_gate_of_one_member_keeps_the_group_from_evicting() -> None:
    cluster = running(FLAT, evicting(queue(flat=4)), first=[workload("low", 4)])
    cluster.tell(replace(member(A, 2), gated=True), member(B, 2))
    assert preempted(cluster.cycle()) == {}
    cluster.tell(member(A, 2))
    assert list(preempted(cluster.cycle()).values()) == [["low"]]


def test_the_group_evicts_as_its_least_important_member_would() -> None:
    cluster = running(FLAT, evicting(queue(flat=4)), first=[workload("mid", 4, priority=3)])
    cluster.tell(member(A, 2, priority=9), member(B, 2, priority=2))
    assert preempted(cluster.cycle()) == {}
    cluster = running(FLAT, evicting(queue(flat=4)), first=[workload("mid", 4, priority=3)])
    cluster.tell(member(A, 2, priority=9), member(B, 2, priority=4))
    assert list(preempted(cluster.cycle()).values()) == [["mid"]]


def test_members_of_the_group_that_run_are_not_evicted_for_the_others() -> None:
    first = replace(member(A, 2, priority=0), gang=Gang("gang-a", BOTH, started=True))
    cluster = Evicting(FLAT, evicting(queue(flat=3)))
    cluster.ledger.apply(replace(first, admission=None))
    alone = replace(first, gang=None)
    cluster.tell(alone)
    cluster.cycle()
    charged = cluster.ledger.admission(A)
    assert charged is not None
    cluster.ledger.apply(replace(first, admission=charged))
    cluster.tell(member(B, 2, priority=9))
    report = cluster.cycle()
    assert preempted(report) == {}
    assert waits(report)[B].startswith("WaitingForQuota")


def test_members_in_several_queues_evict_each_in_its_own() -> None:
    cluster = running(
        FLAT,
        evicting(queue(flat=3)),
        evicting(queue("p", flat=3)),
        first=[workload("in-q", 3), workload("in-p", 2, to="p"), workload("stays", 1, to="p", priority=3)],
    )
    cluster.tell(member(A, 2), member(B, 2, to="p"))
    report = cluster.cycle()
    assert list(preempted(report).values()) == [["in-p", "in-q"]]
    cluster.finish("in-p")
    assert admitted(cluster.cycle()) == []
    cluster.finish("in-q")
    assert sorted(admitted(cluster.cycle())) == [A, B]


def test_of_two_queues_victims_those_that_the_others_make_needless_stay() -> None:
    shared = [evicting(replace(queue(name, cohort="all", flat=2)), RECLAIM) for name in ("q", "p")]
    lender = evicting(queue("r", cohort="all", flat=0), RECLAIM)
    cluster = running(FLAT, *shared, lender, first=[workload("borrows", 4, to="r")])
    cluster.tell(member(A, 2), member(B, 2, to="p"))
    assert list(preempted(cluster.cycle()).values()) == [["borrows"]]


def test_a_gang_goes_with_the_others_of_its_own_group_and_with_its_late_members() -> None:
    old = ("ns/x", "ns/y")
    late = member("ns/y-late", 1, group=(), priority=0, joins="ns/y", queued=9)
    cluster = Evicting(FLAT, evicting(queue(flat=6)))
    cluster.tell(
        member("ns/x", 2, group=old, priority=0), member("ns/y", 1, group=old, priority=0), workload("low", 2, queued=1)
    )
    cluster.cycle()
    cluster.tell(late)
    cluster.cycle()
    assert len(cluster.queues) == 0
    cluster.tell(member(A, 1, priority=5), member(B, 3, priority=5))
    assert list(preempted(cluster.cycle()).values()) == [["ns/x", "ns/y", "ns/y-late"]], "low need not go as well"


def test_a_gang_stays_where_another_of_its_group_may_not_go() -> None:
    old = ("ns/x", "ns/y")
    cluster = Evicting(FLAT, evicting(queue(flat=4)), queue("elsewhere", flat=1))
    cluster.tell(
        member("ns/x", 2, group=old, priority=0),
        member("ns/y", 1, group=old, priority=0, to="elsewhere"),
        workload("mid", 2, priority=3, queued=1),
    )
    cluster.cycle()
    cluster.tell(member(A, 1), member(B, 1))
    assert list(preempted(cluster.cycle()).values()) == [["mid"]], "the cheaper one cannot go as a whole"


def test_capacity_reserved_for_the_group_is_not_taken_by_workloads_behind_it() -> None:
    cluster = running(
        FLAT,
        evicting(queue(flat=4)),
        evicting(queue("p", flat=3)),
        first=[workload("low", 4), workload("more", 1, to="p")],
    )
    cluster.tell(member(A, 3), member(B, 2, to="p"))
    assert list(preempted(cluster.cycle()).values()) == [["low"]]
    cluster.tell(workload("sneaks", 1, to="p", queued=5), workload("tiny", 1, queued=5))
    assert admitted(cluster.cycle()) == [], "b's share of p is kept for it as well"
    cluster.finish("low")
    assert sorted(admitted(cluster.cycle())) == [A, B, "tiny"]


def test_the_reservation_ends_with_the_last_of_its_owners() -> None:
    cluster = running(FLAT, evicting(queue(flat=4)), first=[workload("low", 3)])
    cluster.tell(member(A, 2), member(B, 2))
    [owner] = preempted(cluster.cycle())
    cluster.queues.remove(owner)
    cluster.tell(workload("small", 1, queued=7))
    assert admitted(cluster.cycle()) == ["small"]


@pytest.mark.parametrize("fair", [False, True], ids=["by priority", "by fair shares"])
def test_a_gang_that_is_on_its_way_out_already_is_waited_for(fair: bool) -> None:
    cluster = running(FLAT, evicting(queue(flat=4)), first=[workload("low", 2), workload("other", 2)])
    leaving = cluster.ledger.workload("low")
    assert leaving is not None
    cluster.ledger.apply(replace(leaving, evicted=True))
    cluster.tell(member(A, 1), member(B, 1))
    assert list(preempted(cluster.cycle(fair=fair)).values()) == [["low"]]


# ---- one joint placement


def in_rack(name: str | None = None) -> TopologyRequest:
    return TopologyRequest(required=RACK, group=name)


def two_racks(*sizes: int) -> list[Event]:
    return [racks(), *(host(f"h{i}", f"r{i}", cpus) for i, cpus in enumerate(sizes))]


def places(report: CycleReport) -> Mapping[str, dict[str, int]]:
    return {key: domains(report, key) for key in admitted(report)}


def test_gangs_that_share_a_placement_group_lie_in_one_domain() -> None:
    events = [*two_racks(4, 6), queue(tas=20), queue("p", tas=20)]
    cluster = Evicting(*events, member(A, 2, topology=in_rack("one")), member(B, 3, to="p", topology=in_rack("one")))
    assert places(cluster.cycle()) == {A: {"h1": 2}, B: {"h1": 3}}
    cluster = Evicting(*events, member(A, 2, topology=in_rack()), member(B, 3, to="p", topology=in_rack()))
    assert set(places(cluster.cycle())) == {A, B}, "without it each lies where it fits"


def test_gangs_of_one_placement_group_wait_where_no_domain_holds_all() -> None:
    events = [*two_racks(4, 4), queue(tas=20)]
    cluster = Evicting(*events, member(A, 2, topology=in_rack("one")), member(B, 3, topology=in_rack("one")))
    report = cluster.cycle()
    assert admitted(report) == []
    assert waits(report)[A].startswith("TopologyPlacementFailed: ")


def test_gangs_of_one_placement_group_stand_on_one_flavor() -> None:
    small, large = racks("small"), racks("large")
    both = evicting(queue(small=9, large=9))
    nodes = [host("s", "r", 2, "small"), host("l", "r", 9, "large")]
    cluster = Evicting(
        small, large, *nodes, both, member(A, 2, topology=in_rack("one")), member(B, 3, topology=in_rack("one"))
    )
    assert places(cluster.cycle()) == {A: {"l": 2}, B: {"l": 3}}


def test_what_one_member_could_take_elsewhere_is_left_to_another() -> None:
    wide, narrow = racks(), host("h1", "r1", 3)
    cluster = Evicting(
        wide,
        host("h0", "r0", 2),
        narrow,
        queue(tas=20),
        member(A, 2, topology=in_rack()),
        member(B, 3, topology=in_rack()),
    )
    assert places(cluster.cycle()) == {A: {"h0": 2}, B: {"h1": 3}}


def test_a_group_that_needs_one_rack_empties_the_rack_that_is_cheapest_to_empty() -> None:
    first = [
        workload("dear", 3, topology=in_rack(), priority=3),
        workload("cheap-1", 2, topology=in_rack(), priority=1, queued=1),
        workload("cheap-2", 2, topology=in_rack(), priority=1, queued=2),
    ]
    cluster = running(*two_racks(3, 4), evicting(queue(tas=20)), first=first)
    cluster.tell(member(A, 1, topology=in_rack("one")), member(B, 2, topology=in_rack("one")))
    assert list(preempted(cluster.cycle()).values()) == [["cheap-1", "cheap-2"]]


# ---- any world


@dataclass(frozen=True)
class RandomGroups:
    """Hosts a rack each; `runs` and `group` as (queue, pods, priority, requires a rack)."""

    hosts: tuple[int, ...]
    quotas: tuple[int, int]
    runs: tuple[tuple[str, int, int, bool], ...]
    group: tuple[tuple[str, int, int, bool], ...]
    shared: bool

    def queues(self) -> list[ClusterQueue]:
        return [evicting(queue(name, tas=cpus)) for name, cpus in zip("qp", self.quotas, strict=True)]

    def start(self) -> tuple[Evicting, list[Workload]]:
        """With as many of `runs` as find room."""
        made = Evicting(racks(), *(host(f"h{i}", f"r{i}", cpus) for i, cpus in enumerate(self.hosts)), *self.queues())
        for index, (to, pods, priority, rack) in enumerate(self.runs):
            made.tell(
                workload(
                    f"run-{index}",
                    pods,
                    to=to,
                    topology=in_rack() if rack else TopologyRequest(unconstrained=True),
                    queued=index,
                    priority=priority,
                )
            )
            run_cycle(made.ledger, made.queues, 0.0, 100)
        for name in list(made.queues.workloads()):
            made.queues.remove(name.key)
        return made, [w for key in sorted(made.ledger.admissions) if (w := made.ledger.workload(key)) is not None]

    def members(self) -> list[Workload]:
        keys = tuple(f"ns/g{i}" for i in range(len(self.group)))
        name = "one" if self.shared else None
        return [
            member(
                key,
                pods,
                to=to,
                group=keys,
                priority=priority,
                topology=in_rack(name) if rack or self.shared else TopologyRequest(unconstrained=True),
            )
            for key, (to, pods, priority, rack) in zip(keys, self.group, strict=True)
        ]


names = st.sampled_from(["q", "p"])
sizes = st.integers(1, 4)
worlds = st.builds(
    RandomGroups,
    hosts=st.lists(st.integers(2, 5), min_size=1, max_size=3).map(tuple),
    quotas=st.tuples(st.integers(3, 9), st.integers(3, 9)),
    runs=st.lists(st.tuples(names, sizes, st.integers(0, 3), st.booleans()), max_size=5).map(tuple),
    group=st.lists(st.tuples(names, sizes, st.integers(2, 4), st.booleans()), min_size=2, max_size=3).map(tuple),
    shared=st.booleans(),
)


def starts_without(world: RandomGroups, gone: Iterable[str]) -> bool:
    """Whether the group starts, with nobody's help, when these have left."""
    cluster, _ = world.start()
    for key in gone:
        cluster.finish(key)
    cluster.tell(*world.members())
    report = Cluster.cycle(cluster)
    return sorted(admitted(report)) == [each.key for each in world.members()]


def lawful(world: RandomGroups, runs: Iterable[Workload]) -> list[str]:
    """Who may go: of lower priority than every member, and in a queue of one of them."""
    least = min(priority for _, _, priority, _ in world.group)
    queues = {to for to, *_ in world.group}
    return [one.key for one in runs if one.priority < least and one.cluster_queue in queues]


def check(world: RandomGroups) -> None:
    cluster, runs = world.start()
    before = dump(cluster.ledger)
    cluster.tell(*world.members())
    report = cluster.cycle()
    got, [*told] = sorted(admitted(report)), preempted(report).values()
    keys = [each.key for each in world.members()]
    may_go = lawful(world, runs)
    assert got in ([], keys), "all or none"
    if got:
        assert not told
        return
    assert dump(cluster.ledger) == before, "what was tried leaves no trace"
    if not told:
        for count in range(len(may_go) + 1):
            for some in combinations(may_go, count):
                assert not starts_without(world, some), f"{some} would have been enough"
        return
    [victims] = told
    assert set(victims) <= set(may_go)
    assert starts_without(world, victims), "they leave for nothing"
    for spared in victims:
        assert not starts_without(world, set(victims) - {spared}), f"{spared} need not have left"
    for key in victims:
        cluster.finish(key)
    assert sorted(admitted(cluster.cycle())) == keys


@settings(max_examples=quick(10), deadline=None)
@given(worlds)
def test_victims_leave_only_if_all_members_then_fit_and_only_those_needed(world: RandomGroups) -> None:
    check(world)


@pytest.mark.long
@settings(max_examples=1500, deadline=None)
@given(worlds)
def test_the_same_many_times(world: RandomGroups) -> None:
    check(world)
