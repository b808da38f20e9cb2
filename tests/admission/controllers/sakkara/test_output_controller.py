"""The writer of results at the embedded API server: what is in the ConfigMap and on the pods, what it costs, and crashes."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from admission.controllers.pods.pod_indexes import BY_GROUP, group_keys
from admission.controllers.sakkara.groups import SakkaraGroups
from admission.controllers.sakkara.output_controller import ResultController
from admission.controllers.sakkara.output_members import read_member
from admission.controllers.sakkara.output_paths import TreePaths
from admission.controllers.sakkara.output_times import SolverTimes
from admission.controllers.watch.cluster_view import BY_HOSTNAME, hostname
from admission.engine import model
from admission.engine.convert import convert_nodes
from admission.engine.ledger.ledger import Ledger
from admission.integrations.pods.pod import QueuedPod, QueuedPodReader
from api.embedded.server import EmbeddedServer, EmbeddedSettings
from api.kube.client import Kube, PatchKind
from api.kube.informers.informer import Informer
from api.kube.resources import CONFIG_MAPS, CRDS, NAMESPACES, NODES, PODS, WORKLOADS
from api.kube.settings import ClientSettings
from api.names import (
    HOSTNAME_LABEL,
    IS_GROUP_WORKLOAD,
    QUEUE_NAME_LABEL,
    SAKKARA_GROUP,
    SAKKARA_GROUP_ANNOTATION,
    SAKKARA_GROUP_NAME,
    SAKKARA_RANK,
    SAKKARA_RETRIES,
    SAKKARA_STATUS,
)
from api.pod.pods import Node
from api.sakkara import ConfigMap
from api.workloads import Workload
from tests.crds import shipped
from tests.tasks import DEADLINE, eventually, running
from tests.writes import Writes, noting

CRD = Path(__file__).resolve().parents[4] / "config" / "crd"
RACK = "example.com/rack"
PODS_OF_GROUP = 4
NODE_OF = {f"p-{n}": f"n{n // 2}" for n in range(PODS_OF_GROUP)}
PLACES = {"root": {"r0": {"n0": ["p-0", "p-1"]}, "r1": {"n1": ["p-2", "p-3"]}}}
GIVEN = {"name": "g", "size": str(PODS_OF_GROUP), "priority": "3"}


class SakkaraCluster:
    """A cluster with a group's ConfigMap, Workload and pods, made by hand; and writers of results on it, one at a time."""

    def __init__(self, kube: Kube, kubeconfig: Path) -> None:
        self.kube, self._kubeconfig = kube, kubeconfig

    @contextlib.asynccontextmanager
    async def writer(self, most: int | None = None) -> AsyncIterator[tuple[ResultController, Writes]]:
        """One of them; what it writes. `most`: its process is cut off after so many writes, answers included."""
        async with contextlib.AsyncExitStack() as stack:
            ours, writes = await noting(ClientSettings(kubeconfig=self._kubeconfig), most)
            await stack.enter_async_context(ours)
            maps = Informer(ours, CONFIG_MAPS, ConfigMap, label_selector=SAKKARA_GROUP)
            pods = Informer(ours, PODS, read_member, label_selector=SAKKARA_GROUP_NAME)
            queued: Informer[QueuedPod] = Informer(ours, PODS, QueuedPodReader(), label_selector=QUEUE_NAME_LABEL)
            queued.add_index(BY_GROUP, group_keys)
            workloads, nodes = Informer(ours, WORKLOADS, Workload), Informer(ours, NODES, Node)
            nodes.add_index(BY_HOSTNAME, lambda node: [hostname(node)])
            ledger = Ledger()
            ledger.apply(model.Flavor("f", levels=(RACK, HOSTNAME_LABEL)))
            nodes.add_handler(lambda change: ledger.apply(convert_nodes.node(change.object)))
            groups, times = SakkaraGroups(maps), SolverTimes(workloads.objects.get)
            made = ResultController(ours, maps, groups, pods, queued, workloads, TreePaths(ledger, nodes), times)
            for informer in (nodes, workloads, maps, queued, pods):
                await stack.enter_async_context(running(informer.run()))
                await informer.synced(DEADLINE)
            times.spent(["ns/g", "ns/other"], 0.0125)
            await stack.enter_async_context(running(made.run()))
            yield made, writes

    async def data(self) -> dict[str, str]:
        """Of the ConfigMap."""
        return dict((await self.kube.get(CONFIG_MAPS, "g", "ns"))["data"])

    async def said(self, status: str) -> dict[str, str]:
        """Waits until the ConfigMap says so, and all bound pods bear their ranks."""

        async def check() -> dict[str, str] | None:
            data = await self.data()
            ranks = dict(json.loads(data.get("rank", "[]")))
            bear = {name: int(of.get(SAKKARA_RANK, -1)) for name, of in (await self.labels()).items()}
            ready = data.get("status") == status and all(bear.get(name, rank) == rank for name, rank in ranks.items())
            return data if ready else None

        found: dict[str, str] = await eventually(check)
        return found

    async def labels(self) -> dict[str, dict[str, str]]:
        """Of the pods that have not failed."""
        found = (await self.kube.list(PODS, "ns")).items
        return {
            p["metadata"]["name"]: p["metadata"]["labels"]
            for p in found
            if p.get("status", {}).get("phase") != "Failed" and p["spec"].get("nodeName")
        }

    async def pod(self, name: str, node: str) -> None:
        """A bound pod of the group."""
        labels = {SAKKARA_GROUP_NAME: "g"}
        spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
        await self.kube.create(PODS, {"metadata": {"name": name, "namespace": "ns", "labels": labels}, "spec": spec})

    async def fail(self, name: str) -> None:
        """The pod ends badly."""
        body = {"status": {"phase": "Failed"}}
        await self.kube.patch(PODS, name, body, "ns", kind=PatchKind.MERGE, subresource="status")

    async def evict(self) -> None:
        """The group's Workload is preempted."""
        evicted = {
            "type": "Evicted",
            "status": "True",
            "reason": "Preempted",
            "message": "for another",
            "lastTransitionTime": "2026-01-01T00:00:01Z",
        }
        known = (await self.kube.get(WORKLOADS, "g", "ns"))["status"]["conditions"]
        status = {"status": {"conditions": [*known, evicted]}}
        await self.kube.patch(WORKLOADS, "g", status, "ns", kind=PatchKind.MERGE, subresource="status")

    async def admit(self) -> None:
        """The group's Workload gets its places."""
        states = [
            {
                "type": kind,
                "status": "True",
                "reason": kind,
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for kind in ("QuotaReserved", "Admitted")
        ]
        assignment = {"name": "main", "count": PODS_OF_GROUP, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "4"}}
        status = {"conditions": states, "admission": {"clusterQueue": "q", "podSetAssignments": [assignment]}}
        await self.kube.patch(WORKLOADS, "g", {"status": status}, "ns", kind=PatchKind.MERGE, subresource="status")


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[SakkaraCluster]:
    async with EmbeddedServer(EmbeddedSettings(seed=1, tls=False)) as server:
        server.store.create(CRDS, shipped("kueue.x-k8s.io_workloads"))
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        async with await Kube.connect(ClientSettings(kubeconfig=kubeconfig)) as kube:
            made = SakkaraCluster(kube, kubeconfig)
            await kube.create(NAMESPACES, {"metadata": {"name": "ns"}})
            for number in range(2):
                labels = {RACK: f"r{number}", HOSTNAME_LABEL: f"host-{number}"}
                await kube.create(NODES, {"metadata": {"name": f"n{number}", "labels": labels}})
            meta = {"name": "g", "namespace": "ns", "labels": {SAKKARA_GROUP: ""}}
            await kube.create(CONFIG_MAPS, {"metadata": meta, "data": GIVEN})
            annotations = {SAKKARA_GROUP_ANNOTATION: "g", IS_GROUP_WORKLOAD: "true"}
            template = {"metadata": {}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
            spec = {"queueName": "q", "podSets": [{"name": "main", "count": PODS_OF_GROUP, "template": template}]}
            meta = {"name": "g", "namespace": "ns", "annotations": annotations}
            workload = {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind, "metadata": meta, "spec": spec}

            async def created() -> bool:
                await kube.create(WORKLOADS, workload)  # NotFound until the CRD is served
                return True

            await eventually(created)
            yield made


async def test_results_stand_beside_what_the_user_gave_and_ranks_on_the_pods(site: SakkaraCluster) -> None:
    async with site.writer() as (_, writes):
        data = await site.said("Pending")
        assert data["message"] == "about to be considered"
        await site.admit()
        for name, node in NODE_OF.items():
            await site.pod(name, node)
        data = await site.said("Bound")
        assert {key: data[key] for key in GIVEN} == GIVEN
        assert json.loads(data["placement"]) == PLACES
        assert dict(json.loads(data["rank"])) == {f"p-{n}": n for n in range(PODS_OF_GROUP)}
        assert data["schedSolverTimeMilli"] == "12"
        assert (await site.labels())["p-3"] == {
            SAKKARA_GROUP_NAME: "g",
            SAKKARA_RANK: "3",
            SAKKARA_RETRIES: "0",
            SAKKARA_STATUS: "Bound",
        }
    assert Counter(resource for _, resource in writes)["pods"] == PODS_OF_GROUP, "one patch a pod"


async def test_an_eviction_is_reported_although_the_workload_is_deleted_at_once(site: SakkaraCluster) -> None:
    await site.admit()
    for name, node in NODE_OF.items():
        await site.pod(name, node)
    async with site.writer():
        await site.said("Bound")
        await site.evict()
        await site.kube.delete(WORKLOADS, "g", "ns")
        data = await site.said("Preempted")
        assert data["message"] == "for another"
        assert "placement" not in data


async def test_nothing_is_written_twice_not_even_by_the_next_process(site: SakkaraCluster) -> None:
    await site.admit()
    for name, node in NODE_OF.items():
        await site.pod(name, node)
    async with site.writer():
        before = await site.said("Bound")
    async with site.writer() as (controller, writes):
        again = await controller.reconcile("ns/g")
        assert (writes, again) == ([], None)
    assert await site.data() == before


@pytest.mark.parametrize("most", range(PODS_OF_GROUP + 3))
async def test_killed_after_any_write_the_next_one_ends_where_the_first_would_have(
    site: SakkaraCluster, most: int
) -> None:
    """Writes are: the ConfigMap, each pod's labels; then a member is replaced and both again."""
    await site.admit()
    for name, node in NODE_OF.items():
        await site.pod(name, node)
    async with site.writer(most) as (_, writes):
        if most <= PODS_OF_GROUP + 1:
            await eventually(lambda: _true(len(writes) == min(most, PODS_OF_GROUP + 1)))
        if most > PODS_OF_GROUP:
            await site.said("Bound")
            await replaced(site)
            await eventually(lambda: _true(len(writes) == most))
    if most <= PODS_OF_GROUP:
        async with site.writer():
            await site.said("Bound")
        await replaced(site)
    async with site.writer():
        await site.said("Bound")
        data = await eventually(lambda: _with_heir(site))
    assert dict(json.loads(data["rank"])) == {"p-0": 0, "heir": 1, "p-2": 2, "p-3": 3}
    assert json.loads(data["placement"])["root"]["r0"] == {"n0": ["heir", "p-0"]}
    labels = await site.labels()
    assert labels["heir"] | {SAKKARA_RANK: "1", SAKKARA_RETRIES: "1"} == labels["heir"]
    assert labels["p-0"][SAKKARA_RETRIES] == "0"


async def replaced(site: SakkaraCluster) -> None:
    """p-1 fails, and another pod is sent to its node."""
    await site.fail("p-1")
    await site.pod("heir", "n0")


async def _with_heir(site: SakkaraCluster) -> dict[str, str] | None:
    data, labels = await site.data(), (await site.labels()).get("heir", {})
    return data if "heir" in data.get("rank", "") and SAKKARA_RANK in labels else None


async def _true(value: bool) -> bool:
    return value


async def test_removed_labels_are_restored(site: SakkaraCluster) -> None:
    await site.admit()
    for name, node in NODE_OF.items():
        await site.pod(name, node)
    async with site.writer():
        await site.said("Bound")
        body = {"metadata": {"labels": {SAKKARA_RANK: None, SAKKARA_STATUS: None}}}
        await site.kube.patch(PODS, "p-2", body, "ns", kind=PatchKind.MERGE)
        await eventually(lambda: _labelled(site, "p-2"))


async def _labelled(site: SakkaraCluster, name: str) -> bool:
    labels = (await site.labels())[name]
    return (labels.get(SAKKARA_RANK), labels.get(SAKKARA_STATUS)) == ("2", "Bound")
