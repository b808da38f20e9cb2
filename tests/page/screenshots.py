"""`python -m tests.page.screenshots [FOLDER]`: the pictures of docs/dashboard.md, of a made-up cluster of 15,000 hosts.

Needs Chromium and Playwright, which `make e2e-page` fetches. Look at each picture before it is committed.
"""

from __future__ import annotations

import asyncio
import io
import shutil
import sys
from pathlib import Path
from typing import Any

from PIL import Image

from tests.page.browser import FLAGS, serving
from tests.page.cluster import MadeCluster
from tests.page.stand_in import StandIn

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images"
WINDOW = {"width": 1280, "height": 800}
WAITS = "team-a/job-eval-10000-09eb8"
PICTURES = {
    "topology": ("light", "topology?color=queue"),
    "block": ("dark", "topology?color=job&at=b05"),
    "workload": ("light", f"workload/{WAITS}"),
    "queues": ("dark", "queues"),
}


async def take(folder: Path) -> None:
    """Writes the pictures. Raises SystemExit without a chromium."""
    from playwright.async_api import async_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("no chromium on this machine")
    async with async_playwright() as tool, serving(StandIn(MadeCluster(15_000))) as url:
        browser: Any = await tool.chromium.launch(executable_path=chromium, args=list(FLAGS))
        for name, (scheme, route) in PICTURES.items():
            context = await browser.new_context(viewport=WINDOW, color_scheme=scheme)
            page = await context.new_page()
            await page.goto(f"{url}/#/{route}")
            await page.wait_for_timeout(2000)
            if name == "block":
                await page.locator("canvas").hover(position={"x": 300, "y": 200})
                await page.wait_for_timeout(300)
            await _save(page, folder / f"dashboard-{name}.png")
            await context.close()
        await browser.close()


async def _save(page: Any, file: Path) -> None:
    # A page has few colors: with a palette the picture takes a third of the space.
    picture = Image.open(io.BytesIO(await page.screenshot())).convert("RGB")
    picture.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(file, optimize=True)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    target.mkdir(parents=True, exist_ok=True)
    asyncio.run(take(target))
