"""For how long waiting Workloads will run at most, by learned run times, where their ClusterQueue lets them backfill by it.

The conversion of a Workload asks for its guess. What is learned later reaches those that wait by a refresh, every `period`
seconds and in steps. A Workload that outlasted its guess and was evicted for that gets twice as long a guess each time, so
that it overtakes fewer and fewer others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from admission.controllers.forecasts.run_time_keeper import kind_of
from admission.controllers.watch.cluster_view import Views
from admission.engine.features.forecast.run_times import RunTimes
from admission.engine.queue.queues import PendingQueues
from api.names import EvictedReason
from api.workloads import Workload

_STEP: Final = 50
_DOUBLED: Final = 20


class Guesses:
    """The guesses of Workloads by the learned `times`. `request_cycle` is called when some have changed."""

    def __init__(
        self, views: Views, queues: PendingQueues, times: RunTimes, request_cycle: Callable[[], None], period: float
    ) -> None:
        self._views, self._queues, self._times = views, queues, times
        self._request_cycle, self._period = request_cycle, period

    def of(self, workload: Workload) -> float | None:
        """Returns for how many seconds the Workload will run at most; None if nothing is known."""
        return guess_of(self._times, workload)

    async def run(self) -> None:
        """Refreshes the guesses of those that wait until cancelled."""
        while True:
            await asyncio.sleep(self._period)
            await self.refresh()

    async def refresh(self) -> None:
        """Gives the workloads that wait and have a guess, or may get one, what is known now."""
        changed = False
        for number, key in enumerate([one.key for one in self._queues.workloads() if self._queues.goes_by_guess(one)]):
            if number % _STEP == 0:
                await asyncio.sleep(0)
            waits, known = self._queues.workload(key), self._views.workloads.objects.get(key)
            if waits is None or known is None or (guess := self.of(known)) == waits.guess:
                continue
            self._queues.put(replace(waits, guess=guess))
            changed = True
        if changed:
            self._request_cycle()


def guess_of(times: RunTimes, workload: Workload) -> float | None:
    """Returns for how many seconds the Workload will run at most, by these learned times; None if nothing is known."""
    guess = times.guess(kind_of(workload))
    return None if guess is None else guess * 2 ** min(_outlasted(workload), _DOUBLED)


def _outlasted(workload: Workload) -> int:
    """Returns how often the Workload was evicted because it outlasted its guess."""
    counts = workload.status.scheduling_stats.evictions if workload.status.scheduling_stats else ()
    return sum(max(0, one.count) for one in counts if one.reason == EvictedReason.BACKFILL_ENDED)
