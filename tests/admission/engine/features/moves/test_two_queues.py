"""Two queues whose gangs each want the rack in which a job of the other runs: never a cycle of moves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admission.engine.features.moves.commit import commit
from admission.engine.features.moves.plan import PlanOptions, plan
from admission.engine.features.moves.plans import MovePlan, NoPlan, NoPlanReason
from admission.engine.ledger.holds import HoldKind, hold_key
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import ObjectRemoved, RemovedKind, RestartTerms, Workload
from tests.admission.engine.features.moves.clusters import NOW, Running, cluster, gang, own
from tests.admission.engine.features.moves.drawn import carry_out, overfull

AT_ONCE = RestartTerms(movable=True, minimum_run=0)
RUNS = {"a": Running({"h0": 1}, moves=AT_ONCE, queue="a"), "b": Running({"h2": 1}, moves=AT_ONCE, queue="b")}


def waiting(name: str) -> Workload:
    """A gang of that queue, which wants a whole rack of two."""
    return replace(gang(to=name), key=f"ns/gang-{name}", uid=f"uid-gang-{name}")


def both() -> tuple[Ledger, dict[str, MovePlan]]:
    """The cluster, and a plan for each gang, made at the same time."""
    ledger, plans = cluster(RUNS, own(name="a"), own(name="b")), {}
    for name in RUNS:
        found = plan(ledger, waiting(name), NOW, PlanOptions(bound=True))
        assert isinstance(found, MovePlan)
        plans[name] = found
    return ledger, plans


@pytest.mark.parametrize(("first", "second"), [("a", "b"), ("b", "a")])
def test_of_two_plans_made_at_the_same_time_one_is_made(first: str, second: str) -> None:
    ledger, plans = both()
    assert commit(ledger, waiting(first), plans[first], NOW, {}) is None
    before = dict(ledger.admissions)
    assert commit(ledger, waiting(second), plans[second], NOW, {}) is not None
    assert dict(ledger.admissions) == before
    again = plan(ledger, waiting(second), NOW, PlanOptions(bound=True))
    assert isinstance(again, NoPlan)
    assert ledger.audit() == []


@pytest.mark.parametrize(("first", "second"), [("a", "b"), ("b", "a")])
def test_nobody_moves_back_and_forth(first: str, second: str) -> None:
    """While the first gang runs, nothing moves for the second one, which gets the rack after it without a move."""
    ledger, plans = both()
    gang_of_first = waiting(first)
    assert commit(ledger, gang_of_first, plans[first], NOW, {}) is None
    ledger.holds.drop(hold_key(HoldKind.PLACE, gang_of_first.key))
    carry_out(ledger, plans[first], gang_of_first, lambda: None)
    assert overfull(ledger) == []
    found = plan(ledger, waiting(second), NOW + 86_400, PlanOptions(bound=True))
    assert isinstance(found, NoPlan)
    assert found.reason is NoPlanReason.TOO_LITTLE_FREE
    ledger.release(gang_of_first.key)
    ledger.apply(ObjectRemoved(RemovedKind.WORKLOAD, gang_of_first.key))
    found = plan(ledger, waiting(second), NOW + 86_400, PlanOptions(bound=True))
    assert isinstance(found, NoPlan)
    assert found.reason is NoPlanReason.FITS
    assert hold_key(HoldKind.PLACE, waiting(second).key) not in ledger.holds
