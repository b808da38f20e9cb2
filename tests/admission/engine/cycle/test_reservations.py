"""What is promised stands until it can be had or has come to nothing: a workload that waits for victims is not asked in
between."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Admission, ObjectRemoved, PodSetAdmission, QueueingStrategy, RemovedKind, Workload
from admission.engine.queue.pending import CapacityReservation
from admission.engine.queue.queueing_hints import QueueingHint
from admission.engine.queue.queues import PendingQueues
from admission.engine.scheduler_state import SchedulerState
from tests.admission.engine.builders import BEST, CPU, STRICT, host, queue, racks, workload
from tests.admission.engine.cycle.evicting_cluster import RECLAIM, evicting, settle

strategies = pytest.mark.parametrize("strategy", [BEST, STRICT], ids=str)


def runs(key: str, cpus: int, priority: int, *, to: str = "q") -> Workload:
    got = PodSetAdmission(name="main", flavors={"cpu": "tas"}, usage={"cpu": cpus * CPU}, count=1)
    return replace(topologies(key, cpus, priority), admission=Admission(to, (got,)), cluster_queue=to, reserved=0.0)


def topologies(key: str, cpus: int, priority: int, *, queued: int = 0) -> Workload:
    return workload(key, 1, cpus, priority=priority, queued=queued)


def decide(of: SchedulerState) -> list[tuple[str, str]]:
    return [(type(decision).__name__, decision.workload) for decision in settle(of)]


def ends(of: SchedulerState, key: str) -> list[tuple[str, str]]:
    """What is decided when that one is gone."""
    of.apply(ObjectRemoved(RemovedKind.WORKLOAD, key))
    return decide(of)


def with_reservation(
    strategy: QueueingStrategy = BEST, cohort: str | None = None, *, queued: int = 0
) -> SchedulerState:
    """Eight cpus, of which one of low priority has four, three betters one each, and one is free; five are promised."""
    of = SchedulerState(Ledger(), PendingQueues())
    of.apply(replace(racks(), topology=None, levels=()))
    of.apply(evicting(queue(strategy=strategy, cohort=cohort, tas=8)))
    for each in (runs("low", 4, 0), *(runs(f"better{n}", 1, 9) for n in range(3))):
        of.apply(each)
    of.apply(topologies("high", 5, 5, queued=queued))
    assert decide(of) == [("Preempt", "high")]
    return of


@strategies
def test_an_end_that_is_not_enough_changes_nothing_and_one_that_is_lets_it_start(strategy: QueueingStrategy) -> None:
    of = with_reservation(strategy)
    for n in range(3):
        assert ends(of, f"better{n}") == [], f"{2 + n} of 5 are free, and the victim is still there"
    of.apply(runs("low", 3, 0))
    assert decide(of) == [("Admit", "high")], "a pod of the victim has ended: five are free before all of it is gone"


@strategies
def test_it_is_evaluated_again_when_its_last_victim_has_left_and_another_took_its_reservation(
    strategy: QueueingStrategy,
) -> None:
    of = with_reservation(strategy)
    of.apply(topologies("higher", 1, 7, queued=1))
    assert decide(of) == [("Admit", "higher")]
    assert ends(of, "low") == [("Wait", "high")]
    assert ends(of, "higher") == [("Admit", "high")]


def beside_another_queue(*waiting: Workload) -> SchedulerState:
    """The same in a cohort: then a second queue comes, with one cpu that can be lent, and these workloads."""
    of = with_reservation(cohort="c", queued=5)
    of.apply(evicting(queue("other", cohort="c", tas=1)))
    assert decide(of) == [("Wait", "high")]
    for one in waiting:
        of.apply(one)
    return of


def test_a_reservation_that_binds_one_head_early_does_not_bind_the_next_one() -> None:
    """It stood against the head of another queue, and then also against one that may use its capacity."""
    of = beside_another_queue(workload("barred", to="other", priority=9), topologies("earlier", 1, 5, queued=3))
    assert decide(of) == [("Admit", "barred"), ("Admit", "earlier")]
    assert ends(of, "low") == [("Wait", "high")]
    assert ends(of, "better0") == [("Admit", "high")]


@strategies
def test_it_is_asked_again_when_its_victim_does_not_leave_after_all(strategy: QueueingStrategy) -> None:
    of = with_reservation(strategy)
    assert of.apply(runs("low", 4, 0)), "a cycle has something to do"
    assert decide(of) == [("Preempt", "high")]


@pytest.mark.parametrize(
    ("cpus", "after"),
    [pytest.param(1, 1, id="as soon as one is free beside the five"), pytest.param(2, 2, id="as soon as two are")],
)
def test_a_workload_that_waits_for_a_reservation_is_evaluated_when_enough_is_free_beside_it(
    cpus: int, after: int
) -> None:
    of = with_reservation()
    of.apply(topologies("small", cpus, 1))
    assert decide(of) == [("Wait", "small")]
    for n in range(after):
        assert ends(of, f"better{n}") == ([("Admit", "small")] if n == after - 1 else [])


def test_a_workload_that_waits_for_a_reservation_is_evaluated_when_it_ends_unused() -> None:
    of = with_reservation()
    of.apply(topologies("small", 1, 1))
    assert decide(of) == [("Wait", "small")]
    assert ends(of, "high") == [("Admit", "small")]


def test_a_workload_that_waits_for_a_reservation_is_evaluated_when_its_last_victim_leaves_another_cohort_tree() -> None:
    """A workload that fits once others have left waits for all of them, whatever quota they use."""
    of = SchedulerState(Ledger(), PendingQueues())
    of.apply(replace(racks(), topology=None, levels=()))
    for spec in (queue(tas=8), queue("other", tas=2)):
        of.apply(evicting(spec))
    of.apply(runs("better", 7, 9))
    of.apply(runs("leaves", 2, 0, to="other"))
    of.apply(topologies("high", 5, 5))
    kept = runs("high", 5, 5).admission
    assert kept is not None
    of.queues.reserve_capacity(
        "high",
        CapacityReservation(kept, frozenset({"leaves"}), hint=QueueingHint(((("tas", "cpu"), 5 * CPU),), frozenset())),
    )
    of.apply(topologies("small", 1, 1))
    assert decide(of) == [("Wait", "small")]
    assert ends(of, "leaves") == [("Wait", "high"), ("Admit", "small")]


def test_an_earlier_workload_is_evaluated_when_enough_is_free_with_the_reservation() -> None:
    of = with_reservation()
    of.apply(topologies("wide", 6, 7, queued=1))
    assert decide(of) == [("Wait", "wide")], "one is free, and four can be had"
    assert ends(of, "better0") == [("Wait", "wide")], "two and four are six: it waits for the same victim"
    assert ends(of, "low") == [("Admit", "wide"), ("Wait", "high")]


def test_a_workload_that_waits_for_a_reservation_is_evaluated_when_its_owner_starts_elsewhere() -> None:
    of = SchedulerState(Ledger(), PendingQueues())
    for flavor in ("one", "two"):
        of.apply(racks(flavor))
    of.apply(host("one-0", "one-r", 8, "one"))
    of.apply(evicting(queue(one=6, two=4)))
    of.apply(topologies("low", 4, 0))
    assert decide(of) == [("Admit", "low")]
    of.apply(topologies("high", 4, 5))
    assert decide(of) == [("Preempt", "high")], "the second flavor has quota, but no node"
    only_here = topologies("small", 3, 1)
    of.apply(replace(only_here, pod_sets=(replace(only_here.pod_sets[0], node_selector={"pool": "one"}),)))
    assert decide(of) == [("Wait", "small")]
    of.apply(host("two-0", "two-r", 4, "two"))
    assert decide(of) == [("Admit", "high"), ("Wait", "small")], "the victim leaves all the same"
    assert ends(of, "low") == [("Admit", "small")]


def test_a_reservation_that_bars_one_head_does_not_bar_the_next_one_that_comes_before_its_owner() -> None:
    """ "other" comes first because it borrows nothing, and may not use what is reserved for "later".

    "earlier" is again in the StrictFIFO queue of "later", before it.
    """
    of = SchedulerState(Ledger(), PendingQueues())
    of.apply(replace(racks(), topology=None, levels=()))
    of.apply(evicting(queue("q", strategy=STRICT, cohort="c", tas=2), replace(RECLAIM, borrow_policy="LowerPriority")))
    of.apply(queue("other", cohort="c", tas=4))
    of.apply(runs("low", 4, 0))
    of.apply(topologies("later", 5, 5, queued=1))
    assert decide(of) == [("Preempt", "later")]
    of.apply(topologies("earlier", 2, 5))
    of.apply(replace(topologies("other", 3, 0), cluster_queue="other"))
    assert decide(of) == [("Wait", "other"), ("Admit", "earlier")]


def test_a_reservation_that_is_renewed_does_not_bar_a_workload_that_comes_before_its_owner() -> None:
    """A preemptor whose reservation ended has its turn before "higher", which was queued since."""
    of = with_reservation()
    of.apply(evicting(queue(tas=10)))
    of.apply(topologies("higher", 3, 7, queued=1))
    assert decide(of) == [("Wait", "high"), ("Admit", "higher")]


def test_a_reservation_that_is_renewed_bars_the_workloads_behind_its_owner() -> None:
    of = with_reservation()
    of.apply(evicting(queue(tas=10)))
    of.apply(topologies("lower", 3, 1, queued=1))
    assert decide(of) == [("Wait", "high"), ("Wait", "lower")]
