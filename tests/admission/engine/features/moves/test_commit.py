"""A plan that is carried out beside other workloads that arrive, change and leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.decide import decide
from admission.engine.decision import Admit, Decision, Preempt, Wait
from admission.engine.features.moves.commit import commit
from admission.engine.features.moves.feature import PLACE_HELD, MoveReason
from admission.engine.features.moves.movers import moves_left
from admission.engine.features.moves.plan import PlanOptions, plan
from admission.engine.features.moves.plans import Move, MovePlan
from admission.engine.features.moves.resume import place_after_moves
from admission.engine.ledger.holds import HoldKind, hold_key
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import CPU, BoundPod, ObjectRemoved, RemovedKind, RestartTerms, TopologyRequest, Workload
from admission.engine.queue.queues import PendingQueues
from admission.engine.scheduler_state import SchedulerState
from tests.admission.engine.features.moves.clusters import NOW, Running, cluster, gang, hosts_of, own
from tests.admission.engine.features.moves.drawn import DrawnCluster
from tests.budgets import examples

SEEDS = st.integers(0, 10**6)
ANYWHERE = TopologyRequest(unconstrained=True)
BOUND = PlanOptions(bound=True)


def small(name: str, cpus: int = 1, priority: int = 0) -> Workload:
    return replace(gang(1, cpus, ANYWHERE), key=f"ns/{name}", uid=f"uid-{name}", priority=priority)


class Played:
    """A cluster in which a plan was committed, with its movers on their way and the gang in the queue."""

    def __init__(self, ledger: Ledger, waiting: Workload) -> None:
        self.ledger, self.waiting = ledger, waiting
        self.state = SchedulerState(ledger, PendingQueues())
        spec = ledger.quota.spec("q")
        assert spec is not None
        self.state.apply(spec)
        self.state.apply(waiting)

    def cycle(self) -> dict[str, Decision]:
        """The decisions until nothing more happens, by workload."""
        found: dict[str, Decision] = {}
        for _ in range(10):
            report = decide(self.ledger, self.state.queues, NOW, 64)
            found |= {one.workload: one for one in report.decisions}
            if not report.more:
                break
        return found

    def stop(self, move: Move, check: Callable[[], None]) -> None:
        """The mover's pods end, one by one."""
        for host, count in hosts_of(move.before).items():
            for pod in range(count):
                self.state.apply(ObjectRemoved(RemovedKind.POD, f"{move.workload}-{host}-{pod}"))
                check()

    def start(self, move: Move, check: Callable[[], None]) -> None:
        """The mover's pods are bound at its new place."""
        got = move.before.pod_sets[0]
        for host, count in hosts_of(move.after).items():
            for pod in range(count):
                amounts = {CPU: got.usage[CPU] // got.count}
                self.state.apply(BoundPod(f"{move.workload}-{host}-new{pod}", host, amounts, move.workload, "main"))
                check()


def used(ledger: Ledger, capacity: int) -> list[str]:
    """Hosts on which bound pods and admitted pods without a node, but no holds, exceed the capacity (cpus)."""
    cpus: dict[str, int] = {}
    for pod in ledger.allocations.pods.values():
        cpus[pod.node] = cpus.get(pod.node, 0) + pod.requests[CPU]
    for key, allocation in ledger.allocations.by_workload.items():
        if key not in ledger.holds:
            for entry in allocation.entries.values():
                got = allocation.workload.pod_sets[0]
                rest = entry.count - len(entry.covered)
                cpus[entry.values[-1]] = cpus.get(entry.values[-1], 0) + rest * got.requests[CPU]
    return [host for host, amount in cpus.items() if amount > capacity * 1000]


@settings(max_examples=examples(150))
@given(SEEDS, st.integers(0, 10**6))
def test_the_gang_starts_at_the_place_that_was_held_and_nobody_is_in_its_way(seed: int, how: int) -> None:
    drawn, draw = DrawnCluster(seed), Random(how)
    ledger = drawn.ledger()
    made = plan(ledger, drawn.gang, NOW, BOUND)
    if not isinstance(made, MovePlan):
        return
    ledger.apply(own(10_000))
    assert commit(ledger, drawn.gang, made, NOW, {}) is None
    played, number = Played(ledger, drawn.gang), 0

    def check() -> None:
        nonlocal number
        assert used(ledger, 4) == []
        assert ledger.audit() == []
        for move in made.moves:
            assert hosts_of(ledger.admission(move.workload)) == hosts_of(move.after)
        if draw.random() < 0.4:
            number += 1
            played.state.apply(small(f"late-{number}", draw.choice((1, 2, 4)), draw.choice((0, 100))))
        if draw.random() < 0.5:
            decided = played.cycle().get(drawn.gang.key)
            assert not isinstance(decided, Preempt)
            assert used(ledger, 4) == []

    check()
    for move in draw.sample(made.moves, len(made.moves)):
        played.stop(move, check)
        played.start(move, check)
    played.cycle()
    assert ledger.admission(drawn.gang.key) is not None
    assert ledger.admission(hold_key(HoldKind.PLACE, drawn.gang.key)) is None
    assert used(ledger, 4) == []
    assert ledger.audit() == []


@settings(max_examples=examples(100))
@given(SEEDS, st.integers(0, 10**6))
def test_a_process_that_takes_over_finds_every_mover_and_a_place_for_the_gang(seed: int, how: int) -> None:
    """The old process was killed after some of the moves were written; the new one reads statuses and pods."""
    drawn, draw = DrawnCluster(seed), Random(how)
    ledger = drawn.ledger()
    made = plan(ledger, drawn.gang, NOW, BOUND)
    if not isinstance(made, MovePlan):
        return
    written = made.moves[: draw.randint(0, len(made.moves))]
    new = drawn.ledger()
    for move in written:
        workload = new.workload(move.workload)
        assert workload is not None
        new.apply(replace(workload, admission=move.after, restart=replace(workload.restart, moving=True)))
    assert used(new, 4) == []
    assert new.audit() == []
    before = {key: new.admission(key) for key in new.admissions}
    place = place_after_moves(new, drawn.gang, [move.workload for move in written], NOW)
    assert {key: new.admission(key) for key in new.admissions} == before
    assert new.audit() == []
    if len(written) == len(made.moves):
        assert place is not None
    again = plan(new, drawn.gang, NOW, BOUND)
    if isinstance(again, MovePlan):
        assert {move.workload for move in again.moves}.isdisjoint(move.workload for move in written)


RUNS = {"a": Running({"h0": 1}, 2), "b": Running({"h2": 1}, 2)}


def committed() -> tuple[Ledger, MovePlan]:
    """Two racks of two hosts; a or b has to leave its rack for the gang."""
    ledger = cluster(RUNS)
    made = plan(ledger, gang(), NOW, BOUND)
    assert isinstance(made, MovePlan)
    return ledger, made


def test_while_movers_leave_the_gang_says_so_and_evicts_nobody() -> None:
    ledger, made = committed()
    assert commit(ledger, gang(), made, NOW, {}) is None
    decided = Played(ledger, gang()).cycle()["ns/gang"]
    assert isinstance(decided, Wait)
    assert (decided.reason, decided.message) == (MoveReason.WAITING_FOR_MOVED, PLACE_HELD)
    assert ledger.admission(hold_key(HoldKind.PLACE, "ns/gang")) is not None


def test_after_the_hold_others_may_use_the_place() -> None:
    ledger, made = committed()
    assert commit(ledger, gang(), made, NOW, {}) is None
    played = Played(ledger, gang())
    (move,) = made.moves
    played.stop(move, lambda: None)
    assert ledger.holds.drop(hold_key(HoldKind.PLACE, "ns/gang"))
    assert not ledger.holds.drop(hold_key(HoldKind.PLACE, "ns/gang"))
    played.state.requeue_all()
    assert isinstance(played.cycle()["ns/gang"], Admit)


def evicted(ledger: Ledger, key: str) -> None:
    workload = ledger.workload(key)
    assert workload is not None
    ledger.apply(replace(workload, evicted=True))


def terms(ledger: Ledger, key: str, **changed: object) -> None:
    workload = ledger.workload(key)
    assert workload is not None
    ledger.apply(replace(workload, restart=replace(workload.restart, **changed)))  # type: ignore[arg-type]


def taken(ledger: Ledger, move: Move) -> None:
    (host,) = hosts_of(move.after)
    ledger.apply(BoundPod("other", host, {CPU: 3000}, None, ""))


CHANGES: dict[str, tuple[Callable[[Ledger, Move], None], str]] = {
    "finished": (lambda ledger, move: ledger.apply(ObjectRemoved(RemovedKind.WORKLOAD, move.workload)), "not admitted"),
    "evicted": (lambda ledger, move: evicted(ledger, move.workload), "not running"),
    "forbidden": (lambda ledger, move: terms(ledger, move.workload, movable=False), "not declared movable"),
    "moved-meanwhile": (lambda ledger, move: terms(ledger, move.workload, moved=NOW - 5.0), "minimum run time"),
    "on-its-way": (lambda ledger, move: terms(ledger, move.workload, moving=True), "on its way"),
    "lost-a-pod": (
        lambda ledger, move: ledger.apply(
            ObjectRemoved(RemovedKind.POD, f"{move.workload}-{next(iter(hosts_of(move.before)))}-0")
        ),
        "its pods do not all run",
    ),
    "place-taken": (taken, "no longer free"),
    "quota-taken": (lambda ledger, _: ledger.apply(own(5)), "quota"),
}


@pytest.mark.parametrize(("change", "why"), CHANGES.values(), ids=CHANGES)
def test_a_plan_stops_before_anything_moves_if_the_world_has_changed(
    change: Callable[[Ledger, Move], None], why: str
) -> None:
    ledger, made = committed()
    change(ledger, made.moves[0])
    before = dict(ledger.admissions)
    found = commit(ledger, gang(), made, NOW, {})
    assert found is not None
    assert why in found
    assert dict(ledger.admissions) == before
    assert ledger.audit() == []


def test_a_budget_that_was_used_up_meanwhile_stops_the_plan() -> None:
    ledger, made = committed()
    assert commit(ledger, gang(), made, NOW, {"q": 0}) is not None
    assert commit(ledger, gang(), made, NOW, {"q": 1}) is None


def test_a_reserved_place_is_not_a_new_place() -> None:
    ledger, made = committed()
    (move,) = made.moves
    other = small("preemptor", 4)
    admission = replace(move.after, pod_sets=(replace(move.after.pod_sets[0], usage={CPU: 4000}),))
    assert "no longer free" in (commit(ledger, gang(), made, NOW, {}, [(other, admission)]) or "")


def test_every_move_of_today_counts_for_the_budget() -> None:
    ledger = cluster(
        {"a": Running({"h0": 1}, moves=RestartTerms(True, moved=NOW - 60.0, times=3))}, own(moves_per_day=4)
    )
    assert moves_left(ledger, NOW) == {"q": 1}
