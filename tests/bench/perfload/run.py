"""Starts etcd, kube-apiserver and the controller (or the floor's process), drives the load through them, prints the figures."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pstats
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import uvloop

from admission.cli.local_cluster.install import CONFIG
from admission.cli.local_cluster.ports import free_port
from admission.cli.local_cluster.processes import ChildProcess, StowageProcesses
from api import names
from api.kube.client import Kube
from api.kube.resources import ALL, CLUSTER_QUEUES
from api.kube.settings import ClientSettings
from hack.controlplane.api import Api, eventually
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.options import ClusterOptions
from tests.bench.measure import costs, page_of, pid_of, servers
from tests.bench.perfload import figures, objects
from tests.bench.perfload.driver import Driver
from tests.bench.simulate import LOAD

_STOWAGE = "stowage-system"
_CLUSTER = ClusterOptions(
    kwok=False,
    scheduler=False,
    controller_manager=False,
    tmpfs=True,
    gogc=400,
    disable_admission=("ServiceAccount", "TaintNodesByCondition"),
)
_RESOURCES = {resource.kind: resource for resource in ALL}


@dataclass(frozen=True, slots=True)
class Run:
    """`fraction` of the load; `floor`: nobody decides; `top`: that many lines of a profile of the controller."""

    fraction: float = 1.0
    topology: bool = True
    floor: bool = False
    top: int = 0
    limit: float = 1800.0

    def __str__(self) -> str:
        who, where = "floor" if self.floor else "ours", "with" if self.topology else "without"
        return f"{who}, {where} topology, {self.fraction:.0%} of the load"


class Profiled(ChildProcess):
    """The controller under a profile."""

    async def start(self) -> None:
        """Starts it; its profile is in `<name>.profile` when it has ended."""
        environment = {**os.environ, **self.environment, "STOWAGE_HEALTH_PORT": str(self.health_port)}
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.bench.perfload.profiled", str(self.log.with_suffix(".profile"))),
                env=environment,
                stdout=log,
                stderr=log,
            )


async def profiled(processes: StowageProcesses) -> None:
    """Starts the controller anew, under a profile."""
    plain = processes.children["controller"]
    await plain.stop()
    child = Profiled(plain.name, plain.environment, plain.log, plain.health_port)
    processes.children["controller"] = child
    await processes.restart("controller")


def run(chosen: Run) -> None:
    """Prints all figures of one run."""
    with tempfile.TemporaryDirectory(prefix="stowage-bench-") as name:
        folder = Path(name)
        with ControlPlane(folder / "cluster", _CLUSTER) as cluster:
            uvloop.run(_measure(chosen, cluster, folder))
        print_profile(folder, chosen.top)


def print_profile(folder: Path, top: int) -> None:
    """That many lines of the controller's profile, if one was made in the folder."""
    profile = folder / "controller.profile"
    if profile.exists():
        stats = pstats.Stats(str(profile))
        stats.sort_stats("tottime").print_stats(top)
        stats.sort_stats("cumtime").print_stats(r"admission/|api/", top)


async def _measure(chosen: Run, cluster: ControlPlane, folder: Path) -> None:
    for part in ("namespace", "crd", "rbac"):
        await asyncio.to_thread(cluster.kubectl, "apply", "--server-side", "-k", str(CONFIG / part))
    async with await Kube.connect(ClientSettings(kubeconfig=cluster.kubeconfig, user_agent="mimic")) as kube:
        await asyncio.to_thread(cluster.add_nodes, objects.nodes(LOAD), wait=False)
        for obj in objects.context(LOAD, topology=chosen.topology):
            await kube.create(_RESOURCES[obj["kind"]], obj)
        async with _decider(chosen, cluster, folder) as child:
            if not chosen.floor:
                await asyncio.to_thread(eventually, "every queue active", lambda: _active(cluster.api), 60.0)
            await _drive(chosen, kube, cluster, child)


async def _drive(chosen: Run, kube: Kube, cluster: ControlPlane, child: ChildProcess) -> None:
    arrivals, driver = objects.arrivals(LOAD, chosen.fraction, topology=chosen.topology), Driver(kube, {})
    processes = {**servers(cluster), child.name: pid_of(child), "mimic": os.getpid()}
    before, busy, begun = costs(processes), figures.busy_seconds(), time.monotonic()
    try:
        await driver.run(arrivals, chosen.limit)
    except TimeoutError:
        print(f"not finished in time: {figures.slowest(driver.lives.values())}\n{child.tail()}")
        return
    wall, after, busy = time.monotonic() - begun, costs(processes), figures.busy_seconds() - busy
    print(
        f"SUMMARY perfload, {chosen}: {len(arrivals)} workloads in {wall:.1f} s, {len(arrivals) / wall:.1f} a second; "
        f"all posted after {driver.posted:.1f} s"
    )
    figures.costs(before, after, wall, busy, os.cpu_count() or 1)
    figures.phases(driver.lives.values())
    if not chosen.floor:
        page = figures.Scrape.of(await page_of(child))
        figures.requests(page, len(arrivals))
        figures.decisions(page, len(arrivals))


@contextlib.asynccontextmanager
async def _decider(chosen: Run, cluster: ControlPlane, folder: Path) -> AsyncIterator[ChildProcess]:
    account = await asyncio.to_thread(cluster.service_account, _STOWAGE, "stowage-controller")
    if chosen.floor:
        child = ChildProcess("stamp", {}, folder / "stamp.log", free_port())
        with child.log.open("ab") as log:
            child.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.bench.perfload.stamp", str(account), stdout=log, stderr=subprocess.STDOUT
            )
    else:
        environment = {"STOWAGE_KUBECONFIG": str(account), "STOWAGE_HEALTH_HOST": "127.0.0.1"}
        kind = Profiled if chosen.top else ChildProcess
        child = kind("controller", environment, folder / "controller.log", free_port())
        await child.start()
        await child.ready(120.0)
    try:
        yield child
    finally:
        await child.stop()
        log_tail = [line for line in child.tail().splitlines() if '"level": "ERROR"' in line or "Traceback" in line]
        print(*log_tail[:5], sep="\n")


def _active(api: Api) -> bool:
    """Whether somebody leads and has looked at every queue."""
    queues = api.get(CLUSTER_QUEUES.path())["items"]
    return all(
        any(c["type"] == names.ACTIVE and c["status"] == "True" for c in queue.get("status", {}).get("conditions", ()))
        for queue in queues
    )
