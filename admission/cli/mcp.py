"""`stowage mcp`: the tools of the Model Context Protocol on stdin and stdout, with what the user's kubeconfig may read.

An assistant starts it and ends it by closing stdin. stdout is the protocol's alone; errors and the log go to stderr. It only
reads. Exit codes: 0 when stdin ended, 2 when it cannot serve: no cluster, or the SDK is not installed.
"""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from admission.cli.connection import connect, worded
from admission.dashboard.app import following
from admission.settings import AdmissionSettings
from api.errors import StowageError
from api.process.lag import watch_loop

NOT_SERVED = 2


@dataclass(frozen=True, slots=True)
class McpArguments:
    """Arguments of the command."""

    kubeconfig: Path | None = None
    context: str | None = None


def run(arguments: McpArguments, settings: AdmissionSettings) -> int:
    """Serves until stdin ends, and returns the exit code."""
    if find_spec("mcp") is None:
        return _not_served("the SDK is not installed: pip install 'stowage[mcp]'")
    # A thread waits for stdin, which Python would wait for on Ctrl-C. There is nothing to tidy up.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        asyncio.run(_serve(arguments, settings))
    except (StowageError, OSError, TimeoutError) as failed:
        return _not_served(worded(failed))
    return 0


async def _serve(arguments: McpArguments, settings: AdmissionSettings) -> None:
    from admission.dashboard.mcp.mcp_server import over_stdio

    async with (
        await connect(arguments.kubeconfig, arguments.context) as kube,
        following(kube, settings, arguments.context or "") as dashboard,
        asyncio.TaskGroup() as group,
    ):
        lag = group.create_task(watch_loop(), name="loop lag")  # also collects garbage in short passes
        try:
            await over_stdio(dashboard)
        finally:
            lag.cancel()


def _not_served(why: str) -> int:
    err = Console(stderr=True)
    err.print(f"no MCP server: {why}", style="red", markup=False, soft_wrap=True, highlight=False)
    return NOT_SERVED
