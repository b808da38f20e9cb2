"""What the dashboard's page costs in a headless Chromium without a graphics card, against the stand-in of its tests.

    python -m tests.bench page [--sizes 1000,15000]

*Size*: what a browser fetches once, as it is and compressed. *First picture*: from the last byte of the tree's answer until the
picture is painted. *Event*: from when the server sends the change of one host until it is on the screen. *Frames*: the time
between two frames while a wheel zooms in and out, in 120 steps, and the part of it that painting takes.

Playwright must be there: `make e2e-page` fetches it.
"""

from __future__ import annotations

import asyncio
import gzip
import shutil
import time
from pathlib import Path
from typing import Any

from tests.page.browser import FLAGS, serving
from tests.page.cluster import MadeCluster
from tests.page.stand_in import STATIC, StandIn

EVENTS = 20
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


def run(sizes: str = "1000,15000") -> None:
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
    asyncio.run(_all(chromium, [int(size) for size in sizes.split(",")]))


async def _all(chromium: str, sizes: list[int]) -> None:
    from playwright.async_api import async_playwright

    async with async_playwright() as tool:
        browser: Any = await tool.chromium.launch(executable_path=chromium, args=list(FLAGS))
        for size in sizes:
            stand_in = StandIn(MadeCluster(size))
            async with serving(stand_in) as url:
                page = await browser.new_page(viewport={"width": 1440, "height": 900})
                await page.goto(f"{url}/#/topology?at=b00/r000&color=job")
                await page.wait_for_function(PAINTED)
                answer, first = await page.evaluate(FIRST)
                events = sorted([await _event(page, stand_in, turn) for turn in range(EVENTS)])
                await page.get_by_role("button", name="All", exact=True).click()
                await page.wait_for_timeout(1000)
                frames, paints = (sorted(times) for times in await page.evaluate(ZOOM))
                print(
                    f"{size:5}  {answer / 1e6:10.2f}  {first:17.0f}  {events[len(events) // 2]:17.0f}, {events[-1]:4.0f}"
                    f"  {_at(frames, 0.5):17.1f}, {_at(frames, 0.95):4.1f}  {_at(paints, 0.5):17.1f}, {_at(paints, 0.95):4.1f}"
                )
                await page.close()
        await browser.close()


async def _event(page: Any, stand_in: StandIn, turn: int) -> float:
    """Milliseconds until the reason of a host's failure is seen."""
    host, said = turn % 16, f"event {turn}."
    stand_in.cluster.state[host], stand_in.cluster.why[str(host)] = 2, said
    await page.evaluate(
        "(host) => { location.hash = `#/topology?color=job&at=b00/r000/${host}`; }", stand_in.cluster.names[host]
    )
    await page.wait_for_timeout(100)
    seen = asyncio.create_task(page.evaluate(SEEN, said))
    await asyncio.sleep(0.05)
    sent = time.time() * 1000
    stand_in.send("topology", stand_in.cluster.change([host]))
    return float(await seen) - sent


def _at(ordered: list[float], share: float) -> float:
    return ordered[int((len(ordered) - 1) * share)]
