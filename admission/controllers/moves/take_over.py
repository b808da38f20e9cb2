"""Resumes the plans of the process before, when this one begins to lead.

No cycle runs before the end (Scheduler.before_cycles), so nobody takes the places that others leave. All work is done in
turns of the loop. A plan whose evictions the process before had not begun is searched anew, beside all that changes meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from admission.controllers.cluster_view import Views
from admission.controllers.moves.executor import MoveExecutor
from admission.controllers.moves.unfinished import Unfinished
from admission.controllers.scheduler_context import SchedulerContext
from admission.controllers.turns import Turns
from admission.engine.cycle.held_places import hold_place
from admission.engine.cycle.repeated_preemption import may_not_evict
from admission.engine.model import Admission, Workload
from admission.engine.moves.commit import evictions_after_moves, place_after_moves
from admission.engine.moves.plans import MovePlan
from admission.engine.pauses import Around
from admission.engine.queue.cluster_queue import order_of
from api.kube.turns import Turns as ShortTurns

log = logging.getLogger(__name__)

_MOST_RESUMED: Final = 4
"""Plans whose evictions are begun again: no cycle runs while they are searched."""
_TURN: Final = 0.01
_BETWEEN_TURNS: Final = 1.0
_TRIES: Final = 3
"""Searches for one workload, each of which the cluster may change below."""

Rest = tuple[Admission, MovePlan | None]
"""The admission of a waiting workload once others have left, and the plan of the evictions that it still lacks."""


class TakeOver:
    """Reads the statuses, and holds again the places of the workloads for which others are on their way."""

    def __init__(self, views: Views, context: SchedulerContext, executor: MoveExecutor) -> None:
        self._views, self._ledger, self._queues, self._executor = views, context.ledger, context.queues, executor

    async def resume(self, now: float) -> list[MovePlan]:
        """Holds the places; returns the plans whose evictions are to be begun. `now` is in epoch seconds."""
        objects = self._views.workloads.objects
        await self._executor.made.read(list(objects.values()), now)
        found = await Unfinished.of(self._ledger, objects, now)
        plans: list[MovePlan] = []
        for key in await self._waiting(found):
            rest = await self._rest_of(key, found, now, evict=key in found.gangs and len(plans) < _MOST_RESUMED)
            if rest is not None and (gang := self._queues.workload(key)) is not None:
                self._hold(gang, rest, found, now)
                plans += filter(None, rest[1:])
        return plans

    async def _waiting(self, found: Unfinished) -> list[str]:
        """Returns for which waiting workloads others leave their places, in the order of the queues."""
        turns, objects, waiting = ShortTurns(), self._views.workloads.objects, []
        for one in list(self._queues.workloads()):
            await turns.give_way()
            if found.is_for(one.key, objects):
                waiting.append(one)
        return [one.key for one in sorted(waiting, key=order_of)]

    async def _rest_of(self, key: str, found: Unfinished, now: float, *, evict: bool) -> Rest | None:
        """Returns what the plan for the workload still lacks; None if it gets no place by it, or waits no longer.

        It holds until the loop runs again.
        """
        for _ in range(_TRIES):
            try:
                return await self._searched(key, found, now, evict=evict)
            except LookupError as missing:
                log.info("the plan is searched again", extra={"workload": key, "missing": repr(missing)})
        return None

    async def _searched(self, key: str, found: Unfinished, now: float, *, evict: bool) -> Rest | None:
        turns = Turns(lambda pause: self._rest(key, found, now, turns.around, evict=evict), _TURN, _BETWEEN_TURNS)
        await asyncio.sleep(0)
        return await turns.result()

    def _rest(self, key: str, found: Unfinished, now: float, around: Around, *, evict: bool) -> Rest | None:
        if (gang := self._queues.workload(key)) is None:
            return None
        if (admission := place_after_moves(self._ledger, gang, found.leaving, now)) is not None:
            return admission, None
        made = evictions_after_moves(self._ledger, gang, found.leaving, now, around) if evict else None
        if made is None or made.admission is None or not made.evictions:
            return None
        victims, evictions = [one.victim for one in made.evictions], self._queues.evictions
        refused = may_not_evict(self._ledger, evictions, gang, victims, found.leaving, now)
        return None if refused is not None else (made.admission, made)

    def _hold(self, gang: Workload, rest: Rest, found: Unfinished, now: float) -> None:
        admission, made = rest
        begun = () if made is None else (one.victim.workload for one in made.evictions)
        hold_place(self._ledger, gang, admission)
        victims = found.leaving.difference(found.movers).union(begun)
        self._executor.places.add(gang.key, found.movers, now, tuple(sorted(victims)))
