"""Moves in a simulation, by the controller's rules: when they are planned, what they cost, what is held, and what ends a hold.

Plan, check, holds and the times of plans are the engine's, budgets and the look ahead the controller's. A move takes no time:
the mover is at its new place at once, and spends its `move-cost` there before it works. One workload is planned for at a time,
at most one a second. Of latest starts only reserved ones are known.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

from admission.controllers.moves.budgets import MoveBudgets
from admission.controllers.moves.places import GRACE
from admission.engine.cycle.repeated_preemption import may_not_evict
from admission.engine.cycle.solve import flavors_of
from admission.engine.decision import Preempt, Wait
from admission.engine.features.moves.choice import is_better, plan_with_evictions
from admission.engine.features.moves.commit import commit
from admission.engine.features.moves.plan import PlanOptions
from admission.engine.features.moves.plan_times import FIRST_PAUSE, PlanTimes
from admission.engine.features.moves.plans import MovePlan, NoPlan
from admission.engine.features.moves.waiting import latest_start
from admission.engine.flavors.assign import Mode
from admission.engine.ledger.holds import HoldKind, hold_key
from admission.engine.model import ClusterQueue, Workload
from admission.engine.reasons import Reason
from admission.simulation.room_maker import Stage

AFTER: Final = 30.0
"""Seconds of waiting for a place before the first plan, as `controller.movesAfter`."""
_BETWEEN: Final = 1.0


class Moves:
    """Makes moves as the controller does with `controller.moves`."""

    def __init__(self, stage: Stage, after: float = AFTER) -> None:
        self._stage, self._world = stage, stage.world
        self._times = PlanTimes(stage.world.queues, after)
        self._budgets = MoveBudgets(stage.world.ledger)
        self._holds: dict[str, float] = {}
        self._last = -_BETWEEN
        self._freed = 0

    @cached_property
    def _any_movable(self) -> bool:
        """Whether any workload may be moved; else nothing is planned."""
        queues = (one.restart for one in self._world.ledger.quota.specs() if isinstance(one, ClusterQueue))
        return any(terms.movable for terms in (*queues, *(one.restart for one in self._stage.workloads())))

    def waits(self, decision: Wait) -> None:
        """Notes a workload that lacks a place."""
        if not self._any_movable:
            return
        if decision.reason is Reason.TOPOLOGY_PLACEMENT_FAILED and not decision.never:
            self._times.waits(decision.workload, self._world.now)

    def due(self) -> float | None:
        """Returns the time of the next plan or of the end of a hold."""
        times = list(self._holds.values())
        if self._world.state.freed != self._freed:
            self._freed = self._world.state.freed
            self._times.room_freed(self._world.now)
        if (at := self._times.next(self._holds)) is not None:
            times.append(max(at, self._last + _BETWEEN))
        return min(times, default=None)

    def look(self) -> bool:
        """Ends holds, and plans for the first workload that is due."""
        ended, now = self._end_holds(), self._world.now
        if now < self._last + _BETWEEN:
            return ended
        gang = self._times.first(now, self._holds)
        if gang is None:
            return ended
        self._last = now
        self._times.pause(gang.key, now)
        result = self._planned(gang, now)
        if isinstance(result, MovePlan):
            return self._begin(gang, result) or ended
        self._look_ahead(gang, result)
        return ended

    def _look_ahead(self, gang: Workload, no_plan: NoPlan) -> None:
        """Makes the next plan when budgets and minimum run times allow moves that help, if only these forbid them now."""
        at = self._budgets.look_ahead(no_plan, gang.key, self._times, self._world.now)
        if at is not None and isinstance(ahead := self._planned(gang, at), MovePlan):
            self._times.sooner(gang.key, self._budgets.opens(ahead))

    def instead(self, decision: Preempt) -> bool:
        """Moves workloads for one that has quota, if that loses no more work than the evictions."""
        ledger, gang = self._world.ledger, self._world.queues.workload(decision.workload)
        queue = None if gang is None else ledger.quota.spec(gang.cluster_queue)
        if gang is None or queue is None or not self._any_movable or flavors_of(ledger, gang, queue).mode < Mode.FIT:
            return False
        result = self._planned(gang, self._world.now)
        if (
            not isinstance(result, MovePlan)
            or not is_better(ledger, result, decision, self._world.now)
            or not self._begin(gang, result)
        ):
            return False
        if not result.evictions:
            self._world.queues.evictions.forget(gang.key)
        for victim in decision.victims:
            if (workload := ledger.workload(victim.workload)) is not None:
                self._world.queues.lines.stays(workload)
        return True

    def _planned(self, gang: Workload, at: float) -> MovePlan | NoPlan:
        """Returns the plan as if it were this time."""
        self._stage.renew()
        start = latest_start(self._world.queues, gang)
        options = PlanOptions(self._budgets.left(at), wait=None if start is None else start - at)
        return plan_with_evictions(self._world.ledger, gang, at, options)

    def _begin(self, gang: Workload, plan: MovePlan) -> bool:
        world, now = self._world, self._world.now
        victims = [one.victim for one in plan.evictions]
        if victims and may_not_evict(world.ledger, world.queues.evictions, gang, victims, frozenset(), now) is not None:
            return self._refused(gang)
        others = world.queues.capacity_reservations()
        reserved = [(owner, one.admission) for owner, one in others if owner.key != gang.key]
        if commit(world.ledger, gang, plan, now, self._budgets.left(now), reserved, bound=False) is not None:
            return self._refused(gang)
        self._holds[gang.key] = now + GRACE
        for move in plan.moves:
            self._budgets.made.add(move.before.cluster_queue, now)
            self._stage.relocate(move.workload, move.after)
        for victim in victims:
            self._stage.evict(victim.workload)
        world.state.requeue_all()  # the old places are free
        return True

    def _refused(self, gang: Workload) -> bool:
        self._times.again(gang.key, self._world.now + FIRST_PAUSE)
        return False

    def _end_holds(self) -> bool:
        """Ends the holds of workloads that have started or left, and those that last too long; True if that frees a place."""
        freed, queues = False, self._world.queues
        for key, until in list(self._holds.items()):
            if key in queues and until > self._world.now:
                continue
            del self._holds[key]
            freed = self._world.ledger.holds.drop(hold_key(HoldKind.PLACE, key)) or freed
        if freed:
            queues.lines.requeue(tuple(queues.lines.by_queue))
        return freed
