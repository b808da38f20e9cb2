"""The floor of the protocol for gangs: each is let go as soon as all its pods are seen, with our writes and no decision at all.

    python -m tests.bench.gangstamp KUBECONFIG

A Workload is made, its status gets the admission, each pod loses its gate: the writes that any queueing by
kueue.x-k8s.io/v1beta2 owes a group of plain pods. No webhook (the pods come gated, as one leaves them), no queue, no quota,
and no watch but the pods'.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import uvloop

from admission.controllers.jobs.context import JobContext, JobOptions
from admission.controllers.jobs.plan.pod_set_infos import pod_set_infos
from admission.controllers.pods.compose import composed
from admission.controllers.pods.start import starts
from admission.controllers.state import conditions
from admission.controllers.state.condition_table import Writer
from admission.controllers.write.status import patch_status
from admission.integrations.pods.pod import QueuedPod, QueuedPodReader
from admission.integrations.pods.podgroup import PodUnit
from api import names
from api.kube.client import Kube, PatchKind
from api.kube.informers.informer import Informer
from api.kube.informers.store import Change, ChangeType
from api.kube.resources import PODS, WORKLOADS
from api.kube.settings import ClientSettings
from api.topology import ResourceFlavor
from api.workloads import Admission, PodSetAssignment, Workload

# As many as the controller has in flight (controller.podWrites).
_AT_ONCE = 256
_FLAVORS = {"plain": ResourceFlavor.from_wire({"metadata": {"name": "plain"}, "spec": {}})}


async def stamp(kubeconfig: Path) -> None:
    """Until cancelled."""
    waiting: asyncio.Queue[PodUnit] = asyncio.Queue()
    seen: dict[str, list[QueuedPod]] = {}
    slots = asyncio.Semaphore(_AT_ONCE)
    async with await Kube.connect(ClientSettings(kubeconfig=kubeconfig, concurrency=2 * _AT_ONCE)) as kube:
        informer = Informer(kube, PODS, QueuedPodReader())

        def changed(change: Change[QueuedPod]) -> None:
            pod = change.object
            if change.type is not ChangeType.ADDED or not pod.gated:
                return
            members = seen.setdefault(pod.group, [])
            members.append(pod)
            if len(members) == int(pod.annotations[names.POD_GROUP_TOTAL_COUNT]):
                waiting.put_nowait(PodUnit.of(seen.pop(pod.group)))

        informer.add_handler(changed)
        async with asyncio.TaskGroup() as group:
            group.create_task(informer.run())
            for _ in range(_AT_ONCE):
                group.create_task(_start(kube, waiting, slots))


async def _start(kube: Kube, waiting: asyncio.Queue[PodUnit], slots: asyncio.Semaphore) -> None:
    while True:
        unit = await waiting.get()
        made = composed(unit, unit.pods, JobContext(flavors=_FLAVORS))
        workload = Workload.from_wire(await kube.create(WORKLOADS, made))
        status = conditions.reserved(workload.status, _admission(workload), 0.0, 1)
        workload = await patch_status(kube, workload, conditions.synced_admitted(status, 0.0, 1), Writer.SCHEDULER)
        infos = pod_set_infos(workload, _FLAVORS, JobOptions())
        async with asyncio.TaskGroup() as group:
            for start in starts(unit, unit.pods, infos, workload):
                group.create_task(_open(kube, start.pod, start.patch, slots))


async def _open(kube: Kube, pod: QueuedPod, patch: dict[str, object], slots: asyncio.Semaphore) -> None:
    async with slots:
        await kube.patch(PODS, pod.metadata.name, patch, pod.metadata.namespace, kind=PatchKind.STRATEGIC)


def _admission(workload: Workload) -> Admission:
    return Admission(
        cluster_queue="cq",
        pod_set_assignments=tuple(
            PodSetAssignment(
                name=pod_set.name,
                flavors={"cpu": "plain"},
                resource_usage={"cpu": str(pod_set.count)},
                count=pod_set.count,
            )
            for pod_set in workload.spec.pod_sets
        ),
    )


if __name__ == "__main__":
    uvloop.run(stamp(Path(sys.argv[1])))
