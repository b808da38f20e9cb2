"""The path `/mcp` of the dashboard's HTTP server: the tools for clients of the Model Context Protocol.

The server has authenticated each request; there are no sessions that another user could take over. The SDK is
imported at the first request, in a thread: most dashboards get no such request, and a page need not wait for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final

from aiohttp import web

from admission.dashboard.dashboard import Dashboard
from admission.dashboard.mcp.asgi import Application, answered
from admission.dashboard.serve.server import Extra
from admission.dashboard.viewer import Viewer
from admission.serving.bounded_server import Refused

log = logging.getLogger(__name__)

PATH: Final = "/mcp"


class Endpoint:
    """Answers requests to PATH while `run` runs."""

    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard = dashboard
        self._wanted = asyncio.Event()
        self._application: asyncio.Future[Application] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Owns the tasks of the SDK until cancelled."""
        await self._wanted.wait()
        try:
            manager = await asyncio.to_thread(_manager, self._dashboard)
        except Exception:  # what an SDK that cannot be imported breaks is this path alone
            log.exception("the SDK of MCP cannot be used")
            self._application.cancel()
            return
        async with manager.run():
            self._application.set_result(manager.handle_request)
            await asyncio.Event().wait()

    async def answer(self, request: web.BaseRequest, viewer: Viewer, body: bytes) -> web.StreamResponse:
        """Answers a request whose viewer is known. Raises Refused."""
        if request.method != "POST":  # no stream of messages that nobody asked for, and no session to delete
            raise Refused(405, "MethodNotAllowed", "only POST is allowed here")
        self._wanted.set()
        await asyncio.wait([self._application])
        if self._application.cancelled():
            raise Refused(503, "Unavailable", "this dashboard has no working MCP")
        return await answered(self._application.result(), request, viewer, body)


def paths(endpoint: Endpoint) -> Mapping[str, Extra]:
    """Returns the further paths that the server answers; none where the SDK is not installed."""
    return {PATH: endpoint.answer} if find_spec("mcp") is not None else {}


def _manager(dashboard: Dashboard) -> Any:
    from admission.dashboard.mcp.mcp_server import manager

    return manager(dashboard)
