"""How long our processes hold their event loops, by their own metrics.

`stowage_loop_step_seconds` is the CPU time of the loop's thread in one step (api/process/steps.py): other processes of a busy
machine and other threads add nothing to it. `stowage_loop_held_seconds` also sees threads that keep the interpreter to
themselves; it is the smaller of a timer's delay and of the CPU time that the process used since the timer was set
(api/process/lag.py), so under load an upper bound: where the machine delays a timer, it counts all turns of the loop meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp

from admission.cli.local_cluster.processes import ChildProcess
from tests.scenarios.churn import series
from tests.scenarios.failures import entries

LIMIT: Final = 0.05
"""CPU seconds that no step may take: no scrape, snapshot, explanation or decision. On a slow machine as many times more."""
_USUAL: Final = 0.07
"""CPU seconds that the loop of `slowness` takes on the machines for which LIMIT is meant."""
NEVER: Final = 0.25
"""Seconds that the upper bound never reaches: five turns of the limit."""
_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5)
_HELD: Final = "stowage_loop_held_seconds_bucket"
_STEPS: Final = "stowage_loop_step_seconds_bucket"
_PAUSE: Final = 0.5
"""Seconds between two requests of one page."""


async def counts(child: ChildProcess, buckets: str) -> dict[float, int]:
    """How many measurements there were of at most so many seconds, since the process started."""
    found = (line.rsplit(" ", 1) for line in await series(child) if line.startswith(buckets))
    return {float(name.partition('le="')[2].partition('"')[0]): int(float(number)) for name, number in found}


def _since(before: Mapping[float, int], after: Mapping[float, int]) -> dict[float, int]:
    return {limit: number - before[limit] for limit, number in after.items()}


def slowness() -> float:
    """Returns how many times more CPU time than usual this machine needs now: cores are shared and throttled."""
    began = time.thread_time()
    sum(number * number for number in range(1_000_000))
    return max(1.0, (time.thread_time() - began) / _USUAL)


def long_steps(folder: Path, times: float) -> list[dict[str, Any]]:
    """The steps that the logs of all processes name and that took too much CPU time for a machine so many times slower.

    The limit is the metric's bucket that `loops_stay_free` would choose.
    """
    limit = min(bucket for bucket in _BUCKETS if bucket >= LIMIT * times)
    found = (entry for log in sorted(folder.glob("*.log")) for entry in entries(log))
    return [entry for entry in found if entry["message"] == "a step held the loop" and entry["cpu_seconds"] > limit]


@contextlib.asynccontextmanager
async def loops_stay_free(children: Mapping[str, ChildProcess]) -> AsyncIterator[None]:
    """No process holds its loop for long inside the block; none may start anew there."""
    before = {
        (name, buckets): await counts(child, buckets) for name, child in children.items() for buckets in (_HELD, _STEPS)
    }
    times = slowness()
    yield
    times = max(times, slowness())
    for name, child in children.items():
        held, steps = [_since(before[name, buckets], await counts(child, buckets)) for buckets in (_HELD, _STEPS)]
        total = held[float("inf")]
        long = [line for line in child.log.read_text().splitlines() if "a step held the loop" in line][-5:]
        limit = min(bucket for bucket in steps if bucket >= LIMIT * times)
        assert steps[limit] == steps[float("inf")], f"{name}: steps of more than {limit} CPU s: {steps}, lately {long}"
        never = min(bucket for bucket in held if bucket >= NEVER * times)
        assert held[never] == total, f"{name} held its loop for more than {never} s: {held}"


@contextlib.asynccontextmanager
async def readers(children: Mapping[str, ChildProcess], *pages: str) -> AsyncIterator[None]:
    """Read these pages of each process again and again: scrapes, snapshots."""

    async def read(child: ChildProcess, page: str) -> None:
        async with aiohttp.ClientSession() as session:
            while True:
                async with session.get(f"http://127.0.0.1:{child.health_port}/{page}") as answer:
                    await answer.read()
                await asyncio.sleep(_PAUSE)

    reading = [asyncio.create_task(read(child, page)) for child in children.values() for page in pages]
    try:
        yield
    finally:
        for each in reading:
            each.cancel()
        ended = await asyncio.gather(*reading, return_exceptions=True)
    failed = [repr(one) for one in ended if isinstance(one, Exception)]
    assert not failed, failed
