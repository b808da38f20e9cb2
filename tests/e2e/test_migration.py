"""From Kueue to Stowage and back on a real control plane: what Kueue stored is read, and no pod changes.

Kueue itself does not run here: its CRDs (v1beta1 stored, another field manager) and the objects that it leaves of a running
Job stand for it.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.cli.local_cluster.install import CONFIG
from api.kube.resources import CLUSTER_QUEUES, COHORTS, PODS, WORKLOADS, Resource
from api.names import GROUP, HOSTNAME_LABEL, IN_USE_FINALIZER
from api.text.manifests import read_one
from hack.controlplane.api import eventually
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.nodes import node
from hack.controlplane.options import ClusterOptions
from tests.builders import condition, pod_template
from tests.scenarios.site import BLOCK, RACK, Site
from tests.scenarios.site import GROUP as NODE_GROUP
from tests.scenarios.site import eventually as soon
from tests.scenarios.stage import real

CONTROL_PLANE = ClusterOptions()
Obj = dict[str, Any]
FLAVOR, QUEUE = "gpu", "research"


KUEUE_S_CONVERSION = {
    "strategy": "Webhook",
    "webhook": {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": "kueue-webhook-service", "namespace": "kueue-system", "path": "/convert"}},
    },
}


def our_crds() -> list[Obj]:
    """Those of Kueue's kinds, as we install them."""
    return [read_one(path) for path in sorted((CONFIG / "crd").glob(f"{GROUP}_*.yaml"))]


def kueue_crds(*versions: str) -> str:
    """The CRDs as a Kueue has them that stores the last of these versions."""
    documents = []
    for crd in our_crds():
        kept = [each for each in crd["spec"]["versions"] if each["name"] in versions]
        crd["spec"]["versions"] = [{**each, "storage": each["name"] == versions[-1]} for each in kept]
        crd["spec"]["conversion"] = KUEUE_S_CONVERSION if len(versions) > 1 else {"strategy": "None"}
        documents.append(crd)
    return yaml.safe_dump_all(documents)


def apply(cluster: ControlPlane, objects: list[Obj], manager: str = "kueue") -> None:
    text = yaml.safe_dump_all(objects)
    cluster.kubectl("apply", "--server-side", f"--field-manager={manager}", "--force-conflicts", "-f", "-", stdin=text)


def named(kind: str, name: str, spec: Obj, **meta: Any) -> Obj:
    return {"apiVersion": f"{GROUP}/v1beta1", "kind": kind, "metadata": {"name": name, **meta}, "spec": spec}


def running_job(cluster: ControlPlane) -> list[Obj]:
    """What Kueue leaves of a Job that runs on two hosts of a rack, all in v1beta1; its pods."""
    job: Obj = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train",
            "namespace": "default",
            "labels": {f"{GROUP}/queue-name": "lq"},
            "annotations": {f"{GROUP}/podset-required-topology": RACK},
        },
        "spec": {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": pod_template("1")},
    }
    job["spec"]["template"]["metadata"]["annotations"] = {f"{GROUP}/podset-required-topology": RACK}
    job["spec"]["template"]["spec"]["nodeSelector"] = {NODE_GROUP: FLAVOR}
    apply(cluster, [job])
    pods = eventually("two pods run", lambda: pods_of(cluster, running=2))
    made = cluster.api.get("/apis/batch/v1/namespaces/default/jobs/train")
    reference = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "train",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    meta: Obj = {"namespace": "default", "finalizers": [IN_USE_FINALIZER], "ownerReferences": [reference]}
    meta["labels"] = {f"{GROUP}/job-uid": made["metadata"]["uid"]}
    template = copy.deepcopy(job["spec"]["template"])
    template["spec"].pop("nodeSelector")
    pod_set: Obj = {"name": "main", "count": 2, "template": template}
    pod_set["topologyRequest"] = {"required": RACK, "podIndexLabel": "batch.kubernetes.io/job-completion-index"}
    spec = {"queueName": "lq", "active": True, "priority": 0, "priorityClassSource": "", "podSets": [pod_set]}
    apply(cluster, [named("Workload", "job-train-1a2b3", spec, **meta)])
    domains = [{"values": [pod["spec"]["nodeName"]], "count": 1} for pod in sorted(pods, key=host_of)]
    got: Obj = {
        "name": "main",
        "count": 2,
        "flavors": {"cpu": FLAVOR},
        "resourceUsage": {"cpu": "2"},
        "topologyAssignment": {"levels": [HOSTNAME_LABEL], "domains": domains},
    }
    status = {
        "admission": {"clusterQueue": QUEUE, "podSetAssignments": [got]},
        "conditions": [condition("QuotaReserved"), condition("Admitted")],
        "accumulatedPastExexcutionTimeSeconds": 7,
    }
    path = f"/apis/{GROUP}/v1beta1/namespaces/default/workloads/job-train-1a2b3"
    cluster.api.request("PUT", f"{path}/status", {**cluster.api.get(path), "status": status})
    return pods


def host_of(pod: Obj) -> str:
    return str(pod["spec"]["nodeName"])


def pods_of(cluster: ControlPlane, running: int = 0, job: str = "train") -> list[Obj]:
    items = cluster.api.get(f"/api/v1/namespaces/default/pods?labelSelector=job-name={job}")["items"]
    pods = [pod for pod in items if pod["status"].get("phase") == "Running" or not running]
    return pods if len(pods) >= running else []


def uids(pods: list[Obj]) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}


@pytest.fixture(scope="module")
def from_kueue(cluster: ControlPlane) -> tuple[ControlPlane, dict[str, str]]:
    """A cluster with Kueue's CRDs and a Job that runs; the UIDs of its pods."""
    labels = {BLOCK: "b1", RACK: "r1", NODE_GROUP: FLAVOR}
    cluster.add_nodes(node(f"host-{n}", labels) for n in range(4))
    crds = kueue_crds("v1beta1")
    cluster.kubectl("apply", "--server-side", "--field-manager=kueue", "-f", "-", stdin=crds)
    eventually("v1beta1 is served", lambda: "workloads" in cluster.kubectl("api-resources", f"--api-group={GROUP}"))
    levels = [{"nodeLabel": label} for label in (BLOCK, RACK, HOSTNAME_LABEL)]
    resources = [{"name": "cpu", "nominalQuota": 3}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": FLAVOR, "resources": resources}]}
    queue = {
        "cohort": "all",
        "namespaceSelector": {},
        "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"},
        "resourceGroups": [group],
    }
    objects = [
        named("Topology", "dc", {"levels": levels}),
        named("ResourceFlavor", FLAVOR, {"nodeLabels": {NODE_GROUP: FLAVOR}, "topologyName": "dc"}),
        named("ClusterQueue", QUEUE, queue),
        named("LocalQueue", "lq", {"clusterQueue": QUEUE}, namespace="default"),
    ]
    apply(cluster, objects)
    return cluster, uids(running_job(cluster))


@pytest.mark.asyncio(loop_scope="module")
async def test_there_and_back_without_a_new_pod(
    from_kueue: tuple[ControlPlane, dict[str, str]], tmp_path: Path
) -> None:
    cluster, before = from_kueue
    # the first command of the migration
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(CONFIG / "development"))
    stored = json.loads(cluster.kubectl("get", "crd", f"workloads.{GROUP}", "-o", "json"))["status"]["storedVersions"]
    assert stored == ["v1beta1", "v1beta2"]
    async with real(cluster, tmp_path) as stage:
        site = Site(stage.kube, "default")

        async def read(resource: Resource, name: str, namespace: str | None = None) -> Obj:
            return await stage.kube.get(resource, name, namespace)

        async def converted() -> Obj | None:
            found = await read(WORKLOADS, "job-train-1a2b3", "default")
            return found if found.get("status", {}).get("admission") else None

        workload = await soon("the stored Workload is read", converted)
        (got,) = workload["status"]["admission"]["podSetAssignments"]
        assert got["topologyAssignment"]["slices"][0]["domainCount"] == 2
        assert workload["status"]["accumulatedPastExecutionTimeSeconds"] == 7
        queue = (await read(CLUSTER_QUEUES, QUEUE))["spec"]
        assert (queue["cohortName"], queue["flavorFungibility"]["whenCanBorrow"]) == ("all", "MayStopSearch")

        async def counted() -> bool:
            return bool((await read(CLUSTER_QUEUES, QUEUE)).get("status", {}).get("admittedWorkloads") == 1)

        await soon("the running Job counts in the queue", counted)
        # one CPU is left: a Job of one pod runs, another one waits
        await site.submit(site.job("second", 1, gpus=0))

        async def phases() -> bool:
            pods = (await stage.kube.list(PODS, "default")).items
            names = [pod["metadata"]["labels"].get("job-name") for pod in pods if pod["status"]["phase"] == "Running"]
            return sorted(map(str, names)) == ["second", "train", "train"]

        await soon("one more Job runs beside it", phases)
        await site.submit(site.job("third", 1, gpus=0))
        await site.waits("third", "WaitingForQuota", "insufficient unused quota")
        # a client that still speaks v1beta1 is understood, and judged by the same webhooks
        old = cluster.api.get(f"/apis/{GROUP}/v1beta1/namespaces/default/workloads/job-train-1a2b3")
        assert [
            d["count"] for d in old["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"]["domains"]
        ] == [1, 1]
        made = cluster.api.create(
            f"/apis/{GROUP}/v1beta1/clusterqueues", named("ClusterQueue", "other", {"cohort": "all"})
        )
        assert made["spec"]["cohort"] == "all"
        assert (await read(CLUSTER_QUEUES, "other"))["spec"]["cohortName"] == "all"
        listed = cluster.api.get(f"/apis/{GROUP}/v1beta1/clusterqueues")["items"]
        assert {item["spec"]["cohort"] for item in listed} == {"all"}
        assert not (await stage.kube.list(COHORTS)).items
        assert uids(pods_of(cluster)) == before, "no pod was restarted"
        workloads = (await stage.kube.list(WORKLOADS, "default")).items
    # and back: our webhooks go first, then Kueue's CRDs are applied again
    cluster.kubectl("delete", "mutatingwebhookconfiguration", "stowage-mutating-webhook-configuration")
    cluster.kubectl("delete", "validatingwebhookconfiguration", "stowage-validating-webhook-configuration")
    for crd in our_crds():  # of the development installation: the address by URL
        remove = '[{"op": "replace", "path": "/spec/conversion", "value": {"strategy": "None"}}]'
        cluster.kubectl("patch", "crd", crd["metadata"]["name"], "--type=json", "-p", remove)
    crds = kueue_crds("v1beta1", "v1beta2")
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "--field-manager=kueue", "-f", "-", stdin=crds)
    # what was admitted here is stored in v1beta2, which needs no conversion
    (second,) = [w for w in workloads if w["metadata"]["name"].startswith("job-second-")]
    after = cluster.api.get(f"/apis/{GROUP}/v1beta2/namespaces/default/workloads/{second['metadata']['name']}")
    assert after["metadata"]["uid"] == second["metadata"]["uid"]
    assert after["status"]["admission"] == second["status"]["admission"]
    assert uids(pods_of(cluster)) == before
