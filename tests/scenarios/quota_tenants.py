"""Namespaces with elastic quotas, and what their users do in them: for the scenarios of elastic quotas.

All elastic quotas of a cluster share one cohort. So that the scenarios do not meet, each has a resource of its own on nodes
of its own: what a quota does not name and nobody asks of it makes no difference to it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from api.kube.client import Kube
from api.kube.resources import (
    ELASTIC_QUOTAS,
    EVENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from api.meta import find_condition, is_true, parse_time
from api.names import ADMISSION_GATE, EVICTED, HOSTNAME_LABEL, PRIORITY_CLASS_LABEL, QUEUE_NAME_LABEL, QUOTA_RESERVED
from tests.scenarios.site import Site, eventually, never


@dataclass
class Tenants:
    """A story's nodes and its namespaces with elastic quotas; jobs are named after their namespace: `a1` is one of `a`."""

    site: Site
    corners: dict[str, Site] = field(default_factory=dict)

    @property
    def kube(self) -> Kube:
        return self.site.kube

    @property
    def resource(self) -> str:
        """What the story is about."""
        return f"example.com/{self.site.name}"

    async def open(self, nodes: Mapping[str, int], **limits: tuple[int, int]) -> None:
        """Nodes with so much of the resource each, and a namespace with (min, max) each."""
        for name, amount in nodes.items():
            await self._node(f"{self.site.name}-{name}", amount)
        for name, (least, most) in limits.items():
            await self.tenant(name, least, most)

    async def _node(self, name: str, amount: int) -> None:
        labels = {HOSTNAME_LABEL: name, "kubernetes.io/os": "linux"}
        capacity = {"cpu": "32", "memory": "64Gi", "pods": "110", self.resource: str(amount)}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
                 "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
        status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
        await self.site.make(NODES, {"metadata": {"name": name, "labels": labels}, "status": status})

        async def usable() -> bool:
            node = await self.kube.get(NODES, name)
            ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))
            return ready and not node.get("spec", {}).get("taints")

        await eventually(f"node {name} usable", usable)

    async def tenant(self, name: str, least: int, most: int, kind: Resource = ELASTIC_QUOTAS) -> None:
        """The namespace `<story>-<name>` with its quota; waits until jobs without a queue name would go by it."""
        corner = self.corners[name] = Site(self.kube, f"{self.site.name}-{name}")
        await self.site.make(NAMESPACES, {"metadata": {"name": corner.name}})
        spec = {"min": {self.resource: least}, "max": {self.resource: most}}
        await self.site.make(kind, {"metadata": {"name": "quota", "namespace": corner.name}, "spec": spec})
        await eventually(f"quota of {corner.name} in force", lambda: self._in_force(corner, kind))

    async def _in_force(self, corner: Site, kind: Resource) -> bool:
        quota = await self.kube.get(kind, "quota", corner.name)
        active = [c for c in (quota.get("status") or {}).get("conditions", ()) if c["type"] == "Active"]
        if not active or active[0]["status"] != "True":
            return False
        probe = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, **self.job(corner, "probe", 1)}
        made = await self.kube.create(JOBS, probe, dry_run=True)
        return bool(made["metadata"].get("labels", {}).get(QUEUE_NAME_LABEL) == "elastic-quota")

    def job(self, corner: Site, name: str, pods: int, each: int = 1, **more: Any) -> dict[str, Any]:
        """A Job that names no queue, of so many pods with so much of the resource each."""
        job = corner.job(name, pods, queue=None, **more)
        amounts = {"cpu": "100m", self.resource: str(each)}
        job["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
        return job

    def of(self, name: str) -> Site:
        """Where the job lives."""
        return self.corners[name.rstrip("0123456789")]

    async def submit(self, name: str, pods: int, each: int = 1, *, priority: str | None = None, host: str = "") -> None:
        """A Job of the namespace that its name begins with."""
        corner = self.of(name)
        job = self.job(corner, name, pods, each)
        if priority is not None:
            job["metadata"]["labels"][PRIORITY_CLASS_LABEL] = priority
        if host:
            job["spec"]["template"]["spec"]["nodeSelector"] = {HOSTNAME_LABEL: f"{self.site.name}-{host}"}
        await corner.submit(job)

    async def runs(self, name: str, pods: int) -> None:
        """Waits for its pods."""
        await self.of(name).running(name, pods)

    async def run(self, name: str, pods: int, each: int = 1, *, priority: str | None = None, host: str = "") -> None:
        """Both."""
        await self.submit(name, pods, each, priority=priority, host=host)
        await self.runs(name, pods)

    async def pod(self, namespace: str, name: str, labels: Mapping[str, str] | None = None) -> None:
        """A pod that names no queue, with one of the resource."""
        corner = self.corners[namespace]
        amounts = {"cpu": "100m", self.resource: "1"}
        container = {"name": "c", "image": "nginx", "resources": {"requests": amounts, "limits": amounts}}
        meta = {"name": name, "namespace": corner.name, "labels": dict(labels or {})}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
        await self.site.make(PODS, {"metadata": meta, "spec": spec})

    async def pod_runs(self, namespace: str, name: str) -> None:
        """Waits until it runs."""

        async def check() -> bool:
            pod = await self.kube.get(PODS, name, self.corners[namespace].name)
            return bool((pod.get("status") or {}).get("phase") == "Running")

        await eventually(f"{name} runs", check)

    async def held(self, namespace: str, *names: str) -> None:
        """Each of these pods waits at its gate."""
        for name in names:
            pod = await self.kube.get(PODS, name, self.corners[namespace].name)
            assert any(gate["name"] == ADMISSION_GATE for gate in pod["spec"].get("schedulingGates", ())), name

    async def pod_told(self, namespace: str, name: str, message: str) -> None:
        """Waits for an event of the pod and the condition of its Workload."""
        where = self.corners[namespace].name

        async def check() -> bool:
            events = (await self.kube.list(EVENTS, where, field_selector=f"involvedObject.name={name}")).items
            workloads = (await self.kube.list(WORKLOADS, where)).items
            conditions = [c for w in workloads for c in (w.get("status") or {}).get("conditions", ())]
            waiting = [c["message"] for c in conditions if c["type"] == QUOTA_RESERVED and c["status"] == "False"]
            told = [e["message"] for e in events if e["involvedObject"]["kind"] == "Pod"]
            return all(any(message in text for text in texts) for texts in (told, waiting))

        await eventually(f"{name} is told: {message}", check)

    async def waits(self, name: str, reason: str = "WaitingForQuota", text: str = "") -> None:
        """Waits until it says that it waits."""
        await self.of(name).waits(name, reason, text)

    async def a_second_after(self, name: str) -> None:
        """Conditions tell whole seconds: a workload that starts from now on has started later than this one."""
        workload = await self.of(name).admitted(name)
        told = find_condition(workload.status.conditions, QUOTA_RESERVED)
        assert told is not None
        since = parse_time(told.last_transition_time) or 0.0

        async def check() -> bool:
            return time.time() >= since + 1

        await eventually(f"a second after {name}", check)

    async def ends(self, name: str) -> None:
        """Deletes it, and its Workload with it."""
        await self.of(name).remove(JOBS, name)

    async def priority(self, name: str, value: int) -> None:
        await self.site.make(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})

    async def evicted(self, name: str) -> None:
        """Waits until it has been evicted for another one, and is suspended again."""
        corner = self.of(name)

        async def check() -> bool:
            job = await corner.get_job(name)
            workload = await corner.workload_of(name)
            told = find_condition(workload.status.conditions, "Preempted") if workload else None
            return bool(job["spec"].get("suspend")) and told is not None and not await corner.pods(name)

        try:
            await eventually(f"{name} evicted", check)
        except AssertionError as late:
            raise AssertionError(f"{late}; {await corner.story(name)}") from None

    async def stays(self, *names: str) -> None:
        """For a while none of them is evicted."""

        async def check() -> bool:
            found = [await self.of(name).workload_of(name) for name in names]
            return any(w is None or is_true(w.status.conditions, EVICTED) for w in found)

        await never(f"one of {names} evicted", check, seconds=1.0)

    async def quota(self, name: str, kind: Resource = ELASTIC_QUOTAS) -> dict[str, Any]:
        return await self.kube.get(kind, "quota", self.corners[name].name)

    async def uses(self, **used: int) -> None:
        """Waits until status.used says so."""
        for name, amount in used.items():

            async def check(name: str = name, amount: int = amount) -> bool:
                status = (await self.quota(name)).get("status") or {}
                return bool((status.get("used") or {}).get(self.resource) == str(amount))

            await eventually(f"{name} uses {amount}", check)
