"""The rest of a plan of which some moves were made before the process died."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.features.moves.commit import commit, remove
from admission.engine.features.moves.plan import PlanOptions, plan
from admission.engine.features.moves.plans import MovePlan
from admission.engine.features.moves.resume import moves_after_moves
from admission.engine.ledger.holds import HoldKind, hold_key
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import NO_TERMS
from tests.admission.engine.features.moves.clusters import NOW, Running, cluster, gang, hosts_of, own
from tests.admission.engine.features.moves.drawn import DrawnCluster, overfull
from tests.budgets import examples

TWO = {"a": Running({"h0": 2}), "b": Running({"h1": 2}), "far": Running({"h2": 4}, moves=NO_TERMS)}


def _interrupted(ledger: Ledger, move_plan: MovePlan, count: int) -> list[str]:
    """The first moves are written; returns these movers."""
    for move in move_plan.moves[:count]:
        mover = ledger.workload(move.workload)
        assert mover is not None
        ledger.apply(replace(mover, admission=move.after, restart=replace(mover.restart, moving=True)))
    return [move.workload for move in move_plan.moves[:count]]


def test_the_second_of_two_moves_is_made_and_the_place_is_held() -> None:
    ledger, waits = cluster(TWO, own()), gang(2, 4)
    made = plan(ledger, waits, NOW)
    assert isinstance(made, MovePlan)
    (first,) = _interrupted(ledger, made, 1)
    found = moves_after_moves(ledger, waits, [first], NOW, {})
    assert found is not None
    assert [move.workload for move in found.moves] == [made.moves[1].workload]
    assert hosts_of(found.moves[0].after) == {"h3": 2}
    assert commit(ledger, waits, found, NOW, {}) is not None  # the first mover's pods are in the way
    assert commit(ledger, waits, found, NOW, {}, leaving=[first]) is None
    assert ledger.admission(hold_key(HoldKind.PLACE, waits.key)) is not None


@settings(max_examples=examples(150))
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_rest_of_a_plan_exceeds_no_capacity_and_moves_nobody_again(seed: int, how: int) -> None:
    drawn, draw = DrawnCluster(seed), Random(how)
    made = plan(drawn.ledger(), drawn.gang, NOW, PlanOptions(bound=True))
    if not isinstance(made, MovePlan) or len(made.moves) < 2:
        return
    ledger = drawn.ledger()
    leaving = _interrupted(ledger, made, draw.randint(1, len(made.moves) - 1))
    found = moves_after_moves(ledger, drawn.gang, leaving, NOW, {})
    if found is None or commit(ledger, drawn.gang, found, NOW, {}, leaving=leaving) is not None:
        return
    movers = [move.workload for move in found.moves]
    assert not set(movers).intersection(leaving)
    assert ledger.audit() == []
    with ledger.trial():
        remove(ledger, [*leaving, *movers])
        assert overfull(ledger) == []
