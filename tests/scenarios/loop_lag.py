"""How long our processes hold their event loops, by their own metrics.

`stowage_loop_step_seconds` is the CPU time of the loop's thread in one step (api/kube/steps.py): other processes of a busy
machine and other threads add nothing to it. `stowage_loop_held_seconds` also sees threads that keep the interpreter to
themselves; it is the smaller of a timer's delay and of the CPU time that the process used since the timer was set
(api/kube/lag.py), so under load an upper bound: where the machine delays a timer, it counts all turns of the loop meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from typing import Final

import aiohttp

from admission.cli.processes import ChildProcess
from tests.scenarios.churn import series

LIMIT: Final = 0.05
"""CPU seconds that no step may take: no scrape, snapshot, explanation or decision. On a slow machine as many times more."""
_USUAL: Final = 0.07
"""CPU seconds that the loop of `_slowness` takes on the machines for which LIMIT is meant."""
NEVER: Final = 0.25
"""Seconds that the upper bound never reaches: five turns of the limit."""
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


def _slowness() -> float:
    """Returns how many times more CPU time than usual this machine needs now: cores are shared and throttled."""
    began = time.thread_time()
    sum(number * number for number in range(1_000_000))
    return max(1.0, (time.thread_time() - began) / _USUAL)


@contextlib.asynccontextmanager
async def loops_stay_free(children: Mapping[str, ChildProcess]) -> AsyncIterator[None]:
    """No process holds its loop for long inside the block; none may start anew there."""
    before = {
        (name, buckets): await counts(child, buckets) for name, child in children.items() for buckets in (_HELD, _STEPS)
    }
    slowness = _slowness()
    yield
    slowness = max(slowness, _slowness())
    for name, child in children.items():
        held, steps = [_since(before[name, buckets], await counts(child, buckets)) for buckets in (_HELD, _STEPS)]
        total = held[float("inf")]
        long = [line for line in child.log.read_text().splitlines() if "a step held the loop" in line][-5:]
        limit = min(bucket for bucket in steps if bucket >= LIMIT * slowness)
        assert steps[limit] == steps[float("inf")], f"{name}: steps of more than {limit} CPU s: {steps}, lately {long}"
        never = min(bucket for bucket in held if bucket >= NEVER * slowness)
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
