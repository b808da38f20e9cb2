"""A snapshot in the middle of each kind of trouble decides on as the original does, bit for bit, and hears the same.

Promises that victims have not kept yet, reservations of backfill, gangs that start together, failed nodes, elastic quotas, fair
shares, pods that are not ready: a table of one moment each, and any history of all of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.cycle.cycle import CycleReport
from admission.engine.decision import Admit, Evict, Preempt, Wait
from admission.engine.features.spare_hosts import of_flavors, of_workloads
from admission.engine.model import (
    ClusterQueue,
    Cohort,
    Event,
    Gang,
    Node,
    ObjectRemoved,
    PreemptionPolicy,
    Quota,
    RemovedKind,
    SpareRule,
    TopologyRequest,
    Workload,
)
from admission.engine.quota.fairness import FairSharingRules
from admission.world.snapshot import capture_world, decode, from_snapshot
from admission.world.world import World
from tests.admission.engine.builders import BEST, CPU, HOST, RACK, STRICT, host, queue, racks
from tests.admission.engine.builders import workload as made_workload
from tests.budgets import quick

IN_A_RACK = TopologyRequest(required=RACK)
NOW = 1000.0
POLICY = PreemptionPolicy(reclaim_within_cohort="Any", within_cluster_queue="LowerPriority")


def workload(key: str, pods: int = 1, cpus: int = 1, *, queued: float = 0, **more: Any) -> Workload:
    """One that has waited since `queued`."""
    return made_workload(key, pods, cpus, queued=float(queued), **more)


def heard(report: CycleReport) -> bytes:
    """All that a cycle says, as bytes."""
    return msgspec.json.encode((report.decisions, [(n.workload.key, n.reason, n.message) for n in report.notices]))


def copied(world: World) -> World:
    """Through the snapshot's bytes, which are the same again."""
    data = capture_world(world).encode()
    copy = from_snapshot(decode(data))
    assert capture_world(copy).encode() == data
    return copy


def goes_on_alike(world: World, *events: Event, cycles: int = 3) -> list[CycleReport]:
    """Cycles now, after each of the events, and while time passes; told of the original."""
    copy, reports = copied(world), []

    def cycle() -> None:
        report = world.cycle()
        assert heard(copy.cycle()) == heard(report)
        reports.append(report)

    cycle()
    for event in events:
        world.apply(event)
        copy.apply(event)
        cycle()
    for _ in range(cycles):
        world.now += 7.0
        copy.now += 7.0
        cycle()
    assert capture_world(copy).encode() == capture_world(world).encode()
    return reports


def decided(reports: list[CycleReport], kind: type) -> set[str]:
    return {decision.workload for report in reports for decision in report.decisions if isinstance(decision, kind)}


def world(*events: Event, now: float = NOW, rule: SpareRule | None = None) -> World:
    """Two racks of two hosts of four CPUs, and these."""
    made = World(now=now)
    for event in (replace(racks(), spare=rule), *(host(f"n{i}", f"r{i // 2}", 4) for i in range(4)), *events):
        made.apply(event)
    return made


# ---- one moment each


def evicting(queue_: ClusterQueue) -> World:
    """A victim is to leave for one of higher priority, and has not left."""
    made = world(queue_, workload("low", 8, topology=IN_A_RACK), workload("other", 8, topology=IN_A_RACK))
    made.cycle()
    made.apply(workload("high", 6, topology=IN_A_RACK, priority=9, queued=1))
    made.apply(workload("later", 2, topology=IN_A_RACK, queued=2))
    made.cycle()
    return made


@pytest.mark.parametrize("strategy", [STRICT, BEST])
def test_a_reservation_whose_victims_have_not_left(strategy: object) -> None:
    made = evicting(replace(queue(strategy=strategy, tas=100), preemption=POLICY))  # type: ignore[arg-type]
    (reservation,) = [reservation for owner, reservation in made.queues.capacity_reservations() if owner.key == "high"]
    (victim,) = reservation.victims
    reports = goes_on_alike(made, ObjectRemoved(RemovedKind.WORKLOAD, victim))
    assert "high" in decided(reports, Admit)


@pytest.mark.parametrize("strategy", [STRICT, BEST])
def test_a_reservation_of_a_workload_short_of_quota_until_its_victims_leave(strategy: object) -> None:
    """What else comes free meanwhile wakes it neither here nor there."""
    made = world(*queues_of(strategy, backfill=False, elastic=False), workload("low", 5, 2, to="a"))
    made.cycle()
    made.apply(workload("high", 1, to="a", priority=1))
    assert decided([made.cycle()], Preempt) == {"high"}
    ((_, reservation),) = made.queues.capacity_reservations()
    assert reservation.hint is not None
    assert "high" in decided(
        goes_on_alike(made, workload("new", 1, to="b", queued=9), ObjectRemoved(RemovedKind.WORKLOAD, "low")), Admit
    )


def test_a_head_with_unknown_start() -> None:
    """Those behind it are told no moment by the copy either."""
    made = world(
        replace(queue(tas=10), reserves_starts=True), workload("runs", 6), replace(workload("ends", 4), time_limit=60.0)
    )
    made.cycle()
    made.apply(workload("head", 8, queued=1))
    made.cycle()
    second = replace(workload("second", 4, queued=2), time_limit=100.0)
    reports = goes_on_alike(made, second, ObjectRemoved(RemovedKind.WORKLOAD, "head"))
    messages = [
        d.message for report in reports for d in report.decisions if isinstance(d, Wait) and d.workload == "second"
    ]
    assert ["expected to start" in message for message in messages[:2]] == [False, True]


@pytest.mark.parametrize("strategy", [STRICT, BEST])
def test_a_reservation_that_ended_and_was_not_evaluated_since(strategy: object) -> None:
    """Who waited for victims comes first when they have left, and the snapshot is taken in between."""
    made = evicting(replace(queue(strategy=strategy, tas=100), preemption=POLICY))  # type: ignore[arg-type]
    made.apply(workload("first", 6, topology=IN_A_RACK, priority=10, queued=3))
    (reservation,) = [reservation for owner, reservation in made.queues.capacity_reservations() if owner.key == "high"]
    made.apply(ObjectRemoved(RemovedKind.WORKLOAD, next(iter(reservation.victims))))
    reports = goes_on_alike(made)
    assert decided(reports, Admit) & {"high", "first"}


def test_a_workload_short_of_quota_stays_inadmissible_until_that_much_is_free() -> None:
    made = world(queue(tas=8), workload("a", 3), workload("b", 5))
    made.cycle()
    for name, pods in (("wide", 6), ("small", 4), ("same", 4)):
        made.apply(workload(name, pods, queued=5))
    made.cycle()
    reports = goes_on_alike(
        made,
        ObjectRemoved(RemovedKind.WORKLOAD, "a"),
        workload("new", 4, queued=9),
        ObjectRemoved(RemovedKind.WORKLOAD, "b"),
    )
    assert decided(reports, Admit) == {"same", "small"} or decided(reports, Admit) >= {"wide"}


def test_between_freed_quota_and_the_next_cycle() -> None:
    """Somebody else may be faster: who was woken for quota that is gone again is not heard of."""
    made = world(
        queue("q", cohort="c", tas=4), queue("o", cohort="c", tas=4), workload("a", 4), workload("b", 4, to="o")
    )
    made.cycle()
    made.apply(workload("slow", 2, queued=5))
    made.cycle()
    made.apply(ObjectRemoved(RemovedKind.WORKLOAD, "b"))
    made.apply(workload("fast", 4, to="o", queued=1, priority=5))
    reports = goes_on_alike(made)
    assert decided(reports, Admit) == {"fast"}


def test_quota_that_a_refused_strict_head_keeps_from_borrowers() -> None:
    """The head sleeps, and those who come later borrow nothing of it from the copy either."""
    made = world(queue("q", strategy=STRICT, cohort="c", tas=4), queue("o", cohort="c", tas=0), workload("a", 2))
    made.cycle()
    made.apply(workload("head", 3, queued=1))
    made.cycle()
    assert [owner.key for owner, _ in made.queues.kept()] == ["head"]
    reports = goes_on_alike(made, workload("borrows", 2, to="o", queued=2), ObjectRemoved(RemovedKind.WORKLOAD, "head"))
    assert decided(reports[:1], Admit) == set()
    assert decided(reports, Admit) == {"borrows"}


def test_backfill_reservations_and_the_workloads_behind_them() -> None:
    made = world(
        replace(queue(strategy=STRICT, tas=10), reserves_starts=True), replace(workload("runs", 6), time_limit=60.0)
    )
    made.cycle()
    made.apply(workload("head", 8, queued=1))
    made.apply(replace(workload("long", 4, queued=2), time_limit=100.0))
    made.now += 5
    made.cycle()
    short = replace(workload("short", 4, queued=3), time_limit=20.0)
    reports = goes_on_alike(made, short, ObjectRemoved(RemovedKind.WORKLOAD, "runs"))
    assert decided(reports, Admit) >= {"short"}


def test_gangs_that_wait_for_each_other() -> None:
    together = ("a", "b")
    first = replace(workload("a", 4, topology=IN_A_RACK), gang=Gang("g1", together))
    other = replace(workload("b", 8, topology=IN_A_RACK, to="o"), gang=Gang("g2", together))
    made = world(queue(tas=100), queue("o", tas=100), workload("x", 8, topology=IN_A_RACK, queued=-1), first)
    made.cycle()
    reports = goes_on_alike(made, other, ObjectRemoved(RemovedKind.WORKLOAD, "x"))
    assert decided(reports, Admit) == {"a", "b"}


def test_gangs_that_evict_others_together() -> None:
    """What the other one gets is kept as well, until the victims have left."""
    together = ("a", "b")
    both = [
        replace(workload(key, 8, topology=IN_A_RACK, priority=5, queued=9), gang=Gang(f"g-{key}", together))
        for key in together
    ]
    small = [workload(f"x{i}", 4, queued=i) for i in range(4)]
    made = world(replace(queue(tas=100), preemption=POLICY), *small)
    made.cycle()
    for one in both:
        made.apply(one)
    made.cycle()
    ((_, reservation),) = made.queues.capacity_reservations()
    assert reservation.beside
    leaves = (ObjectRemoved(RemovedKind.WORKLOAD, key) for key in sorted(reservation.victims))
    reports = goes_on_alike(made, workload("late", 1, queued=10), *leaves)
    assert decided(reports, Admit) >= {"a", "b"}


@pytest.mark.parametrize(("pods", "kind"), [(2, Admit), (4, Evict)])
def test_a_node_that_has_failed_under_a_workload(pods: int, kind: type) -> None:
    """It moves to another host of its rack, or has to go: as the scheduler decides before each cycle."""
    made = world(queue(tas=100), workload("w", pods, 2, topology=IN_A_RACK))
    made.cycle()
    admission = made.ledger.admission("w")
    assert admission is not None
    assignment = admission.pod_sets[0].assignment
    assert assignment is not None
    lost = assignment.domains[0].values[-1]
    node = made.ledger.capacity.nodes[lost].node
    assert node is not None
    made.apply(replace(node, usable=False))
    made.failed = {"w": (lost,)}
    reports = goes_on_alike(made)
    assert decided(reports[:1], kind) == {"w"}
    assert not made.failed


def test_a_spare_host_of_a_flavor_that_the_past_has_chosen() -> None:
    """Another host of the rack became idle since, and by name it would come first."""
    rule = SpareRule(1, 2, RACK)
    made = world(
        queue(tas=100), workload("early", 2, 4, topology=IN_A_RACK), workload("late", 2, 4, topology=IN_A_RACK)
    )
    made.cycle()
    made.apply(replace(racks(), spare=rule))
    made.apply(ObjectRemoved(RemovedKind.WORKLOAD, "early"))
    made.apply(workload("one", 1, 4, topology=IN_A_RACK))
    made.cycle()
    held = of_flavors.states(made.ledger)["tas"].hosts()
    assert len(held) == 1
    [got] = made.ledger.admissions["one"].pod_sets
    assert got.assignment is not None
    [taken] = {domain.values[-1] for domain in got.assignment.domains}
    assert of_flavors.states(copied(made).ledger)["tas"].hosts() == held
    made.apply(ObjectRemoved(RemovedKind.WORKLOAD, "one"))
    assert taken not in held
    goes_on_alike(made, workload("whole", 2, 4, topology=IN_A_RACK), ObjectRemoved(RemovedKind.WORKLOAD, "late"))


@pytest.mark.parametrize("free", [True, False], ids=["held", "lacking"])
def test_a_spare_host_of_a_workload(free: bool) -> None:
    made = world(queue(tas=100), workload("gang", 1, 4, topology=SPARED))
    [decision] = made.cycle().decisions
    assert isinstance(decision, Admit)
    if not free:
        [spare] = of_workloads.held(made.ledger, "gang").names
        made.apply(ObjectRemoved(RemovedKind.NODE, spare))
        made.cycle()
    held = of_workloads.held(made.ledger, "gang")
    assert bool(held.names) == free
    assert of_workloads.held(copied(made).ledger, "gang") == held
    goes_on_alike(made, workload("other", 1, 4, topology=IN_A_RACK), workload("wide", 2, 4, topology=IN_A_RACK))


def test_elastic_quotas_take_back_what_was_borrowed() -> None:
    elastic = PreemptionPolicy(reclaim_within_cohort="Any", within_cluster_queue="LowerPriority", keeps_nominal=True)
    queues = [
        replace(queue(name, cohort="c", tas=4), preemption=elastic, ignores_uncovered=True) for name in ("q", "o")
    ]
    made = world(*queues, *(workload(f"b{i}", 2, to="o", queued=i) for i in range(4)))
    made.cycle()
    made.apply(workload("mine", 4, queued=9))
    reports = goes_on_alike(made)
    assert decided(reports, Preempt) == {"mine"}


def test_fair_shares() -> None:
    queues = [replace(queue(name, cohort="c", tas=0), preemption=POLICY) for name in ("q", "o")]
    made = world(Cohort("c", None, {("tas", "cpu"): Quota(8 * CPU)}), *queues)
    made.sharing = FairSharingRules()
    for i in range(8):
        made.apply(workload(f"o{i}", 1, to="o", queued=i))
    made.cycle()
    for i in range(4):
        made.apply(workload(f"q{i}", 1, queued=10 + i))
    reports = goes_on_alike(made)
    assert decided(reports, Preempt)


def test_pods_that_are_not_ready() -> None:
    made = world(queue(tas=100), workload("a", 1), workload("b", 1))
    made.one_by_one, made.unready = True, {"elsewhere"}
    assert made.cycle().admitted == 0
    copy = copied(made)
    made.unready.clear()
    copy.unready.clear()
    for one in (made, copy):
        one.state.requeue_all()
    assert heard(copy.cycle()) == heard(made.cycle())
    assert copy.startable == 1


# ---- any history


def queues_of(strategy: object, *, backfill: bool, elastic: bool) -> list[Event]:
    policy = replace(POLICY, keeps_nominal=elastic)
    return [
        replace(
            queue(name, strategy=strategy, cohort="c", tas=Quota(own * CPU)),  # type: ignore[arg-type]
            preemption=policy,
            reserves_starts=backfill and name == "a",
        )
        for name, own in (("a", 6), ("b", 4))
    ]


SPARED = TopologyRequest(required=RACK, spare_hosts=1)
topologies = st.sampled_from([None, IN_A_RACK, TopologyRequest(preferred=RACK), TopologyRequest(required=HOST), SPARED])
workloads = st.builds(
    lambda n, pods, cpus, to, topology, priority, queued, limit, group: replace(
        workload(f"w{n}", pods, cpus, to=to, topology=topology, priority=priority, queued=float(queued)),
        time_limit=limit,
        gang=Gang(f"g{n}", ("w0", "w1")) if group and n < 2 else None,
    ),
    st.integers(0, 7),
    st.integers(1, 6),
    st.integers(1, 2),
    st.sampled_from(["a", "b"]),
    topologies,
    st.integers(0, 2),
    st.integers(0, 3),
    st.sampled_from([None, None, 5.0, 20.0]),
    st.booleans(),
)


def nodes(number: int, usable: bool) -> Node:
    return replace(host(f"n{number}", f"r{number // 2}", 4), usable=usable)


steps = st.one_of(
    workloads,
    st.builds(lambda n: ObjectRemoved(RemovedKind.WORKLOAD, f"w{n}"), st.integers(0, 7)),
    st.builds(nodes, st.integers(0, 3), st.sampled_from([True, True, False])),
    st.none(),
    st.none(),
)
Story = list[Event | None]
stories = {
    "before": st.lists(steps, max_size=25),
    "after": st.lists(steps.filter(lambda step: step is not None), max_size=4),
    "strategy": st.sampled_from([STRICT, BEST]),
    "backfill": st.booleans(),
    "elastic": st.booleans(),
    "fair": st.booleans(),
    "rule": st.sampled_from([None, SpareRule(1, 2, RACK), SpareRule(1, 2, RACK, "b")]),
    "budget": st.sampled_from([1, 3, 64]),
}


def any_history(
    before: Story,
    after: Story,
    strategy: object,
    backfill: bool,
    elastic: bool,
    fair: bool,
    rule: SpareRule | None,
    budget: int,
) -> None:
    made = world(*queues_of(strategy, backfill=backfill, elastic=elastic), rule=rule)
    made.budget, made.sharing = budget, FairSharingRules() if fair else None
    for step in before:
        if step is None:
            made.now += 1.0
            made.cycle()
        else:
            made.apply(step)
    goes_on_alike(made, *(step for step in after if step is not None), cycles=2)


@given(**stories)
@settings(max_examples=quick(20), deadline=None)
def test_any_history_goes_on_alike(
    before: Story,
    after: Story,
    strategy: object,
    backfill: bool,
    elastic: bool,
    fair: bool,
    rule: SpareRule | None,
    budget: int,
) -> None:
    any_history(before, after, strategy, backfill, elastic, fair, rule, budget)


@pytest.mark.long
@given(**stories)
@settings(max_examples=5000, deadline=None)
def test_every_history_goes_on_alike(
    before: Story,
    after: Story,
    strategy: object,
    backfill: bool,
    elastic: bool,
    fair: bool,
    rule: SpareRule | None,
    budget: int,
) -> None:
    any_history(before, after, strategy, backfill, elastic, fair, rule, budget)
