"""A small cluster by hand: one node that is full of a workload of low priority, and the controller's feed over it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from admission.world.objects import Objects
from admission.world.world import World
from api.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, NAMESPACES, NODES, PODS, RESOURCE_FLAVORS, WORKLOADS
from api.names import HOSTNAME_LABEL
from tests.builders import condition, pod, workload

RESERVED = [condition("QuotaReserved"), condition("Admitted")]
EVICTED = [*RESERVED, condition("Evicted", reason="Preempted")]
RELEASED = [condition("QuotaReserved", "False", "PendingEvaluation"), condition("Evicted", reason="Preempted")]


class FullNode:
    """One node of four CPUs, quota for more, and a workload of four pods on it; `selector`: of the queue's namespaces."""

    def __init__(self, selector: dict[str, Any] | None = None) -> None:
        self.world = World()
        self.objects = Objects(self.world.state)
        self.version = 1
        quota = {"name": "tas", "resources": [{"name": "cpu", "nominalQuota": 100}]}
        groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
        preemption = {"withinClusterQueue": "LowerPriority"}
        spec = {"namespaceSelector": selector or {}, "resourceGroups": groups, "preemption": preemption}
        self.add(NAMESPACES, {"metadata": {"name": "ns"}})
        flavor = {"nodeLabels": {"pool": "tas"}, "topology": {"levels": [HOSTNAME_LABEL]}}
        self.add(RESOURCE_FLAVORS, {"metadata": {"name": "tas"}, "spec": flavor})
        self.node(True)
        self.add(CLUSTER_QUEUES, {"metadata": {"name": "cq"}, "spec": spec})
        self.add(LOCAL_QUEUES, {"metadata": {"name": "lq", "namespace": "ns"}, "spec": {"clusterQueue": "cq"}})
        self.low(RESERVED)
        for n in range(4):
            self.pod(n)

    def add(self, kind: Any, obj: dict[str, Any]) -> None:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.objects.add(kind, json.dumps(obj).encode())

    def node(self, ready: bool, cpus: int = 4) -> None:
        labels = {"pool": "tas", HOSTNAME_LABEL: "n1"}
        amounts = {"cpu": str(cpus), "memory": "64Gi", "pods": "110"}
        states = [condition("Ready", "True" if ready else "False")]
        self.add(
            NODES,
            {"metadata": {"name": "n1", "labels": labels}, "status": {"allocatable": amounts, "conditions": states}},
        )

    def low(self, states: list[dict[str, Any]]) -> None:
        made = workload("low", count=4, domains=[(("n1",), 4)]).to_wire()
        made["status"]["conditions"] = states
        if states is RELEASED:
            del made["status"]["admission"]
        self.add(WORKLOADS, made)

    def high(self) -> None:
        self.add(WORKLOADS, workload("high", count=4, spec={"priority": 9}).to_wire())

    def pod(self, n: int, phase: str = "Running") -> None:
        made = msgspec.to_builtins(pod(f"low-{n}", owner="low", gated=False, phase=phase))
        made["spec"]["nodeName"] = "n1"
        made["spec"]["containers"] = [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]
        self.add(PODS, made)

    def decisions(self) -> list[tuple[str, str]]:
        return [(type(decision).__name__, decision.workload) for decision in self.world.cycle().decisions]
