"""No workload that could start or evict stays inadmissible: one that is not requeued by freed capacity would be refused
again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.cycle.cycle import run_cycle
from admission.engine.decision import Admit, Decision, Preempt
from admission.engine.explain.cycle_decision import DecisionInputs, decided
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    BoundPod,
    ClusterQueue,
    Cohort,
    Event,
    ObjectRemoved,
    PodSet,
    PreemptionPolicy,
    Quota,
    RemovedKind,
    TopologyRequest,
    Workload,
)
from admission.engine.queue.cluster_queue import order_of
from admission.engine.queue.queues import PendingQueues
from admission.engine.scheduler_state import SchedulerState
from tests.admission.engine.builders import BEST, CPU, RACK, STRICT, group, host, racks
from tests.admission.engine.cycle.evicting_cluster import settle
from tests.budgets import quick

FLAVORS, QUEUES = ("one", "two"), ("a", "b", "c")


def state() -> SchedulerState:
    made = SchedulerState(Ledger(), PendingQueues())
    for flavor in FLAVORS:
        made.apply(racks(flavor))
        for index in range(3):
            made.apply(host(f"{flavor}-{index}", f"{flavor}-r{index % 2}", 4, flavor))
    return made


def run(of: SchedulerState) -> list[Decision]:
    found: list[Decision] = []
    more = True
    while more:
        report = run_cycle(of.ledger, of.queues, 0.0, 100)
        found += report.decisions
        more = report.more
    return found


quotas = st.builds(
    Quota, st.integers(0, 16).map(lambda n: n * CPU), st.none() | st.integers(0, 4).map(lambda n: n * CPU), st.none()
)


@st.composite
def queue_specs(draw: st.DrawFn, name: str) -> ClusterQueue:
    flavors = draw(st.permutations(FLAVORS))[: draw(st.integers(1, 2))]
    resources = ("cpu", "pods") if draw(st.booleans()) else ("cpu",)
    made = group(
        {
            flavor: {r: draw(quotas) if r == "cpu" else Quota(draw(st.integers(0, 12))) for r in resources}
            for flavor in flavors
        }
    )
    cohort = draw(st.sampled_from((None, "x", "y")))
    if cohort is None:
        made = group({q.flavor: {r: Quota(of.nominal) for r, of in q.quotas.items()} for q in made.flavors})
    return ClusterQueue(name, (made,), cohort, draw(st.sampled_from((BEST, BEST, STRICT))))


topologies = st.sampled_from(
    (TopologyRequest(required=RACK), TopologyRequest(preferred=RACK), TopologyRequest(unconstrained=True))
)
pod_sets = st.builds(
    lambda pods, cpus, topology, least: PodSet("x", pods, {"cpu": cpus * CPU}, min_count=least, topology=topology),
    st.integers(1, 5),
    st.integers(1, 3),
    topologies,
    st.sampled_from((None, None, None, 1)),
)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    parts = draw(st.lists(pod_sets, min_size=1, max_size=2))
    named = tuple(replace(part, name=f"s{index}") for index, part in enumerate(parts))
    key, to = f"w{draw(st.integers(0, 20)):02d}", draw(st.sampled_from(QUEUES))
    return Workload(key, key, f"ns/{to}", to, named, draw(st.integers(0, 1)), float(draw(st.integers(0, 3))))


events: st.SearchStrategy[Event] = st.one_of(
    workloads(),
    workloads(),
    st.integers(0, 20).map(lambda n: ObjectRemoved(RemovedKind.WORKLOAD, f"w{n:02d}")),
    st.sampled_from(QUEUES).flatmap(queue_specs),
    st.builds(
        lambda name, pair, quota: Cohort(name, None, {(pair, "cpu"): Quota(quota.nominal)}),
        st.sampled_from("xy"),
        st.sampled_from(FLAVORS),
        quotas,
    ),
    st.builds(
        lambda n, node, cpus: BoundPod(f"p{n}", node, {"cpu": cpus * CPU}),
        st.integers(0, 3),
        st.sampled_from([f"{flavor}-{index}" for flavor in FLAVORS for index in range(3)]),
        st.integers(1, 4),
    ),
    st.integers(0, 3).map(lambda n: ObjectRemoved(RemovedKind.POD, f"p{n}")),
    st.builds(lambda n, cpus: host(f"one-{n}", f"one-r{n % 2}", cpus, "one"), st.integers(0, 3), st.integers(1, 6)),
)


@given(st.tuples(*map(queue_specs, QUEUES)), st.lists(events, min_size=5, max_size=40))
@settings(deadline=None)
def test_no_inadmissible_workload_could_start(specs: tuple[ClusterQueue, ...], history: list[Event]) -> None:
    of = state()
    for event in (*specs, *history):
        of.apply(event)
        run(of)
        if isinstance(event, Workload | ObjectRemoved):
            of.queues.lines.requeue(QUEUES)
            assert not [decision for decision in run(of) if isinstance(decision, Admit)]


def test_a_pod_that_is_resized_in_place_frees_capacity() -> None:
    of = state()
    of.apply(BoundPod("p", "one-0", {"cpu": 2 * CPU}))
    of.apply(ClusterQueue("c", (group({"one": {"cpu": Quota(6 * CPU)}}),)))
    pod_set = PodSet("main", 2, {"cpu": 3 * CPU}, topology=TopologyRequest(required=RACK))
    of.apply(Workload("w", "w", "ns/c", "c", (pod_set,)))
    assert not [decision for decision in run(of) if isinstance(decision, Admit)]
    of.apply(BoundPod("p", "one-0", {"cpu": CPU}))
    assert [decision.workload for decision in run(of)] == ["w"]


# ---- where queues may evict

COHORTS = ("x", "y", "z")
policies = st.builds(
    PreemptionPolicy,
    st.sampled_from(("Never", "LowerPriority", "Any", "Any")),
    st.sampled_from(("Never", "LowerPriority", "LowerPriority", "LowerOrNewerEqualPriority", "Any")),
    st.sampled_from(("Never", "Never", "Never", "LowerPriority")),
)
few = st.integers(0, 6).map(lambda n: n * CPU)
resources = st.sampled_from((("cpu",), ("cpu",), ("cpu", "memory")))


@st.composite
def evicting_specs(draw: st.DrawFn, name: str) -> ClusterQueue:
    quotas = {r: Quota(draw(few), draw(st.none() | few), draw(st.none() | few)) for r in draw(resources)}
    cohort = draw(st.sampled_from(("x", "x", "y")))
    return ClusterQueue(
        name,
        (group({"one": quotas}),),
        cohort,
        draw(st.sampled_from((BEST, BEST, STRICT))),
        preemption=draw(policies),
    )


@st.composite
def simple(draw: st.DrawFn) -> Workload:
    """A workload that only quota holds back: of several hundred cpus on the nodes nobody uses a tenth."""
    number, to = draw(st.integers(0, 30)), draw(st.sampled_from(QUEUES))
    requests = {"cpu": draw(st.integers(1, 2)) * CPU, "memory": draw(st.integers(0, 1)) * CPU}
    pod_set = PodSet("main", draw(st.integers(1, 4)), requests, topology=TopologyRequest(unconstrained=True))
    key = f"w{number:02d}"
    priority = draw(st.integers(0, 2))
    return Workload(key, key, f"ns/{to}", to, (pod_set,), priority, float(number), gated=draw(st.integers(0, 9)) == 0)


class End:
    """Of one of the admitted, whichever this number means."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        return f"End({self.number})"


happenings: st.SearchStrategy[Workload | ClusterQueue | Cohort | End] = st.one_of(
    simple(),
    simple(),
    simple(),
    *[st.integers(0, 30).map(End)] * 3,
    st.sampled_from(QUEUES).flatmap(evicting_specs),
    st.builds(lambda name, parent: Cohort(name, parent), st.sampled_from(COHORTS), st.sampled_from((None, *COHORTS))),
)


def happen(of: SchedulerState, what: Event | End) -> None:
    if not isinstance(what, End):
        of.apply(what)
    elif running := sorted(of.ledger.admissions):
        of.apply(ObjectRemoved(RemovedKind.WORKLOAD, running[what.number % len(running)]))


def let_go(of: SchedulerState) -> None:
    """The evicted have left for good; the workloads that waited for them are decided on."""
    while evicted := [k for k in sorted(of.ledger.admissions) if (w := of.ledger.workload(k)) and w.evicted]:
        for key in evicted:
            of.apply(ObjectRemoved(RemovedKind.WORKLOAD, key))
        settle(of)


def first_to_be_asked(of: SchedulerState) -> Iterator[Workload]:
    """Who waits without a promise: of a StrictFIFO queue only the first, and nobody behind one that has a promise."""
    for name in QUEUES:
        spec = of.ledger.quota.spec(name)
        waiting = sorted((one for one in of.queues.workloads() if one.cluster_queue == name), key=order_of)
        only_first = spec is not None and spec.strategy is STRICT
        yield from (one for one in (waiting[:1] if only_first else waiting) if not of.queues.holds_reservation(one.key))


def check_evicting(specs: tuple[ClusterQueue, ...], history: list[tuple[Event | End, bool]]) -> None:
    of = state()
    for number in range(3):
        of.apply(host(f"one-{number}", "one-r0", 100, "one"))
    for what, leave in (*((spec, True) for spec in specs), *history):
        happen(of, what)
        settle(of)
        if leave:
            let_go(of)
        if any(of.queues.capacity_reservations()):  # to wake everybody breaks promises: then there is more to be had
            for topologies in first_to_be_asked(of):
                assert not isinstance(decided(of.ledger, topologies, 0.0, DecisionInputs(of.queues)), Admit | Preempt)
            continue
        of.queues.lines.requeue(QUEUES)
        assert not [one for one in settle(of) if isinstance(one, Admit | Preempt)]


histories = st.lists(st.tuples(happenings, st.booleans()), min_size=10, max_size=40)
scenes = st.tuples(st.tuples(*map(evicting_specs, QUEUES)), histories)


@given(scenes)
@settings(deadline=None, max_examples=quick(12))
def test_no_inadmissible_workload_could_start_or_evict(
    scene: tuple[tuple[ClusterQueue, ...], list[tuple[Event | End, bool]]],
) -> None:
    check_evicting(*scene)


@pytest.mark.long
@given(scenes)
@settings(deadline=None, max_examples=1500)
def test_no_inadmissible_workload_could_start_or_evict_in_many_histories(
    scene: tuple[tuple[ClusterQueue, ...], list[tuple[Event | End, bool]]],
) -> None:
    check_evicting(*scene)
