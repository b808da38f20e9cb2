"""Finds workloads that wait although they could start, because no change woke them, and has them evaluated.

Each such workload is a defect of the engine, whose rules say which change helps which workload (engine/queue/lines.py). So
that none holds a cluster for long, a few refused workloads are looked at anew in each period, in turns: a trial of the ledger
asks what a cycle would decide on each of them alone (engine/explain/cycle_decision.py). One that would start is requeued. It
counts as a fault once a cycle starts it or evicts others for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from admission.controllers.decide.scheduler_context import SchedulerContext
from admission.engine.decision import Admit, Preempt
from admission.engine.explain.cycle_decision import DecisionInputs, decided
from admission.metrics import controller as metrics

log = logging.getLogger(__name__)

_REST: Final = 50.0
"""Seconds of rest for each second of a look, which bounds its share of the loop to a fiftieth."""


class LostWakeUps:
    """Looks at `most` refused workloads each `period` (seconds); 0 looks at none."""

    def __init__(
        self, context: SchedulerContext, period: float, most: int, now: Callable[[], float] = time.time
    ) -> None:
        self._context, self._period, self._most, self._now = context, period, most, now
        self._turn: list[str] = []
        self._woken: set[str] = set()

    async def run(self) -> None:
        """Looks until cancelled."""
        while self._most:
            began = time.perf_counter()
            await self._context.feed.settled()
            self.look()
            await asyncio.sleep(max(self._period, _REST * (time.perf_counter() - began)))

    def look(self) -> None:
        """Looks at the next few, unless a cycle is due, which may start them anyway."""
        context, now = self._context, self._now()
        due = context.queues.next_due()
        if context.cycle_due.is_expected or context.queues.has_head() or (due is not None and due <= now):
            return
        if not self._turn:
            self._turn = context.queues.lines.refused_first()[::-1]
        for _ in range(min(self._most, len(self._turn))):
            self._look_at(self._turn.pop(), now)

    def _look_at(self, key: str, now: float) -> None:
        context = self._context
        workload = context.queues.workload(key)
        if workload is None or not context.queues.lines.is_refused(key):
            return
        startable = context.readiness.startable(in_flight=False) if context.readiness else None
        inputs = DecisionInputs(context.queues, context.sharing, startable)
        if isinstance(decided(context.ledger, workload, now, inputs), Admit | Preempt):
            self._woken.add(key)
            context.queues.lines.requeue_refused(workload.cluster_queue, ())
            context.cycle_due.set()

    def cycle_ended(self) -> None:
        """Counts those that were woken and that the cycle has started, or for which it evicts others."""
        queues, ledger = self._context.queues, self._context.ledger
        for key in tuple(self._woken):
            helped = ledger.admission(key) is not None or queues.holds_reservation(key)
            if not helped and key in queues and not queues.lines.is_refused(key):
                continue  # its turn has not come
            self._woken.discard(key)
            if helped:
                metrics.LOST_WAKE_UPS.inc()
                log.error("a workload waited although it could start: no change had woken it", extra={"workload": key})
