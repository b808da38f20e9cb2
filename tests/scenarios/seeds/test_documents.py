"""The stories of four documents with their own manifests, images aside: coscheduling, gang scheduling, Sakkara,
topology-aware scheduling. The capacity scheduler's are in test_capacity_scheduling.py.

The manifests name no nodes, so each story has the cluster's nodes to itself and takes them away at its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from api.errors import ApiError
from api.kube.resources import (
    CLUSTER_QUEUES,
    CONFIG_MAPS,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    RESOURCE_FLAVORS,
    WORKLOADS,
    Resource,
)
from api.names import TOPOLOGY_GATE
from tests.scenarios.seeds.stories import add_nodes, are, cluster, pod, removed, stay
from tests.scenarios.site import BLOCK, GPU, RACK, Site, eventually
from tests.scenarios.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")
ENVIRONMENT = {"STOWAGE_SAKKARA__TOPOLOGY_NAMESPACE": "sakkara"}
MakeSite = Callable[[str], Site]
Obj = dict[str, Any]


# ---- 000: lightweight coscheduling

COSCHEDULING = """
labels:
     pod-group.scheduling.x-k8s.io/name: nginx
     pod-group.scheduling.x-k8s.io/min-available: "2"
"""


async def test_000_pods_of_a_group_wait_for_min_available_and_start_together(site: MakeSite) -> None:
    here = site("seed-000")
    async with cluster(here, {"n-0": {}}):
        await here.make(PODS, pod(here, "nginx-0", COSCHEDULING))
        await stay(here, Gated=1)
        await here.make(PODS, pod(here, "nginx-1", COSCHEDULING))
        await are(here, Running=2)


async def test_000_two_groups_never_hold_half_of_the_cluster_each(site: MakeSite) -> None:
    """The motivation: a deadlock of jobs that each started a part of their tasks."""
    here = site("seed-000-deadlock")
    async with cluster(here, {"n-0": {}}, gpus=3):
        for number in range(2):
            for group in ("a", "b"):
                lines = COSCHEDULING.replace("nginx", group)
                await here.make(PODS, pod(here, f"{group}-{number}", lines, gpus=1))
        await are(here, Running=2, Gated=2)
        running = {p["metadata"]["name"][0] for p in await are(here, Running=2, Gated=2) if p["spec"].get("nodeName")}
        assert len(running) == 1, "one group whole"


# ---- 001: gang scheduling

SIGS_POD_GROUP = """
# PodGroup CRD spec
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata:
  name: nginx
spec:
  scheduleTimeoutSeconds: 10
  minMember: 3
"""
GANGS = {
    "labels": """
labels:
  pod-group.scheduling.sigs.k8s.io/name: tf-smoke-gpu
  pod-group.scheduling.sigs.k8s.io/min-available: "3"
""",
    "podgroup": """
# Add the pod-group.scheduling.sigs.k8s.io/name label to the pods.
labels:
  pod-group.scheduling.sigs.k8s.io/name: nginx
""",
    "annotations": """
annotations:
  gang.scheduling.koordinator.sh/name: "gang-example"
  gang.scheduling.koordinator.sh/min-available: "3"
""",
}


@pytest.mark.parametrize("form", GANGS)
async def test_001_each_form_of_a_gang_starts_whole(site: MakeSite, form: str) -> None:
    here = site(f"seed-001-{form}")
    async with cluster(here, {"n-0": {}}, gpus=2):
        if form == "podgroup":
            text = yaml.safe_load(SIGS_POD_GROUP)
            resource = Resource("scheduling.sigs.k8s.io", "v1alpha1", "podgroups", "PodGroup")
            await here.make(resource, {**text, "metadata": {**text["metadata"], "namespace": here.name}})
        for number in range(3):
            await here.make(PODS, pod(here, f"worker-{number}", GANGS[form], gpus=1))
        await stay(here, Gated=3)
        await add_nodes(here, {"n-1": {}}, 1)
        await are(here, Running=3)


async def test_001_a_tensorflow_job_of_a_parameter_server_and_four_workers(site: MakeSite) -> None:
    """The document's example: four GPUs, then four more."""
    here = site("seed-001-tf")
    lines = GANGS["labels"].replace('"3"', '"5"')
    async with cluster(here, {"n-0": {}, "n-1": {}}, gpus=2):
        await here.make(PODS, pod(here, "tf-smoke-gpu-ps-0", lines))
        for number in range(4):
            await here.make(PODS, pod(here, f"tf-smoke-gpu-worker-{number}", lines, gpus=2))
        await stay(here, Gated=5)
        await add_nodes(here, {"n-2": {}, "n-3": {}}, 2)
        await are(here, Running=5)


async def test_001_a_gang_group_starts_when_each_gang_can(site: MakeSite) -> None:
    here = site("seed-001-groups")
    groups = f'["{here.name}/gang-example1", "{here.name}/gang-example2"]'
    lines = {
        name: yaml.safe_dump(
            {
                "labels": {
                    "pod-group.scheduling.sigs.k8s.io/name": name,
                    "pod-group.scheduling.sigs.k8s.io/min-available": "1",
                    "pod-group.scheduling.sigs.k8s.io/match-policy": "waiting-and-running",
                },
                "annotations": {"pod-group.scheduling.sigs.k8s.io/groups": groups},
            }
        )
        for name in ("gang-example1", "gang-example2")
    }
    async with cluster(here, {"n-0": {}}, gpus=2):
        await here.make(PODS, pod(here, "ps", lines["gang-example1"], gpus=1))
        await stay(here, Gated=1)
        await here.make(PODS, pod(here, "worker", lines["gang-example2"], gpus=1))
        await are(here, Running=2)


async def test_001_a_gang_that_has_run_keeps_its_members_when_one_is_lost(site: MakeSite) -> None:
    """The timeout of 10 s bounds the start only."""
    here = site("seed-001-lost")
    async with cluster(here, {"n-0": {}}, gpus=3):
        text = yaml.safe_load(SIGS_POD_GROUP)
        spec = {**text["spec"], "scheduleTimeoutSeconds": 3}
        await here.make(POD_GROUPS, {"metadata": {"name": "nginx", "namespace": here.name}, "spec": spec})
        lines = GANGS["podgroup"].replace("sigs.k8s.io", "x-k8s.io")
        for number in range(3):
            await here.make(PODS, pod(here, f"worker-{number}", lines, gpus=1))
        await are(here, Running=3)
        await removed(here, PODS, "worker-0", here.name)
        await are(here, Running=2)
        await stay(here, 5.0, Running=2)
        await here.make(PODS, pod(here, "worker-3", lines, gpus=1))
        await are(here, Running=3)


# ---- 002: Sakkara

TREE = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: cluster-topology-configmap
  namespace: sakkara
  labels: {
    "sakkara.topology":
  }
data:
  name: "cluster-tree"
  resource-names: |
    [ "cpu", "memory", "nvidia.com/gpu" ]
  level-names: |
    [ "rack", "node" ]
  tree: |
    {
      "rack-0": {
        "node-0": {},
        "node-1": {},
        "node-2": {}
      },
      "rack-1": {
        "node-3": {},
        "node-4": {},
        "node-5": {}
      }
    }
"""
GROUP_A = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: group-a
  namespace: default
  labels: {
    "sakkara.group":
  }
data:
  "name": "group-a"
  "size": "8"
  "priority": "0"
  "constraints": |
    {
      "rack": {
        "type": "pack"
      },
      "node": {
        "type": "spread"
      }
    }
"""
GROUP_JOB = """
apiVersion: batch/v1
kind: Job
metadata:
  namespace: default
  generateName: job-a-
spec:
  parallelism: 8
  template:
    metadata:
      labels:
        sakkara.group.name: "group-a"
    spec:
      schedulerName: sakkara
      containers:
        - name: main
          image: busybox
          imagePullPolicy: IfNotPresent
          command: ["sh", "-c", "sleep 10"]
          resources:
            requests:
              cpu: "100m"
              memory: "128Mi"
              nvidia.com/gpu: "1"
            limits:
              cpu: "200m"
              memory: "128Mi"
              nvidia.com/gpu: "1"
      restartPolicy: OnFailure
"""
NODES_OF_THE_TREE: dict[str, dict[str, str]] = {f"node-{number}": {} for number in range(6)}


async def test_002_a_job_of_eight_is_packed_on_a_rack_and_spread_on_its_nodes(site: MakeSite, stage: Stage) -> None:
    await site("sakkara").make(NAMESPACES, {"metadata": {"name": "sakkara"}})
    here = site("default")
    async with cluster(here, NODES_OF_THE_TREE, gpus=8):
        await here.make(CONFIG_MAPS, yaml.safe_load(TREE))
        job = yaml.safe_load(GROUP_JOB)
        if stage.name == "real":
            await here.kube.create(JOBS, job)
        else:  # the embedded API server's Job controller makes pods that pass no webhook
            template = job["spec"]["template"]
            for number in range(8):
                meta = {**template["metadata"], "name": f"job-a-{number}", "namespace": "default"}
                await here.make(PODS, {"metadata": meta, "spec": template["spec"]})
        await are(here, Gated=8)  # until the group's ConfigMap is created
        await here.make(CONFIG_MAPS, yaml.safe_load(GROUP_A))
        pods = await are(here, Running=8)
        on = Counter(one["spec"]["nodeName"] for one in pods)
        assert sorted(on.values()) == [2, 3, 3]
        assert len({int(name[-1]) // 3 for name in on}) == 1, "one rack"
        ranks = sorted(one["metadata"]["labels"].get("sakkara.member.rank", "") for one in pods)
        assert ranks == [str(rank) for rank in range(8)]

        async def bound() -> Obj | None:
            data = (await here.kube.get(CONFIG_MAPS, "group-a", "default"))["data"]
            return data if data.get("status") == "Bound" else None

        data = await eventually("the group's ConfigMap tells its placement", bound)
        assert {"placement", "rank", "schedBeginTime", "schedEndTime", "schedTotalTimeMilli"} <= data.keys()
    await removed(here, CONFIG_MAPS, "group-a", "default")
    await removed(here, CONFIG_MAPS, "cluster-topology-configmap", "sakkara")


# ---- 003: topology-aware scheduling

TAS_FLAVOR = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata:
  name: "tas-flavor"
spec:
  nodeLabels:
    cloud-provider.com/node-group: tas
  topology:
    levels:
    - cloud-provider.com/topology-block
    - cloud-provider.com/topology-rack
"""
HIERARCHY = {
    "node-1": ("block-1", "rack-1"),
    "node-2": ("block-1", "rack-2"),
    "node-3": ("block-2", "rack-1"),
    "node-4": ("block-2", "rack-3"),
}


async def test_003_required_and_preferred_levels_on_the_document_s_hierarchy(site: MakeSite) -> None:
    here = site("seed-003")
    nodes = {name: labels(block, rack) for name, (block, rack) in HIERARCHY.items()}
    async with cluster(here, nodes, gpus=4):
        await here.make(RESOURCE_FLAVORS, yaml.safe_load(TAS_FLAVOR))
        resources = [{"name": "cpu", "nominalQuota": 100}, {"name": GPU, "nominalQuota": 100}]
        group = {"coveredResources": ["cpu", GPU], "flavors": [{"name": "tas-flavor", "resources": resources}]}
        spec = {"namespaceSelector": {}, "resourceGroups": [group]}
        await here.make(CLUSTER_QUEUES, {"metadata": {"name": "tas"}, "spec": spec})
        local = {"metadata": {"name": "lq", "namespace": here.name}, "spec": {"clusterQueue": "tas"}}
        await here.make(LOCAL_QUEUES, local)
        # all pods in one block; no rack has the room, and racks of one name in two blocks are two racks
        await here.submit(here.job("block", 8, {"kueue.x-k8s.io/require-topology": BLOCK}))
        pods = await here.running("block", 8)
        hosts = {one["spec"]["nodeName"] for one in pods}
        assert len({HIERARCHY[host][0] for host in hosts}) == 1
        gated = (await here.get_job("block"))["spec"]["template"]["spec"].get("schedulingGates")
        assert gated == [{"name": TOPOLOGY_GATE}], "pods are born gated, the ungater lets each to its domain"
        noted = pods[0]["metadata"]["annotations"]
        assert {"kueue.x-k8s.io/topology-workload", "kueue.x-k8s.io/topology-podset"} <= noted.keys() or {
            "kueue.x-k8s.io/workload"
        } <= noted.keys()
        unknown = here.job("unknown", 1, {"kueue.x-k8s.io/require-topology": "cloud-provider.com/topology-row"})
        with pytest.raises(ApiError, match=r"cloud-provider\.com/topology-row"):
            await here.submit(unknown)
        # a required rack waits, and a new node makes the admission possible
        await here.submit(here.job("rack", 6, {"kueue.x-k8s.io/require-topology": RACK}))
        await here.waits("rack", "TopologyPlacementFailed", "allows to fit only 4 out of 6 pod(s)")
        await add_nodes(here, {"node-5": labels("block-3", "rack-1"), "node-6": labels("block-3", "rack-1")}, 4)
        assert {one["spec"]["nodeName"] for one in await here.running("rack", 6)} == {"node-5", "node-6"}
        # a preference is never a reason to wait
        await here.submit(here.job("prefer", 4, {"kueue.x-k8s.io/prefer-topology": "auto"}))
        await here.running("prefer", 4)
        await pods_by_hand_are_refused(here)


async def pods_by_hand_are_refused(here: Site) -> None:
    """The document's two annotations say where a pod belongs, so only pods of the Workload's job have them."""
    marks = {"kueue.x-k8s.io/topology-workload": "by-hand", "kueue.x-k8s.io/topology-podset": "main"}
    gate = [{"name": TOPOLOGY_GATE}]
    by_hand = pod(here, "by-hand", yaml.safe_dump({"annotations": marks}), gpus=1, schedulingGates=gate)
    with pytest.raises(ApiError, match="Stowage writes this on pods of queued jobs"):
        await here.make(PODS, by_hand)


def labels(block: str, rack: str) -> dict[str, str]:
    return {"cloud-provider.com/node-group": "tas", BLOCK: block, RACK: rack}


async def test_003_what_the_document_refuses_is_refused(site: MakeSite) -> None:
    here = site("seed-003-refused")
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    flavor = yaml.safe_load(TAS_FLAVOR)
    flavor["metadata"]["name"] = "without-labels"
    flavor["spec"].pop("nodeLabels")
    with pytest.raises(ApiError, match="at least one nodeLabel is required"):
        await here.kube.create(RESOURCE_FLAVORS, flavor)
    pod_set = {"name": "main", "count": 1, "template": here.template()}
    early = {"queueName": "lq", "podSets": [pod_set], "topologyRequest": {"policy": "Require", "level": RACK}}
    with pytest.raises(ApiError, match=r"early form: give each pod set .* spec.podSets\[\].topologyRequest"):
        await here.make(WORKLOADS, {"metadata": {"name": "early", "namespace": here.name}, "spec": early})
