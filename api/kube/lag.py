"""Measures how late the event loop runs: a held loop delays reviews, watches and the renewal of the lease.

A timer is due every `PERIOD` seconds, and its delay is the lag. On a busy machine another process is often the cause. So the
processor time that this process used since the last turn is measured too: the smaller of both is what the process itself can
have caused. Run by process.serve.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from typing import Final

from api.kube import metrics

log = logging.getLogger(__name__)

PERIOD: Final = 0.02
_LONG: Final = 1.0
"""Seconds after which the log reports it. A loop that is held for longer than the lease lasts loses leadership."""
_COUNTED: Final = 50
"""Turns until the tasks are counted again."""


def held(late: float, cpu: float) -> float:
    """The part of a delay (seconds) that this process can have caused: it used `cpu` seconds since the last turn."""
    return min(late, cpu)


async def watch_loop() -> None:
    """Observes until it is cancelled."""
    cpu = time.process_time()
    for turn in itertools.count():
        if turn % _COUNTED == 0:
            metrics.TASKS.set(len(asyncio.all_tasks()))
        due = time.perf_counter() + PERIOD
        await asyncio.sleep(PERIOD)
        late, before = max(0.0, time.perf_counter() - due), cpu
        cpu = time.process_time()
        metrics.LOOP_LAG.observe(late)
        metrics.LOOP_HELD.observe(ours := held(late, cpu - before))
        if ours > _LONG:
            log.warning("the loop was held", extra={"seconds": round(ours, 3)})
