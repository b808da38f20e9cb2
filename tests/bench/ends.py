"""How soon a Workload is Finished after its job has completed, while other jobs start and end.

    python -m tests.bench ends [--jobs 1000]

On the embedded server, which runs in this process with its workers, on the same cores. All jobs of one pod are posted as fast
as the server takes them, and there is room for all. Prints the delay from a job's Complete condition to the Finished condition
of its Workload, how many Workloads were not Finished when the last job completed, and the CPU seconds of controller and server.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import uvloop

from admission.cli.local_cluster.embedded import EmbeddedCluster, embedded
from api.embedded.table import StoreEvent
from api.embedded.watch import Watcher
from api.embedded.workers.base import holds
from api.kube.resources import JOBS, WORKLOADS
from tests.bench.measure import cost, pid_of
from tests.scenarios.site import Site

_LANES: Final = 16
_HOSTS: Final = 40
_PODS_OF_A_HOST: Final = 30
_PERIOD: Final = 0.005


@dataclass
class _Ends:
    """Seconds at which each job was Complete and each Workload Finished, by the job's name."""

    complete: dict[str, float] = field(default_factory=dict)
    finished: dict[str, float] = field(default_factory=dict)

    def take(self, event: StoreEvent) -> None:
        """Notes the first event that shows the condition."""
        obj, status = event.record.obj, event.record.obj.get("status") or {}
        if obj["kind"] == "Job" and holds(status, "Complete"):
            self.complete.setdefault(obj["metadata"]["name"], time.monotonic())
        elif obj["kind"] == "Workload" and holds(status, "Finished"):
            owners = obj["metadata"].get("ownerReferences") or [{"name": ""}]
            self.finished.setdefault(owners[0]["name"], time.monotonic())

    async def follow(self, watchers: Sequence[Watcher], jobs: int) -> None:
        """Until all Workloads are Finished."""
        while len(self.finished) < jobs:
            for watcher in watchers:
                for event in watcher.drain():
                    self.take(event)
            await asyncio.sleep(_PERIOD)


def run(jobs: int) -> None:
    """Prints one line."""
    with tempfile.TemporaryDirectory(prefix="stowage-bench-") as folder:
        uvloop.run(_measure(Path(folder), jobs))


async def _measure(folder: Path, jobs: int) -> None:
    async with embedded(folder) as cluster:
        site = Site(cluster.kube, "ends", gpus_per_host=_PODS_OF_A_HOST)
        hosts = max(1, -(-jobs // _PODS_OF_A_HOST)) if jobs < _HOSTS * _PODS_OF_A_HOST else _HOSTS
        await site.open({"b1": {"r1": hosts}}, quota=10**6)
        ends, watchers = _Ends(), [cluster.server.store.watch(kind) for kind in (JOBS, WORKLOADS)]
        before, began = _spent(cluster), time.monotonic()
        async with asyncio.TaskGroup() as group:
            group.create_task(ends.follow(watchers, jobs))
            left = iter(range(jobs))
            for _ in range(_LANES):
                group.create_task(_post(site, left))
        after = _spent(cluster)
        for watcher in watchers:
            watcher.close()
        _tell(ends, began, [now - then for now, then in zip(after, before, strict=True)])


async def _post(site: Site, numbers: Iterator[int]) -> None:
    for number in numbers:
        await site.submit(site.job(f"job-{number:05}", 1, run_for="1s"))


def _spent(cluster: EmbeddedCluster) -> tuple[float, float]:
    return cost(pid_of(cluster.processes.children["controller"])).cpu, cost(os.getpid()).cpu


def _tell(ends: _Ends, began: float, cpu: Sequence[float]) -> None:
    late = sorted(ends.finished[job] - at for job, at in ends.complete.items())
    last = max(ends.complete.values())
    open_then = sum(at > last for at in ends.finished.values())
    took = max(ends.finished.values()) - began
    print(
        f"SUMMARY ends: {len(late)} jobs, Finished after their end {late[len(late) // 2]:.2f} s (p50), "
        f"{late[len(late) * 99 // 100]:.2f} s (p99), {late[-1]:.2f} s (most); {open_then} not Finished when the last job was "
        f"Complete, the last of them {max(ends.finished.values()) - last:.2f} s later; {took:.1f} s in all, "
        f"{len(late) / took:.0f} Workloads/s; CPU s: controller {cpu[0]:.1f}, server with its workers {cpu[1]:.1f}",
        flush=True,
    )
