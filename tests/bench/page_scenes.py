"""What the page is measured beside: the stand-in of its tests, or `stowage dashboard` with the embedded or the real API server.

*stand-in*: a made cluster, and the server sends the change itself. *embedded*: loads as those of coldstart.py, many pods and
no controller. *real*: kwok nodes; the controller admitted a Job of 32 pods for every hundred hosts, and the real Job controller
and scheduler started them. In the last two the change is a node that is cordoned.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import aiohttp

from admission.cli.local_cluster.install import install
from admission.cli.local_cluster.ports import free_port
from api.embedded.server import EmbeddedServer, EmbeddedSettings
from api.kube.client import Kube, PatchKind
from api.kube.resources import JOBS, NODES
from api.kube.settings import ClientSettings
from api.names import REQUIRE_TOPOLOGY
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.nodes import node
from hack.controlplane.options import ClusterOptions
from tests.bench.coldstart import fill
from tests.bench.measure import servers
from tests.bench.page_arrivals import Arrivals, arriving
from tests.page.browser import serving
from tests.page.cluster import MadeCluster
from tests.page.stand_in import StandIn
from tests.scenarios.site import BLOCK, GPU, GROUP, RACK, Site, eventually
from tests.scenarios.stage import real

IN_RACK: Final = 20
RACKS: Final = 10
JOB: Final = 32
"""Pods of each Job on the real control plane."""
_CLUSTER: Final = ClusterOptions(
    gogc=400, disable_admission=("ServiceAccount", "TaintNodesByCondition"), node_monitor_period="5s", tmpfs=True
)


class Beside(StrEnum):
    """What answers the page."""

    STAND_IN = "stand-in"
    EMBEDDED = "embedded"
    REAL = "real"


@dataclass(frozen=True, slots=True)
class Scene:
    """A page's address up to the route, the path of a rack, its hosts, how one of them changes, and what is said of it then.

    `pids` are the processes whose memory is measured, by name; `arrivals` is when others than the page are told of a change.
    """

    url: str
    rack: str
    hosts: list[str]
    change: Callable[[int], Awaitable[None]]
    said: Callable[[int], str]
    pids: Mapping[str, int] = field(default_factory=dict)
    arrivals: Arrivals | None = None


@asynccontextmanager
async def _stood_in(size: int) -> AsyncIterator[Scene]:
    stand_in = StandIn(MadeCluster(size))
    cluster = stand_in.cluster

    async def change(host: int) -> None:
        cluster.state[host], cluster.why[str(host)] = 2, f"event {host}."
        stand_in.send("topology", cluster.change([host]))

    async with serving(stand_in) as url:
        yield Scene(f"{url}/#/topology", "b00/r000", cluster.names[:16], change, lambda host: f"event {host}.")


@asynccontextmanager
async def _embedded(size: int) -> AsyncIterator[Scene]:
    load = {
        "blocks": size // (IN_RACK * RACKS),
        "racks": RACKS,
        "hosts": IN_RACK,
        "jobs": size // 12,
        "pods_per_job": JOB,
        "foreign_pods": size,
    }
    with tempfile.TemporaryDirectory(prefix="stowage-bench-") as folder:
        async with EmbeddedServer(EmbeddedSettings()) as server:
            kubeconfig = server.kubeconfig(Path(folder) / "kubeconfig")
            async with await Kube.connect(ClientSettings(kubeconfig=kubeconfig)) as kube:
                await install(kube, "https://127.0.0.1:1")
                fill(server.store, load)
                async with _dashboard(kubeconfig) as (url, process), arriving(kube, url) as arrivals:
                    yield _cordoning(kube, url, {"dashboard": process.pid}, arrivals)


@asynccontextmanager
async def _real(size: int) -> AsyncIterator[Scene]:
    with (
        tempfile.TemporaryDirectory(prefix="stowage-bench-") as folder,
        ControlPlane(Path(folder) / "cluster", _CLUSTER) as cluster,
    ):
        await asyncio.to_thread(cluster.add_nodes, (_host(number) for number in range(size)))
        async with real(cluster, Path(folder)) as stage:
            await _jobs(Site(stage.kube, "bench"), cluster, size // 100)
            async with _dashboard(cluster.kubeconfig) as (url, process), arriving(stage.kube, url) as arrivals:
                yield _cordoning(stage.kube, url, {"dashboard": process.pid, **servers(cluster)}, arrivals)


def _host(number: int) -> dict[str, Any]:
    rack = number // IN_RACK
    labels = {GROUP: "bench", BLOCK: f"block-{rack // RACKS:03}", RACK: f"rack-{rack:04}"}
    return node(f"node-{number:05}", labels, {GPU: "4"})


async def _jobs(site: Site, cluster: ControlPlane, count: int) -> None:
    """Opens the site's queue and waits until this many Jobs run."""
    await site.open({}, quota=count * JOB)
    jobs = [site.job(f"job-{number:03}", JOB, {REQUIRE_TOPOLOGY: RACK}) for number in range(count)]
    await asyncio.to_thread(cluster.api.create_many, f"/apis/batch/v1/namespaces/{site.name}/jobs", jobs)

    async def run() -> bool:
        listed = (await site.kube.list(JOBS, site.name)).items
        return all(job.get("status", {}).get("ready") == JOB for job in listed)

    await eventually(f"{count} Jobs run", run, 900)


def _cordoning(kube: Kube, url: str, pids: Mapping[str, int], arrivals: Arrivals) -> Scene:
    names = [f"node-{number:05}" for number in range(IN_RACK)]

    async def change(host: int) -> None:
        async def cordon() -> None:
            await kube.patch(NODES, names[host], {"spec": {"unschedulable": True}}, kind=PatchKind.MERGE)

        watched = f'"name":"{names[host]}"'.encode(), b'"unschedulable":true'
        await arrivals.time(cordon, watched=watched, streamed=(f'"i":{host},'.encode(), b"cordoned"))

    return Scene(f"{url}#/topology", "block-000/rack-0000", names, change, lambda _: "cordoned", pids, arrivals)


@asynccontextmanager
async def _dashboard(kubeconfig: Path) -> AsyncIterator[tuple[str, Process]]:
    """Runs `stowage dashboard` until the block ends. Yields the page's address once it has read the cluster."""
    port = free_port()
    command = [sys.executable, "-m", "admission.cli", "dashboard", "--port", str(port), "--no-open"]
    process = await asyncio.create_subprocess_exec(*command, "--kubeconfig", str(kubeconfig), stdout=DEVNULL)
    url = f"http://127.0.0.1:{port}/"
    try:
        async with aiohttp.ClientSession() as client, asyncio.timeout(300):
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    async with client.get(f"{url}api/v1/topology") as answer:
                        if answer.status == 200:
                            break
                await asyncio.sleep(0.5)
        yield url, process
    finally:
        process.terminate()
        await process.wait()


SCENES: Final[Mapping[Beside, Callable[[int], AbstractAsyncContextManager[Scene]]]] = {
    Beside.STAND_IN: _stood_in,
    Beside.EMBEDDED: _embedded,
    Beside.REAL: _real,
}
