"""Carries out a plan of moves: takes all places in one step, then writes the moves one after the other.

The evictions of a plan follow once all moves are written. If a mover has changed so that it stays, nobody is evicted, the
rest are not moved, and the hold of the place ends; what was moved already runs at its new place. A mover that has left by
itself is no obstacle.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from admission.controllers.decide.scheduler import Scheduler
from admission.controllers.decide.scheduler_context import SchedulerContext
from admission.controllers.moves.budgets import MoveBudgets
from admission.controllers.moves.first_series import CHANGED, STARTED
from admission.controllers.moves.places import HeldPlaces
from admission.controllers.moves.unfinished import NONE_UNFINISHED, Unfinished
from admission.controllers.watch.cluster_view import Views
from admission.controllers.write.admission_writer import AdmissionWriter
from admission.controllers.write.outcome import Outcome
from admission.engine.cycle.repeated_preemption import may_not_evict
from admission.engine.decision import Preempt
from admission.engine.features.moves.commit import commit, unevictable
from admission.engine.features.moves.plans import MovePlan
from admission.engine.features.moves.wording import NAMED, moving_message
from admission.engine.listed import listed
from admission.metrics import moves as metrics
from api.annotations.moves import KEYS_OF_CLASSES
from api.errors import NotLeader, StowageError
from api.kube.client import Kube
from api.kube.events import EventRecorder, ref_to
from api.kube.resources import WORKLOADS
from api.workloads import Workload

log = logging.getLogger(__name__)

_MOST: Final = 256
"""The most moves of one plan."""


class MoveExecutor:
    """Carries out plans. `places` are the holds, `budgets` how many moves are left today."""

    def __init__(
        self,
        kube: Kube,
        views: Views,
        context: SchedulerContext,
        scheduler: Scheduler,
        recorder: EventRecorder,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._views, self._context, self._scheduler, self._recorder, self._now = (
            views,
            context,
            scheduler,
            recorder,
            now,
        )
        self._ledger, self._queues = context.ledger, context.queues
        self._writer = AdmissionWriter(kube, views, recorder, now)
        self.budgets = MoveBudgets(context.ledger)
        self._evicting: dict[str, MovePlan] = {}
        self.places = HeldPlaces(views, self._ledger, self._queues)

    def begin(
        self, plan: MovePlan, purpose: str, writes: asyncio.TaskGroup, beside: Unfinished = NONE_UNFINISHED
    ) -> str | asyncio.Task[list[str]]:
        """Takes the places of the plan and begins the writes, or returns why the plan no longer holds.

        `purpose` completes the sentence "moved to another place so that". `beside` are on their way already, and the gang may
        have their old places. The task returns the movers that stay.
        """
        key, now = plan.workload, self._now()
        keys = [move.workload for move in plan.moves]
        seen = {each: workload for each in keys if (workload := self._views.workloads.objects.get(each)) is not None}
        if (why := self._refusal(plan, seen, beside.leaving)) is not None:
            metrics.PLANS.labels(CHANGED).inc()
            log.info("the plan of moves no longer holds", extra={"workload": key, "why": why})
            return why
        metrics.PLANS.labels(STARTED).inc()
        for move in plan.moves:
            self.budgets.made.add(move.before.cluster_queue, now)
        if key:
            victims = tuple(one.victim.workload for one in plan.evictions)
            self.places.add(key, (*keys, *beside.movers), now, beside.victims.union(victims))
            movers = listed(keys, NAMED)
            text = f"its place is held; {movers} leave it for other places{_evicted(victims)}; they lose {lost(plan)}"
            self.tell(key, "Normal", "PlaceHeld", text)
        log.info("moves begin", extra={"workload": key, "movers": keys[:3], "moves": len(keys), "cost": plan.cost})
        task = writes.create_task(self._write(plan, purpose, seen, writes), name=f"move so that {purpose}")
        for each in keys:
            self._scheduler.writing(each, task)
        gang = self._queues.workload(key)
        if gang is not None:
            self._queues.lines.requeue((gang.cluster_queue,))  # so that its status says what it waits for
        self._context.cycle_due.set()
        return task

    def _refusal(self, plan: MovePlan, seen: dict[str, Workload], leaving: frozenset[str]) -> str | None:
        """Takes the places, or returns why not."""
        gang = self._queues.workload(plan.workload)
        if plan.workload and (gang is None or gang.blocked is not None):
            return f"{plan.workload} waits no longer"
        if len(plan.moves) > _MOST:
            return f"the plan has {len(plan.moves)} moves, and at most {_MOST} are made together"
        if len(seen) < len(plan.moves) or any(key in self._scheduler.admitting for key in seen):
            return "a workload that would move is being written"
        if any(workload.status.unhealthy_nodes for workload in seen.values()):
            return "a workload that would move lost a node"
        victims = [one.victim for one in plan.evictions]
        if gang is not None and victims:
            why = may_not_evict(self._ledger, self._queues.evictions, gang, victims, leaving, self._now())
            if why is not None:
                return f"{plan.workload} {why[0]}"
        others = self._queues.capacity_reservations()
        reserved = [(owner, one.admission) for owner, one in others if owner.key != plan.workload]
        return commit(self._ledger, gang, plan, self._now(), self.budgets.left(self._now()), reserved, leaving)

    async def _write(
        self, plan: MovePlan, purpose: str, seen: dict[str, Workload], writes: asyncio.TaskGroup
    ) -> list[str]:
        message = moving_message(purpose)
        stays: list[str] = []
        for number, move in enumerate(plan.moves):
            try:
                outcome = await self._writer.relocate(move.after, seen[move.workload], message, KEYS_OF_CLASSES)
            except NotLeader:
                return [each.workload for each in plan.moves[number:]]
            except StowageError as error:
                log.warning("move not written: %s", error, extra={"workload": move.workload})
                outcome = Outcome.CHANGED
            metrics.MOVES.labels(move.before.cluster_queue, outcome).inc()
            if outcome == Outcome.WRITTEN:
                metrics.LOSS.labels(move.before.cluster_queue).inc(move.cost)
            if outcome == Outcome.CHANGED:
                stays = [each.workload for each in plan.moves[number:]]
                log.info("the moves have stopped", extra={"workload": plan.workload, "changed": move.workload})
                if plan.workload:
                    self._stop(plan.workload, f"{move.workload} has changed, and the others that would move stay")
                break
        if not stays:
            self.evict(plan, writes)
        self._context.cycle_due.set()
        return stays

    def evict(self, plan: MovePlan, writes: asyncio.TaskGroup) -> None:
        """Evicts the victims of the plan, whose moves are written, or none if one may no longer be evicted."""
        if not plan.evictions or plan.workload not in self.places:
            return
        if (why := unevictable(self._ledger, self._queues.workload(plan.workload), plan)) is not None:
            self._stop(plan.workload, why)
            return
        self._evicting[plan.workload] = plan
        self._scheduler.preempt(Preempt(plan.workload, tuple(one.victim for one in plan.evictions), ""), writes)

    def evict_again(self, writes: asyncio.TaskGroup) -> None:
        """Evicts the victims whose evictions were not written, such as of a tenant who rewrites them all the time."""
        for key, made in list(self._evicting.items()):
            stay = self.places.not_evicted(key)
            rest = tuple(one for one in made.evictions if one.victim.workload in stay)
            if key not in self.places:
                del self._evicting[key]
            elif rest:
                self.evict(replace(made, evictions=rest), writes)

    def _stop(self, key: str, why: str) -> None:
        """Ends the hold for the workload, and says why."""
        self.places.drop(key)
        self.tell(key, "Warning", "MovesStopped", f"the moves have stopped: {why}")

    def tell(self, key: str, kind: str, reason: str, text: str) -> None:
        """Records an event on the Workload."""
        if (workload := self._views.workloads.objects.get(key)) is not None:
            self._recorder.record(ref_to(WORKLOADS, workload), kind, reason, text)


def _evicted(victims: tuple[str, ...]) -> str:
    return f", and {listed(victims, NAMED)} {'is' if len(victims) == 1 else 'are'} evicted from it" if victims else ""


def lost(plan: MovePlan) -> str:
    """Returns the work that the moves of the plan lose, in words; a device-hour is an hour of one GPU or other device."""
    return f"{plan.cost} device-seconds of work ({plan.cost / 3600:.2f} device-hours)"
