"""Churn: queues that are made, run jobs and are deleted with all that is theirs; and what our processes have kept of it.

On the embedded server. `Churn.run` ends when nothing of any queue is left: whatever a process still holds then, it has leaked.
Used by test_soak.py, and by `python -m tests.bench soak`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

from admission.cli.local_cluster.processes import ChildProcess
from api.embedded.store import ObjectStorage
from api.embedded.table import StoreEvent
from api.embedded.workers.base import holds
from api.errors import NotFound, ServerError
from api.kube.client import Kube
from api.kube.resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
    Resource,
)
from api.names import REQUIRE_TOPOLOGY
from tests.bench.measure import cost
from tests.scenarios.site import GROUP, RACK, Site, Tree, eventually
from tests.tasks import running

Obj = dict[str, Any]

QUEUES: Final = 6
"""That live at once."""
_AT_ONCE: Final = 8
"""Jobs of one queue; its nodes have room for half of them."""
_PODS: Final = 2
_TREE: Final[Tree] = {"b1": {"r1": 1, "r2": 1}}
_DELETIONS: Final = ("Background", "Foreground")
_PERIOD: Final = 0.02
_AGAIN: Final = 0.5
"""Seconds until a job that the API server could not take is posted again."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a process holds at one moment. `resident` in MiB, `cpu` in seconds; `series` of its metrics page."""

    resident: float
    cpu: float
    descriptors: int
    tasks: int
    series: int

    @classmethod
    async def of(cls, child: ChildProcess) -> Kept:
        """Of one that runs."""
        assert child.process is not None
        pid, lines = child.process.pid, await series(child)
        spent = cost(pid)
        tasks = next(float(line.split()[-1]) for line in lines if line.startswith("stowage_tasks "))
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - of memory, at once
        return cls(spent.resident, spent.cpu, descriptors, int(tasks), len(lines))


async def series(child: ChildProcess) -> list[str]:
    """The lines of its metrics page, one a series."""
    url = f"http://127.0.0.1:{child.health_port}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return [line for line in (await answer.text()).splitlines() if not line.startswith("#")]


@dataclass
class _Cycle:
    """One job: what there is of it, and when it was complete."""

    parts: set[str] = field(default_factory=set)
    complete: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class Churn:
    """`interval`: seconds between the starts of two jobs, for a steady load. `lingered`: seconds from the deletion of each
    job until its pods and its Workload were gone."""

    kube: Kube
    store: ObjectStorage
    name: str
    jobs_of_a_queue: int = 50
    interval: float = 0.0
    cycles: int = 0
    queues: int = 0
    lingered: list[float] = field(default_factory=list)
    _jobs: dict[str, _Cycle] = field(default_factory=dict)
    _due: float = 0.0

    async def run(self, jobs: int, until: float = float("inf")) -> None:
        """So many jobs, or fewer where `until` (of time.monotonic) comes first."""
        numbers, left = itertools.count(self.queues), iter(range(self.cycles, self.cycles + jobs))
        self._due = time.monotonic()

        def started() -> Iterator[int]:
            while time.monotonic() < until and (number := next(left, None)) is not None:
                yield number

        async def lane() -> None:
            while own := list(itertools.islice(started(), self.jobs_of_a_queue)):
                await self._queue(f"{self.name}-{next(numbers)}", own)

        async with self._watched(), asyncio.TaskGroup() as group:
            for _ in range(QUEUES):
                group.create_task(lane())

    async def _queue(self, name: str, jobs: Sequence[int]) -> None:
        here = Site(self.kube, name)
        await here.open(_TREE)
        left = iter(jobs)

        async def lane() -> None:
            for number in left:
                await self._pace()
                await self._cycle(here, number)

        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(lane())
        await self._close(here)
        self.queues += 1

    async def _pace(self) -> None:
        self._due += self.interval
        await asyncio.sleep(max(0.0, self._due - time.monotonic()))

    async def _cycle(self, here: Site, number: int) -> None:
        name = f"job-{number}"
        cycle = self._jobs[f"{here.name}/{name}"] = _Cycle()
        await self._submit(here, here.job(name, _PODS, {REQUIRE_TOPOLOGY: RACK}, gpus=2, run_for="100ms"))
        await cycle.complete.wait()
        deleted = time.monotonic()
        await self.kube.delete(JOBS, name, here.name, propagation=_DELETIONS[number % len(_DELETIONS)])
        await cycle.gone.wait()
        self.lingered.append(time.monotonic() - deleted)
        del self._jobs[f"{here.name}/{name}"]
        self.cycles += 1

    async def _submit(self, here: Site, job: Obj) -> None:
        """As a user on a busy machine, whose API server gives the webhook ten seconds."""
        while True:
            try:
                await here.submit(job)
                return
            except ServerError:
                await asyncio.sleep(_AGAIN)

    async def _close(self, here: Site) -> None:
        await self.kube.delete(LOCAL_QUEUES, "lq", here.name)
        for resource in (CLUSTER_QUEUES, RESOURCE_FLAVORS, TOPOLOGIES, NAMESPACES):
            await self.kube.delete(resource, here.name)
        for node in (await self.kube.list(NODES, label_selector=f"{GROUP}={here.name}")).items:
            await self.kube.delete(NODES, node["metadata"]["name"])
        for resource in (CLUSTER_QUEUES, RESOURCE_FLAVORS, TOPOLOGIES, NAMESPACES):
            await eventually(f"{resource.kind} {here.name} gone", lambda kind=resource: self._gone(kind, here.name))  # type: ignore[misc]

    async def _gone(self, resource: Resource, name: str) -> bool:
        try:
            await self.kube.get(resource, name)
        except NotFound:
            return True
        return False

    # ---- what became of the jobs

    @contextlib.asynccontextmanager
    async def _watched(self) -> AsyncIterator[None]:
        watchers = [self.store.watch(kind) for kind in (JOBS, PODS, WORKLOADS)]

        async def run() -> None:
            while True:
                for watcher in watchers:
                    for event in watcher.drain():
                        self._take(event)
                await asyncio.sleep(_PERIOD)

        try:
            async with running(run()):
                yield
        finally:
            for watcher in watchers:
                watcher.close()

    def _take(self, event: StoreEvent) -> None:
        obj = event.record.obj
        meta = obj["metadata"]
        job = meta["name"] if obj["kind"] == "Job" else _owner(obj)
        cycle = self._jobs.get(f"{meta['namespace']}/{job}")
        if cycle is None:
            return
        part = f"{obj['kind']}/{meta['name']}"
        if event.type == "DELETED":
            cycle.parts.discard(part)
        else:
            cycle.parts.add(part)
        if obj["kind"] == "Job" and holds(obj.get("status") or {}, "Complete"):
            cycle.complete.set()
        if cycle.complete.is_set() and not cycle.parts:
            cycle.gone.set()


def _owner(obj: Obj) -> str:
    return next((str(ref["name"]) for ref in obj["metadata"].get("ownerReferences") or ()), "")
