"""Gangs of plain pods end to end on the real control plane, beside the same pods without gates and without us.

    python -m tests.bench gangs [LOAD ...] [--dialect labels|queue] [--share 0.1] [--no-floor] [--protocol] [--top N]

Each load of loads.json gets a control plane of its own with 1,000 kwok nodes, once with our three processes beside it and
once without them and their webhooks (the floor); with `--protocol` once more with the writes of the queueing and nothing else
(gangstamp.py). One client posts all pods, gang by gang, as fast as they are taken, and watches them: its clock tells when each
was seen first (created), without gates (ungated) and with a node (bound). Our share of a pod's time is what lies between
created and ungated: as the API server wrote it down (recorded.py), and as the client saw it, to whom a busy server tells its
changes late. `since whole` counts from when the client saw the last pod of its gang, before which no gang starts.
`share` makes the load smaller, `top` prints that many lines of a profile of the controller.
Prints the processors' seconds and our API requests for each run, and at last one table.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from admission.cli.local_cluster.processes import ChildProcess
from api import names
from api.kube.client import Kube
from api.kube.informers.informer import Informer
from api.kube.informers.store import Change
from api.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, NAMESPACES, PODS, RESOURCE_FLAVORS, Resource
from api.kube.settings import ClientSettings
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.nodes import node
from hack.controlplane.options import ClusterOptions
from tests.bench.loads import loads
from tests.bench.measure import costs, page_of, pid_of, servers
from tests.bench.perfload import figures
from tests.bench.perfload.run import print_profile, profiled
from tests.bench.protocol import BenchMode, stamping
from tests.bench.recorded import waits
from tests.scenarios.stage import real

LOADS = loads("gangs")
NAMESPACE = "bench"
NODES = 1000
_AT_ONCE = 64
_LIMIT = 1800.0
_COLUMNS = (
    *("load", "created", "ungated", "bound", "floor created", "bound", "ratio", "share p50", "p95", "max"),
    *("share seen p50", "p95", "max", "since whole p50", "p95", "max", "CPU s: ours", "API server", "its floor"),
)
_CLUSTER = ClusterOptions(
    gogc=400, disable_admission=("ServiceAccount", "TaintNodesByCondition"), node_monitor_period="5s", tmpfs=True
)


class Dialect(StrEnum):
    """How the pods of a queue name their gang: by the labels of coscheduling, or as the queue's pod group.

    Both without a time limit: within the ten seconds that a gang of labels alone has nobody binds thousands of pods.
    """

    LABELS = "labels"
    QUEUE = "queue"


@dataclass(frozen=True, slots=True)
class Run:
    """See the module."""

    dialect: Dialect = Dialect.LABELS
    share: float = 1.0
    floor: bool = True
    protocol: bool = False
    top: int = 0


@dataclass(slots=True)
class Life:
    """When a pod was seen so far, in seconds on the client's clock; None for not yet."""

    gang: str
    created: float | None = None
    ungated: float | None = None
    bound: float | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """In seconds, CPU too: the moments of the last pod; percentiles (50, 95, 100) of our share as the server wrote it down,
    as the client saw it, and since whole."""

    created: float
    ungated: float
    bound: float
    share: tuple[float, float, float]
    seen: tuple[float, float, float]
    whole: tuple[float, float, float]
    ours: float
    server: float


def run(chosen_loads: Sequence[str], chosen: Run) -> None:
    """Runs the loads one after the other and prints what they cost."""
    rows = []
    for name in chosen_loads or list(LOADS):
        count, size = _scaled(LOADS[name]["gangs"], LOADS[name]["pods"], chosen.share)
        found = _on_a_cluster(count, size, chosen, BenchMode.STOWAGE)
        alone = _on_a_cluster(count, size, chosen, BenchMode.PROTOCOL) if chosen.protocol else None
        beside = _on_a_cluster(count, size, chosen, BenchMode.FLOOR) if chosen.floor else None
        rows.append((f"{count}x{size}", found, beside))
        if chosen.protocol:
            rows.append((f"{count}x{size}{BenchMode.PROTOCOL.value}", alone, beside))
    print(f"\ngangs by {chosen.dialect.value}, {NODES} nodes; seconds until the last pod was")
    print(f"| {' | '.join(_COLUMNS)} |")
    print("|---" * len(_COLUMNS) + "|")
    for name, found, beside in rows:
        print(_row(name, found, beside))


def _scaled(gangs: int, pods: int, share: float) -> tuple[int, int]:
    """Fewer gangs, or where there are too few of them fewer pods of each."""
    return (round(gangs * share), pods) if gangs * share >= 1 else (gangs, max(1, round(pods * share)))


def _row(name: str, measured: Measured | None, beside: Measured | None) -> str:
    if measured is None:
        return f"| {name} | not finished in {_LIMIT:g} s |"
    floor = (
        ("", "", "")
        if beside is None
        else (f"{beside.created:.1f}", f"{beside.bound:.1f}", f"{measured.bound / beside.bound:.2f}")
    )
    cells = [
        f"{measured.created:.1f}",
        f"{measured.ungated:.1f}",
        f"{measured.bound:.1f}",
        *floor,
        *(f"{s:.2f}" for s in (*measured.share, *measured.seen, *measured.whole)),
    ]
    cells += [f"{measured.ours:.1f}", f"{measured.server:.1f}", f"{beside.server:.1f}" if beside else ""]
    return f"| {name} | {' | '.join(cells)} |"


def _on_a_cluster(gangs: int, pods: int, chosen: Run, mode: BenchMode) -> Measured | None:
    with tempfile.TemporaryDirectory(prefix="stowage-bench-") as name:
        folder = Path(name)
        with ControlPlane(folder / "cluster", _CLUSTER) as cluster:
            cluster.add_nodes(node(f"n{i:04}") for i in range(NODES))
            load = _Load(gangs, pods, chosen.dialect, mode)
            found = uvloop.run(_measure(load, cluster, folder, chosen.top))
        print_profile(folder, chosen.top)
    return found


@dataclass(frozen=True, slots=True)
class _Load:
    gangs: int
    pods: int
    dialect: Dialect
    mode: BenchMode

    @property
    def label(self) -> str:
        return f"{self.gangs}x{self.pods}{self.mode.value}"

    def manifests(self) -> Iterator[dict[str, Any]]:
        """The pods, gang by gang."""
        container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}
        spec: dict[str, Any] = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
        if self.mode is BenchMode.PROTOCOL:
            spec["schedulingGates"] = [{"name": names.ADMISSION_GATE}]
        for gang in range(self.gangs):
            marks = self._marks(f"g{gang:05}")
            for index in range(self.pods):
                meta = {"name": f"g{gang:05}-{index:05}", "namespace": NAMESPACE, **marks}
                yield {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}

    def _marks(self, gang: str) -> dict[str, Any]:
        if self.mode is BenchMode.FLOOR:
            return {}
        queue = {names.QUEUE_NAME_LABEL: "lq"}
        if self.dialect is Dialect.LABELS and self.mode is BenchMode.STOWAGE:
            return {"labels": {**queue, names.GANG_NAME: gang, names.GANG_MINIMUM: str(self.pods)}}
        labels = {**queue, names.POD_GROUP_NAME: gang}
        marks: dict[str, Any] = {"labels": labels, "annotations": {names.POD_GROUP_TOTAL_COUNT: str(self.pods)}}
        if self.mode is BenchMode.PROTOCOL:
            labels[names.MANAGED_LABEL] = "true"
            marks["finalizers"] = [names.MANAGED_FINALIZER]
        return marks


async def _measure(load: _Load, cluster: ControlPlane, folder: Path, top: int) -> Measured | None:
    async with await Kube.connect(ClientSettings(kubeconfig=cluster.kubeconfig, user_agent="bench")) as kube:
        await kube.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        if load.mode is BenchMode.FLOOR:
            return await _drive(load, kube, cluster, {})
        if load.mode is BenchMode.PROTOCOL:
            async with stamping(cluster, "tests.bench.gangstamp") as pid:
                return await _drive(load, kube, cluster, {"stamp": pid})
        async with real(cluster, folder) as stage:
            if top:
                await profiled(stage.processes)
            await _queues(kube)
            children = stage.processes.children.values()
            found = await _drive(load, kube, cluster, {child.name: pid_of(child) for child in children})
            for child in children:
                if found is None:
                    print(child.tail())
                else:
                    await _requests(child, load.gangs * load.pods)
            return found


async def _queues(kube: Kube) -> None:
    """A queue with room for all, for those that name it."""
    resources = [{"name": "cpu", "nominalQuota": 32 * NODES}]
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "plain", "resources": resources}]}]
    made: tuple[tuple[Resource, dict[str, Any], dict[str, Any]], ...] = (
        (RESOURCE_FLAVORS, {"name": "plain"}, {}),
        (CLUSTER_QUEUES, {"name": "cq"}, {"namespaceSelector": {}, "resourceGroups": groups}),
        (LOCAL_QUEUES, {"name": "lq", "namespace": NAMESPACE}, {"clusterQueue": "cq"}),
    )
    for kind, meta, spec in made:
        await kube.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec})


# ---- one run


async def _drive(load: _Load, kube: Kube, cluster: ControlPlane, ours: Mapping[str, int]) -> Measured | None:
    """`ours`: the pids of the processes beside the cluster's own."""
    every = {**servers(cluster), **ours, "client": os.getpid()}
    before, busy, begun = costs(every), figures.busy_seconds(), time.monotonic()
    client = _Client(kube, load.gangs * load.pods)
    try:
        await client.run(load.manifests())
    except TimeoutError:
        print(f"{load.label}: not finished in {_LIMIT:g} s: {client.missing()}")
        return None
    wall, after, busy = time.monotonic() - begun, costs(every), figures.busy_seconds() - busy
    lives = list(client.lives.values())
    whole: dict[str, float] = {}
    for life in lives:
        whole[life.gang] = max(whole.get(life.gang, 0.0), life.created or 0.0)
    spent = {name: after[name].cpu - before[name].cpu for name in every}
    found = Measured(
        created=max(life.created or 0.0 for life in lives),
        ungated=max(life.ungated or 0.0 for life in lives),
        bound=max(life.bound or 0.0 for life in lives),
        share=_percentiles(await waits(kube, NAMESPACE)),
        seen=_percentiles((life.ungated or 0.0) - (life.created or 0.0) for life in lives),
        whole=_percentiles((life.ungated or 0.0) - whole[life.gang] for life in lives),
        ours=sum(spent[name] for name in ours),
        server=spent["apiserver"],
    )
    print(f"SUMMARY gangs {load.label}: {found}")
    figures.costs(before, after, wall, busy, os.cpu_count() or 1)
    return found


def _percentiles(seconds: Iterable[float]) -> tuple[float, float, float]:
    """50, 95, 100; none is below nothing: a pod without a gate does not wait for its gang."""
    found = sorted(max(some, 0.0) for some in seconds)
    return found[len(found) // 2], found[len(found) * 95 // 100], found[-1]


async def _requests(child: ChildProcess, pods: int) -> None:
    page = figures.Scrape.of(await page_of(child))
    counts = page.by("stowage_api_requests_total", "verb", "resource", "code")
    told = ", ".join(f"{what} {count / pods:.3f}" for what, count in counts.most_common(8))
    print(f"requests per pod, {child.name}: all {counts.total() / pods:.3f}: {told}")


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    scheduling_gates: tuple[msgspec.Raw, ...] = ()


class _Pod(msgspec.Struct):
    """As much of a pod as the client reads."""

    metadata: _Meta
    spec: _Spec


@dataclass
class _Client:
    """Posts the pods and watches them until `count` of them are bound."""

    kube: Kube
    count: int
    lives: dict[str, Life] = field(default_factory=dict)
    _began: float = 0.0
    _bound: int = 0
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, manifests: Iterator[dict[str, Any]]) -> None:
        """Raises TimeoutError."""
        informer: Informer[_Pod] = Informer(self.kube, PODS, _Pod, namespace=NAMESPACE)
        informer.add_handler(self._changed)
        watching = asyncio.create_task(informer.run())
        try:
            await informer.synced(60.0)
            waiting = deque(manifests)
            self._began = time.monotonic()
            async with asyncio.timeout(_LIMIT):
                async with asyncio.TaskGroup() as group:
                    for _ in range(_AT_ONCE):
                        group.create_task(self._create(waiting))
                await self._ended.wait()
        finally:
            watching.cancel()

    async def _create(self, waiting: deque[dict[str, Any]]) -> None:
        while waiting:
            await self.kube.create(PODS, waiting.popleft())

    def _changed(self, change: Change[_Pod]) -> None:
        pod, now = change.object, time.monotonic() - self._began
        name = pod.metadata.name
        life = self.lives.setdefault(name, Life(gang=name.partition("-")[0]))
        if life.created is None:
            life.created = now
        if life.ungated is None and not pod.spec.scheduling_gates:
            life.ungated = now
        if life.bound is None and pod.spec.node_name:
            life.bound = now
            self._bound += 1
            if self._bound == self.count:
                self._ended.set()

    def missing(self) -> str:
        """How far they came, for the message of a run that did not end."""
        lives = list(self.lives.values())
        ungated = sum(life.ungated is not None for life in lives)
        return f"{len(lives)} of {self.count} pods created, {ungated} ungated, {self._bound} bound"
