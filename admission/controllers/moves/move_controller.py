"""Plans and makes moves for workloads that have quota and no place.

The scheduler reports each workload that it lets wait. One that has waited `first` seconds for a place is planned for, one at a
time and in the order of the queues, in short turns of the loop with rests between (turns.py). A plan is checked against the
ledger in one step (engine/moves/commit.py), which takes all places; then the moves are written one after the other. If a mover
has changed so that it stays, the rest are not moved and the waiting workload gets its wait's usual reason again; what was moved
already runs at its new place. Without a plan the next one is made after a pause that doubles up to `_LONGEST_PAUSE`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from admission import metrics
from admission.controllers.admission_writer import AdmissionWriter, MoveOutcome
from admission.controllers.cluster_view import Views
from admission.controllers.moves.movable import MovableIndex
from admission.controllers.moves.move_log import MoveLog
from admission.controllers.moves.places import HeldPlaces
from admission.controllers.scheduler import Scheduler
from admission.controllers.scheduler_context import SchedulerContext
from admission.controllers.turns import Turns
from admission.engine.cycle.held_places import PLACE_HELD, hold_place
from admission.engine.decision import Wait
from admission.engine.model import Workload as EngineWorkload
from admission.engine.moves.commit import commit, place_after_moves
from admission.engine.moves.plan import PlanOptions, plan
from admission.engine.moves.plans import MovePlan, NoPlan
from admission.engine.queue.cluster_queue import order_of
from admission.engine.reasons import Reason
from api.errors import NotLeader, StowageError
from api.kube.client import Kube
from api.kube.events import EventRecorder, ref_to
from api.kube.resources import WORKLOADS
from api.meta import find_condition
from api.names import QUOTA_RESERVED
from api.workloads import Workload

log = logging.getLogger(__name__)

_TURN: Final = 0.01
_BETWEEN_TURNS: Final = 3.0
_REST: Final = 20.0
"""Seconds of rest for each second of planning, which bounds the share of the loop to a twentieth."""
_FIRST_PAUSE: Final = 10.0
_LONGEST_PAUSE: Final = 300.0
_LOOK: Final = 1.0
"""Seconds between two looks at what waits, and at the holds."""
_SHOWN: Final = 3
_MOVES: Final = 256
"""The most moves of one plan."""

LatestStart = Callable[[str], float | None]
"""The forecast latest start of a waiting workload (epoch seconds); None if unknown."""


class MoveController:
    """Plans and moves while it runs, on the leader."""

    def __init__(
        self,
        kube: Kube,
        views: Views,
        context: SchedulerContext,
        scheduler: Scheduler,
        recorder: EventRecorder,
        latest_start: LatestStart | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._views, self._context, self._scheduler, self._recorder = views, context, scheduler, recorder
        self._latest_start, self._now, self._first = latest_start, now, context.settings.moves_after
        self._ledger, self._queues = context.ledger, context.queues
        self._writer = AdmissionWriter(kube, views, recorder, now)
        self._movable, self._log = MovableIndex(views), MoveLog()
        self._places = HeldPlaces(views, self._ledger, self._queues)
        self._due: dict[str, float] = {}
        self._pauses: dict[str, float] = {}
        scheduler.on_wait(self._waits)
        scheduler.before_cycles(self._take_over)
        scheduler.after_cycle(self._cycle_ended)

    async def run(self) -> None:
        """Moves until cancelled."""
        async with asyncio.TaskGroup() as writes:
            while True:
                await asyncio.sleep(_LOOK)
                self._end_overdue()
                if (key := self._next()) is not None:
                    await asyncio.sleep(_REST * await self.attempt(key, writes))

    # ---- what waits

    def _waits(self, decision: Wait) -> None:
        if decision.reason is Reason.TOPOLOGY_PLACEMENT_FAILED and not decision.never and self._movable:
            self._due.setdefault(decision.workload, self._now() + self._first)

    def _next(self) -> str | None:
        """Returns the first workload in the order of the queues that is due; forgets those that wait no longer."""
        for key in [key for key in self._due if key not in self._queues]:
            self._due.pop(key)
            self._pauses.pop(key, None)
        now = self._now()
        due = (self._queues.workload(key) for key, at in self._due.items() if at <= now and key not in self._places)
        first = min(filter(None, due), key=order_of, default=None) if self._movable else None
        return None if first is None else first.key

    def _pause(self, key: str) -> None:
        pause = self._pauses.get(key, _FIRST_PAUSE)
        self._pauses[key] = min(_LONGEST_PAUSE, 2 * pause)
        self._due[key] = self._now() + pause

    # ---- planning

    async def attempt(self, key: str, writes: asyncio.TaskGroup) -> float:
        """Plans for the waiting workload, and begins the moves; returns the seconds of computation."""
        gang = self._queues.workload(key)
        if gang is None:
            return 0.0
        self._pause(key)
        now = self._now()
        latest = None if self._latest_start is None else self._latest_start(key)
        options = PlanOptions(self._left(now), wait=None if latest is None else latest - now, bound=True)
        turns = Turns(partial(self._plan, gang, now, options), _TURN, _BETWEEN_TURNS)
        try:
            found = await turns.result()
        except LookupError as missing:
            log.info("the plan starts again later", extra={"workload": key, "missing": repr(missing)})
            return turns.spent
        metrics.MOVE_PLAN_SECONDS.observe(turns.spent)
        if isinstance(found, NoPlan):
            metrics.MOVE_PLANS.labels(found.reason).inc()
            log.info("no moves", extra={"workload": key, "reason": found.reason, "why": found.message})
        else:
            self._begin(key, found, writes)
        return turns.spent

    def _plan(
        self, gang: EngineWorkload, now: float, options: PlanOptions, pause: Callable[[], None]
    ) -> MovePlan | NoPlan:
        return plan(self._ledger, gang, now, replace(options, pause=pause))

    def _left(self, now: float) -> dict[str, int]:
        limits = {
            name: spec.moves_per_day
            for name in self._views.cluster_queues.objects
            if (spec := self._ledger.quota.spec(name)) is not None
        }
        return self._log.left(limits, now)

    # ---- moving

    def _begin(self, key: str, made: MovePlan, writes: asyncio.TaskGroup) -> None:
        """Takes the places of the plan in one step, and begins the writes."""
        gang, now = self._queues.workload(key), self._now()
        keys = [move.workload for move in made.moves]
        seen = {each: found for each in keys if (found := self._views.workloads.objects.get(each)) is not None}
        why: str | None = None
        if gang is None or gang.blocked is not None:
            why = f"{key} waits no longer"
        elif len(seen) < len(keys) or len(keys) > _MOVES or any(each in self._scheduler.admitting for each in keys):
            why = "a workload that would move is being written"
        elif any(found.status.unhealthy_nodes for found in seen.values()):
            why = "a workload that would move lost a node"
        else:
            reserved = ((owner, one.admission) for owner, one in self._queues.capacity_reservations())
            why = commit(self._ledger, gang, made, now, self._left(now), reserved)
        if why is not None:
            metrics.MOVE_PLANS.labels("Changed").inc()
            log.info("the plan of moves no longer holds", extra={"workload": key, "why": why})
            self._due[key] = now + _FIRST_PAUSE
            return
        metrics.MOVE_PLANS.labels("Started").inc()
        for move in made.moves:
            self._log.add(move.before.cluster_queue, now)
        self._places.add(key, tuple(keys), now)
        self._tell(key, "Normal", "PlaceHeld", f"its place is held; {_listed(keys)} leave it for other places")
        log.info("moves begin", extra={"workload": key, "movers": keys[:_SHOWN], "moves": len(keys), "cost": made.cost})
        task = writes.create_task(self._write(key, made, seen), name=f"move for {key}")
        for each in keys:
            self._scheduler.writing(each, task)
        if gang is not None:
            self._queues.lines.requeue((gang.cluster_queue,))  # its status shall say for what it waits
        self._context.cycle_due.set()

    async def _write(self, key: str, made: MovePlan, seen: dict[str, Workload]) -> None:
        message = f"Moved to another place so that {key} gets its domain; the quota stays reserved"
        for move in made.moves:
            try:
                outcome = await self._writer.relocate(move, seen[move.workload], message)
            except NotLeader:
                return
            except StowageError as error:
                log.warning("move not written: %s", error, extra={"workload": move.workload})
                outcome = MoveOutcome.CHANGED
            metrics.MOVES.labels(move.before.cluster_queue, outcome).inc()
            if outcome == MoveOutcome.CHANGED:
                self._places.drop(key)
                text = f"the moves have stopped: {move.workload} has changed, and the others that would move stay"
                self._tell(key, "Warning", "MovesStopped", text)
                break
        self._context.cycle_due.set()

    def _tell(self, key: str, kind: str, reason: str, text: str) -> None:
        if (workload := self._views.workloads.objects.get(key)) is not None:
            self._recorder.record(ref_to(WORKLOADS, workload), kind, reason, text)

    # ---- holds

    def _cycle_ended(self) -> None:
        if self._places:
            for _ in self._places.started():
                metrics.MOVE_PLANS.labels("Done").inc()

    def _end_overdue(self) -> None:
        for key in self._places.overdue(self._now()):
            text = "its place is held no longer: the workloads that moved for it have left, and it still does not fit"
            self._tell(key, "Warning", "MovesStopped", text)
            self._due[key] = self._now() + _LONGEST_PAUSE
            self._context.cycle_due.set()

    def _take_over(self) -> None:
        """Reads the moves of today, and holds the places of waiting workloads again for which others are on their way."""
        now, objects = self._now(), self._views.workloads.objects
        self._log.read(objects.values(), now)
        moving = [key for key in objects if (found := self._ledger.workload(key)) is not None and found.moves.moving]
        if not moving:
            return
        waiting = [one for one in self._queues.workloads() if _was_held(objects.get(one.key))]
        for gang in sorted(waiting, key=order_of):
            admission = place_after_moves(self._ledger, gang, moving, now)
            if admission is not None:
                hold_place(self._ledger, gang, admission)
                self._places.add(gang.key, tuple(moving), now)


def _was_held(workload: Workload | None) -> bool:
    found = None if workload is None else find_condition(workload.status.conditions, QUOTA_RESERVED)
    return found is not None and found.status == "False" and found.message.startswith(PLACE_HELD)


def _listed(keys: list[str]) -> str:
    more = len(keys) - _SHOWN
    return ", ".join(keys[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
