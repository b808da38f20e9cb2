"""Moves and evictions in one plan: which leave how, and beside brute force."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.decision import Proof
from admission.engine.features.moves.commit import commit
from admission.engine.features.moves.movers import loss, movers_of
from admission.engine.features.moves.plan import PlanOptions, plan
from admission.engine.features.moves.plans import MovePlan, NoPlan
from admission.engine.features.moves.resume import evictions_after_moves, place_after_moves
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import NO_TERMS, BoundPod, Workload
from admission.engine.pauses import Around
from admission.engine.preemption.cost import cost_of
from tests.admission.engine.builders import CPU
from tests.admission.engine.features.moves.brute import best_of_both
from tests.admission.engine.features.moves.clusters import NOW, Running, cluster, gang, hosts_of, own
from tests.admission.engine.features.moves.drawn import PER_HOST, DrawnCluster
from tests.budgets import examples

LOWER = "LowerPriority"
BOTH = PlanOptions(evict=True)
FULL = Running({"h2": 4, "h3": 3}, moves=NO_TERMS, priority=10)
"""The other rack, with room for one pod."""


def urgent(pods: int = 2, each: int = 4) -> Workload:
    return replace(gang(pods, each), priority=10)


def leave(move_plan: MovePlan | NoPlan) -> tuple[dict[str, dict[str, int]], list[str]]:
    """Where the movers go, and which are evicted; fails if there is no plan."""
    assert isinstance(move_plan, MovePlan), move_plan
    moved = {move.workload: hosts_of(move.after) for move in move_plan.moves}
    return moved, [one.victim.workload for one in move_plan.evictions]


@pytest.mark.parametrize(
    ("runs", "moved", "evicted"),
    [
        pytest.param(
            {"equal": Running({"h0": 1}, priority=10), "low": Running({"h1": 2}, moves=NO_TERMS), "full": FULL},
            {"equal": {"h3": 1}},
            ["low"],
            id="an equal one moves and a lesser one is evicted, where neither alone does",
        ),
        pytest.param(
            {"low": Running({"h0": 1}), "lower": Running({"h1": 1}, priority=-5), "full": FULL},
            {"low": {"h3": 1}},
            ["lower"],
            id="where one of two may move, the more important one does",
        ),
        pytest.param(
            {"low": Running({"h0": 1}), "full": replace(FULL, hosts={"h2": 4, "h3": 2})},
            {"low": {"h3": 1}},
            [],
            id="moves alone come before any eviction",
        ),
    ],
)
def test_each_blocker_moves_or_is_evicted(
    runs: Mapping[str, Running], moved: Mapping[str, Mapping[str, int]], evicted: list[str]
) -> None:
    found = plan(cluster(runs, own(within=LOWER)), urgent(), NOW, BOTH)
    assert leave(found) == (moved, evicted)


NEEDS_BOTH = {"equal": Running({"h0": 1}, priority=10), "low": Running({"h1": 2}, moves=NO_TERMS), "full": FULL}


@pytest.mark.parametrize(
    ("within", "change"),
    [
        pytest.param("Never", {}, id="the queue evicts nobody"),
        pytest.param(LOWER, {"gated": True}, id="a closed preemption gate"),
        pytest.param(LOWER, {"priority": 0}, id="nobody is less important"),
    ],
)
def test_nobody_is_evicted_whom_the_policy_protects(within: str, change: dict[str, Any]) -> None:
    found = plan(cluster(NEEDS_BOTH, own(within=within)), replace(urgent(), **change), NOW, BOTH)
    assert isinstance(found, NoPlan)


def test_the_places_of_a_mixed_plan_are_taken_together() -> None:
    ledger = cluster(NEEDS_BOTH, own(within=LOWER))
    found = plan(ledger, urgent(), NOW, BOTH)
    assert isinstance(found, MovePlan)
    assert commit(ledger, urgent(), found, NOW, {}) is None
    assert hosts_of(ledger.admission("equal")) == {"h3": 1}
    assert ledger.admission("low") is not None  # evicted once the moves are written
    assert ledger.audit() == []


def _without(ledger: Ledger) -> Ledger:
    low = ledger.workload("low")
    assert low is not None
    ledger.apply(replace(low, priority=10))
    return ledger


def test_a_victim_that_has_become_more_important_stays() -> None:
    ledger = cluster(NEEDS_BOTH, own(within=LOWER))
    found = plan(ledger, urgent(), NOW, BOTH)
    assert isinstance(found, MovePlan)
    assert commit(_without(ledger), urgent(), found, NOW, {}) == "low may no longer be evicted"
    assert hosts_of(ledger.admission("equal")) == {"h0": 1}


def _mixed(seed: int) -> tuple[DrawnCluster, Workload]:
    """A cluster of workloads of several priorities, and the gang that may evict some of them."""
    drawn, draw = DrawnCluster(seed), Random(seed + 1)
    drawn.runs = {key: replace(one, priority=draw.choice((-3, 0, 5, 10))) for key, one in drawn.runs.items()}
    return drawn, replace(drawn.gang, priority=draw.choice((4, 10)))


@settings(max_examples=examples(120))
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_process_that_takes_over_evicts_only_what_the_plan_lacks(seed: int, how: int) -> None:
    """The old process was killed after some of the moves were written, or all and some of the evictions."""
    (drawn, wanted), draw = _mixed(seed), Random(how)
    made = plan(drawn.ledger(LOWER), wanted, NOW, replace(BOTH, bound=True))
    if not isinstance(made, MovePlan) or not made.evictions:
        return
    new = drawn.ledger(LOWER)
    written = made.moves[: draw.randint(0, len(made.moves))]
    victims = [one.victim.workload for one in made.evictions]
    gone = draw.sample(victims, draw.randint(0, len(victims))) if len(written) == len(made.moves) else []
    for move in written:
        workload = _of(new, move.workload)
        new.apply(replace(workload, admission=move.after, restart=replace(workload.restart, moving=True)))
    for key in gone:
        new.apply(replace(_of(new, key), evicted=True))
    leaving, rest = [*(move.workload for move in written), *gone], set(victims) - set(gone)
    before = {key: new.admission(key) for key in new.admissions}
    place, found = (each(new, wanted, leaving, NOW) for each in (place_after_moves, evictions_after_moves))

    def others_run() -> None:
        assert {key: new.admission(key) for key in new.admissions} == before
        assert new.audit() == []

    assert evictions_after_moves(new, wanted, leaving, NOW, _around(others_run)) == found
    assert {key: new.admission(key) for key in new.admissions} == before
    assert new.audit() == []
    if isinstance(found, MovePlan):
        again = [_of(new, one.victim.workload) for one in found.evictions]
        assert not found.moves
        assert not {one.key for one in again}.intersection(leaving)
        assert not any(one.restart.movable for one in again)
        if len(written) == len(made.moves) and rest:
            assert cost_of(again, NOW)[:4] <= cost_of(map(partial(_of, new), sorted(rest)), NOW)[:4]
    if len(written) == len(made.moves):
        still = rest and not any(_of(new, key).restart.movable for key in rest)
        assert place is not None or found is not None or not still
        assert (place is not None) >= (not rest)


def _around(others_run: Callable[[], None]) -> Around:
    """Others run at every pause."""

    def around(leave: Callable[[], None], enter: Callable[[], None]) -> Callable[[], None]:
        def pause() -> None:
            leave()
            others_run()
            enter()

        return pause

    return around


def _of(ledger: Ledger, key: str) -> Workload:
    found = ledger.workload(key)
    assert found is not None
    return found


@settings(max_examples=examples(120))
@given(st.integers(0, 10**6))
def test_no_way_to_leave_is_better_than_a_proved_plan_or_its_bound(seed: int) -> None:
    drawn, wanted = _mixed(seed)
    ledger = drawn.ledger(LOWER)
    movable = {key: mover.cost for key, mover in movers_of(ledger, NOW, {}).by_key.items()}
    evictable = {key: loss(ledger, key, NOW) for key, one in drawn.runs.items() if one.priority < wanted.priority}
    best = best_of_both(drawn.runs, movable, evictable, drawn.rack_of, PER_HOST, drawn.pods, drawn.each)
    found = plan(ledger, wanted, NOW, BOTH)
    if isinstance(found, MovePlan):
        assert best is not None
        assert found.certificate.bound <= best <= found.certificate.cost
        assert found.certificate.proof is not Proof.OPTIMAL or best == found.certificate.cost
    assert ledger.audit() == []


def test_a_plan_whose_place_goes_in_a_pause_is_not_resumed() -> None:
    """A pod that nobody manages comes to the gang's rack while the evictions are searched."""
    ledger = cluster({"low": Running({"h1": 2}, moves=NO_TERMS), "full": FULL}, own(within=LOWER))
    assert isinstance(evictions_after_moves(ledger, urgent(), ["equal"], NOW), MovePlan)

    def others_run() -> None:
        ledger.apply(BoundPod("foreign", "h0", {"cpu": CPU}))

    assert evictions_after_moves(ledger, urgent(), ["equal"], NOW, _around(others_run)) is None
