"""Which work of the controller holds its event loop, beside a large cluster: the longest step of each kind of work.

    python -m tests.bench holds [--share 1.0]

The embedded API server is loaded with 15,000 nodes, 65,000 running jobs of one pod and 10,000 waiting ones, times `--share`,
and answers from this process. The controller is started for real; then the cluster changes as named, one change after the
other, each once the controller is at rest. Prints, for each, the controller's CPU seconds, its longest steps and garbage
collections in CPU time of the loop's thread (api/process/steps.py), to which other processes add nothing.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import uvloop
import yaml

from admission.cli.local_cluster.embedded import NAMESPACE as STOWAGE
from admission.cli.local_cluster.install import install
from admission.cli.local_cluster.processes import ChildProcess, StowageProcesses
from api.embedded.server import EmbeddedServer, EmbeddedSettings
from api.embedded.store import ObjectStorage
from api.kube.client import Kube, PatchKind
from api.kube.resources import (
    CLUSTER_QUEUES,
    CONFIG_MAPS,
    JOB_KINDS,
    JOBS,
    LOCAL_QUEUES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    VALIDATING_WEBHOOKS,
)
from api.kube.settings import ClientSettings
from api.names import QUEUE_NAME_LABEL, SAKKARA_TOPOLOGY
from api.sakkara import TOPOLOGY_NAMESPACE
from tests.bench import coldstart
from tests.bench.measure import cost, page_of, pid_of

_TEAM: Final = coldstart.NAMESPACE
_QUEUE: Final = "full"
"""A ClusterQueue without quota, in which all wait."""
_FAILED: Final = 1000
_IDLE: Final = 0.15
"""CPU seconds a second below which the controller is at rest, and so many times in a row."""
_CALM: Final = 2
_PATIENCE: Final = 90.0
_AUDIT: Final = 65.0
_ENVIRONMENT: Final = {"STOWAGE_CONTROLLER__SNAPSHOTS": "true"}


@dataclass
class _Bench:
    """The cluster and the controller beside it."""

    kube: Kube
    store: ObjectStorage
    controller: ChildProcess
    nodes: int

    async def rest(self) -> None:
        """Waits until the controller is at rest."""
        calm, until, spent = 0, time.monotonic() + _PATIENCE, 0.0
        while calm < _CALM and time.monotonic() < until:
            await asyncio.sleep(1.0)
            spent, before = cost(pid_of(self.controller)).cpu, spent
            calm = calm + 1 if spent - before < _IDLE else 0

    async def measure(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Does the work, waits until the controller is at rest, and prints what it cost."""
        began, before, read = cost(pid_of(self.controller)).cpu, await _steps(self.controller), self._logged()
        await work()
        await self.rest()
        self._tell(name, cost(pid_of(self.controller)).cpu - began, before, await _steps(self.controller), read)

    def _tell(self, name: str, cpu: float, before: Mapping[str, int], after: Mapping[str, int], read: int) -> None:
        grown = {bound: count - before.get(bound, 0) for bound, count in after.items() if count > before.get(bound, 0)}
        long = [json.loads(line) for line in self.controller.log.read_text()[read:].splitlines() if '"step"' in line]
        worst = sorted(((line["cpu_seconds"], line["step"]) for line in long), reverse=True)
        said = "; ".join(f"{seconds * 1000:.0f} ms {step}" for seconds, step in worst[:4])
        print(f"{name:<40} {cpu:6.1f} CPU s  {len(worst):3d} steps above 50 ms  {said}  {grown}", flush=True)

    def _logged(self) -> int:
        return len(self.controller.log.read_text())


async def _steps(controller: ChildProcess) -> dict[str, int]:
    """How many steps and collections there were of more than a bound, by name."""
    counts: dict[str, dict[str, int]] = {}
    generation = re.compile(r'generation="(.)"')
    for line in (await page_of(controller)).splitlines():
        if line.startswith(("stowage_loop_step_seconds_bucket", "stowage_garbage_collection_seconds_bucket")):
            of = generation.search(line)
            name = f"gc{of[1]}" if of else "step"
            bound = line.partition('le="')[2].partition('"')[0]
            counts.setdefault(name, {})[bound] = int(float(line.split()[-1]))
    return {
        f"{name}>{bound}": by["+Inf"] - count
        for name, by in counts.items()
        for bound, count in by.items()
        if bound in ("0.025", "0.05", "0.1", "0.25", "0.5", "1.0")
    }


def run(share: float) -> None:
    """Prints one line for each kind of work."""
    with tempfile.TemporaryDirectory(prefix="stowage-bench-") as folder:
        uvloop.run(_measure(Path(folder), share))


async def _measure(folder: Path, share: float) -> None:
    load = {"blocks": 15, "racks": round(50 * share), "hosts": 20, "jobs": round(65_000 * share)}
    load |= {"pods_per_job": 1, "foreign_pods": round(10_000 * share)}
    async with _started(folder, load, round(10_000 * share)) as bench:
        for name, work in _works(bench).items():
            await bench.measure(name, work)


@asynccontextmanager
async def _started(folder: Path, load: dict[str, Any], waiting: int) -> AsyncIterator[_Bench]:
    tokens = {"controller": f"system:serviceaccount:{STOWAGE}:stowage-controller"}
    async with EmbeddedServer(EmbeddedSettings(tokens=tokens)) as server:
        kubeconfig = server.kubeconfig(folder / "kubeconfig")
        async with await Kube.connect(ClientSettings(kubeconfig=kubeconfig)) as kube:
            await install(kube, "https://127.0.0.1:1")
            for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
                for hooks in (await kube.list(resource)).items:
                    await kube.delete(resource, hooks["metadata"]["name"])
            coldstart.fill(server.store, load)
            _fill_waiting(server.store, waiting)
            own = server.kubeconfig(folder / "controller.kubeconfig", token="controller")
            async with StowageProcesses({"controller": own}, folder, _ENVIRONMENT) as processes:
                nodes = load["blocks"] * load["racks"] * load["hosts"]
                bench = _Bench(kube, server.store, processes.children["controller"], nodes)
                await bench.rest()
                spent = cost(pid_of(bench.controller))
                print(f"{nodes} nodes, {load['jobs']} jobs, {waiting} waiting: {spent.resident:.0f} MiB", flush=True)
                bench._tell("start", spent.cpu, {}, await _steps(bench.controller), 0)
                yield bench


def _fill_waiting(store: ObjectStorage, waiting: int) -> None:
    """Puts jobs without pods into a queue without quota."""
    group = {
        "coveredResources": ["cpu", "memory", coldstart.GPU],
        "flavors": [{"name": "gpu", "resources": _quotas("0")}],
    }
    store.seed(
        CLUSTER_QUEUES, [{"metadata": {"name": _QUEUE}, "spec": {"namespaceSelector": {}, "resourceGroups": [group]}}]
    )
    queue = {"metadata": {"name": _QUEUE, "namespace": _TEAM}, "spec": {"clusterQueue": _QUEUE}}
    store.seed(LOCAL_QUEUES, [queue])
    store.seed(JOBS, (_job(f"waiting-{number:05}") for number in range(waiting)))


def _quotas(amount: str) -> list[dict[str, str]]:
    return [{"name": name, "nominalQuota": amount} for name in ("cpu", "memory", coldstart.GPU)]


def _job(name: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "pause",
        "resources": {"requests": {"cpu": "1", "memory": "1Gi", coldstart.GPU: "1"}},
    }
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "metadata": {"name": name, "namespace": _TEAM, "labels": {QUEUE_NAME_LABEL: _QUEUE}},
        "spec": {"parallelism": 1, "completions": 1, "suspend": True, "template": template},
    }


def _works(bench: _Bench) -> dict[str, Callable[[], Awaitable[object]]]:
    """The kinds of work, in the order in which they are done."""
    kube, job_kind = bench.kube, yaml.safe_load(Path("config/samples/job-kind.yaml").read_text())

    async def term() -> None:
        job = _job("with-a-term")
        near = {"topologyKey": coldstart.LEVELS[1], "labelSelector": {"matchLabels": {"app": "trainer"}}}
        terms = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
        job["spec"]["template"]["spec"]["affinity"] = terms
        job["metadata"]["labels"] = {QUEUE_NAME_LABEL: "lq"}
        await kube.create(JOBS, {"apiVersion": "batch/v1", "kind": "Job", **job})

    async def compacted() -> None:
        bench.store.compact()
        bench.store.hang_up()

    def change(resource: Any, name: str, body: Any) -> Callable[[], Awaitable[object]]:
        return lambda: kube.patch(resource, name, body, kind=PatchKind.MERGE)

    async def fail() -> None:
        for number in range(min(_FAILED, bench.nodes // 4)):
            node = bench.store.get(NODES, f"node-{number:05}")
            node = json.loads(json.dumps(node))
            node["spec"]["taints"] = [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]
            conditions = node["status"]["conditions"]
            node["status"]["conditions"] = [
                {**one, "status": "False"} if one["type"] == "Ready" else one for one in conditions
            ]
            bench.store.update(NODES, node)
            bench.store.update(
                NODES, {**bench.store.get(NODES, f"node-{number:05}"), "status": node["status"]}, subresource="status"
            )

    async def tree() -> None:
        """A ConfigMap's tree of all nodes gives each of them the labels of its levels."""
        racks: dict[str, dict[str, dict[str, str]]] = {}
        for number in range(bench.nodes):
            racks.setdefault(f"rack-{number // 20}", {})[f"node-{number:05}"] = {}
        metadata = {"name": "tree", "namespace": TOPOLOGY_NAMESPACE, "labels": {SAKKARA_TOPOLOGY: "true"}}
        await kube.create(CONFIG_MAPS, {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
            "data": {"level-names": '["rack", "node"]', "tree": json.dumps(racks)},
        })  # fmt: skip

    async def kind() -> None:
        """A JobKind: each Workload may belong to a job of it."""
        await kube.create(JOB_KINDS, job_kind)

    async def page(name: str) -> None:
        url = f"http://127.0.0.1:{bench.controller.health_port}/{name}"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            await answer.read()

    groups = [
        {"coveredResources": ["cpu", "memory", coldstart.GPU], "flavors": [{"name": "gpu", "resources": _quotas("1m")}]}
    ]
    groups[0]["flavors"][0]["resources"][0]["nominalQuota"] = "1"  # type: ignore[index]
    levels = [{"nodeLabel": level} for level in (coldstart.LEVELS[0], coldstart.LEVELS[2])]
    return {
        "at rest, with an audit": lambda: asyncio.sleep(_AUDIT),
        "three scrapes": lambda: _times(3, lambda: page("metrics")),
        "a snapshot": lambda: page("snapshot"),
        "the first pod with a term": term,
        "a ClusterQueue with all that wait": change(CLUSTER_QUEUES, _QUEUE, {"spec": {"resourceGroups": groups}}),
        "a namespace's labels": change(NAMESPACES, _TEAM, {"metadata": {"labels": {"tier": "one"}}}),
        "1,000 nodes fail": fail,
        "lists again after 410": compacted,
        "a ResourceFlavor": change(
            RESOURCE_FLAVORS, "gpu", {"spec": {"tolerations": [{"key": "pool", "operator": "Exists"}]}}
        ),
        "a tree of all nodes": tree,
        "a JobKind": kind,
        "a Topology": change(TOPOLOGIES, "dc", {"spec": {"levels": levels}}),
    }


async def _times(count: int, work: Callable[[], Awaitable[object]]) -> None:
    for _ in range(count):
        await work()
