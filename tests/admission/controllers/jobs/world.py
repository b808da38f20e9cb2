"""An API server with our CRDs, and a job controller that runs on it: the embedded one, with stand-ins of the controllers
of Job and JobSet, or the real one."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from admission.controllers.jobs.context import JobOptions
from admission.controllers.jobs.controller_context import ControllerContext
from admission.controllers.jobs.job_controller import JobController
from admission.controllers.state import conditions
from admission.controllers.state.condition_table import Writer
from admission.controllers.write.status import patch_status
from admission.integrations.base import JobIntegration
from admission.integrations.registry import ADAPTERS, DECLARED
from api.assignment import encode
from api.embedded.server import EmbeddedServer, EmbeddedSettings
from api.embedded.workers.driver import Workers
from api.embedded.workers.jobs import JobWorker as JobStandIn
from api.embedded.workers.jobsets import JobSetWorker as JobSetStandIn
from api.errors import AlreadyExists, NotFound
from api.kube.client import Kube, PatchKind
from api.kube.events import ObjectRef
from api.kube.informers.informer import Informer
from api.kube.resources import (
    CRDS,
    NAMESPACES,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from api.kube.settings import ClientSettings
from api.names import QUEUE_NAME_LABEL
from api.queues import WorkloadPriorityClass
from api.topology import ResourceFlavor
from api.workloads import (
    Admission,
    PodSetAssignment,
    Workload,
)
from tests.admission.integrations.samples import suspended
from tests.crds import SHIPPED, crd_of, shipped
from tests.tasks import DEADLINE, eventually, running
from tests.writes import noting

Object = dict[str, Any]


@dataclass
class Recorded:
    """Stands for the recorder: what was said of whom."""

    events: list[tuple[str, str, str]] = field(default_factory=list)

    def record(self, ref: ObjectRef, event_type: str, reason: str, message: str) -> None:
        """See EventRecorder."""
        self.events.append((f"{ref.kind}/{ref.name}", reason, message))


@dataclass
class JobCluster:
    """The server's administrator, and what the controller said and wrote."""

    kube: Kube
    recorded: Recorded
    writes: list[tuple[str, str]]
    controller: JobController
    lists: Counter[str]
    real: bool = False

    async def job(self, kind: JobIntegration, name: str) -> Object:
        """As it is now."""
        return await self.kube.get(kind.resource, name, "ns")

    async def workload(self, kind: JobIntegration) -> Workload:
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

    async def admit(
        self, kind: JobIntegration, *, topology: bool = False, flavor: str = "tas", at: float | None = None
    ) -> Workload:
        """Writes what the scheduler would, now or at those epoch seconds."""
        now = time.time() if at is None else at
        workload = await eventually(lambda: self.workload(kind))
        assignment = encode(("rack",), [(("r1",), 5), (("r2",), 4)])
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
        status = conditions.synced_admitted(conditions.reserved(workload.status, admission, now), now)
        return await patch_status(self.kube, workload, status, Writer.SCHEDULER)

    async def evict(self, kind: JobIntegration, reason: str = "Preempted") -> Workload:
        """Writes what a preemption would."""
        workload = await self.workload(kind)
        return await patch_status(
            self.kube, workload, conditions.evicted(workload.status, reason, "make room", 0.0), Writer.SCHEDULER
        )

    async def told(self, reason: str, message: str) -> None:
        """Waits for an event: it follows what it tells of."""

        async def is_told() -> bool:
            return (reason, message) in [event[1:] for event in self.recorded.events]

        await eventually(is_told)

    async def unsuspend(self, kind: JobIntegration, name: str) -> None:
        """What a user may do by hand."""
        await self.kube.patch(kind.resource, name, suspended(kind, {}, value=False), "ns", kind=PatchKind.MERGE)


@contextlib.asynccontextmanager
async def embedded(
    folder: Path, options: JobOptions | None = None, *, kubernetes: bool = True
) -> AsyncIterator[JobCluster]:
    """A server of its own; everything runs until the block ends. `kubernetes`: with what begins with jobs that may run."""
    async with EmbeddedServer(EmbeddedSettings(seed=1, tls=False)) as server:
        for crd in _crds():
            server.store.create(CRDS, crd)
        stand_ins = Workers(server.store, (JobStandIn, JobSetStandIn) if kubernetes else ())
        async with running(stand_ins.run()), _world(server.kubeconfig(folder / "kubeconfig"), options) as made:
            yield made


@contextlib.asynccontextmanager
async def real(kubeconfig: Path, options: JobOptions | None = None) -> AsyncIterator[JobCluster]:
    """On a control plane that runs already; what is left at the end is deleted."""
    async with await Kube.connect(ClientSettings(kubeconfig=kubeconfig)) as kube:
        for crd in _crds():
            with contextlib.suppress(AlreadyExists):
                await kube.create(CRDS, crd)
    async with _world(kubeconfig, options) as made:
        made.real = True
        yield made
        for resource in (*(adapter.resource for adapter in ADAPTERS), WORKLOADS):
            for item in (await made.kube.list(resource, "ns")).items:
                with contextlib.suppress(NotFound):
                    await made.kube.delete(resource, item["metadata"]["name"], "ns", propagation="Background")
        await eventually(lambda: _is_empty(made.kube))


async def _is_empty(kube: Kube) -> bool:
    resources = (*(adapter.resource for adapter in ADAPTERS), WORKLOADS)
    return not any([(await kube.list(resource, "ns")).items for resource in resources])


def _crds() -> list[Object]:
    ours = [shipped(path.stem) for path in sorted(SHIPPED.glob("kueue*.yaml"))]
    return [*ours, *(crd_of(adapter.resource) for adapter in DECLARED)]


@contextlib.asynccontextmanager
async def _world(kubeconfig: Path, options: JobOptions | None) -> AsyncIterator[JobCluster]:
    async with contextlib.AsyncExitStack() as stack:
        kube = await stack.enter_async_context(await Kube.connect(ClientSettings(kubeconfig=kubeconfig)))
        lists: Counter[str] = Counter()
        ours, writes = await noting(ClientSettings(kubeconfig=kubeconfig), lists=lists)
        await stack.enter_async_context(ours)
        await eventually(lambda: _prepared(kube))
        # As the process watches them: jobs without a queue name, child jobs among them, are not seen.
        everything = options is not None and options.manage_jobs_without_queue_name
        labels = None if everything else QUEUE_NAME_LABEL
        jobs = {a.framework: Informer[Object](ours, a.resource, dict, label_selector=labels) for a in ADAPTERS}
        workloads = Informer(ours, WORKLOADS, Workload)
        flavors = Informer(ours, RESOURCE_FLAVORS, ResourceFlavor)
        workload_classes = Informer(ours, WORKLOAD_PRIORITY_CLASSES, WorkloadPriorityClass)
        classes = Informer[Object](ours, PRIORITY_CLASSES, dict)
        recorded = Recorded()
        views: Any = SimpleNamespace(
            workloads=workloads, flavors=flavors, workload_priorities=workload_classes, priorities=classes
        )
        controller = JobController(ControllerContext(ours, views, recorded, options or JobOptions()), ADAPTERS, jobs)
        informers: list[Informer[Any]] = [*jobs.values(), workloads, flavors, workload_classes, classes]
        for informer in informers:
            await stack.enter_async_context(running(informer.run()))
        await stack.enter_async_context(running(controller.run()))
        await asyncio.gather(*(informer.synced(DEADLINE) for informer in informers))
        yield JobCluster(kube, recorded, writes, controller, lists)


async def _prepared(kube: Kube) -> bool:
    """Namespace and flavors are there (a CRD is served a moment after it was posted: NotFound until then)."""
    tas = ResourceFlavor.from_wire({"metadata": {"name": "tas"}, "spec": {"nodeLabels": {"pool": "tas"}}})
    zone = ResourceFlavor.from_wire({"metadata": {"name": "zone"}, "spec": {"nodeLabels": {"zone": "z"}}})
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}
    for resource, obj in ((NAMESPACES, namespace), (RESOURCE_FLAVORS, tas), (RESOURCE_FLAVORS, zone)):
        with contextlib.suppress(AlreadyExists):
            await kube.create(resource, obj)
    await kube.list(WORKLOADS)
    await kube.list(WORKLOAD_PRIORITY_CLASSES)
    return True
