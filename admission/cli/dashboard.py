"""`stowage dashboard`: the page of the dashboard on this machine, with what the user's kubeconfig may read. Reads only.

Exit codes: 0 when it was interrupted, 2 when it cannot serve: no cluster, or the port is taken.
"""

from __future__ import annotations

import asyncio
import webbrowser
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from admission.cli.connection import connect, own_namespace, worded
from admission.dashboard.app import serving_locally
from admission.dashboard.dashboard import Dashboard
from admission.settings import AdmissionSettings
from api.errors import StowageError
from api.kube.partial import PartialKube
from api.process.lag import watch_loop

NOT_SERVED = 2
_PATIENCE = 5.0
"""Seconds without an answer of the cluster after which the reason is printed."""


@dataclass(frozen=True, slots=True)
class DashboardArguments:
    """Arguments of the command. `port` 0 selects a free one; `open_page` opens a browser."""

    port: int = 8080
    open_page: bool = True
    kubeconfig: Path | None = None
    context: str | None = None


def run(arguments: DashboardArguments, settings: AdmissionSettings, out: Console | None = None) -> int:
    """Serves until it is interrupted, and returns the exit code."""
    out = out or Console()
    try:
        asyncio.run(_serve(arguments, settings, out))
    except (StowageError, OSError, TimeoutError) as failed:
        err = Console(stderr=True)
        err.print(f"no dashboard: {worded(failed)}", style="red", markup=False, soft_wrap=True, highlight=False)
        return NOT_SERVED
    return 0


async def _serve(arguments: DashboardArguments, settings: AdmissionSettings, out: Console) -> None:
    async with (
        await connect(arguments.kubeconfig, arguments.context) as connected,
        serving_locally(
            kube := PartialKube.of(connected, own_namespace(arguments.kubeconfig, arguments.context)),
            settings,
            arguments.port,
            arguments.context or "",
        ) as (address, dashboard),
    ):
        out.print(f"{address} (Ctrl-C ends it)", markup=False, highlight=False)
        if arguments.open_page:
            await asyncio.to_thread(webbrowser.open, address)
        async with asyncio.TaskGroup() as group:
            group.create_task(watch_loop(), name="loop lag")  # also collects garbage in short passes
            await _tell(dashboard, kube, out)


async def _tell(dashboard: Dashboard, kube: PartialKube, out: Console) -> None:
    """Prints what the page waits for, and what the cluster does not let the user read; then waits forever."""
    told = ""
    while True:
        await asyncio.sleep(_PATIENCE)
        why = dashboard.missing() or _refused(kube)
        if why != told and why:
            out.print(why, style="yellow", markup=False, soft_wrap=True, highlight=False)
        told = why


def _refused(kube: PartialKube) -> str:
    """Returns what is not shown, empty if the user may list all."""
    kinds = sorted(kube.refused, key=lambda resource: resource.plural)
    part = [f"{one.plural} (shown are those of {scope})" for one in kinds if (scope := kube.scope(one))]
    none = [one.plural for one in kinds if not kube.scope(one)]
    return f"you may not list {', '.join(none + part)}" if kinds else ""
