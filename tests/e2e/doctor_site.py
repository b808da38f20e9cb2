"""The site that doctor looks at: its nodes, queues and job, and the kubelet of Stowage's processes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from admission.settings import WebhookSection
from api.names import GROUP, HOSTNAME_LABEL
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.nodes import node
from tests.builders import pod_template
from tests.scenarios.site import BLOCK, RACK
from tests.scenarios.site import GROUP as POOL
from tests.scenarios.stage import Stage, point_webhooks

OURS = "stowage-system"
Obj = dict[str, Any]
TAINT = {"key": "dedicated", "value": "train", "effect": "NoSchedule"}
RESTARTED = "kubectl.kubernetes.io/restartedAt"


def train(name: str, block: str, rack: str) -> Obj:
    return node(name, {POOL: "train", BLOCK: block, RACK: rack}, taints=[TAINT])


NODES = [
    *(train(f"n{number}", "b1", "r1") for number in range(3)),
    train("n3", "b1", "r2"),
    node("n4", {"node-role.kubernetes.io/control-plane": ""}),
    node("n5", {"serves": "others"}),
]


def kueue(kind: str, name: str, spec: Obj, **meta: str) -> Obj:
    return {"apiVersion": f"{GROUP}/v1beta2", "kind": kind, "metadata": {"name": name, **meta}, "spec": spec}


def queue(name: str, flavor: str, cpu: str, **spec: Any) -> Obj:
    resources = [{"name": "cpu", "nominalQuota": cpu}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": flavor, "resources": resources}]}
    return kueue("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": [group], **spec})


OBJECTS = [
    kueue("Topology", "racks", {"levels": [{"nodeLabel": level} for level in (BLOCK, RACK, HOSTNAME_LABEL)]}),
    kueue(
        "ResourceFlavor",
        "train",
        {
            "nodeLabels": {POOL: "train"},
            "nodeTaints": [TAINT],
            "tolerations": [{**TAINT, "operator": "Equal"}],
            "topologyName": "racks",
        },
    ),
    kueue("ResourceFlavor", "serve", {"nodeLabels": {"serves": "others"}}),
    queue("research", "train", "64", cohortName="all"),
    queue("guests", "train", "0", cohortName="all"),
    queue("services", "serve", "16"),
    kueue("LocalQueue", "research", {"clusterQueue": "research"}, namespace="default"),
    {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "run", "namespace": "default", "labels": {f"{GROUP}/queue-name": "research"}},
        "spec": {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": pod_template()},
    },
]
"""A site where nothing is wrong, with a job that runs."""


@dataclass
class Kubelet:
    """Starts and ends the processes as the Deployments ask, and gives new webhook configurations their address."""

    cluster: ControlPlane
    stage: Stage
    seen: dict[str, str]

    async def catch_up(self) -> None:
        """Does what has changed since."""
        found = json.loads(self.cluster.kubectl("get", "deploy", "-n", OURS, "-o", "json"))["items"]
        for deployment in found:
            name = deployment["metadata"]["name"].removeprefix("stowage-")
            child = self.stage.processes.children[name]
            runs = child.process is not None and child.process.returncode is None
            annotations = deployment["spec"]["template"]["metadata"].get("annotations") or {}
            anew = self.seen.setdefault(name, "") != annotations.get(RESTARTED, "")
            self.seen[name] = annotations.get(RESTARTED, "")
            if runs and (anew or not deployment["spec"]["replicas"]):
                await child.stop()
            if deployment["spec"]["replicas"] and (anew or not runs):
                await self.stage.processes.restart(name)
        names = WebhookSection().mutating_configuration, WebhookSection().validating_configuration
        every = self.cluster.kubectl("get", "mutatingwebhookconfiguration,validatingwebhookconfiguration", "-o", "name")
        if all(f"/{name}" in every for name in names):
            await point_webhooks(self.stage.kube, self.stage.processes.webhook_url, *names)
