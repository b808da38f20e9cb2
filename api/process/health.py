"""The HTTP server of a process for /healthz (the loop runs), /readyz (ready, or why not) and /metrics.

Plain HTTP on the pod's port. It serves no data about objects, except pages that a process registers if its settings say so.
process.serve starts it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Self

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from api.process.forked import ForkFailed, in_fork

Readiness = Callable[[], str | None]
"""Returns None if ready, else the reason."""
Page = Callable[[], bytes]
"""Returns JSON, computed per request in a forked copy of the process."""

_CHUNK = 1 << 16


class PathAccess(Enum):
    """A token's access to a path."""

    MAY = "may read the path"
    MAY_NOT = "is known, and may not"
    UNKNOWN = "is not known"


MayRead = Callable[[str, str], Awaitable[PathAccess]]
"""Reports whether the token's bearer may read a path."""


async def no_check(token: str, path: str) -> PathAccess:
    """Allows any client that reaches the port."""
    return PathAccess.MAY


async def not_yet(token: str, path: str) -> PathAccess:
    """Denies all clients until the process can ask the API server."""
    return PathAccess.UNKNOWN


class HealthServer:
    """An async context manager. `port` 0 selects a free port, which `port` returns once started."""

    def __init__(
        self,
        host: str,
        port: int,
        ready: Readiness,
        pages: Mapping[str, Page] | None = None,
        may_read: MayRead = no_check,
    ) -> None:
        self.host, self.port = host, port
        self._ready, self._may_read = ready, may_read
        self._pages = pages if pages is not None else {}
        self._scraping, self._paging = asyncio.Lock(), asyncio.Lock()
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/{page}", self._page)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self.host, self.port).start()
        except BaseException:
            await self._runner.cleanup()
            raise
        self.port = int(self._runner.addresses[0][1])
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        reason = self._ready()
        return web.Response(text="ok\n") if reason is None else web.Response(text=f"{reason}\n", status=503)

    async def _admit(self, request: web.Request) -> None:
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        reader = await self._may_read(token.strip() if kind.lower() == "bearer" else "", request.path)
        if reader is PathAccess.UNKNOWN:
            raise web.HTTPUnauthorized(headers={"WWW-Authenticate": "Bearer"})
        if reader is PathAccess.MAY_NOT:
            raise web.HTTPForbidden

    async def _metrics(self, request: web.Request) -> web.Response:
        await self._admit(request)
        # With hundreds of queues this takes seconds, so a thread does it; the loop must not block for each scrape.
        async with self._scraping:
            body = await asyncio.to_thread(generate_latest)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _page(self, request: web.Request) -> web.StreamResponse:
        page = self._pages.get(request.match_info["page"])
        if page is None:
            raise web.HTTPNotFound
        await self._admit(request)
        response = web.StreamResponse()
        try:
            # One copy of the process at a time: each may need as much memory as the process.
            async with self._paging, in_fork(page) as (size, document):
                response.content_type, response.content_length = "application/json", size
                await response.prepare(request)
                while chunk := await document.read(_CHUNK):
                    await response.write(chunk)
        except ConnectionResetError:
            pass  # the reader has left
        except ForkFailed as error:
            if response.prepared:
                raise  # closes the connection, and the client finds fewer bytes than announced
            raise web.HTTPServiceUnavailable(text=f"{request.path} could not be computed: {error}\n") from None
        return response
