"""What the controller of pods asks the API server before it ends a gang: its own copy of the pods may be old."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from admission.controllers.jobs.controller_context import ControllerContext
from admission.controllers.pods.pod_controller import PodController
from admission.controllers.write.workload_writer import Recorder
from admission.integrations.pods.gang import PodGang
from admission.integrations.pods.pod import QueuedPod, QueuedPodReader
from api import names
from api.embedded.server import EmbeddedServer, EmbeddedSettings
from api.errors import NotFound
from api.kube.client import Kube, PatchKind
from api.kube.informers.informer import Informer
from api.kube.resources import CRDS, NAMESPACES, PODS, WORKLOADS
from api.kube.settings import ClientSettings
from api.meta import find_condition
from api.workloads import Workload
from tests.crds import shipped

CRD = Path(__file__).resolve().parents[4] / "config" / "crd"
GANG = PodGang("g", 3)


class Silent:
    """A recorder of events that keeps none."""

    def record(self, *_: Any) -> None:
        """Nothing."""


class Nothing:
    """A copy without objects."""

    objects: dict[str, Any] = {}  # noqa: RUF012 - stays empty
    has_synced = True

    def add_handler(self, _: Any) -> None:
        """Nothing ever happens."""


async def make(kube: Kube) -> None:
    """A gang of three gated pods, and its Workload, admitted long ago."""
    await kube.create(NAMESPACES, {"metadata": {"name": "ns"}})
    labels = dict.fromkeys((names.MANAGED_LABEL, names.GANG_MEMBER), "true")
    annotations = {names.GANG: "g", names.GANG_TERMS: GANG.to_text(), names.ROLE_HASH: "role"}
    for number in range(3):
        meta = {"name": f"p-{number}", "namespace": "ns", "annotations": annotations}
        meta |= {
            "labels": {**labels, names.QUEUE_NAME_LABEL: names.GANG_QUEUE},
            "finalizers": [names.MANAGED_FINALIZER],
        }
        await kube.create(PODS, {"metadata": meta, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    template = {"metadata": {}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"queueName": names.GANG_QUEUE, "podSets": [{"name": "role", "count": 3, "template": template}]}
    meta = {"name": "g", "namespace": "ns", "annotations": {names.IS_GROUP_WORKLOAD: "true"}}
    body = {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind, "metadata": meta, "spec": spec}
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(NotFound):  # until the CRD is served
                await kube.create(WORKLOADS, body)
                break
            await asyncio.sleep(0.01)
    long_ago = {"status": "True", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    states = [{"type": kind, "reason": kind, **long_ago} for kind in ("QuotaReserved", "Admitted")]
    placed = {"name": "role", "count": 3, "flavors": {}, "resourceUsage": {}}
    status = {"conditions": states, "admission": {"clusterQueue": "q", "podSetAssignments": [placed]}}
    await kube.patch(WORKLOADS, "g", {"status": status}, "ns", kind=PatchKind.MERGE, subresource="status")


@pytest.mark.parametrize(("bound", "told"), [(3, None), (2, "2 of 3 pods were bound within 10s")])
async def test_a_gang_is_not_overdue_whose_pods_were_bound_while_the_controller_did_not_look(
    tmp_path: Path, bound: int, told: str | None
) -> None:
    """A paused controller knows the time, but not yet what happened meanwhile."""
    async with EmbeddedServer(EmbeddedSettings(seed=1, tls=False)) as server:
        server.store.create(CRDS, shipped("kueue.x-k8s.io_workloads"))
        settings = ClientSettings(kubeconfig=server.kubeconfig(tmp_path / "kubeconfig"))
        async with await Kube.connect(settings) as kube:
            await make(kube)
            pods: Informer[QueuedPod] = Informer(kube, PODS, QueuedPodReader(), label_selector=names.QUEUE_NAME_LABEL)
            workloads = Informer(kube, WORKLOADS, Workload)
            nothing: Any = Nothing()
            recorder: Recorder = Silent()
            views: Any = SimpleNamespace(
                workloads=workloads, flavors=nothing, workload_priorities=nothing, priorities=nothing
            )
            made = PodController(ControllerContext(kube, views, recorder), pods)
            running = [asyncio.create_task(informer.run()) for informer in (pods, workloads)]
            await asyncio.gather(pods.synced(30), workloads.synced(30))
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            for number in range(bound):
                runs = {"status": {"phase": "Running"}}
                await kube.patch(PODS, f"p-{number}", runs, "ns", kind=PatchKind.MERGE, subresource="status")
            await made.reconcile("group:ns/g")
            after = Workload.from_wire(await kube.get(WORKLOADS, "g", "ns")).status.conditions
            evicted = find_condition(after, names.EVICTED)
            assert (evicted.message if evicted else None) == told
