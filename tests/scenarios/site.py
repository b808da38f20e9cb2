"""One scenario's corner of the cluster: its own namespace, nodes, flavor and queues, so that scenarios never meet.

Everything goes through the API server as a user's kubectl would; nothing is read from inside our processes.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from api.embedded.workers.kubelet import RUN_FOR
from api.errors import AlreadyExists, Conflict, NotFound
from api.kube.client import Kube, PatchKind
from api.kube.resources import (
    CLUSTER_QUEUES,
    EVENTS,
    JOBS,
    JOBSETS,
    LOCAL_QUEUES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
    Resource,
)
from api.meta import find_condition, parse_time
from api.names import ADMITTED, API_VERSION, HOSTNAME_LABEL, QUEUE_NAME_LABEL, QUOTA_RESERVED
from api.workloads import Workload
from tests.scenarios.stage_processes import fallen

T = TypeVar("T")

BLOCK = "cloud-provider.com/topology-block"
RACK = "cloud-provider.com/topology-rack"
GROUP = "cloud-provider.com/node-group"
GPU = "nvidia.com/gpu"

Tree = Mapping[str, Mapping[str, int]]
"""Hosts per rack per block."""


DEADLINE = 240.0
"""Seconds; the machine may be much slower than today's."""


async def eventually(what: str, check: Callable[[], Awaitable[T | None]], seconds: float = DEADLINE) -> T:
    """Asks until the answer is neither None nor False; AssertionError with `what` after the deadline, or as soon as one
    of the stage's processes has fallen."""
    deadline = time.monotonic() + seconds
    while True:
        answer = await check()
        if answer is not None and answer is not False:
            return answer
        if failure := fallen():
            raise AssertionError(f"{what}: not any more, {failure}")
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s")
        await asyncio.sleep(0.1)


async def never(what: str, check: Callable[[], Awaitable[bool]], seconds: float = 2.0) -> None:
    """Asks for a while; AssertionError as soon as the answer is yes."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert not await check(), what
        await asyncio.sleep(0.1)


@dataclass
class Site:
    """A corner named `name`. `kube` is the administrator's client."""

    kube: Kube
    name: str
    gpus_per_host: int = 4

    # ---- making things

    async def make(self, resource: Resource, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Creates the object; one that is already there stays."""
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        try:
            return await self.kube.create(resource, body)
        except AlreadyExists:
            meta = obj["metadata"]
            return await self.kube.get(resource, meta["name"], meta.get("namespace"))

    async def open(
        self,
        tree: Tree,
        *,
        inline: bool = False,
        quota: int = 1000,
        levels: Sequence[str] = (BLOCK, RACK, HOSTNAME_LABEL),
        **queue: Any,
    ) -> None:
        """Namespace, nodes, flavor (with a Topology object, inline levels or none) and queues."""
        await self.make(NAMESPACES, {"metadata": {"name": self.name}})
        await self.add_nodes(tree)
        spec: dict[str, Any] = {"nodeLabels": {GROUP: self.name}}
        if inline:
            spec["topology"] = {"levels": list(levels)}
        elif levels:
            labels = [{"nodeLabel": label} for label in levels]
            await self.make(TOPOLOGIES, {"metadata": {"name": self.name}, "spec": {"levels": labels}})
            spec["topologyName"] = self.name
        await self.make(RESOURCE_FLAVORS, {"metadata": {"name": self.name}, "spec": spec})
        resources = [{"name": "cpu", "nominalQuota": quota}, {"name": GPU, "nominalQuota": quota}]
        groups = [{"coveredResources": ["cpu", GPU], "flavors": [{"name": self.name, "resources": resources}]}]
        cluster_queue = {"namespaceSelector": {}, "resourceGroups": groups, **queue}
        await self.make(CLUSTER_QUEUES, {"metadata": {"name": self.name}, "spec": cluster_queue})
        local = {"metadata": {"name": "lq", "namespace": self.name}, "spec": {"clusterQueue": self.name}}
        await self.make(LOCAL_QUEUES, local)
        await eventually(f"ClusterQueue {self.name} active", self._active)

    async def _active(self) -> bool:
        queue = await self.kube.get(CLUSTER_QUEUES, self.name)
        found = (queue.get("status") or {}).get("conditions") or []
        return any(c["type"] == "Active" and c["status"] == "True" for c in found)

    async def add_nodes(self, tree: Tree) -> None:
        """Ready nodes named <site>-<block>-<rack>-<n>."""
        for block, racks in tree.items():
            for rack, hosts in racks.items():
                for n in range(hosts):
                    await self.add_node_in(block, rack, f"{self.name}-{block}-{rack}-{n}")

    async def add_node_in(self, block: str, rack: str, name: str) -> None:
        """A Ready node in a rack."""
        labels = {GROUP: self.name, BLOCK: block, RACK: rack, HOSTNAME_LABEL: name, "kubernetes.io/os": "linux"}
        await self.add_node(name, labels)

    async def add_node(self, name: str, labels: Mapping[str, str]) -> None:
        """A Ready node with these labels."""
        capacity = {"cpu": "32", "memory": "64Gi", "pods": "110", GPU: str(self.gpus_per_host)}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
                 "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
        status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
        await self.make(NODES, {"metadata": {"name": name, "labels": labels}, "status": status})
        await eventually(f"node {name} usable", lambda: self._usable(name))

    async def _usable(self, name: str) -> bool:
        node = await self.kube.get(NODES, name)
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))
        return ready and not node.get("spec", {}).get("taints")

    def job(
        self,
        name: str,
        pods: int,
        annotations: Mapping[str, str] | None = None,
        *,
        gpus: int = 1,
        run_for: str | None = None,
        queue: str | None = "lq",
        suspend: bool | None = None,
    ) -> dict[str, Any]:
        """A batch/v1 Job as a user writes it: Indexed, a GPU a pod, the topology annotation on the Job itself."""
        template = self.template(gpus, run_for)
        spec: dict[str, Any] = {
            "parallelism": pods, "completions": pods, "completionMode": "Indexed", "backoffLimit": 0, "template": template,
        }  # fmt: skip
        if suspend is not None:
            spec["suspend"] = suspend
        labels = {QUEUE_NAME_LABEL: queue} if queue else {}
        metadata = {"name": name, "namespace": self.name, "labels": labels, "annotations": dict(annotations or {})}
        return {"metadata": metadata, "spec": spec}

    def template(self, gpus: int = 1, run_for: str | None = None) -> dict[str, Any]:
        """A pod template; its pods run for ever unless told otherwise."""
        requests = {"cpu": "1", GPU: str(gpus)}
        container = {"name": "main", "image": "pause", "resources": {"requests": requests, "limits": {GPU: str(gpus)}}}
        annotations = {RUN_FOR: run_for} if run_for else {}
        spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
        return {"metadata": {"annotations": annotations}, "spec": spec}

    async def submit(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Creates a Job."""
        return await self.make(JOBS, job)

    async def a_second_after(self, *jobs: str) -> None:
        """Waits until what is created now is younger than the Workloads of these jobs: creation times are whole seconds,
        and of two workloads of the same second the one with the smaller UID comes first."""
        workloads = [await eventually(f"Workload of {job}", partial(self.workload_of, job)) for job in jobs]
        made = [parse_time(workload.metadata.creation_timestamp) or 0.0 for workload in workloads]

        async def later() -> bool:
            return time.time() >= max(made) + 1

        await eventually("the next second", later)

    # ---- looking

    async def get_job(self, name: str, resource: Resource = JOBS) -> dict[str, Any]:
        """The Job (or JobSet) as it is."""
        return await self.kube.get(resource, name, self.name)

    async def pods(self, job: str, *, jobset: bool = False) -> list[dict[str, Any]]:
        """Pods of a Job or JobSet that have not ended and are not going."""
        key = "jobset.sigs.k8s.io/jobset-name" if jobset else "batch.kubernetes.io/job-name"
        page = await self.kube.list(PODS, self.name, label_selector=f"{key}={job}")
        return [
            pod
            for pod in page.items
            if pod.get("status", {}).get("phase") not in ("Failed", "Succeeded")
            and not pod["metadata"].get("deletionTimestamp")
        ]

    async def workload_of(self, job: str) -> Workload | None:
        """The Workload that belongs to the job."""
        page = await self.kube.list(WORKLOADS, self.name)
        for item in page.items:
            if any(owner["name"] == job for owner in item["metadata"].get("ownerReferences", [])):
                return Workload.from_wire(item)
        return None

    async def racks(self, pods: list[dict[str, Any]]) -> Counter[str]:
        """Pods per rack of the nodes that they are bound to."""
        page = await self.kube.list(NODES, label_selector=f"{GROUP}={self.name}")
        where = {n["metadata"]["name"]: n["metadata"]["labels"] for n in page.items}
        labels = [where[pod["spec"]["nodeName"]] for pod in pods]
        return Counter(f"{label[BLOCK]}/{label[RACK]}" for label in labels)

    # ---- waiting

    async def running(self, job: str, count: int, *, jobset: bool = False) -> list[dict[str, Any]]:
        """Waits until so many pods are bound and Running; returns them."""

        async def check() -> list[dict[str, Any]] | None:
            pods = [p for p in await self.pods(job, jobset=jobset) if p.get("status", {}).get("phase") == "Running"]
            return pods if len(pods) == count and all(p["spec"].get("nodeName") for p in pods) else None

        try:
            return await eventually(f"{count} running pods of {job}", check)
        except AssertionError as late:
            raise AssertionError(f"{late}; {await self.story(job)}") from None

    async def waits(self, job: str, reason: str, text: str) -> Workload:
        """Waits until the job's Workload says that it waits, with that reason and words in the message."""

        async def check() -> Workload | None:
            workload = await self.workload_of(job)
            found = find_condition(workload.status.conditions, QUOTA_RESERVED) if workload else None
            said = found is not None and found.status == "False" and found.reason == reason and text in found.message
            return workload if said else None

        try:
            return await eventually(f"{job} waits with {reason}: {text}", check)
        except AssertionError as late:
            raise AssertionError(f"{late}; {await self.story(job)}") from None

    async def admitted(self, job: str) -> Workload:
        """Waits until the job's Workload is admitted."""

        async def check() -> Workload | None:
            workload = await self.workload_of(job)
            found = find_condition(workload.status.conditions, ADMITTED) if workload else None
            return workload if found is not None and found.status == "True" else None

        try:
            return await eventually(f"{job} admitted", check)
        except AssertionError as late:
            raise AssertionError(f"{late}; {await self.story(job)}") from None

    async def story(self, job: str) -> str:
        """What became of the job, for the message of a failure."""
        workload = await self.workload_of(job)
        said = (
            [f"{c.type}={c.status} {c.reason}: {c.message}" for c in workload.status.conditions] if workload else None
        )
        pods = [(p["metadata"]["name"], p["spec"].get("nodeName"), p["status"].get("phase"),
                 p["spec"].get("schedulingGates")) for p in await self.pods(job)]  # fmt: skip
        events = [f"{e['reason']}: {e.get('message', '')}" for e in (await self.kube.list(EVENTS, self.name)).items]
        jobs = [
            (one["spec"].get("suspend"), one.get("status"), one["metadata"]["uid"])
            for one in (await self.kube.list(JOBS, self.name)).items
            if one["metadata"]["name"] == job
        ]
        return f"job: {jobs}; workload: {said}; pods: {pods}; events: {events[-12:]}"

    # ---- changing

    async def change(self, resource: Resource, name: str, body: Mapping[str, Any], *, cluster: bool = False) -> None:
        """A merge patch, tried again when somebody else was first."""
        while True:
            try:
                await self.kube.patch(resource, name, body, None if cluster else self.name, kind=PatchKind.MERGE)
                return
            except Conflict:
                await asyncio.sleep(0.05)

    async def finish(self, job: str) -> None:
        """Lets the job's pods succeed now. For what has to be seen while it runs: how long that takes nobody knows."""
        body = {"metadata": {"annotations": {RUN_FOR: "1ms"}}}
        for pod in await self.pods(job):
            await self.kube.patch(PODS, pod["metadata"]["name"], body, self.name, kind=PatchKind.MERGE)

    async def remove(self, resource: Resource, name: str) -> None:
        """Deletes and waits until it is gone."""
        await self.kube.delete(resource, name, self.name, propagation="Background")
        await self.gone(resource, name)

    async def gone(self, resource: Resource, name: str) -> None:
        """Waits until an object of the namespace is gone."""

        async def check() -> bool:
            return await self.is_gone(resource, name)

        await eventually(f"{resource.kind} {name} gone", check)

    async def is_gone(self, resource: Resource, name: str) -> bool:
        """Reports whether no object of the namespace has that name."""
        try:
            await self.kube.get(resource, name, self.name)
        except NotFound:
            return True
        return False

    def jobset(self, name: str, jobs: Mapping[str, tuple[int, int]], annotations: Mapping[str, str]) -> dict[str, Any]:
        """A JobSet; `jobs` maps a replicated job's name to (replicas, pods of each)."""
        replicated = [
            {
                "name": job,
                "replicas": replicas,
                "template": {
                    "spec": {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": self.template()}
                },
            }
            for job, (replicas, pods) in jobs.items()
        ]
        metadata = {
            "name": name,
            "namespace": self.name,
            "labels": {QUEUE_NAME_LABEL: "lq"},
            "annotations": dict(annotations),
        }
        return {"metadata": metadata, "spec": {"replicatedJobs": replicated}}

    async def submit_jobset(self, jobset: Mapping[str, Any]) -> dict[str, Any]:
        """Creates a JobSet."""
        return await self.make(JOBSETS, jobset)


__all__ = ["API_VERSION", "BLOCK", "GPU", "GROUP", "RACK", "Site", "eventually", "never"]
