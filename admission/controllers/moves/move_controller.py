"""Plans and makes moves for workloads that have quota and no place.

The scheduler reports each workload that it lets wait. One that has waited `first` seconds for a place is planned for, one at a
time and in the order of the queues, in short turns of the loop with rests between (turns.py). A plan is checked against the
ledger in one step (`commit` of the engine), which takes all places; then the moves are written one after the other. If a mover
has changed so that it stays, the rest are not moved and the waiting workload gets its usual reason again; what was moved
already runs at its new place. The engine's `PlanTimes` says when the next plan is made for a workload without one.

Before workloads are evicted for one that has quota, moves are planned for it. They are made if they lose no more work than
the evictions would; else the evictions are decided again at once. If moves alone do not help, a plan in which some blockers
move and others are evicted may (`with_evictions` of the engine); instead of evictions it is made if it evicts fewer, or less
important ones.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from admission.controllers.decide.scheduler import Scheduler
from admission.controllers.decide.scheduler_context import SchedulerContext
from admission.controllers.moves import first_series
from admission.controllers.moves.executor import MoveExecutor
from admission.controllers.moves.first_series import DONE
from admission.controllers.moves.movable import MovableIndex
from admission.controllers.moves.planning import computed
from admission.controllers.moves.take_over import TakeOver
from admission.controllers.moves.topology_moves import TopologyMoves
from admission.controllers.watch.cluster_view import Views
from admission.engine.cycle.solve import flavors_of
from admission.engine.decision import Preempt, Wait
from admission.engine.features.moves.choice import is_better, plan_with_evictions
from admission.engine.features.moves.plan import PlanOptions, plan
from admission.engine.features.moves.plan_times import FIRST_PAUSE, LONGEST_PAUSE, PlanTimes
from admission.engine.features.moves.plans import MovePlan, NoPlan
from admission.engine.features.moves.waiting import LatestStart, latest_start
from admission.engine.features.moves.wording import purpose_of
from admission.engine.flavors.assign import Mode
from admission.engine.model import Workload as EngineWorkload
from admission.engine.reasons import Reason
from admission.engine.scheduler_state import SchedulerState
from admission.metrics import moves as metrics
from api.kube.client import Kube
from api.kube.events import EventRecorder

log = logging.getLogger(__name__)

_REST: Final = 20.0
"""Seconds of rest for each second of planning, which bounds the share of the loop to a twentieth."""
_LOOK: Final = 1.0
"""Seconds between two looks at what waits, and at the holds."""


class MoveController:
    """Plans and moves while it runs, on the leader."""

    def __init__(
        self,
        kube: Kube,
        views: Views,
        context: SchedulerContext,
        scheduler: Scheduler,
        recorder: EventRecorder,
        state: SchedulerState,
        latest_start: LatestStart | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        first_series.of_process()
        views.cluster_queues.add_handler(first_series.of_queue)
        self._views, self._context = views, context
        self._latest_start, self._now = latest_start, now
        self._state, self._movability, self._freed = state, 0, 0
        self._automatic = context.settings.moves
        self._ledger, self._queues = context.ledger, context.queues
        self._executor = MoveExecutor(kube, views, context, scheduler, recorder, now)
        self._places, self._movable = self._executor.places, MovableIndex(views)
        self._topologies = TopologyMoves(kube, views, context, self._executor, recorder, now, self.planned)
        self._times = PlanTimes(self._queues, context.settings.moves_after)
        self._deferred: dict[str, Preempt] = {}
        self._urgent = asyncio.Event()
        self._evict_until: dict[str, float] = {}
        self._replanned: dict[str, float] = {}
        self._predecessor, self._taken_over = TakeOver(views, context, self._executor), asyncio.Event()
        scheduler.on_wait(self._waits)
        scheduler.instead_of_preemption(self._defer)
        scheduler.before_cycles(self._take_over)
        scheduler.after_cycle(self._cycle_ended)

    async def run(self) -> None:
        """Moves until cancelled."""
        async with asyncio.TaskGroup() as writes:
            await self._taken_over.wait()  # the moves of today count for the budgets
            while True:
                try:
                    spent = await self.look(writes)
                except Exception:
                    # Whatever one plan causes, admission goes on, and so do later plans.
                    log.exception("a round of moves failed")
                    spent = _LOOK
                await self._rest(max(_LOOK, _REST * spent))

    async def look(self, writes: asyncio.TaskGroup) -> float:
        """Plans for one waiting workload, and for Topologies that ask for it; returns the seconds of computation."""
        self._executor.evict_again(writes)
        self._end_overdue()
        for key in list(self._deferred):
            await self._instead_of_evictions(key, writes)
        due = self._next()
        spent = 0.0 if due is None else await self.attempt(due, writes)
        return spent + await self._topologies.look(writes)

    async def _rest(self, seconds: float) -> None:
        """Leaves the loop to others, until evictions wait for a plan."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._urgent.wait(), seconds)
        self._urgent.clear()

    # ---- what waits

    def _waits(self, decision: Wait) -> None:
        if self._automatic and decision.reason is Reason.TOPOLOGY_PLACEMENT_FAILED and not decision.never:
            self._times.waits(decision.workload, self._now())

    def _next(self) -> str | None:
        """Returns the first workload in the order of the queues that is due."""
        for times in (self._evict_until, self._replanned):
            for gone in [key for key in times if key not in self._queues]:
                times.pop(gone)
        if not self._movable:
            return None
        if self._state.movability != self._movability:
            self._movability = self._state.movability
            self._times.all_sooner(self._now())
        if self._state.freed != self._freed:
            self._freed = self._state.freed
            self._times.room_freed(self._now())
        first = self._times.first(self._now(), self._places)
        return None if first is None else first.key

    # ---- moves instead of evictions

    def _defer(self, decision: Preempt) -> bool:
        """Reports whether moves are planned before these evictions: quota is there, so that only places are at stake."""
        key, now = decision.workload, self._now()
        if not self._automatic or not self._movable or self._evict_until.get(key, 0.0) > now:
            return False
        if key not in self._deferred:
            gang = self._queues.workload(key)
            queue = None if gang is None else self._ledger.quota.spec(gang.cluster_queue)
            if gang is None or queue is None or flavors_of(self._ledger, gang, queue).mode < Mode.FIT:
                return False
            self._deferred[key] = decision
            self._urgent.set()
        return True

    async def _instead_of_evictions(self, key: str, writes: asyncio.TaskGroup) -> None:
        """Makes moves if they lose no more than the evictions; else these are decided again, and made."""
        decision = self._deferred[key]
        self._evict_until[key] = self._now() + LONGEST_PAUSE  # also if the plan fails
        try:
            result, _ = await self.planned(key, evict=True)
            made = (
                isinstance(result, MovePlan)
                and is_better(self._ledger, result, decision, self._now())
                and self._begin(result, writes)
            )
            if made and isinstance(result, MovePlan) and not result.evictions:
                self._queues.evictions.forget(key)
        finally:
            self._deferred.pop(key, None)
            for victim in decision.victims:
                if (workload := self._ledger.workload(victim.workload)) is not None and not workload.evicted:
                    self._queues.lines.stays(workload)
            self._context.cycle_due.set()

    # ---- planning

    async def attempt(self, key: str, writes: asyncio.TaskGroup) -> float:
        """Plans for the waiting workload, and begins the moves; returns the seconds of computation."""
        self._times.pause(key, self._now())
        result, spent = await self.planned(key, evict=True)
        if isinstance(result, MovePlan):
            self._begin(result, writes)
        elif result is not None:
            spent += await self._look_ahead(key, result)
        return spent

    async def _look_ahead(self, key: str, no_plan: NoPlan) -> float:
        """Makes the next attempt when budgets and minimum run times allow moves that help, if only these forbid them now.

        Returns the seconds of computation.
        """
        at = self._executor.budgets.look_ahead(no_plan, key, self._times, self._now())
        if at is None:
            return 0.0
        ahead, spent = await self.planned(key, evict=True, at=at)
        if isinstance(ahead, MovePlan):
            self._times.sooner(key, self._executor.budgets.opens(ahead))
        return spent

    def _begin(self, plan: MovePlan, writes: asyncio.TaskGroup) -> bool:
        """Begins the moves; False if the plan no longer holds."""
        begun = self._executor.begin(plan, purpose_of(plan.workload), writes)
        if isinstance(begun, str):
            self._times.again(plan.workload, self._now() + FIRST_PAUSE)
            return False
        begun.add_done_callback(partial(self._written, plan.workload))
        return True

    def _written(self, key: str, moves: asyncio.Task[list[str]]) -> None:
        """Plans anew at once if a mover stays, since others may have left; soon after that, in the plans' usual time.

        So a tenant whose jobs change again and again has few others moved in vain.
        """
        now = self._now()
        stays = not moves.cancelled() and moves.exception() is None and bool(moves.result())
        if stays and self._replanned.get(key, 0.0) + LONGEST_PAUSE < now:
            self._replanned[key] = now
            self._times.again(key, now)
            self._urgent.set()

    async def planned(
        self, key: str, *, evict: bool = False, at: float | None = None
    ) -> tuple[MovePlan | NoPlan | None, float]:
        """Returns the plan for the waiting workload, None if it waits no longer; and the seconds of computation.

        `evict`: if moves alone do not help, some of the blockers may be evicted. `at`: as if it were this time (epoch seconds).
        """
        gang, now = self._queues.workload(key), self._now() if at is None else at
        if gang is None:
            return None, 0.0
        latest = latest_start(self._queues, gang, self._latest_start)
        options = PlanOptions(
            self._executor.budgets.left(now), wait=None if latest is None else latest - now, bound=True
        )
        return await computed(partial(self._plan, gang, now, options, evict), {"workload": key})

    def _plan(
        self, gang: EngineWorkload, now: float, options: PlanOptions, evict: bool, pause: Callable[[], None]
    ) -> MovePlan | NoPlan:
        choose = plan_with_evictions if evict else plan
        return choose(self._ledger, gang, now, replace(options, pause=pause))

    # ---- holds

    def _cycle_ended(self) -> None:
        if self._places:
            for _ in self._places.started():
                metrics.PLANS.labels(DONE).inc()

    def _end_overdue(self) -> None:
        for key in self._places.overdue(self._now()):
            text = "its place is held no longer: the workloads that moved for it have left, and it still does not fit"
            self._executor.tell(key, "Warning", "MovesStopped", text)
            self._times.again(key, self._now() + LONGEST_PAUSE)
            self._context.cycle_due.set()

    async def _take_over(self, writes: asyncio.TaskGroup) -> None:
        await self._predecessor.resume(self._now(), writes)
        self._taken_over.set()
