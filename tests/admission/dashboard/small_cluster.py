"""A small cluster with two tenants, and the dashboard that serves it: `team` is the tenant's; the names of all
else begin with `hidden`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import aiohttp
import msgspec

from admission.dashboard.cluster import of_objects
from admission.dashboard.dashboard import Dashboard, Facts
from admission.dashboard.mcp.mcp_endpoint import Endpoint, paths
from admission.dashboard.serve.server import Authenticate, DashboardServer, plain_listening
from admission.dashboard.viewer import TokenUser, Viewer
from admission.world.objects import Objects
from admission.world.world import World
from api.kube.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
)
from api.names import HOSTNAME_LABEL
from api.process.access import Right
from api.process.identities import Subject
from tests.builders import condition, pod, workload
from tests.tasks import running

BLOCK, RACK = "cloud.example.com/block", "cloud.example.com/rack"
LEVELS = (BLOCK, RACK, HOSTNAME_LABEL)
HIDDEN = "hidden"
TOKENS = {
    **{name: name for name in ("admin", "tenant", "stranger", "reader")},
    "account-a": "system:serviceaccount:team:a",
    "account-b": "system:serviceaccount:team:b",
    "account-of-others": "system:serviceaccount:hidden-ns:a",
}
CLUSTER_WIDE = {"tenant": {"nodes", "clusterqueues"}, "stranger": set[str](), "reader": {"workloads"}}
NAMESPACED = {"tenant": {"team"}, "stranger": set[str](), "reader": set[str]()}
"""What each user may list in the whole cluster, and the namespaces whose Workloads and pods they may list; admin: all."""


class SmallCluster:
    """Two racks of two hosts of eight cpus, two queues, and in each namespace a workload that runs and one that waits."""

    def __init__(self) -> None:
        self.world = World()
        self.objects = Objects(self.world.state)
        self.version = 0
        self.add(TOPOLOGIES, {"metadata": {"name": "dc"}, "spec": {"levels": [{"nodeLabel": each} for each in LEVELS]}})
        flavor = {"nodeLabels": {"pool": "tas"}, "topologyName": "dc"}
        self.add(RESOURCE_FLAVORS, {"metadata": {"name": "tas"}, "spec": flavor})
        self.add(COHORTS, {"metadata": {"name": "all"}, "spec": {}})
        for namespace in ("team", "hidden-ns"):
            self.add(NAMESPACES, {"metadata": {"name": namespace, "labels": {}}})
        for name, nominal in (("cq", 20), ("cq-idle", 20)):
            self.add(CLUSTER_QUEUES, {"metadata": {"name": name}, "spec": queue_spec(nominal)})
        for number in range(4):
            self.node(f"n{number}", f"r{number // 2}")
        for namespace, name in (("team", "lq"), ("hidden-ns", "hidden-lq")):
            local = {"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterQueue": "cq"}}
            self.add(LOCAL_QUEUES, local)
        self.run("team", "lq", "train", "n0", 4)
        self.run("hidden-ns", "hidden-lq", "hidden-train", "n1", 8)
        self.run("hidden-ns", "hidden-lq", "hidden-more", "n2", 6)
        self.wait("team", "lq", "later", 8)
        self.wait("hidden-ns", "hidden-lq", "hidden-next", 8)

    def add(self, kind: Any, obj: dict[str, Any]) -> None:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        obj["metadata"].setdefault("uid", f"uid-{kind.plural}-{obj['metadata']['name']}")
        self.objects.add(kind, json.dumps(obj).encode())

    def node(
        self,
        name: str,
        rack: str,
        *,
        ready: bool = True,
        cordoned: bool = False,
        cpus: int = 8,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Adds or changes a node; `more` are labels beside those that place it."""
        labels = {"pool": "tas", BLOCK: "b0", RACK: rack, HOSTNAME_LABEL: name, **more}
        amounts = {"cpu": str(cpus), "memory": "64Gi", "pods": "110"}
        status = {"allocatable": amounts, "conditions": [condition("Ready", "True" if ready else "False", "Down")]}
        spec = {"unschedulable": True} if cordoned else {}
        self.add(NODES, {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status})

    def run(self, namespace: str, queue: str, name: str, host: str, pods: int) -> None:
        """Adds a workload that runs with all pods on one host."""
        made = workload(name, queue=queue, count=pods, domains=[(("b0", "r0" if host in "n0n1" else "r1", host), pods)])
        wire = made.to_wire()
        assignment = workload(name, queue=queue, count=pods, domains=[((host,), pods)]).to_wire()
        wire["status"]["admission"] = assignment["status"]["admission"]
        wire["metadata"] |= {"namespace": namespace, "ownerReferences": [owner(name)]}
        self.add(WORKLOADS, wire)
        for number in range(pods):
            made_pod = msgspec.to_builtins(pod(f"{name}-{number}", owner=name, gated=False, phase="Running"))
            made_pod["metadata"]["namespace"] = namespace
            made_pod["spec"]["nodeName"] = host
            made_pod["spec"]["containers"] = [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]
            self.add(PODS, made_pod)

    def wait(self, namespace: str, queue: str, name: str, pods: int) -> None:
        """Adds a workload that waits for a rack."""
        message = f"no room beside {HIDDEN if namespace != 'team' else 'others'}"
        wire = workload(
            name,
            queue=queue,
            count=pods,
            conditions=[condition("QuotaReserved", "False", "TopologyPlacementFailed", message)],
            topology_request={"required": RACK},
        ).to_wire()
        wire["metadata"] |= {"namespace": namespace, "ownerReferences": [owner(name)]}
        self.add(WORKLOADS, wire)


def owner(name: str) -> dict[str, Any]:
    return {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"uid-job-{name}", "controller": True}


def queue_spec(nominal: int) -> dict[str, Any]:
    quota = {"name": "tas", "resources": [{"name": "cpu", "nominalQuota": nominal}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
    return {"namespaceSelector": {}, "resourceGroups": groups, "cohortName": "all"}


async def may(subject: Subject, right: Right, namespace: str) -> bool:
    """Answers as the API server would for the users of this module."""
    user, plural = subject.username, right.resource.plural
    if user == "admin" or plural in CLUSTER_WIDE.get(user, ()):
        return True
    return plural in ("workloads", "pods") and namespace in NAMESPACED.get(user, ())


async def authenticated(token: str, _source: str) -> Viewer | None:
    return TokenUser(Subject(TOKENS[token]), may) if token in TOKENS else None


@dataclass
class Served:
    """The dashboard behind its server."""

    cluster: SmallCluster
    dashboard: Dashboard
    session: aiohttp.ClientSession
    base: str
    headers: dict[str, str] = field(default_factory=dict)

    async def ask(
        self,
        path: str,
        token: str | None = "admin",
        *,
        method: str = "GET",
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Returns the status and body of an answer."""
        sent = {**({"Authorization": f"Bearer {token}"} if token is not None else {}), **(headers or {})}
        async with self.session.request(method, self.base + path, json=body, headers=sent) as response:
            return response.status, await response.read()

    async def get(self, path: str, token: str | None = "admin") -> Any:
        """Returns the JSON of an answer, which must be 200."""
        status, body = await self.ask(f"/api/v1/{path}", token)
        assert status == 200, body
        return json.loads(body)


@contextlib.asynccontextmanager
async def served(*, tokens: bool = True, authenticate: Authenticate = authenticated) -> AsyncIterator[Served]:
    """Serves a small cluster; without `tokens`, as on localhost."""
    cluster = SmallCluster()
    dashboard = Dashboard(
        of_objects(cluster.objects, cluster.world.state), Facts("0", "made-up", "token" if tokens else "none")
    )
    await dashboard.renew()
    tools = Endpoint(dashboard)
    server = DashboardServer(dashboard, authenticate if tokens else None, paths(tools))
    async with (
        running(tools.run()),
        plain_listening(server, "127.0.0.1", 0) as port,
        aiohttp.ClientSession() as session,
    ):
        yield Served(cluster, dashboard, session, f"http://127.0.0.1:{port}")
