"""Churn for an hour on the embedded server: whether memory, tasks, descriptors or metric series grow.

    python -m tests.bench soak [--minutes 60] [--jobs 20000]

Queues are made, run their jobs and are deleted with their nodes and namespaces (tests/scenarios/churn.py). Prints what each
process holds at each tenth of the time, before the first queue, and when all are gone after half of the jobs and after the
last; the slope of each figure per 1,000 jobs over the second half; and how long pods and Workloads outlived their deleted
jobs.
The API server and its workers run in this process, on the same cores.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import uvloop

from admission.cli.local_cluster.embedded import EmbeddedCluster, embedded
from api.kube import owned_series
from tests.bench.measure import cost
from tests.scenarios.churn import Churn, Kept

_PARTS: Final = 60
"""Samples; every sixth is printed."""
_SETTLED: Final = 2.2 * owned_series.PERIOD
"""Seconds until a process has let go of what has ended."""
_FIRST: Final = 50
"""Jobs before the first sample: what is made once is made then."""


def run(minutes: float, jobs: int) -> None:
    """Prints the table and one line for each process."""
    with tempfile.TemporaryDirectory(prefix="stowage-bench-") as folder:
        uvloop.run(_soak(Path(folder), minutes, jobs))


async def _soak(folder: Path, minutes: float, jobs: int) -> None:
    async with embedded(folder) as cluster:
        churn = Churn(cluster.kube, cluster.server.store, "soak")
        await churn.run(_FIRST)
        await asyncio.sleep(_SETTLED)
        before, began = await _kept(cluster), time.monotonic()
        _print("before", churn.cycles, before)
        churn.interval = minutes * 60 / jobs
        samples: list[tuple[int, dict[str, Kept]]] = []
        sampling = asyncio.create_task(_sample(cluster, churn, samples, minutes * 60 / _PARTS))
        await churn.run(jobs // 2, began + minutes * 30)
        await asyncio.sleep(_SETTLED)
        middle, halved, half = await _kept(cluster), time.monotonic(), len(samples)
        _print("middle", churn.cycles, middle)
        await churn.run(jobs // 2, halved + minutes * 30)
        took = time.monotonic() - began
        sampling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sampling
        await asyncio.sleep(_SETTLED)
        after = await _kept(cluster)
        _print("after", churn.cycles, after)
        for name in before:
            left = f"left: {_left(before[name], middle[name])} after half, {_left(before[name], after[name])} after all"
            print(f"SUMMARY soak {name}: {_slopes(name, samples[half:])}; {left}", flush=True)
        waits = sorted(churn.lingered)
        print(
            f"SUMMARY soak: {churn.cycles} jobs of {churn.queues} queues in {took / 60:.1f} minutes; pods and Workloads were "
            f"gone {waits[len(waits) // 2]:.2f} s (p50), {waits[len(waits) * 99 // 100]:.2f} s (p99), {waits[-1]:.2f} s (most) "
            f"after the deletion of their job; this process {cost(os.getpid()).resident:.0f} MiB",
            flush=True,
        )


async def _kept(cluster: EmbeddedCluster) -> dict[str, Kept]:
    return {name: await Kept.of(child) for name, child in cluster.processes.children.items()}


async def _sample(
    cluster: EmbeddedCluster, churn: Churn, samples: list[tuple[int, dict[str, Kept]]], period: float
) -> None:
    began = time.monotonic()
    for number in itertools.count():
        await asyncio.sleep(max(0.0, began + period * number - time.monotonic()))
        kept = await _kept(cluster)
        samples.append((churn.cycles, kept))
        if number % (_PARTS // 10) == 0:
            _print(f"{(time.monotonic() - began) / 60:.1f} min", churn.cycles, kept)


def _print(when: str, cycles: int, kept: dict[str, Kept]) -> None:
    for name, one in kept.items():
        print(
            f"{when:>9} {cycles:6d} jobs  {name:<10} {one.resident:6.1f} MiB {one.descriptors:4d} descriptors "
            f"{one.tasks:4d} tasks {one.series:6d} series {one.cpu:7.1f} CPU s",
            flush=True,
        )


def _slopes(name: str, samples: Sequence[tuple[int, dict[str, Kept]]]) -> str:
    """Of each figure, per 1,000 jobs, by least squares."""
    thousands = [cycles / 1000 for cycles, _ in samples]
    slopes = (
        f"{field} {_slope(thousands, [getattr(kept[name], field) for _, kept in samples]):+.2f}"
        for field in ("resident", "descriptors", "tasks", "series")
    )
    return f"per 1,000 jobs of the second half {', '.join(slopes)}"


def _slope(x: Sequence[float], y: Sequence[float]) -> float:
    middle, level = sum(x) / len(x), sum(y) / len(y)
    spread = sum((at - middle) ** 2 for at in x)
    return sum((at - middle) * (value - level) for at, value in zip(x, y, strict=True)) / spread if spread else 0.0


def _left(before: Kept, after: Kept) -> str:
    fields = [field.name for field in dataclasses.fields(Kept) if field.name != "cpu"]
    return ", ".join(f"{getattr(after, f) - getattr(before, f):+g} {f}" for f in fields)
