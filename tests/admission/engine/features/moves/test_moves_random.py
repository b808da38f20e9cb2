"""Plans on drawn clusters: beside brute force, safe at every step, and plans end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.decision import PlacementResult, Proof
from admission.engine.features.moves.movers import movers_of
from admission.engine.features.moves.plan import PlanOptions, plan
from admission.engine.features.moves.plans import MovePlan, NoPlanReason
from admission.engine.ledger.ledger import Ledger
from admission.engine.topology.questions.queries import PlacementQueries
from tests.admission.engine.features.moves.brute import cheapest
from tests.admission.engine.features.moves.clusters import NOW, gang, hosts_of
from tests.admission.engine.features.moves.drawn import PER_HOST, DrawnCluster, carry_out, overfull
from tests.budgets import examples

SEEDS = st.integers(0, 10**6)


@settings(max_examples=examples(120))
@given(SEEDS)
def test_no_set_is_cheaper_than_a_proved_plan_or_its_bound(seed: int) -> None:
    drawn = DrawnCluster(seed)
    ledger = drawn.ledger()
    costs = {key: mover.cost for key, mover in movers_of(ledger, NOW, {}).by_key.items()}
    best = cheapest(drawn.runs, costs, drawn.rack_of, PER_HOST, drawn.pods, drawn.each)
    found = plan(ledger, drawn.gang, NOW)
    if isinstance(found, MovePlan):
        assert best is not None
        assert found.certificate.bound <= best <= found.certificate.cost
        assert found.certificate.proof is not Proof.OPTIMAL or best == found.certificate.cost
    elif found.reason is NoPlanReason.FITS:
        assert best == (0, 0)
    else:
        assert best is None or found.reason is NoPlanReason.NO_OTHER_PLACE


def test_no_plan_is_missed_and_none_loses_much_more_than_the_optimum() -> None:
    """Over fixed clusters, also those for which no proof was found."""
    possible, bad = 0, {}
    for seed in range(700):
        drawn = DrawnCluster(seed)
        ledger = drawn.ledger()
        costs = {key: mover.cost for key, mover in movers_of(ledger, NOW, {}).by_key.items()}
        best = cheapest(drawn.runs, costs, drawn.rack_of, PER_HOST, drawn.pods, drawn.each)
        if not best or not best[1]:
            continue
        possible += 1
        found = plan(ledger, drawn.gang, NOW)
        if not isinstance(found, MovePlan) or found.cost > 1.1 * best[0]:
            bad[seed] = (best, found)
    assert possible >= 100
    assert bad == {}


@settings(max_examples=examples(120))
@given(SEEDS)
def test_capacity_and_quota_hold_at_every_step(seed: int) -> None:
    drawn = DrawnCluster(seed)
    ledger = drawn.ledger()
    found = plan(ledger, drawn.gang, NOW)
    if not isinstance(found, MovePlan):
        return
    movers = {move.workload for move in found.moves}

    def check() -> None:
        assert overfull(ledger) == []
        assert ledger.quota.available("q", ("tas", "cpu")) >= 0
        assert movers <= ledger.admissions.keys()
        assert ledger.audit() == []

    carry_out(ledger, found, drawn.gang, check)
    for key, one in drawn.runs.items():
        if key not in movers:
            assert hosts_of(ledger.admission(key)) == one.hosts


@settings(max_examples=examples(40))
@given(SEEDS)
def test_plans_end_and_nothing_moves_twice(seed: int) -> None:
    drawn = DrawnCluster(seed)
    ledger = drawn.ledger()
    waiting = [replace(gang(pods, each), key=f"ns/g{index}") for index, (pods, each) in enumerate([(1, 4), (2, 2)] * 3)]
    moved: set[str] = set()
    while True:
        plans = [(one, found) for one in waiting if isinstance(found := plan(ledger, one, NOW), MovePlan)]
        if not plans:
            return
        one, found = plans[0]
        assert moved.isdisjoint(move.workload for move in found.moves)
        moved |= {move.workload for move in found.moves}
        carry_out(ledger, found, one, lambda: None)
        for move in found.moves:
            workload = ledger.workload(move.workload)
            assert workload is not None
            ledger.apply(replace(workload, restart=replace(workload.restart, moved=NOW)))
        waiting.remove(one)


@pytest.mark.parametrize("evict", [False, True], ids=["moves", "moves and evictions"])
def test_between_two_pauses_there_is_one_placement_and_the_ledger_is_as_it_was(
    evict: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A placement among thousands of nodes takes several milliseconds, and others use the loop and the ledger meanwhile."""
    placements, most = 0, 0
    place = PlacementQueries.place

    def counted(self: PlacementQueries, *args: Any, **kwargs: Any) -> PlacementResult:
        nonlocal placements, most
        placements += 1
        most = max(most, placements)
        return place(self, *args, **kwargs)

    monkeypatch.setattr(PlacementQueries, "place", counted)
    for seed in range(60):
        drawn = DrawnCluster(seed)
        ledger = drawn.ledger("LowerPriority")

        def pause(ledger: Ledger = ledger) -> None:
            nonlocal placements
            placements = 0
            assert not ledger.journal.recording

        pause()
        plan(ledger, replace(drawn.gang, priority=1), NOW, PlanOptions(pause=pause, evict=evict))
        assert ledger.audit() == []
    assert most == 1
