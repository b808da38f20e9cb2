"""What it costs to measure the steps of the event loop, beside a loop that measures nothing.

    python -m tests.bench steps [--count 10000] [--repeat 40]

Prints CPU microseconds of one step that does nothing; the least of the repeats, in which both loops take turns.
"""

from __future__ import annotations

import asyncio
import time

import uvloop

from api.kube.steps import MeasuredLoop


async def _walk(steps: int) -> None:
    for _ in range(steps):
        await asyncio.sleep(0)


def _microseconds(loop: type[uvloop.Loop], steps: int) -> float:
    with asyncio.Runner(loop_factory=loop) as runner:
        began = time.thread_time()
        runner.run(_walk(steps))
        return (time.thread_time() - began) / steps * 1e6


def run(count: int = 10_000, repeat: int = 40) -> None:
    """Prints both loops and their difference."""
    pairs = [(_microseconds(uvloop.Loop, count), _microseconds(MeasuredLoop, count)) for _ in range(repeat)]
    plain, measured = (min(column) for column in zip(*pairs, strict=True))
    print(f"a step, CPU us: uvloop {plain:.2f}, measured {measured:.2f}, for the measurement {measured - plain:.2f}")
