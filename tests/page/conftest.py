"""A headless Chromium with the page. Each test here is marked e2e and page; without a browser it is skipped with a reason."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.dealing import is_below
from tests.page.browser import FLAGS, serving
from tests.page.cluster import MadeCluster
from tests.page.stand_in import StandIn

HERE = Path(__file__).parent
WINDOW = {"width": 1440, "height": 900}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_below(item.path, (HERE,)):
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.page)


@dataclass
class Watched:
    """A page in the browser, and what went wrong in it."""

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    async def text(self, selector: str = "main") -> str:
        """Returns the text that is seen."""
        return str(await self.page.inner_text(selector))


@dataclass
class Opened(Watched):
    """The page of a stand-in."""

    url: str = ""
    stand_in: StandIn = field(default_factory=lambda: StandIn(MadeCluster(0)))

    async def go(self, route: str) -> None:
        """Opens a route of the page, for example `queues`."""
        await self.page.goto(f"{self.url}/#/{route}")


Watcher = Callable[..., Awaitable[Watched]]
Opener = Callable[..., Awaitable[Opened]]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Any]:
    """One browser for all tests, with a profile of its own."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on this machine: apt-get install chromium")
    playwright = pytest.importorskip("playwright.async_api", reason="Playwright is not installed: make e2e-page")
    async with playwright.async_playwright() as tool:
        started = await tool.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield started
        await started.close()


@pytest_asyncio.fixture(loop_scope="session")
async def watching(browser: Any) -> AsyncIterator[Watcher]:
    """Opens empty pages: `await watching(scheme="dark", window={...})`."""
    async with AsyncExitStack() as stack:

        async def opening(window: dict[str, int] = WINDOW, scheme: str = "light") -> Watched:
            context = await browser.new_context(viewport=window, color_scheme=scheme)
            stack.push_async_callback(context.close)
            found = Watched(await context.new_page())
            found.page.on("pageerror", lambda error: found.errors.append(str(error)))
            found.page.on("console", lambda line: found.errors.append(line.text) if line.type == "error" else None)
            found.page.on("request", lambda request: found.requests.append(request.url))
            return found

        yield opening


@pytest_asyncio.fixture(loop_scope="session")
async def opened(watching: Watcher) -> AsyncIterator[Opener]:
    """Opens pages of stand-ins: `await opened(cluster, token=..., scheme="dark", window={...})`."""
    async with AsyncExitStack() as stack:

        async def opening(
            cluster: MadeCluster, window: dict[str, int] = WINDOW, scheme: str = "light", **how: Any
        ) -> Opened:
            stand_in = StandIn(cluster, **how)
            url = await stack.enter_async_context(serving(stand_in))
            watched = await watching(window, scheme)
            return Opened(watched.page, watched.errors, watched.requests, url, stand_in)

        yield opening
