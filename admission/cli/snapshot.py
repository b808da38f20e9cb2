"""`stowage snapshot`: writes the controller's state to a file from which decisions can be reproduced. Reads only.

Exit codes: 0 when the file was written, 2 when not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from admission.cli.connection import connect, worded
from admission.world.cluster import from_cluster
from admission.world.files import from_files
from admission.world.rules import WorldRules
from admission.world.snapshot import capture_world
from admission.world.world import World
from api.errors import StowageError

WRITTEN, NOT_WRITTEN = 0, 2


def run(
    output: Path,
    rules: WorldRules,
    *,
    files: Sequence[Path] = (),
    kubeconfig: Path | None = None,
    context: str | None = None,
    err: Console | None = None,
) -> int:
    """Runs the command and returns its exit code. With `files` it captures their world instead of the live cluster."""
    err = err or Console(stderr=True)
    try:
        world = from_files(files, rules) if files else asyncio.run(_cluster_world(kubeconfig, context, rules))
        output.write_bytes(capture_world(world).encode())
    except (StowageError, OSError, TimeoutError) as failed:
        err.print(f"no snapshot: {worded(failed)}", style="red", markup=False, soft_wrap=True, highlight=False)
        return NOT_WRITTEN
    for fault in world.faults:
        err.print(str(fault), style="yellow", markup=False, soft_wrap=True, highlight=False)
    admitted, waiting = len(world.ledger.admissions), len(world.queues)
    err.print(f"{output}: {admitted} admitted, {waiting} waiting", markup=False, soft_wrap=True, highlight=False)
    return WRITTEN


async def _cluster_world(kubeconfig: Path | None, context: str | None, rules: WorldRules) -> World:
    async with await connect(kubeconfig, context) as kube:
        return await from_cluster(kube, rules)
