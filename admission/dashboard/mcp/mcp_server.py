"""The server of the Model Context Protocol, by its official SDK: lists the tools of tools.py and calls them. It only reads.

Imported when it is first needed, because the SDK takes a second or two to import and is an extra (`stowage[mcp]`).
`over_stdio` is `stowage mcp`; mcp_endpoint.py serves `manager` in the dashboard's HTTP server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError

from admission.dashboard.dashboard import Dashboard
from admission.dashboard.mcp.asgi import VIEWER
from admission.dashboard.mcp.tools import TOOLS, Tool
from admission.dashboard.viewer import LocalUser, Viewer
from admission.serving.bounded_server import Refused

log = logging.getLogger(__name__)
# It logs each request, and what clients send wrong, at any length.
logging.getLogger("mcp").setLevel(logging.ERROR)

INSTRUCTIONS: Final = (
    "Stowage admits jobs to a Kubernetes cluster as gangs and places them by its topology (blocks, racks, hosts). These tools "
    "read one cluster and change nothing. Why does a job wait: find its Workload with search or workloads, then explain. "
    "Would a job start: what_if. Amounts are integers: cpu in thousandths, all else in its base unit. Times are RFC 3339."
)
_READ_WITHIN: Final = 20.0
"""Seconds that a call over stdio waits for the cluster to be read: a client calls as soon as the process has started."""
_LOOK: Final = 0.1
_Context = ServerRequestContext[Any, Any]


def made(dashboard: Dashboard, viewer_of: Callable[[_Context], Viewer], patience: float = 0.0) -> Server[Any]:
    """Returns the server. A call waits `patience` seconds for the cluster to be read."""
    listed = types.ListToolsResult(tools=[_described(tool) for tool in TOOLS.values()])

    async def list_tools(context: _Context, asked: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return listed

    async def call_tool(context: _Context, asked: types.CallToolRequestParams) -> types.CallToolResult:
        tool = TOOLS.get(asked.name)
        if tool is None:
            raise MCPError(code=types.INVALID_PARAMS, message=f"there is no tool {asked.name[:64]}")
        await _read(dashboard, patience)
        try:
            answer, encoded = await tool.call(dashboard, viewer_of(context), asked.arguments or {})
        except Refused as refusal:
            return types.CallToolResult(content=[_text(f"{refusal.error}: {refusal}")], is_error=True)
        except Exception:
            log.exception("a tool failed", extra={"tool": tool.name})
            return types.CallToolResult(content=[_text("InternalError: internal error")], is_error=True)
        return types.CallToolResult(content=[_text(encoded.decode())], structured_content=answer)

    return Server(
        "stowage",
        version=dashboard.facts.version,
        title="Stowage",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema=lambda name: None,  # no argument is sent as a header
    )


async def over_stdio(dashboard: Dashboard) -> None:
    """Serves this machine's user on stdin and stdout until stdin ends."""
    server = made(dashboard, lambda context: LocalUser(), _READ_WITHIN)
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())


def manager(dashboard: Dashboard) -> StreamableHTTPSessionManager:
    """Returns what answers requests over HTTP: each by itself, as JSON, for the viewer in its scope."""

    def viewer(context: _Context) -> Viewer:
        viewer: Viewer = context.request.scope[VIEWER]  # type: ignore[union-attr]  # None over stdio alone
        return viewer

    server = made(dashboard, viewer)
    return StreamableHTTPSessionManager(server, json_response=True, stateless=True)


def _described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema(),
        output_schema=tool.output_schema(),
        annotations=types.ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
    )


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


async def _read(dashboard: Dashboard, patience: float) -> None:
    """Waits until the cluster has been read, or so many seconds; the call then says what is missing."""
    until = asyncio.get_running_loop().time() + patience
    while dashboard.missing() is not None and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110  as Dashboard.run
        await asyncio.sleep(_LOOK)
