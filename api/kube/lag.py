"""Measures how late the event loop runs: a blocked loop delays reviews, watches and the renewal of the Lease.

A timer is due every `PERIOD` seconds, and its delay is the lag. On a busy machine another process is often the cause, so the
CPU time that this process used since the last iteration is measured too. The smaller of both is the most that this process
itself can have caused. steps.py measures single steps. Between two turns garbage.py collects. process.serve runs it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from typing import Final

from api.kube import metrics
from api.kube.garbage import Garbage

log = logging.getLogger(__name__)

PERIOD: Final = 0.05
"""Seconds. A step longer than this, which is a defect, delays at least one timer. Each timer wakes an idle process."""
_LONG: Final = 1.0
"""Seconds from which the log reports a blocked loop. A loop blocked for longer than the Lease lasts loses leadership."""
_COUNTED: Final = 20
"""Checks between two counts of the tasks."""


def held(delay: float, cpu: float) -> float:
    """Returns the part of a delay that this process can have caused, in seconds; `cpu` is its CPU time since the last check."""
    return min(delay, cpu)


async def watch_loop() -> None:
    """Measures until cancelled."""
    garbage = Garbage()
    try:
        await _watch(garbage)
    finally:
        garbage.close()


async def _watch(garbage: Garbage) -> None:
    cpu = time.process_time()
    for turn in itertools.count():
        if turn % _COUNTED == 0:
            metrics.TASKS.set(len(asyncio.all_tasks()))
        garbage.collect()
        due = time.perf_counter() + PERIOD
        await asyncio.sleep(PERIOD)
        delay, before = max(0.0, time.perf_counter() - due), cpu
        cpu = time.process_time()
        metrics.LOOP_LAG.observe(delay)
        metrics.LOOP_HELD.observe(ours := held(delay, cpu - before))
        if ours > _LONG:
            log.warning("the loop was held", extra={"seconds": round(ours, 3)})
