"""What observing costs the controller: the metrics of capacity, a scrape, and a list of positions, each while the loop runs.

    python -m tests.bench.observing [--nodes 15000] [--limit 200] [--pending 100000]

Prints the longest step on the event loop in CPU milliseconds of its thread, to which other processes add nothing, and the
longest delay of a timer of 2 ms while a thread works, to which they add.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from collections.abc import Awaitable, Callable

from prometheus_client import generate_latest

from admission.controllers.report.capacity_gauges import CapacityGauges
from admission.engine.model import Workload
from admission.engine.queue.queues import PendingQueues
from admission.visibility.pending import MOST, Page, in_line, summary
from api import workloads as api
from tests.bench.placement import cluster

_TICK = 0.002


def steps(gauges: CapacityGauges) -> list[float]:
    """CPU seconds of each step of renewing the flavor's series."""
    found, began = [], time.thread_time()
    for _ in gauges.renewed("tas"):
        found.append(time.thread_time() - began)
        began = time.thread_time()
    return [*found, time.thread_time() - began]


async def delay(work: Callable[[], Awaitable[object]]) -> float:
    """The longest delay of a timer while the work goes on, in seconds."""
    longest, running = 0.0, asyncio.ensure_future(work())
    while not running.done():
        began = time.perf_counter()
        await asyncio.sleep(_TICK)
        longest = max(longest, time.perf_counter() - began - _TICK)
    await running
    return longest


async def positions(pending: int) -> tuple[float, float, float]:
    """Milliseconds of CPU on the loop, seconds of the whole, and the longest delay of the loop."""
    queues = PendingQueues()
    known: dict[str, api.Workload] = {}
    for number in range(pending):
        key = f"ns/w{number:06}"
        queues.put(Workload(key, key, "ns/lq", "cq", (), queued=float(number * 7919 % pending)))
        known[key] = api.Workload.from_wire(
            {"metadata": {"name": key[3:], "namespace": "ns"}, "spec": {"queueName": "lq"}}
        )
    began = time.thread_time()
    waiting = in_line(queues.workloads(), "cq")
    collected, started = time.thread_time() - began, time.perf_counter()
    late = await delay(lambda: asyncio.to_thread(summary, "v1beta2", waiting, known.get, Page(0, MOST)))
    return collected * 1000, time.perf_counter() - started, late


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=15_000)
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--pending", type=int, default=100_000)
    given = parser.parse_args()
    gc.set_threshold(20_000, 20, 20)  # as the processes
    ledger = cluster(given.nodes, "gpu", "70")
    gauges = CapacityGauges(ledger, PendingQueues(), given.limit)
    gc.collect()
    gc.freeze()
    for what in ("first", "nothing changed"):
        found = steps(gauges)
        print(
            f"capacity, {what}: {len(found)} steps, longest {max(found) * 1000:.1f} ms, {sum(found) * 1000:.1f} ms in all"
        )
    ledger.release("ns/fill-00000")
    ledger.apply(next(iter(ledger.capacity.inputs())))
    found = steps(gauges)
    print(f"capacity, a workload less: longest {max(found) * 1000:.1f} ms, {sum(found) * 1000:.1f} ms in all")
    late = asyncio.run(delay(lambda: asyncio.to_thread(generate_latest)))
    print(f"scrape of {len(generate_latest()) // 1024} KiB: the loop is late by at most {late * 1000:.1f} ms")
    collected, whole, late = asyncio.run(positions(given.pending))
    print(
        f"positions of {given.pending}: {collected:.1f} ms on the loop, {whole:.2f} s in a thread, late by {late * 1000:.1f} ms"
    )


if __name__ == "__main__":
    main()
