"""The capacity scheduling document's own manifests and numbers, with bare pods and with Deployments.

Its quotas share one cohort, so each scene takes its own away at its end. Nodes of the stories have GPUs and no cpu, those of
the examples two cpus and no GPU; a scene brings its own.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio
import yaml

from api.errors import NotFound
from api.kube.client import Kube
from api.kube.resources import (
    CLUSTER_QUEUES,
    DEPLOYMENTS,
    ELASTIC_QUOTAS,
    JOBS,
    JOBSETS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    STATEFUL_SETS,
    WORKLOADS,
    Resource,
)
from api.meta import find_condition
from api.names import ADMISSION_GATE, HOSTNAME_LABEL, QUOTA_RESERVED
from api.workloads import Workload
from hack.controlplane.options import ClusterOptions
from tests.scenarios.set_controllers import Deployments, StatefulSets, running
from tests.scenarios.site import Site, eventually, never
from tests.scenarios.stage import Stage

CONTROL_PLANE = ClusterOptions(jobset=True)
pytestmark = pytest.mark.asyncio(loop_scope="session")
ENVIRONMENT = {"STOWAGE_CONTROLLER__WAIT_REPORT_PERIOD": "0.5", "STOWAGE_CONTROLLER__QUEUE_STATUS_PERIOD": "0.5"}
GPU = "nvidia.com/gpu"

QUOTA = """
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: ElasticQuota
metadata:
  name: {name}
  namespace: {name}
spec:
  max:
    {resource}: {most}
  min:
    {resource}: {least}
"""
NGINX = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: nginx
  namespace: {namespace}
  labels:
    app: nginx
spec:
  replicas: {replicas}
  selector:
    matchLabels:
      app: nginx
  template:
    metadata:
      name: nginx
      labels:
        app: nginx
    spec:
      schedulerName: capacityscheduler
      containers:
        - name: nginx
          image: nginx
          resources:
            limits:
              cpu: {cpu}
            requests:
              cpu: {cpu}
"""
HIGH = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: high-priority
value: 1000000
globalDefault: false
description: "Sample High Priority Class"
"""
KINDS = {each.kind: each for each in (ELASTIC_QUOTAS, DEPLOYMENTS, PRIORITY_CLASSES)}


@dataclass
class QuotaCase:
    """Applies manifests, and tells what became of pods. `resource`: what its quotas are about."""

    kube: Kube
    resource: str
    quotas: list[str] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)

    async def apply(self, manifest: str, **change: Any) -> None:
        """The manifest, with what its reader fills in."""
        obj = yaml.safe_load(manifest)
        for key, value in change.items():
            obj["spec"]["template"]["spec"][key] = value
        await Site(self.kube, "").make(KINDS[obj["kind"]], obj)

    async def node(self, name: str, amount: int) -> None:
        amounts = {"cpu": "0", "memory": "64Gi", "pods": "110", self.resource: str(amount)}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
                 "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
        labels = {HOSTNAME_LABEL: name, "kubernetes.io/os": "linux"}
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
        await Site(self.kube, "").make(NODES, {"metadata": {"name": name, "labels": labels}, "status": status})
        self.nodes.append(name)

        async def usable() -> bool:
            node = await self.kube.get(NODES, name)
            ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))
            return ready and not node.get("spec", {}).get("taints")

        await eventually(f"node {name} usable", usable)

    async def quota(self, name: str, least: int, most: int) -> None:
        await Site(self.kube, "").make(NAMESPACES, {"metadata": {"name": name}})
        await self.apply(QUOTA.format(name=name, resource=self.resource, least=least, most=most))
        self.quotas.append(name)

        async def in_force() -> bool:
            found = await self.kube.get(ELASTIC_QUOTAS, name, name)
            state = {c["type"]: c["status"] for c in (found.get("status") or {}).get("conditions", ())}
            return state.get("Active") == "True"

        await eventually(f"quota {name} in force", in_force)
        pod = {"metadata": {"name": "probe", "namespace": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}

        async def taken_in() -> bool:
            made = await self.kube.create(PODS, {"apiVersion": "v1", "kind": "Pod", **pod}, dry_run=True)
            return bool(made["spec"].get("schedulingGates"))

        await eventually(f"pods of {name} go by it", taken_in)

    async def pod(self, namespace: str, name: str, amount: int, **spec: Any) -> None:
        """A plain pod, as a user of the stories makes it."""
        asked = {"requests": {self.resource: str(amount)}, "limits": {self.resource: str(amount)}}
        body = {"containers": [{"name": "c", "image": "nginx", "resources": asked}], **spec}
        await Site(self.kube, "").make(PODS, {"metadata": {"name": name, "namespace": namespace}, "spec": body})

    async def runs(self, namespace: str, *names: str) -> None:
        for name in names:

            async def check(name: str = name) -> bool:
                pod = await self.kube.get(PODS, name, namespace)
                return bool((pod.get("status") or {}).get("phase") == "Running")

            await eventually(f"{namespace}/{name} runs", check)

    async def waits(self, namespace: str, name: str, text: str = "") -> None:
        """It is held, and its Workload says for what."""

        async def check() -> bool:
            pod = await self.kube.get(PODS, name, namespace)
            held = any(gate["name"] == ADMISSION_GATE for gate in pod["spec"].get("schedulingGates", ()))
            for item in (await self.kube.list(WORKLOADS, namespace)).items:
                workload = Workload.from_wire(item)
                told = find_condition(workload.status.conditions, QUOTA_RESERVED)
                mine = any(owner.name == name for owner in workload.metadata.owner_references)
                if held and mine and told is not None and told.status == "False" and text in told.message:
                    return True
            return False

        await eventually(f"{namespace}/{name} waits: {text}", check)

    async def gone(self, namespace: str, name: str) -> None:
        async def check() -> bool:
            try:
                await self.kube.get(PODS, name, namespace)
            except NotFound:
                return True
            return False

        await eventually(f"{namespace}/{name} gone", check)

    async def stays(self, **names: str) -> None:
        """For a while none of these pods (by namespace, with spaces between) is evicted."""

        async def left() -> bool:
            for namespace, listed in names.items():
                pods = {pod["metadata"]["name"]: pod for pod in (await self.kube.list(PODS, namespace)).items}
                if any(name not in pods or pods[name]["metadata"].get("deletionTimestamp") for name in listed.split()):
                    return True
            return False

        await never(f"one of {names} evicted", left, seconds=1.0)

    async def uses(self, **used: int) -> None:
        for name, amount in used.items():

            async def check(name: str = name, amount: int = amount) -> bool:
                status = (await self.kube.get(ELASTIC_QUOTAS, name, name)).get("status") or {}
                return bool((status.get("used") or {}).get(self.resource) == str(amount))

            await eventually(f"{name} uses {amount}", check)

    async def running(self, namespace: str) -> list[str]:
        """The pods that run and stay."""
        pods = (await self.kube.list(PODS, namespace)).items
        staying = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
        return [pod["metadata"]["name"] for pod in staying if pod["status"].get("phase") == "Running"]

    async def phases(self, namespace: str) -> Counter[str]:
        """Of the pods that stay."""
        found: Counter[str] = Counter()
        for pod in (await self.kube.list(PODS, namespace)).items:
            if not pod["metadata"].get("deletionTimestamp"):
                found["Gated" if pod["spec"].get("schedulingGates") else pod["status"].get("phase", "Pending")] += 1
        return found

    async def are(self, namespace: str, **wanted: int) -> None:
        async def check() -> bool:
            return await self.phases(namespace) == wanted

        await eventually(f"pods of {namespace} are {wanted}", check)

    async def close(self) -> None:
        """Takes away what the scene brought, and waits for it, since all quotas share one cohort."""
        for name in self.quotas:
            await self._without_waiting(name)
        for name in self.quotas:
            for kind in (DEPLOYMENTS, STATEFUL_SETS, JOBSETS, JOBS, PODS):
                for obj in (await self.kube.list(kind, name)).items:
                    await self._delete(kind, obj["metadata"]["name"], name)
        for name in self.quotas:
            await self.are(name)
            await self._delete(ELASTIC_QUOTAS, name, name)
        for name in self.nodes:
            await self._delete(NODES, name)

        async def cleared() -> bool:
            queues = {queue["metadata"]["name"] for queue in (await self.kube.list(CLUSTER_QUEUES)).items}
            return not queues & {f"elastic-quota.{name}" for name in self.quotas}

        await eventually("the quotas are gone", cleared)

    async def _without_waiting(self, namespace: str) -> None:
        """Bare pods that wait go first, so that none of them is admitted in the moment in which it goes."""
        for pod in (await self.kube.list(PODS, namespace)).items:
            if pod["spec"].get("schedulingGates") and not pod["metadata"].get("ownerReferences"):
                await self._delete(PODS, pod["metadata"]["name"], namespace)
                await self.gone(namespace, pod["metadata"]["name"])

    async def _delete(self, kind: Resource, name: str, namespace: str | None = None) -> None:
        try:
            await self.kube.delete(kind, name, namespace)
        except NotFound:
            return


MakeScene = Callable[..., Any]


@pytest_asyncio.fixture(loop_scope="session")
async def scene(stage: Stage) -> AsyncIterator[MakeScene]:
    """Opens scenes: `await scene(resource, nodes, quotas)`; where the server has no controllers of pods, stand-ins work."""
    made: list[QuotaCase] = []

    async def opened(resource: str, nodes: Mapping[str, int], quotas: Mapping[str, tuple[int, int]]) -> QuotaCase:
        found = QuotaCase(stage.kube, resource)
        made.append(found)
        for name, amount in nodes.items():
            await found.node(name, amount)
        for name, (least, most) in quotas.items():
            await found.quota(name, least, most)
        return found

    controllers = (Deployments(stage.kube), StatefulSets(stage.kube)) if stage.server is not None else ()
    async with running(*controllers):
        yield opened
        for each in made:
            await each.close()


TEN = {f"gpu-{index}": 2 for index in range(5)}


async def test_story_1(scene: MakeScene) -> None:
    """QuotaA (4, 6), QuotaB (6, 8), ten GPUs."""
    story = await scene(GPU, TEN, {"story1-a": (4, 6), "story1-b": (6, 8)})
    await story.pod("story1-a", "a1", 2)
    await story.pod("story1-b", "b1", 2)
    await story.pod("story1-b", "b2", 1, schedulerName="capacityscheduler")
    await story.runs("story1-a", "a1")
    await story.runs("story1-b", "b1", "b2")
    await story.pod("story1-a", "a2", 2)
    await story.runs("story1-a", "a2")
    await story.uses(**{"story1-a": 4, "story1-b": 3})
    for name in ("a3", "a4"):  # one after the other: within one second the UID would decide who comes first
        await story.pod("story1-a", name, 1)
        await story.runs("story1-a", name)
    await story.pod("story1-a", "a5", 1)
    await story.waits("story1-a", "a5", "1 more needed")
    await story.uses(**{"story1-a": 6, "story1-b": 3})
    for name in ("b3", "b4", "b5"):
        await story.pod("story1-b", name, 1)
    await story.runs("story1-b", "b3", "b4", "b5")
    await story.uses(**{"story1-a": 4, "story1-b": 6})
    left = " ".join(await story.running("story1-a"))
    await story.pod("story1-b", "b6", 1)
    await story.waits("story1-b", "b6", "1 more needed")
    await story.stays(**{"story1-a": left, "story1-b": "b1 b2 b3 b4 b5"})
    await story.uses(**{"story1-a": 4, "story1-b": 6})


async def test_story_2(scene: MakeScene) -> None:
    """QuotaA (3, 4), QuotaB (4, 6), QuotaC (3, 4), ten GPUs: the victim is of A, which is over its min, and not of C."""
    story = await scene(GPU, TEN, {"story2-a": (3, 4), "story2-b": (4, 6), "story2-c": (3, 4)})
    for namespace, names in (("story2-a", "a1 a2 a3 a4"), ("story2-b", "b1 b2 b3"), ("story2-c", "c1 c2 c3")):
        for name in names.split():
            await story.pod(namespace, name, 1)
            await story.runs(namespace, name)
    await story.uses(**{"story2-a": 4, "story2-b": 3, "story2-c": 3})
    await story.pod("story2-b", "b4", 1)
    await story.runs("story2-b", "b4")
    await story.uses(**{"story2-a": 3, "story2-b": 4, "story2-c": 3})
    await story.stays(**{"story2-c": "c1 c2 c3", "story2-b": "b1 b2 b3"})


async def test_preemption_across_namespaces_is_for_what_is_guaranteed_alone(scene: MakeScene) -> None:
    """quota1 (0, 2) runs on what quota3 (1, 2) does not use; the high priority of quota2 (0, 2) does not take it."""
    story = await scene("cpu", {"cpu-1": 2, "cpu-2": 2}, {"quota1": (0, 2), "quota2": (0, 2), "quota3": (1, 2)})
    await story.apply(NGINX.format(namespace="quota1", replicas=1, cpu=1))
    await story.are("quota1", Running=1)
    await story.apply(HIGH)
    await story.apply(NGINX.format(namespace="quota2", replicas=1, cpu=1), priorityClassName="high-priority")
    await story.are("quota2", Gated=1)
    (pod,) = (await story.kube.list(PODS, "quota2")).items
    await story.waits("quota2", pod["metadata"]["name"], "1 more needed")
    (first,) = (await story.kube.list(PODS, "quota1")).items
    await story.stays(quota1=first["metadata"]["name"])
    await story.uses(quota1=1, quota2=0, quota3=0)


async def test_the_known_limitation_is_none_here(scene: MakeScene) -> None:
    """quota1 (0, 2) runs two pods of 1 cpu; quota2 (2, 2) asks for 2 cpu in one: both go, on whichever nodes they are."""
    story = await scene("cpu", {"cpu-1": 2, "cpu-2": 2}, {"limit1": (0, 2), "limit2": (2, 2)})
    await story.apply(NGINX.format(namespace="limit1", replicas=2, cpu=1))
    await story.are("limit1", Running=2)
    await story.apply(NGINX.format(namespace="limit2", replicas=1, cpu=2))
    await story.are("limit2", Running=1)
    await story.are("limit1", Gated=2)
    await story.uses(limit1=0, limit2=2)


async def test_statefulsets_and_jobs_of_the_namespace_go_by_it_as_well(scene: MakeScene) -> None:
    story = await scene("cpu", {"cpu-1": 4}, {"others": (2, 2)})
    nginx = yaml.safe_load(NGINX.format(namespace="others", replicas=3, cpu=1))
    stateful = copy.deepcopy(nginx) | {"apiVersion": STATEFUL_SETS.api_version, "kind": STATEFUL_SETS.kind}
    stateful["spec"] |= {"serviceName": "nginx", "podManagementPolicy": "Parallel"}
    await Site(story.kube, "").make(STATEFUL_SETS, stateful)
    await story.are("others", Running=2, Gated=1)
    await story.uses(others=2)
    first = " ".join(await story.running("others"))
    template = nginx["spec"]["template"]
    template["spec"]["restartPolicy"] = "Never"
    job = {"metadata": {"name": "job", "namespace": "others"}, "spec": {"parallelism": 1, "template": template}}
    await Site(story.kube, "").make(JOBS, job)

    async def queued() -> bool:
        found = await story.kube.get(JOBS, "job", "others")
        stock = found["spec"]["template"]["spec"]["schedulerName"] == "default-scheduler"
        return bool(found["spec"]["suspend"] and stock)

    await eventually("the Job waits, for the stock scheduler", queued)
    await story.stays(others=first)


async def test_pods_that_ran_before_the_quota_count_and_run_on(scene: MakeScene) -> None:
    """Every pod of the namespace counts; those that are there already are neither held nor ended."""
    story = await scene("cpu", {"cpu-1": 8}, {})
    await Site(story.kube, "").make(NAMESPACES, {"metadata": {"name": "older"}})
    await story.apply(NGINX.format(namespace="older", replicas=2, cpu=1), schedulerName="default-scheduler")
    await story.pod("older", "bare", 1)
    await story.are("older", Running=3)
    before = set(await story.running("older"))
    await story.quota("older", 4, 4)
    await story.uses(older=3)
    await story.pod("older", "fits", 1)
    await story.runs("older", "fits")
    await story.uses(older=4)
    await story.pod("older", "late", 1)
    await story.waits("older", "late")
    await story.stays(older=" ".join({*before, "fits"}))
    await story.kube.delete(PODS, "bare", "older")
    await story.runs("older", "late")
    await story.uses(older=4)


async def test_the_jobs_of_a_jobset_and_their_pods_are_known_as_its_own(scene: MakeScene) -> None:
    """In such a namespace its Jobs and their pods are looked at, and are let in beside nobody's quota."""
    story = await scene("cpu", {"cpu-1": 4}, {"jobset": (2, 2)})
    template = yaml.safe_load(NGINX.format(namespace="jobset", replicas=1, cpu=1))["spec"]["template"]
    template["spec"]["restartPolicy"] = "Never"
    inner = {"parallelism": 1, "completions": 1, "backoffLimit": 0, "template": template}
    replicated = [{"name": "w", "replicas": 2, "template": {"spec": inner}}]
    await Site(story.kube, "").make(
        JOBSETS, {"metadata": {"name": "set", "namespace": "jobset"}, "spec": {"replicatedJobs": replicated}}
    )
    await story.are("jobset", Running=2)
    await story.uses(jobset=2)
