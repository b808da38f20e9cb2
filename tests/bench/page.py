"""What the dashboard's page costs in a headless Chromium without a graphics card.

    python -m tests.bench page [--sizes 1000,15000] [--beside stand-in|embedded|real]

*Size*: what a browser fetches once, as it is and compressed. *Opened*: from opening the address until the picture is
painted. *First picture*: the part of it from the last byte of the tree's answer. *Script*: CPU time of the page's scripts until
then, which a busy machine changes least. *Event*: from when one host changes until
that is on the screen. *Frames*: the time between two frames while a wheel zooms in and out, in 120 steps, and the part of it
that painting takes.

page_scenes.py says what the page is shown beside, page_arrivals.py where the time of an event goes beside an API server. The
memory of processes is that of now and the highest; their CPU time is that of the seconds in which events were timed. The
stand-in and the embedded server are this process, of which nothing is said. `make e2e-page` fetches Playwright, which it needs.
"""

from __future__ import annotations

import asyncio
import gzip
import shutil
import time
from pathlib import Path
from typing import Any

from tests.bench.measure import costs
from tests.bench.page_arrivals import Arrivals
from tests.bench.page_scenes import SCENES, Beside, Scene
from tests.page.browser import FLAGS
from tests.page.stand_in import STATIC

PAINTED = "() => performance.getEntriesByName('stowage:paint').some((one) => one.detail.hosts > 0)"
FIRST = """() => {
  const answer = performance.getEntriesByType('resource').find((one) => one.name.includes('/topology/'));
  const paint = performance.getEntriesByName('stowage:paint').find((one) => one.detail.hosts > 0);
  const painted = paint.startTime + paint.duration;
  return [answer.encodedBodySize, painted, painted - answer.responseEnd];
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


def run(sizes: str = "1000,15000", beside: Beside = Beside.STAND_IN) -> None:
    """Prints the figures. Raises SystemExit without a chromium."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("no chromium on this machine")
    files = [file for file in Path(STATIC).rglob("*") if file.is_file() and file.name != "built.json"]
    whole = sum(file.stat().st_size for file in files)
    packed = sum(len(gzip.compress(file.read_bytes())) for file in files)
    print(f"page: {whole / 1000:.0f} kB, compressed {packed / 1000:.0f} kB")
    print(
        "hosts  answer, MB  opened, ms  first picture, ms  script, ms  event, ms: median, most"
        "  frame, ms: median, 95 %  paint, ms: median, 95 %"
    )
    asyncio.run(_all(chromium, [int(size) for size in sizes.split(",")], beside))


async def _all(chromium: str, sizes: list[int], beside: Beside) -> None:
    from playwright.async_api import async_playwright

    async with async_playwright() as tool:
        browser: Any = await tool.chromium.launch(executable_path=chromium, args=list(FLAGS))
        for size in sizes:
            async with SCENES[beside](size) as scene:
                page = await browser.new_page(viewport={"width": 1440, "height": 900})
                await _measure(page, size, scene)
                await page.close()
                if scene.arrivals is not None:
                    _print_arrivals(scene.arrivals)
        await browser.close()


async def _measure(page: Any, size: int, scene: Scene) -> None:
    tools = await page.context.new_cdp_session(page)
    await tools.send("Performance.enable", {"timeDomain": "threadTicks"})
    await page.goto(f"{scene.url}?at={scene.rack}&color=job")
    await page.wait_for_function(PAINTED, timeout=60_000)
    metrics = (await tools.send("Performance.getMetrics"))["metrics"]
    script = next(one["value"] for one in metrics if one["name"] == "ScriptDuration") * 1000
    await tools.detach()
    answer, opened, first = await page.evaluate(FIRST)
    before, began = costs(scene.pids), time.monotonic()
    events = sorted([await _event(page, scene, host) for host in range(len(scene.hosts))])
    after, lasted = costs(scene.pids), time.monotonic() - began
    await page.get_by_role("button", name="All", exact=True).click()
    await page.wait_for_timeout(1000)
    frames, paints = (sorted(times) for times in await page.evaluate(ZOOM))
    half, most = events[len(events) // 2], events[-1]
    print(
        f"{size:5}  {answer / 1e6:10.2f}  {opened:10.0f}  {first:17.0f}  {script:10.0f}  {half:17.0f}, {most:4.0f}"
        f"  {_at(frames, 0.5):17.1f}, {_at(frames, 0.95):4.1f}  {_at(paints, 0.5):17.1f}, {_at(paints, 0.95):4.1f}"
    )

    for name, now in after.items():
        share = (now.cpu - before[name].cpu) / lasted
        print(f"       {name}: {now.resident:.0f} MiB, at its highest {now.highest:.0f}; {share:.2f} of a core")


async def _event(page: Any, scene: Scene, host: int) -> float:
    """Milliseconds until what changed on a host is seen."""
    at = f"#/topology?color=job&at={scene.rack}/{scene.hosts[host]}"
    await page.evaluate("(hash) => { location.hash = hash; }", at)
    await page.wait_for_timeout(300)
    seen = asyncio.create_task(page.evaluate(SEEN, scene.said(host)))
    await asyncio.sleep(0.1)
    began = time.time() * 1000
    await scene.change(host)
    return float(await seen) - began


def _print_arrivals(arrivals: Arrivals) -> None:
    for what, times in (
        ("request answered", arrivals.answered),
        ("bare watch", arrivals.watched),
        ("stream of the dashboard", arrivals.streamed),
    ):
        print(f"       {what}, ms: median {_at(sorted(times), 0.5):.0f}, most {max(times):.0f}")


def _at(ordered: list[float], share: float) -> float:
    return ordered[int((len(ordered) - 1) * share)]
