"""How long nobody leads when the leader ends, on the real control plane, with the lease as it ships.

    python -m tests.bench leadership [--times 3]

The leader of the controller and of the ungater is stopped (SIGTERM), then killed (SIGKILL), while a second process stands by.
Seconds from the signal until the Lease names the second process, by the client's clock. Aims: 5 s after a stop, 20 s after a
kill.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
import time
from pathlib import Path

import uvloop

from hack.controlplane.cluster import ControlPlane
from hack.controlplane.options import ClusterOptions
from tests.scenarios.site import eventually
from tests.scenarios.stage import Stage, real
from tests.scenarios.test_crashes import leads, standby

_ENDS = {"stopped": signal.SIGTERM, "killed": signal.SIGKILL}
_PROCESSES = ("controller", "ungater")


def run(times: int) -> None:
    """Runs it and prints a row for each process and end."""
    with tempfile.TemporaryDirectory(prefix="stowage-bench-") as name:
        folder = Path(name)
        with ControlPlane(folder / "cluster", ClusterOptions()) as cluster:
            rows = uvloop.run(_measure(cluster, folder, times))
    print("| leader | seconds until the next one leads |\n|---|---|")
    for row in rows:
        print(row)


async def _measure(cluster: ControlPlane, folder: Path, times: int) -> list[str]:
    rows = []
    async with real(cluster, folder) as stage:
        for process in _PROCESSES:
            for end, number in _ENDS.items():
                took = [await _handover(stage, process, number) for _ in range(times)]
                rows.append(f"| {process}, {end} | {', '.join(f'{seconds:.1f}' for seconds in took)} |")
    return rows


async def _handover(stage: Stage, process: str, number: signal.Signals) -> float:
    first = stage.processes.children[process]
    async with standby(stage, process) as second:
        began = time.monotonic()
        ended = asyncio.create_task(first.stop(number))
        try:
            await eventually("the next one leads", lambda: leads(stage, second))
            return time.monotonic() - began
        finally:
            await ended
            await stage.processes.restart(process)
