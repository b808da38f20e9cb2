"""How many moves the ClusterQueues may still make, and when moves open that budgets or minimum run times forbid now.

The controller and the simulation each have a `MoveBudgets`.
"""

from __future__ import annotations

from collections import Counter

from admission.controllers.moves.move_log import MoveLog
from admission.engine.features.moves.movers import USED_UP, WITHIN_MINIMUM, movable_from
from admission.engine.features.moves.plan_times import PlanTimes
from admission.engine.features.moves.plans import MovePlan, NoPlan
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import ClusterQueue


class MoveBudgets:
    """The budgets of the ledger's queues; `made` are the moves of today. Times are in epoch seconds."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.made = MoveLog()

    def left(self, at: float) -> dict[str, int]:
        """Returns how many moves each ClusterQueue with a budget may still make on the day that ends then."""
        return self.made.left(self._limits(), at)

    def opens(self, plan: MovePlan) -> float:
        """Returns when minimum run times and budgets allow all moves of the plan."""
        counts = Counter(move.before.cluster_queue for move in plan.moves)
        limits = {queue: limit for queue, limit in self._limits().items() if limit is not None and queue in counts}
        budgets = (self.made.opens(queue, limit, counts[queue]) for queue, limit in limits.items())
        return max((*budgets, *(movable_from(self._ledger, move.workload) for move in plan.moves)), default=0.0)

    def look_ahead(self, no_plan: NoPlan, key: str, times: PlanTimes, now: float) -> float | None:
        """Returns as of when to plan for the workload that has no plan now, None if it cannot have one by its next plan.

        It can if minimum run times end or budgets open until then. Its next plan is then made when they do (`opens`).
        """
        at = times.time_of(key)
        forbidden = no_plan.stays.keys() & {WITHIN_MINIMUM, USED_UP}
        return at if forbidden or self.left(at) != self.left(now) else None

    def _limits(self) -> dict[str, int | None]:
        queues = (one for one in self._ledger.quota.specs() if isinstance(one, ClusterQueue))
        return {one.name: one.moves_per_day for one in queues}
