"""An embedded API server with our CRDs and the stand-ins of the Job controllers, and a job controller that runs on it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from admission.controllers import conditions
from admission.controllers.jobs import JobController
from admission.controllers.jobs_surroundings import JobOptions
from admission.controllers.status import patch_status
from admission.integrations.base import JobKind
from admission.integrations.registry import ADAPTERS
from api.errors import NotFound
from api.fake.server import FakeServer, FakeSettings
from api.fake.workers.driver import Workers
from api.fake.workers.jobs import JobController as JobStandIn
from api.fake.workers.jobsets import JobSetController as JobSetStandIn
from api.kube.client import Kube, PatchKind
from api.kube.events import ObjectRef
from api.kube.informer import Informer
from api.kube.resources import (
    CRDS,
    NAMESPACES,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from api.kube.settings import ClientSettings
from api.queues import WorkloadPriorityClass
from api.topology import ResourceFlavor
from api.workloads import (
    Admission,
    AssignmentSlice,
    LevelValues,
    PodCounts,
    PodSetAssignment,
    TopologyAssignment,
    Workload,
)

Object = dict[str, Any]
CONFIG = Path(__file__).resolve().parents[3] / "config" / "crd"
DEADLINE = 10.0


@dataclass
class Recorded:
    """Stands for the recorder: what was said of whom."""

    events: list[tuple[str, str, str]] = field(default_factory=list)

    def record(self, ref: ObjectRef, event_type: str, reason: str, message: str) -> None:
        """See EventRecorder."""
        self.events.append((f"{ref.kind}/{ref.name}", reason, message))

    @property
    def reasons(self) -> list[str]:
        """In order."""
        return [reason for _, reason, _ in self.events]


@dataclass
class World:
    """The server's administrator, and what the controller said and wrote."""

    kube: Kube
    recorded: Recorded
    writes: list[tuple[str, str]]
    controller: JobController

    async def job(self, kind: JobKind, name: str) -> Object:
        """As it is now."""
        return await self.kube.get(kind.resource, name, "ns")

    async def workload(self, kind: JobKind) -> Workload:
        """The only one of that kind of owner that is not being deleted. Raises NotFound."""
        page = await self.kube.list(WORKLOADS, "ns", decode=Workload)
        found = [
            w
            for w in page.items
            if w.metadata.owner_references[0].kind == kind.resource.kind and not w.metadata.deletion_timestamp
        ]
        if len(found) != 1:
            raise NotFound(404, "NotFound", f"{len(found)} Workloads")
        return found[0]

    async def admit(self, kind: JobKind, *, topology: bool = False, flavor: str = "tas") -> Workload:
        """Writes what the scheduler would."""
        workload = await eventually(lambda: self.workload(kind))
        assignment = TopologyAssignment(
            levels=("rack",),
            slices=(
                AssignmentSlice(
                    domain_count=1, values_per_level=(LevelValues(universal="r1"),), pod_counts=PodCounts(universal=9)
                ),
            ),
        )
        admission = Admission(
            cluster_queue="cq",
            pod_set_assignments=tuple(
                PodSetAssignment(
                    name=p.name,
                    flavors={"cpu": flavor},
                    count=p.count,
                    **({"topology_assignment": assignment} if topology else {}),
                )
                for p in workload.spec.pod_sets
            ),
        )
        status = conditions.synced_admitted(conditions.reserved(workload.status, admission, 0.0), 0.0)
        return await patch_status(self.kube, workload, status)

    async def evict(self, kind: JobKind, reason: str = "Preempted") -> Workload:
        """Writes what a preemption would."""
        workload = await self.workload(kind)
        return await patch_status(self.kube, workload, conditions.evicted(workload.status, reason, "make room", 0.0))

    async def unsuspend(self, kind: JobKind, name: str) -> None:
        """What a user may do by hand."""
        await self.kube.patch(kind.resource, name, {"spec": {"suspend": False}}, "ns", kind=PatchKind.MERGE)


async def eventually(check: Callable[[], Awaitable[Any]]) -> Any:
    """What `check` gives as soon as it gives something true and raises no NotFound; fails after the deadline."""
    async with asyncio.timeout(DEADLINE):
        while True:
            with contextlib.suppress(NotFound):
                if found := await check():
                    return found
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def world(folder: Path, options: JobOptions | None = None) -> AsyncIterator[World]:
    """Everything runs until the block ends."""
    async with FakeServer(FakeSettings(seed=1, tls=False)) as server, contextlib.AsyncExitStack() as stack:
        for path in sorted(CONFIG.glob("kueue*.yaml")):
            server.store.create(CRDS, yaml.safe_load(path.read_text()))
        server.store.create(NAMESPACES, {"metadata": {"name": "ns"}})
        kubeconfig = server.kubeconfig(folder / "kubeconfig")
        kube = await stack.enter_async_context(await Kube.connect(ClientSettings(kubeconfig=kubeconfig)))
        flavor = ResourceFlavor.from_wire({"metadata": {"name": "tas"}, "spec": {"nodeLabels": {"pool": "tas"}}})
        await kube.create(RESOURCE_FLAVORS, flavor)
        ours = await stack.enter_async_context(await Kube.connect(ClientSettings(kubeconfig=kubeconfig)))
        writes = _counted(ours)
        jobs = {a.framework: Informer[Object](ours, a.resource, dict) for a in ADAPTERS}
        workloads = Informer(ours, WORKLOADS, Workload)
        flavors = Informer(ours, RESOURCE_FLAVORS, ResourceFlavor)
        workload_classes = Informer(ours, WORKLOAD_PRIORITY_CLASSES, WorkloadPriorityClass)
        classes = Informer[Object](ours, PRIORITY_CLASSES, dict)
        recorded = Recorded()
        controller = JobController(
            ours, ADAPTERS, jobs, workloads, flavors, workload_classes, classes, recorded, options=options
        )
        informers: list[Informer[Any]] = [*jobs.values(), workloads, flavors, workload_classes, classes]
        stand_ins = Workers(server.store, (JobStandIn, JobSetStandIn))
        for run in (*(informer.run for informer in informers), controller.run, stand_ins.run):
            task = asyncio.create_task(run())
            stack.push_async_callback(_ended, task)
        await asyncio.gather(*(informer.synced(DEADLINE) for informer in informers))
        yield World(kube, recorded, writes, controller)


def _counted(kube: Kube) -> list[tuple[str, str]]:
    """(verb, resource) of every write that leaves through this client."""
    writes: list[tuple[str, str]] = []
    send = kube._transport.send

    async def counting(call: Any) -> bytes:
        if call.method != "GET":
            writes.append((call.verb, call.resource))
        return await send(call)

    setattr(kube._transport, "send", counting)  # noqa: B010 - a method is replaced, which mypy cannot see
    return writes


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
