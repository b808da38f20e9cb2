"""What it costs to measure the steps of the event loop, beside a loop that measures nothing.

    python -m tests.bench steps [--count 10000] [--repeat 40]

Prints CPU microseconds of one step that does nothing; the least of the repeats, in which both loops take turns. And the CPU
milliseconds a second of a loop on which nothing runs but the timer that measures its lag.
"""

from __future__ import annotations

import asyncio
import time

import uvloop

from api.process.lag import watch_loop
from api.process.steps import MeasuredLoop


async def _walk(steps: int) -> None:
    for _ in range(steps):
        await asyncio.sleep(0)


def _microseconds(loop: type[uvloop.Loop], steps: int) -> float:
    with asyncio.Runner(loop_factory=loop) as runner:
        began = time.thread_time()
        runner.run(_walk(steps))
        return (time.thread_time() - began) / steps * 1e6


async def _rest(seconds: float) -> float:
    watching = asyncio.create_task(watch_loop())
    await asyncio.sleep(2)  # until it rests
    began = time.process_time()
    await asyncio.sleep(seconds)
    used = time.process_time() - began
    watching.cancel()
    return used


def run(count: int = 10_000, repeat: int = 40) -> None:
    """Prints both loops and their difference."""
    pairs = [(_microseconds(uvloop.Loop, count), _microseconds(MeasuredLoop, count)) for _ in range(repeat)]
    plain, measured = (min(column) for column in zip(*pairs, strict=True))
    print(f"a step, CPU us: uvloop {plain:.2f}, measured {measured:.2f}, for the measurement {measured - plain:.2f}")
    with asyncio.Runner(loop_factory=MeasuredLoop) as runner:
        print(f"a process that rests: {runner.run(_rest(10)) * 100:.1f} ms of CPU a second")
