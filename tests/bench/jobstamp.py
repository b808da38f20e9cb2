"""The floor of the protocol: every Job is started as soon as it is seen, with the controller's writes and no decision at all.

    python -m tests.bench.jobstamp KUBECONFIG

A Workload is made, its status gets the admission, the Job gets its template, each pod loses its gate; once the Job has ended
the Workload is Finished and loses its finalizer: the writes that any queueing by kueue.x-k8s.io/v1beta2 with gates owes a job,
beside what the Job controller writes for a job that is suspended first. No webhook, no queue, no quota; the hosts of the load
tool take turns, each a whole job, and a job waits while every GPU is taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import uvloop

from admission.controllers.jobs.context import JobContext, JobOptions
from admission.controllers.jobs.plan.pod_set_infos import pod_set_infos
from admission.controllers.jobs.plan.workload import composed
from admission.controllers.state import conditions
from admission.controllers.state.condition_table import Writer
from admission.controllers.write.status import patch_status
from admission.integrations.job import BatchJob
from api.assignment import encode
from api.errors import NotFound
from api.kube.client import Kube, PatchKind
from api.kube.informers.informer import Informer
from api.kube.informers.store import Change, ChangeType
from api.kube.resources import CLUSTER_QUEUES, JOBS, NODES, PODS, WORKLOADS
from api.kube.settings import ClientSettings
from api.names import FinishedReason
from api.pod.pods import Pod
from api.topology import ResourceFlavor
from api.workloads import Admission, PodSetAssignment, Workload
from ungater.patches import opening_patch

Host = tuple[str, str, str]

_WRITES_AT_ONCE = 32
_GPUS = 8
_LEVELS = ("example.com/block", "example.com/rack", "kubernetes.io/hostname")
_FLAVOR = ResourceFlavor.from_wire({"metadata": {"name": "gpu"}, "spec": {"nodeLabels": {"pool": "tas"}}})
_KIND = BatchJob()


async def stamp(kubeconfig: Path) -> None:
    """Until cancelled."""
    waiting: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    gated: asyncio.Queue[Pod] = asyncio.Queue()
    placed: dict[str, dict[str, str]] = {}
    async with await Kube.connect(ClientSettings(kubeconfig=kubeconfig)) as kube:
        informer = Informer(kube, JOBS, dict)

        ended: asyncio.Queue[str] = asyncio.Queue()
        running: dict[str, tuple[Workload, Host]] = {}

        def changed(change: Change[dict[str, Any]]) -> None:
            job = change.object
            if change.type is ChangeType.ADDED and job["spec"].get("suspend"):
                waiting.put_nowait(job)
            elif change.type is ChangeType.MODIFIED and job.get("status", {}).get("completionTime"):
                ended.put_nowait(job["metadata"]["name"])

        def pod_changed(change: Change[Pod]) -> None:
            if change.type is ChangeType.ADDED and change.object.spec.scheduling_gates:
                gated.put_nowait(change.object)

        informer.add_handler(changed)
        pods = Informer(kube, PODS, Pod)
        pods.add_handler(pod_changed)
        hosts = _Hosts(kube)
        async with asyncio.TaskGroup() as group:
            group.create_task(informer.run())
            group.create_task(pods.run())
            group.create_task(_open_queue(kube))
            for _ in range(_WRITES_AT_ONCE):
                group.create_task(_start(kube, waiting, hosts, placed, running))
                group.create_task(_finish(kube, ended, hosts, running))
                group.create_task(_open(kube, gated, placed))


async def _open_queue(kube: Kube) -> None:
    """The load tool posts nothing before somebody has said that its queue is active."""
    active = {
        "type": "Active",
        "status": "True",
        "reason": "Ready",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    while True:
        with contextlib.suppress(NotFound):
            status = {"status": {"conditions": [active]}}
            await kube.patch(CLUSTER_QUEUES, "cq", status, kind=PatchKind.MERGE, subresource="status")
            return
        await asyncio.sleep(0.2)


class _Hosts:
    """Gives each job the next host with room; there are as many as nodes when the first job comes."""

    def __init__(self, kube: Kube) -> None:
        self._kube, self._lock = kube, asyncio.Lock()
        self._free: asyncio.Queue[Host] | None = None

    async def take(self, pods: int) -> Host:
        """Block, rack and host, as the load tool names them: ten hosts a rack, ten racks a block; every host has 8 GPUs."""
        async with self._lock:
            if self._free is None:
                self._free = asyncio.Queue()
                count = len((await self._kube.list(NODES)).items)
                for n in [*range(count)] * max(1, _GPUS // pods):
                    self._free.put_nowait((f"b{n // 100:03}", f"r{n // 10:04}", f"n{n:05}"))
            return await self._free.get()

    def give_back(self, host: Host) -> None:
        """A job has ended there."""
        if self._free is not None:
            self._free.put_nowait(host)


async def _start(
    kube: Kube,
    waiting: asyncio.Queue[dict[str, Any]],
    hosts: _Hosts,
    placed: dict[str, dict[str, str]],
    running: dict[str, tuple[Workload, Host]],
) -> None:
    while True:
        job = await waiting.get()
        made = composed(job, _KIND, JobContext(flavors={"gpu": _FLAVOR}))
        workload = Workload.from_wire(await kube.create(WORKLOADS, made))
        meta = job["metadata"]
        host = await hosts.take(job["spec"]["parallelism"])
        placed[meta["name"]] = dict(zip(_LEVELS, host, strict=True))
        status = conditions.reserved(workload.status, _admission(workload, host), 0.0, 1)
        workload = await patch_status(kube, workload, conditions.synced_admitted(status, 0.0, 1), Writer.SCHEDULER)
        running[meta["name"]] = workload, host
        patch = _KIND.start(job, pod_set_infos(workload, {"gpu": _FLAVOR}, JobOptions()))
        patch.pop("metadata", None)  # the Job controller has said Suspended meanwhile
        await kube.patch(JOBS, meta["name"], patch, meta["namespace"], kind=PatchKind.MERGE)


async def _finish(
    kube: Kube, ended: asyncio.Queue[str], hosts: _Hosts, running: dict[str, tuple[Workload, Host]]
) -> None:
    while True:
        workload, host = running.pop(await ended.get(), (None, None))
        if workload is None or host is None:
            continue
        hosts.give_back(host)
        status = conditions.finished(workload.status, FinishedReason.SUCCEEDED, "", 0.0, 1)
        await patch_status(kube, workload, status, Writer.JOBS)
        meta, patch = workload.metadata, {"metadata": {"finalizers": None}}
        await kube.patch(WORKLOADS, meta.name, patch, meta.namespace, kind=PatchKind.MERGE)


async def _open(kube: Kube, gated: asyncio.Queue[Pod], placed: Mapping[str, dict[str, str]]) -> None:
    while True:
        pod = await gated.get()
        domain = placed[pod.metadata.labels["batch.kubernetes.io/job-name"]]
        patch = opening_patch(pod, domain, domain[_LEVELS[-1]], clear_managers=True)
        await kube.patch(PODS, pod.metadata.name, patch, pod.metadata.namespace, kind=PatchKind.STRATEGIC)


def _admission(workload: Workload, host: Host) -> Admission:
    pod_set = workload.spec.pod_sets[0]
    assigned = PodSetAssignment(
        name=pod_set.name,
        flavors={"cpu": "gpu", "nvidia.com/gpu": "gpu"},
        resource_usage={"cpu": str(pod_set.count), "nvidia.com/gpu": str(pod_set.count)},
        count=pod_set.count,
        topology_assignment=encode(_LEVELS, [(host, pod_set.count)]),
    )
    return Admission(cluster_queue="cq", pod_set_assignments=(assigned,))


if __name__ == "__main__":
    uvloop.run(stamp(Path(sys.argv[1])))
