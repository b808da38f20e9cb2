"""Ledger and queues kept in step: which event wakes whom, and what is said to be worth a cycle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from admission.engine.cycle.cycle import CycleReport, run_cycle
from admission.engine.decision import Admit
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import BoundPod, Cohort, Event, Flavor, ObjectRemoved, Quota, RemovedKind, RestartTerms
from admission.engine.queue.queues import PendingQueues
from admission.engine.scheduler_state import SchedulerState
from tests.admission.engine.builders import STRICT, admitted, host, queue, racks, workload

FLAVOR_QUEUE = queue(tas=2)


def state(*events: Event) -> SchedulerState:
    """One host of two cpus, a queue with as much quota, and what is told besides."""
    made = SchedulerState(Ledger(), PendingQueues())
    for event in (racks(), host("n1", "r1", 2), FLAVOR_QUEUE, *events):
        made.apply(event)
    return made


def cycle(of: SchedulerState) -> CycleReport:
    return run_cycle(of.ledger, of.queues, 0.0, 100)


QUOTA, ROOM = "quota", "room"


@pytest.mark.parametrize(
    ("event", "wakes"),
    [
        pytest.param(ObjectRemoved(RemovedKind.WORKLOAD, "ns/first"), (QUOTA, ROOM), id="a workload leaves"),
        pytest.param(host("n2", "r1", 2), (ROOM,), id="a node comes"),
        pytest.param(ObjectRemoved(RemovedKind.POD, "ns/stranger"), (ROOM,), id="a foreign pod goes"),
        pytest.param(replace(FLAVOR_QUEUE, groups=queue(tas=9).groups), (QUOTA, ROOM), id="the quota grows"),
        pytest.param(Cohort("c", None, {("tas", "cpu"): Quota(9000)}), (QUOTA, ROOM), id="a cohort changes"),
        pytest.param(replace(racks(), topology="other"), (QUOTA, ROOM), id="the flavor changes"),
        pytest.param(BoundPod("ns/new", "n1", {"cpu": 1}), (), id="a foreign pod comes"),
        pytest.param(ObjectRemoved(RemovedKind.NODE, "n9"), (), id="a node goes"),
        pytest.param(ObjectRemoved(RemovedKind.WORKLOAD, "ns/nobody"), (), id="who was never admitted leaves"),
    ],
)
@pytest.mark.parametrize("missing", [QUOTA, ROOM])
def test_events_that_requeue_inadmissible_workloads(event: Event, wakes: tuple[str, ...], missing: str) -> None:
    stranger = BoundPod("ns/stranger", "n1", {"cpu": 10})
    of = state(stranger, queue(tas=2 if missing == QUOTA else 8), workload("ns/first", 1, 1))
    of.apply(workload("ns/second", 2, 1, queued=1.0))
    assert admitted(cycle(of)) == ["ns/first"]
    assert cycle(of).decisions == ()
    assert of.apply(event) is bool(wakes)
    assert bool(cycle(of).decisions) is (missing in wakes)


def test_a_workload_stays_inadmissible_while_less_quota_is_free_than_it_requests() -> None:
    of = state(workload("ns/small", 1, 1), workload("ns/other", 1, 1), workload("ns/large", 2, 1, queued=1.0))
    of.apply(workload("ns/modest", 1, 1, queued=2.0))
    cycle(of)
    of.apply(ObjectRemoved(RemovedKind.WORKLOAD, "ns/small"))
    assert [decision.workload for decision in cycle(of).decisions] == ["ns/modest"]
    of.apply(ObjectRemoved(RemovedKind.WORKLOAD, "ns/modest"))
    of.apply(ObjectRemoved(RemovedKind.WORKLOAD, "ns/other"))
    assert admitted(cycle(of)) == ["ns/large"]


def test_an_inadmissible_head_stays_inadmissible_as_well() -> None:
    strict = replace(FLAVOR_QUEUE, strategy=STRICT)
    of = state(strict, *(workload(f"ns/{name}", 1, 1) for name in "ab"), workload("ns/large", 2, 1, queued=1.0))
    of.apply(workload("ns/behind", 1, 1, queued=2.0))
    assert admitted(cycle(of)) == ["ns/a", "ns/b"]
    of.apply(ObjectRemoved(RemovedKind.WORKLOAD, "ns/a"))
    assert cycle(of).decisions == (), "nobody overtakes it, and it would wait again"
    of.apply(ObjectRemoved(RemovedKind.WORKLOAD, "ns/b"))
    assert admitted(cycle(of)) == ["ns/large"]


def test_capacity_on_another_flavor_requeues_nothing() -> None:
    of = state(Flavor("else"), racks("spare"), queue("spare", spare=9), queue(tas=8), workload("ns/first", 1, 1))
    of.apply(workload("ns/second", 2, 1, queued=1.0))
    assert admitted(cycle(of)) == ["ns/first"]
    assert of.apply(host("n2", "r1", 2, "spare"))
    assert cycle(of).decisions == ()


def test_relatives_in_the_cohort_are_requeued_too() -> None:
    a, b = (replace(queue(name, tas=1), cohort="c") for name in "ab")
    of = state(a, b, workload("ns/a", 2, 1, to="a"), workload("ns/b", 2, 1, to="b", queued=1.0))
    assert admitted(cycle(of)) == ["ns/a"]
    assert of.apply(ObjectRemoved(RemovedKind.WORKLOAD, "ns/a"))
    assert admitted(cycle(of)) == ["ns/b"]


def test_a_reported_admission_leaves_the_queue_and_is_charged() -> None:
    of = state(workload("ns/w", 1, 1))
    (decision,) = cycle(of).decisions
    told = of.ledger.workload(decision.workload)
    other = state(workload("ns/w", 1, 1))
    assert told is not None
    assert other.apply(told) is False
    assert "ns/w" not in other.queues
    assert other.ledger.admissions == of.ledger.admissions
    assert not other.ledger.audit()


def test_a_workload_that_lost_its_admission_waits_again() -> None:
    of = state(workload("ns/w", 1, 1))
    cycle(of)
    assert of.apply(workload("ns/w", 1, 1)) is True
    assert not of.ledger.admissions
    assert "ns/w" in of.queues


def test_the_inputs_make_the_same_ledger_again() -> None:
    of = state(workload("ns/w", 1, 1), BoundPod("ns/p", "n1", {"cpu": 10}))
    cycle(of)
    copy = Ledger()
    for event in of.ledger.inputs():
        copy.apply(event)
    assert list(copy.inputs()) == list(of.ledger.inputs())
    assert not copy.audit()


@pytest.mark.parametrize(
    ("priority", "wakes"), [(12, False), (9, False), (0, True)], ids=["higher", "as before", "lower"]
)
def test_a_lowered_priority_requeues_workloads_that_may_evict_now(priority: int, wakes: bool) -> None:
    of = state(workload("ns/runs", 2, 1, priority=9))
    assert admitted(cycle(of)) == ["ns/runs"]
    of.apply(workload("ns/waits", 2, 1, queued=1.0, priority=3))
    cycle(of)
    assert cycle(of).decisions == ()
    runs = of.ledger.workload("ns/runs")
    assert runs is not None
    assert of.apply(replace(runs, priority=priority)) is wakes
    assert bool(cycle(of).decisions) is wakes


RUNS = RestartTerms(movable=False)


@pytest.mark.parametrize(
    ("change", "grows"),
    [
        pytest.param({"movable": True}, True, id="its job allows moves"),
        pytest.param({"minimum_run": 0}, True, id="it need not run longer"),
        pytest.param({"checkpoint": 7.0}, False, id="its work was saved"),
        pytest.param({"cost": 7}, False, id="a move costs something else"),
    ],
)
def test_moves_are_planned_again_when_a_workload_may_be_moved(change: dict[str, Any], grows: bool) -> None:
    of = state(workload("ns/first", 1, 1))
    (found,) = (one for one in cycle(of).decisions if isinstance(one, Admit))
    runs = replace(workload("ns/first", 1, 1), admission=found.admission, restart=RUNS)
    of.apply(runs)
    before = of.movability
    of.apply(replace(runs, restart=replace(RUNS, **change)))
    assert (of.movability > before) is grows


@pytest.mark.parametrize("change", [{"restart": RestartTerms(movable=True)}, {"moves_per_day": 7}], ids=str)
def test_moves_are_planned_again_when_a_queue_allows_more(change: dict[str, Any]) -> None:
    of = state()
    before = of.movability
    of.apply(replace(FLAVOR_QUEUE, **change))
    assert of.movability > before
    before = of.movability
    of.apply(replace(FLAVOR_QUEUE, **change))
    assert of.movability == before
