"""Resumes the plans of moves of the previous leader, when this process begins to lead.

No cycle runs before the end (Scheduler.before_cycles), so nobody takes the places that others leave. All work is done in
turns of the loop. A plan of which only a part was begun is searched anew, beside all that changes meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from admission.controllers.decide.scheduler_context import SchedulerContext
from admission.controllers.moves.executor import MoveExecutor
from admission.controllers.moves.unfinished import Unfinished
from admission.controllers.report.turns import Turns
from admission.controllers.watch.cluster_view import Views
from admission.engine.cycle.repeated_preemption import may_not_evict
from admission.engine.features.moves.plans import MovePlan
from admission.engine.features.moves.resume import evictions_after_moves, moves_after_moves, place_after_moves
from admission.engine.features.moves.wording import purpose_of
from admission.engine.ledger.holds import Hold, HoldKind
from admission.engine.model import Admission, Workload
from admission.engine.pauses import Around
from admission.engine.queue.cluster_queue import order_of
from api.kube.turns import Turns as ShortTurns

log = logging.getLogger(__name__)

_MOST_RESUMED: Final = 4
"""Plans that are searched for what they lack: no cycle runs meanwhile."""
_MOST_WAITING: Final = 64
"""Waiting workloads that are looked at, the first of the queues: more than that many statuses were written by others."""
_TURN: Final = 0.01
_BETWEEN_TURNS: Final = 1.0
_TRIES: Final = 3
"""Searches for one workload, each of which the cluster may change below."""

Rest = tuple[Admission, MovePlan | None]
"""The admission of a waiting workload once others have left, and the plan of what has yet to leave for it."""


class TakeOver:
    """Reads the statuses, and holds again the places of the workloads for which others are on their way."""

    def __init__(self, views: Views, context: SchedulerContext, executor: MoveExecutor) -> None:
        self._views, self._ledger, self._queues, self._executor = views, context.ledger, context.queues, executor

    async def resume(self, now: float, writes: asyncio.TaskGroup) -> list[MovePlan]:
        """Holds the places, and begins what the plans still lack; returns that. `now` is in epoch seconds."""
        objects = self._views.workloads.objects
        await self._executor.budgets.made.read(list(objects.values()), now)
        unfinished = await Unfinished.of(self._ledger, objects, now)
        begun: list[MovePlan] = []
        for key in (await self._waiting(unfinished))[:_MOST_WAITING]:
            try:
                rest = await self._rest_of(
                    key, unfinished, now, more=key in unfinished.gangs and len(begun) < _MOST_RESUMED
                )
                if rest is not None and (gang := self._queues.workload(key)) is not None:
                    begun += self._begin(gang, rest, unfinished, now, writes)
            except Exception:
                # Whatever one plan causes, admission begins: a controller that fails here would fail at each start.
                log.exception("a plan of moves could not be resumed", extra={"workload": key})
        return begun

    async def _waiting(self, unfinished: Unfinished) -> list[str]:
        """Returns for which waiting workloads others leave their places, in the order of the queues."""
        turns, objects, waiting = ShortTurns(), self._views.workloads.objects, []
        for one in list(self._queues.workloads()):
            await turns.give_way()
            if unfinished.is_for(one.key, objects):
                waiting.append(one)
        return [one.key for one in sorted(waiting, key=order_of)]

    async def _rest_of(self, key: str, unfinished: Unfinished, now: float, *, more: bool) -> Rest | None:
        """Returns what the plan for the workload still lacks; None if it gets no place by it, or waits no longer.

        It holds until the loop runs again. `more`: others may have to leave that are not on their way.
        """
        for _ in range(_TRIES):
            try:
                return await self._searched(key, unfinished, now, more=more)
            except LookupError as missing:
                log.info("the plan is searched again", extra={"workload": key, "missing": repr(missing)})
        return None

    async def _searched(self, key: str, unfinished: Unfinished, now: float, *, more: bool) -> Rest | None:
        turns = Turns(lambda pause: self._rest(key, unfinished, now, turns.around, more=more), _TURN, _BETWEEN_TURNS)
        await asyncio.sleep(0)
        return await turns.result()

    def _rest(self, key: str, unfinished: Unfinished, now: float, around: Around, *, more: bool) -> Rest | None:
        if (gang := self._queues.workload(key)) is None:
            return None
        if (admission := place_after_moves(self._ledger, gang, unfinished.leaving, now)) is not None:
            return admission, None
        if not more:
            return None
        made = evictions_after_moves(self._ledger, gang, unfinished.leaving, now, around)
        if made is None:  # one of those may move, or all of them have to
            made = moves_after_moves(
                self._ledger, gang, unfinished.leaving, now, self._executor.budgets.left(now), around
            )
        elif not self._may_evict(gang, made, unfinished, now):
            return None
        return None if made is None or made.admission is None else (made.admission, made)

    def _may_evict(self, gang: Workload, plan: MovePlan, unfinished: Unfinished, now: float) -> bool:
        victims, evictions = [one.victim for one in plan.evictions], self._queues.evictions
        return may_not_evict(self._ledger, evictions, gang, victims, unfinished.leaving, now) is None

    def _begin(
        self, gang: Workload, rest: Rest, unfinished: Unfinished, now: float, writes: asyncio.TaskGroup
    ) -> list[MovePlan]:
        """Holds the place and begins what is left to do; returns that."""
        admission, made = rest
        if made is not None and made.moves:
            refused = self._executor.begin(made, purpose_of(gang.key), writes, unfinished)
            return [] if isinstance(refused, str) else [made]
        more = () if made is None else (one.victim.workload for one in made.evictions)
        self._ledger.holds.put(Hold.of(HoldKind.PLACE, gang, admission))
        self._executor.places.add(gang.key, unfinished.movers, now, unfinished.victims.union(more))
        if made is None:
            return []
        self._executor.evict(made, writes)
        return [made]
