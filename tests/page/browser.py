"""How the tests and the figures of the page start a Chromium and a stand-in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from tests.page.stand_in import StandIn

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""No graphics card, no sandbox for root, and no traffic of the browser's own."""


@asynccontextmanager
async def serving(stand_in: StandIn) -> AsyncIterator[str]:
    """Serves a stand-in on this machine. Yields its address."""
    # Event streams never end by themselves.
    runner = web.AppRunner(stand_in.application(), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()
