"""What the dashboard's page costs in a headless Chromium without a graphics card, against the stand-in of its tests.

    python -m tests.bench page [--sizes 1000,15000] [--live]

*Size*: what a browser fetches once, as it is and compressed. *First picture*: from the last byte of the tree's answer until the
picture is painted. *Event*: from when the server sends the change of one host until it is on the screen. *Frames*: the time
between two frames while a wheel zooms in and out, in 120 steps, and the part of it that painting takes.

`--live` measures with `stowage dashboard` beside the embedded API server: the event is then
a node that is cordoned, from the request until it is on the screen. Playwright must be there: `make e2e-page` fetches it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import shutil
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from admission.cli.install import install
from admission.cli.ports import free_port
from api.fake.server import FakeServer, FakeSettings
from api.kube.client import Kube, PatchKind
from api.kube.resources import NODES
from api.kube.settings import ClientSettings
from tests.bench.coldstart import fill
from tests.page.browser import FLAGS, serving
from tests.page.cluster import MadeCluster
from tests.page.stand_in import STATIC, StandIn

PAINTED = "() => performance.getEntriesByName('stowage:paint').some((one) => one.detail.hosts > 0)"
FIRST = """() => {
  const answer = performance.getEntriesByType('resource').find((one) => one.name.includes('/topology/'));
  const paint = performance.getEntriesByName('stowage:paint').find((one) => one.detail.hosts > 0);
  return [answer.encodedBodySize, paint.startTime + paint.duration - answer.responseEnd];
}"""
ZOOM = """async () => {
  const canvas = document.querySelector('canvas');
  const box = canvas.getBoundingClientRect();
  performance.clearMeasures();
  const frames = [];
  let last = performance.now();
  for (let step = 0; step < 120; step += 1) {
    canvas.dispatchEvent(new WheelEvent('wheel', {
      deltaY: step < 80 ? -40 : 60, clientX: box.left + box.width * 0.4, clientY: box.top + box.height * 0.45,
      bubbles: true, cancelable: true,
    }));
    await new Promise((resolve) => requestAnimationFrame(resolve));
    frames.push(performance.now() - last);
    last = performance.now();
  }
  return [frames, performance.getEntriesByName('stowage:paint').map((one) => one.duration)];
}"""
SEEN = """(wanted) => new Promise((resolve) => {
  const look = () => {
    if (document.querySelector('.side')?.textContent.includes(wanted)) requestAnimationFrame(() => resolve(Date.now()));
    else requestAnimationFrame(look);
  };
  look();
})"""


def run(sizes: str = "1000,15000", *, live: bool = False) -> None:
    """Prints the figures. Raises SystemExit without a chromium."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("no chromium on this machine")
    files = [file for file in Path(STATIC).rglob("*") if file.is_file() and file.name != "built.json"]
    whole = sum(file.stat().st_size for file in files)
    packed = sum(len(gzip.compress(file.read_bytes())) for file in files)
    print(f"page: {whole / 1000:.0f} kB, compressed {packed / 1000:.0f} kB")
    print(
        "hosts  answer, MB  first picture, ms  event, ms: median, most  frame, ms: median, 95 %  paint, ms: median, 95 %"
    )
    asyncio.run(_all(chromium, [int(size) for size in sizes.split(",")], live=live))


async def _all(chromium: str, sizes: list[int], *, live: bool) -> None:
    from playwright.async_api import async_playwright

    async with async_playwright() as tool:
        browser: Any = await tool.chromium.launch(executable_path=chromium, args=list(FLAGS))
        for size in sizes:
            async with (_live if live else _stood_in)(size) as scene:
                page = await browser.new_page(viewport={"width": 1440, "height": 900})
                await _measure(page, size, scene)
                await page.close()
        await browser.close()


@dataclass(frozen=True, slots=True)
class Scene:
    """A page's address up to the route, the path of a rack, its hosts, and how one of them changes and what is then said."""

    url: str
    rack: str
    hosts: list[str]
    change: Callable[[int], Awaitable[str]]


@asynccontextmanager
async def _stood_in(size: int) -> AsyncIterator[Scene]:
    stand_in = StandIn(MadeCluster(size))
    cluster = stand_in.cluster

    async def change(host: int) -> str:
        cluster.state[host], cluster.why[str(host)] = 2, f"event {host}."
        stand_in.send("topology", cluster.change([host]))
        return f"event {host}."

    async with serving(stand_in) as url:
        yield Scene(f"{url}/#/topology", "b00/r000", cluster.names[:16], change)


@asynccontextmanager
async def _live(size: int) -> AsyncIterator[Scene]:
    load = {
        "blocks": size // 200,
        "racks": 10,
        "hosts": 20,
        "jobs": size // 12,
        "pods_per_job": 32,
        "foreign_pods": size,
    }
    with tempfile.TemporaryDirectory(prefix="stowage-bench-") as folder:
        async with FakeServer(FakeSettings()) as server:
            kubeconfig = server.kubeconfig(Path(folder) / "kubeconfig")
            async with await Kube.connect(ClientSettings(kubeconfig=kubeconfig)) as kube:
                await install(kube, "https://127.0.0.1:1")
                fill(server.store, load)
                names = [f"node-{number:05}" for number in range(20)]

                async def change(host: int) -> str:
                    cordoned = {"spec": {"unschedulable": True}}
                    await kube.patch(NODES, names[host], cordoned, kind=PatchKind.MERGE)
                    return "cordoned"

                async with _dashboard(kubeconfig) as url:
                    yield Scene(f"{url}#/topology", "block-000/rack-0000", names, change)


@asynccontextmanager
async def _dashboard(kubeconfig: Path) -> AsyncIterator[str]:
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
        yield url
    finally:
        process.terminate()
        await process.wait()


async def _measure(page: Any, size: int, scene: Scene) -> None:
    await page.goto(f"{scene.url}?at={scene.rack}&color=job")
    await page.wait_for_function(PAINTED, timeout=60_000)
    answer, first = await page.evaluate(FIRST)
    events = sorted([await _event(page, scene, host) for host in range(len(scene.hosts))])
    await page.get_by_role("button", name="All", exact=True).click()
    await page.wait_for_timeout(1000)
    frames, paints = (sorted(times) for times in await page.evaluate(ZOOM))
    print(
        f"{size:5}  {answer / 1e6:10.2f}  {first:17.0f}  {events[len(events) // 2]:17.0f}, {events[-1]:4.0f}"
        f"  {_at(frames, 0.5):17.1f}, {_at(frames, 0.95):4.1f}  {_at(paints, 0.5):17.1f}, {_at(paints, 0.95):4.1f}"
    )


async def _event(page: Any, scene: Scene, host: int) -> float:
    """Milliseconds until what changed on a host is seen."""
    at = f"#/topology?color=job&at={scene.rack}/{scene.hosts[host]}"
    await page.evaluate("(hash) => { location.hash = hash; }", at)
    await page.wait_for_timeout(300)
    began = time.time() * 1000
    said = await scene.change(host)
    return float(await page.evaluate(SEEN, said)) - began


def _at(ordered: list[float], share: float) -> float:
    return ordered[int((len(ordered) - 1) * share)]
