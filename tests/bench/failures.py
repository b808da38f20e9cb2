"""Nodes that die under one large gang, on the real control plane.

    python -m tests.bench failures [--pods 512] [--nodes 1000] [--die 1,2,8] [--spares 0]

One Indexed Job of so many pods, each on a host of its own, all in one block, on kwok nodes. Then so many nodes are deleted at
once, and the pods that were there end as the pod garbage collector has it, without its forty seconds of quarantine. The
client's clock tells when each lost pod was seen gone, its successor seen (the Job controller makes it after a delay of its
own), its gate seen open and its node seen. Our share is what lies between the successor and its open gate. After each, as many
nodes come back. `--spares`: the job asks for so many spare hosts.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop

from api.errors import NotFound
from api.kube.client import Kube, PatchKind
from api.kube.informers.informer import Informer
from api.kube.informers.store import Change, ChangeType
from api.kube.resources import JOBS, NODES, PODS
from api.kube.settings import ClientSettings
from api.names import REQUIRE_TOPOLOGY, SPARE_HOSTS
from hack.controlplane.api import Object
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.nodes import node
from hack.controlplane.options import ClusterOptions
from tests.bench.measure import costs, pid_of, servers
from tests.bench.perfload import figures
from tests.scenarios.site import BLOCK, GPU, GROUP, RACK, Site
from tests.scenarios.stage import real

_CLUSTER = ClusterOptions(
    gogc=400, disable_admission=("ServiceAccount", "TaintNodesByCondition"), node_monitor_period="5s", tmpfs=True
)
_LIMIT = 300.0
_RACK = 50
"""Hosts of a rack; all racks are of one block."""


@dataclass
class _Life:
    """One index of the job: when (seconds) the pod that it has now was seen first, open and bound, and its predecessor gone."""

    uid: str = ""
    gone: float | None = None
    made: float | None = None
    opened: float | None = None
    bound: float | None = None
    node: str = ""


@dataclass
class _Pods:
    """All indices, as the client sees them."""

    count: int
    lives: dict[str, _Life] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def saw(self, change: Change[dict[str, Any]]) -> None:
        pod, now = change.object, time.monotonic()
        life = self.lives.setdefault(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"], _Life())
        uid = pod["metadata"]["uid"]
        over = change.type is ChangeType.DELETED or pod.get("status", {}).get("phase") == "Failed"
        if over and uid == life.uid:
            life.gone, life.uid, life.made, life.opened, life.bound = now, "", None, None, None
        elif not over:
            if not life.uid:
                life.uid, life.made = uid, now
            if life.opened is None and not pod["spec"].get("schedulingGates"):
                life.opened = now
            if life.bound is None and pod["spec"].get("nodeName"):
                life.bound, life.node = now, pod["spec"]["nodeName"]
        self.changed.set()

    async def all_bound(self, beside: frozenset[str] = frozenset()) -> None:
        """Until every index has a node, and none of these."""
        async with asyncio.timeout(_LIMIT):
            while sum(life.bound is not None and life.node not in beside for life in self.lives.values()) < self.count:
                self.changed.clear()
                await self.changed.wait()


def run(pods: int, nodes: int, die: Sequence[int], spares: int) -> None:
    """Runs it and prints a row for each number of nodes that die."""
    with tempfile.TemporaryDirectory(prefix="stowage-bench-") as name:
        folder = Path(name)
        with ControlPlane(folder / "cluster", _CLUSTER) as cluster:
            every = [_node(number) for number in range(nodes)]
            cluster.add_nodes(every)
            rows = uvloop.run(_measure(cluster, folder, {n["metadata"]["name"]: n for n in every}, pods, die, spares))
    print(f"\na gang of {pods} pods on {nodes} nodes, {spares} spare hosts; seconds, the last of the lost pods")
    print("| nodes that die | gone | successor made | gate open | bound | our share | other pods restarted |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        print(row)


def _node(number: int) -> Object:
    labels = {GROUP: "failures", BLOCK: "b0", RACK: f"r{number // _RACK}"}
    return node(f"n{number:04}", labels, {GPU: "4"})


async def _measure(
    cluster: ControlPlane, folder: Path, nodes: Mapping[str, Object], count: int, die: Sequence[int], spares: int
) -> list[str]:
    async with (
        await Kube.connect(ClientSettings(kubeconfig=cluster.kubeconfig, user_agent="bench")) as kube,
        real(cluster, folder) as stage,
    ):
        site, pods = Site(stage.kube, "failures"), _Pods(count)
        await site.open({}, quota=8 * len(nodes))
        informer: Informer[dict[str, Any]] = Informer(kube, PODS, dict, namespace=site.name)
        informer.add_handler(pods.saw)
        watching = asyncio.create_task(informer.run())
        await informer.synced(60.0)
        await kube.create(JOBS, {"apiVersion": "batch/v1", "kind": "Job", **_job(site, count, spares)})
        await pods.all_bound()
        pids = {child.name: pid_of(child) for child in stage.processes.children.values()}
        rows = [await _die(kube, cluster, nodes, pods, number, pids) for number in die]
        watching.cancel()
        return rows


def _job(site: Site, count: int, spares: int) -> dict[str, Any]:
    asked = {REQUIRE_TOPOLOGY: BLOCK, **({SPARE_HOSTS: str(spares)} if spares else {})}
    job = site.job("gang", count, asked, gpus=4)
    del job["spec"]["backoffLimit"]
    ignore = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    job["spec"] |= {"backoffLimitPerIndex": 0, "podFailurePolicy": {"rules": [ignore]}}
    return job


async def _die(
    kube: Kube, cluster: ControlPlane, nodes: Mapping[str, Object], pods: _Pods, number: int, ours: Mapping[str, int]
) -> str:
    """So many nodes, spread over the gang."""
    before = {index: life.uid for index, life in pods.lives.items()}
    hosts = sorted(life.node for life in pods.lives.values())
    dead = frozenset(hosts[:: len(hosts) // number][:number])
    lost = {index for index, life in pods.lives.items() if life.node in dead}
    every = {**servers(cluster), **ours, "client": os.getpid()}
    spent, busy, began = costs(every), figures.busy_seconds(), time.monotonic()
    await asyncio.gather(*(kube.delete(NODES, name) for name in dead))
    await asyncio.gather(
        *(
            _collect(kube, pod)
            for pod in (await kube.list(PODS, "failures")).items
            if pod["spec"].get("nodeName") in dead
        )
    )
    await pods.all_bound(dead)
    figures.costs(spent, costs(every), time.monotonic() - began, figures.busy_seconds() - busy, os.cpu_count() or 1)
    restarted = sum(life.uid != before[index] for index, life in pods.lives.items() if index not in lost)
    lives = [pods.lives[index] for index in sorted(lost)]
    moments = [
        max(getattr(life, what) or 0.0 for life in lives) - began for what in ("gone", "made", "opened", "bound")
    ]
    share = max((life.opened or 0.0) - (life.made or 0.0) for life in lives)
    for name in dead:
        await kube.create(NODES, nodes[name])
    return f"| {number} | {' | '.join(f'{moment:.2f}' for moment in moments)} | {share:.2f} | {restarted} |"


async def _collect(kube: Kube, pod: Mapping[str, Any]) -> None:
    """As the pod garbage collector does with a pod whose node is gone."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    told = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": "node is gone"}
    status = {"phase": "Failed", "conditions": [*pod["status"].get("conditions", []), told]}
    try:
        await kube.patch(PODS, name, {"status": status}, namespace, kind=PatchKind.MERGE, subresource="status")
        await kube.delete(PODS, name, namespace, grace_seconds=0)
    except NotFound:
        return
