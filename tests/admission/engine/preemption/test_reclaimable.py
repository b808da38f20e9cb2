"""What is within reach bounds what can be had: a workload that starts, or evicts and then starts, asked for no more."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.cycle.cycle import run_cycle
from admission.engine.cycle.nominate import Nominator
from admission.engine.decision import Decision
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    Admission,
    ClusterQueue,
    Cohort,
    ObjectRemoved,
    PodSetAdmission,
    PreemptionPolicy,
    QueueingStrategy,
    Quota,
    RemovedKind,
    Workload,
)
from admission.engine.preemption.preemptor import Preemptor
from admission.engine.preemption.reclaimable import reclaimable_bound
from admission.engine.queue.queues import PendingQueues
from admission.engine.scheduler_state import SchedulerState
from tests.admission.engine.builders import BEST, CPU, STRICT, Cluster, queue, racks, workload
from tests.budgets import examples

QUEUES = ("a", "b", "c")
CPUS = ("tas", "cpu")

few = st.integers(0, 6).map(lambda n: n * CPU)
policies = st.builds(
    PreemptionPolicy,
    st.sampled_from(("Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any", "Any")),
    st.sampled_from(("Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any")),
    st.sampled_from(("Never", "Never", "LowerPriority")),
    st.none(),
    st.sampled_from((False, False, False, True)),
)


@st.composite
def specs(draw: st.DrawFn, name: str) -> ClusterQueue:
    quota = Quota(draw(few), draw(st.none() | few), draw(st.none() | few))
    return replace(
        queue(name, cohort=draw(st.sampled_from((None, "x", "x", "y"))), tas=quota), preemption=draw(policies)
    )


def charged(key: str, to: str, cpus: int, priority: int, since: int) -> Workload:
    got = PodSetAdmission(name="main", flavors={"cpu": "tas"}, usage={"cpu": cpus * CPU}, count=1)
    asked = workload(key, 1, cpus, to=to, priority=priority, queued=float(since))
    return replace(asked, admission=Admission(to, (got,)), reserved=float(since))


allocations = st.lists(
    st.tuples(st.sampled_from(QUEUES), st.integers(1, 4), st.integers(0, 2), st.integers(0, 9)), max_size=8
)


@given(
    st.tuples(*map(specs, QUEUES)),
    st.sampled_from((None, "y", "z")),
    allocations,
    st.lists(st.tuples(st.integers(1, 8), st.integers(0, 2), st.integers(0, 9)), min_size=1, max_size=4),
)
@settings(deadline=None, max_examples=examples(50))
def test_no_workload_exceeds_its_reclaimable_bound(
    queues: tuple[ClusterQueue, ...],
    parent: str | None,
    running: list[tuple[str, int, int, int]],
    asking: list[tuple[int, int, int]],
) -> None:
    plain = replace(racks(), topology=None, levels=())
    ledger = Cluster(plain, Cohort("x", parent), *queues).ledger
    for number, (to, cpus, priority, since) in enumerate(running):
        ledger.apply(charged(f"r{number}", to, cpus, priority, since))
    for name in QUEUES:
        for cpus, priority, since in asking:
            topologies = workload("asks", 1, cpus, to=name, priority=priority, queued=float(since))
            spec = ledger.quota.spec(name)
            assert spec is not None
            found = Nominator(ledger, Preemptor(ledger, 10.0), 10.0).nominate(topologies, spec)
            if found.starts:
                assert reclaimable_bound(ledger, name, CPUS, priority) >= cpus * CPU


def test_a_change_of_priority_counts_at_once() -> None:
    lower = PreemptionPolicy(within_cluster_queue="LowerPriority")
    ledger = Cluster(racks(), replace(queue("a", tas=4), preemption=lower), charged("ns/r", "a", 3, 2, 0)).ledger
    assert reclaimable_bound(ledger, "a", CPUS, 2) == CPU
    ledger.apply(charged("ns/r", "a", 3, 1, 0))
    assert reclaimable_bound(ledger, "a", CPUS, 2) == 4 * CPU
    assert ledger.audit() == []


# ---- and so who is woken


RECLAIM = PreemptionPolicy("Any", "LowerPriority")


def state(*queues: ClusterQueue) -> SchedulerState:
    """These queues, and nodes enough."""
    made = SchedulerState(Ledger(), PendingQueues())
    made.apply(replace(racks(), topology=None, levels=()))
    for spec in queues:
        made.apply(spec)
    return made


def decide(of: SchedulerState) -> list[tuple[str, str]]:
    decisions: list[Decision] = []
    more = True
    while more:
        report = run_cycle(of.ledger, of.queues, 0.0, 100, Preemptor(of.ledger, 0.0))
        decisions += report.decisions
        more = report.more
    return [(type(decision).__name__, decision.workload) for decision in decisions]


def pair(strategy: QueueingStrategy) -> tuple[ClusterQueue, ClusterQueue]:
    """Four cpus for one of two queues, which the other may borrow."""
    a, b = queue("a", cohort="x", tas=4), queue("b", cohort="x", tas=0)
    return replace(a, preemption=RECLAIM, strategy=strategy), b


@pytest.mark.parametrize("other", ["a", "b"], ids=["its queue's less important", "a relative that borrows"])
@pytest.mark.parametrize("strategy", [BEST, STRICT], ids=str)
def test_it_is_requeued_once_evictions_would_suffice_and_not_before(other: str, strategy: QueueingStrategy) -> None:
    of = state(*pair(strategy))
    running = (("ns/1", "a", 1, 2), ("ns/2", "a", 1, 2), ("ns/low", other, 2, 0))
    for number, (key, to, cpus, priority) in enumerate(running):
        of.apply(charged(key, to, cpus, priority, number))
    of.apply(workload("ns/asks", 1, 4, to="a", priority=1))
    assert decide(of) == [("Wait", "ns/asks")]
    of.apply(ObjectRemoved(RemovedKind.WORKLOAD, "ns/1"))
    assert decide(of) == [], "one of its betters is still in the way"
    of.apply(ObjectRemoved(RemovedKind.WORKLOAD, "ns/2"))
    assert decide(of) == [("Preempt", "ns/asks")]


def test_equals_in_many_queues_are_not_heard_again_when_one_of_them_took_what_came_free() -> None:
    names = [f"q{number}" for number in range(4)]
    of = state(*(replace(queue(name, cohort="x", tas=1), preemption=RECLAIM) for name in names))
    for name in names:
        for number in range(2):
            of.apply(workload(f"ns/{name}-{number}", 1, 1, to=name, queued=float(number)))
    assert decide(of)[:4] == [("Admit", f"ns/{name}-0") for name in names]
    of.apply(ObjectRemoved(RemovedKind.WORKLOAD, "ns/q0-0"))
    assert decide(of) == [("Admit", "ns/q0-1")]


def test_the_oldest_is_evaluated_though_its_class_is_inadmissible() -> None:
    policy = PreemptionPolicy(within_cluster_queue="LowerOrNewerEqualPriority")
    of = state(replace(queue("a", tas=4), preemption=policy))
    of.apply(charged("ns/r", "a", 4, 0, 5))
    of.apply(workload("ns/late", 1, 2, to="a", queued=9.0))
    assert decide(of) == [("Wait", "ns/late")]
    of.apply(workload("ns/early", 1, 2, to="a", queued=1.0))
    assert decide(of)[0] == ("Preempt", "ns/early")


@pytest.mark.parametrize(
    ("strategy", "heard"),
    [
        pytest.param(BEST, [("Admit", "ns/new"), ("Preempt", "ns/asks")], id="BestEffortFIFO"),
        pytest.param(STRICT, [("Wait", "ns/new")], id="StrictFIFO: its head keeps what the relative would borrow"),
    ],
)
def test_it_is_heard_when_a_relative_has_borrowed_and_may_be_evicted_now(
    strategy: QueueingStrategy, heard: list[tuple[str, str]]
) -> None:
    a, b, c = (queue(name, cohort="x", tas=quota) for name, quota in (("a", 4), ("b", 2), ("c", 0)))
    of = state(replace(a, strategy=strategy, preemption=PreemptionPolicy("LowerPriority")), b, c)
    for key, to, cpus, priority in (("ns/own", "a", 1, 3), ("ns/theirs", "b", 2, 0), ("ns/high", "c", 2, 3)):
        of.apply(charged(key, to, cpus, priority, 0))
    of.apply(workload("ns/asks", 1, 2, to="a", priority=2))
    assert decide(of) == [("Wait", "ns/asks")], "one of a queue within its own quota is protected"
    of.apply(workload("ns/new", 1, 1, to="b", priority=1))
    assert decide(of) == heard


def test_the_former_relatives_of_a_moved_queue_are_requeued() -> None:
    a, b = queue("a", cohort="x", tas=2), queue("b", cohort="x", tas=2)
    of = state(a, b)
    of.apply(charged("ns/r", "a", 4, 0, 0))
    of.apply(workload("ns/asks", 1, 2, to="b"))
    assert decide(of) == [("Wait", "ns/asks")]
    of.apply(replace(a, cohort=None))
    assert decide(of) == [("Admit", "ns/asks")]
