"""Which plan is made for a workload that lacks a place: moves alone, else moves and evictions, or the queue's own evictions.

The controller and the simulation choose by these rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from admission.engine.decision import Preempt, Victim
from admission.engine.features.moves.movers import loss
from admission.engine.features.moves.plan import PlanOptions, plan
from admission.engine.features.moves.plans import MovePlan, NoPlan, NoPlanReason
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Workload
from admission.engine.preemption.cost import cost_of

_EVICTIONS_MAY_HELP: Final = {NoPlanReason.NOT_MOVABLE, NoPlanReason.NO_OTHER_PLACE, NoPlanReason.TOO_LITTLE_FREE}


def plan_with_evictions(ledger: Ledger, gang: Workload, now: float, options: PlanOptions) -> MovePlan | NoPlan:
    """Returns the plan of moves; if moves alone do not help, one in which some blockers are evicted."""
    result = plan(ledger, gang, now, options)
    if isinstance(result, NoPlan) and result.reason in _EVICTIONS_MAY_HELP:
        both = plan(ledger, gang, now, replace(options, evict=True))
        if isinstance(both, MovePlan) and both.moves:  # without moves it is what preemption does by itself
            return both
    return result


def is_better(ledger: Ledger, plan: MovePlan, decision: Preempt, now: float) -> bool:
    """Reports whether the plan loses no more work than the evictions, and evicts fewer or less important workloads."""
    if plan.cost > sum(loss(ledger, victim.workload, now) for victim in decision.victims):
        return False
    return _figures(ledger, [one.victim for one in plan.evictions], now) < _figures(ledger, decision.victims, now)


def _figures(ledger: Ledger, victims: Sequence[Victim], now: float) -> tuple[int, ...]:
    """Returns top, at_top, gangs and priorities of the evictions (engine/preemption/cost.py)."""
    workloads = (ledger.workload(victim.workload) for victim in victims)
    return cost_of(filter(None, workloads), now)[:4]
