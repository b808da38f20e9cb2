"""Measures how late the event loop runs: a blocked loop delays reviews, watches and the renewal of the Lease.

A timer is due every `PERIOD` seconds, and its delay is the lag. On a busy machine another process is often the cause, so the
CPU time that this process used since the last iteration is measured too. The smaller of both is the most that this process
itself can have caused. steps.py measures single steps. Between two turns garbage.py collects. While the process rests there are
fewer turns, since each wakes it. process.serve runs it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from api.kube import metrics
from api.process.garbage import Garbage

log = logging.getLogger(__name__)

PERIOD: Final = 0.05
"""Seconds. A step longer than this, which is a defect, delays at least one timer while the process works."""
RESTING: Final = 0.5
"""Seconds between two turns of a process that does nothing."""
_WORKS: Final = 0.02
"""The share of a processor from which the process works."""
_LONG: Final = 1.0
"""Seconds from which the log reports a blocked loop. A loop blocked for longer than the Lease lasts loses leadership."""


def held(delay: float, cpu: float) -> float:
    """Returns the part of a delay that this process can have caused, in seconds; `cpu` is its CPU time since the last check."""
    return min(delay, cpu)


def period_after(period: float, cpu: float) -> float:
    """Returns the seconds until the next turn after one of `period` in which the process used that much CPU time."""
    return PERIOD if cpu > _WORKS * period else min(2 * period, RESTING)


async def watch_loop() -> None:
    """Measures until cancelled."""
    garbage, loop = Garbage(), asyncio.get_running_loop()
    metrics.TASKS.set_function(lambda: len(asyncio.all_tasks(loop)))
    try:
        await _watch(garbage)
    finally:
        garbage.close()


async def _watch(garbage: Garbage) -> None:
    cpu, period = time.process_time(), PERIOD
    while True:
        garbage.collect()
        due = time.perf_counter() + period
        await asyncio.sleep(period)
        delay, before = max(0.0, time.perf_counter() - due), cpu
        cpu = time.process_time()
        metrics.LOOP_LAG.observe(delay)
        metrics.LOOP_HELD.observe(ours := held(delay, cpu - before))
        if ours > _LONG:
            log.warning("the loop was held", extra={"seconds": round(ours, 3)})
        period = period_after(period, cpu - before)
