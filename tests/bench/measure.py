"""What a process costs, read from /proc: CPU seconds, resident memory now and at its highest; and what it says of itself."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from admission.cli.local_cluster.processes import ChildProcess
from hack.controlplane.cluster import STATE, ControlPlane


@dataclass(frozen=True, slots=True)
class ProcessCost:
    """`cpu` in seconds of user and system time; memory in MiB."""

    cpu: float
    resident: float
    highest: float


def cost(pid: int) -> ProcessCost:
    """Of a process that lives. Raises FileNotFoundError for one that does not."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    sizes = {line[0]: int(line[1]) / 1024 for line in lines if line and line[0] in ("VmRSS:", "VmHWM:")}
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return ProcessCost(seconds, sizes["VmRSS:"], sizes["VmHWM:"])


def costs(pids: Mapping[str, int]) -> dict[str, ProcessCost]:
    """Of several processes by name, at one moment."""
    return {name: cost(pid) for name, pid in pids.items()}


def servers(cluster: ControlPlane) -> dict[str, int]:
    """The pids of the control plane's processes by name."""
    state = json.loads((cluster.folder / STATE).read_text())
    return {str(name): int(pid) for name, pid in state["pids"]}


def pid_of(child: ChildProcess) -> int:
    """Of one that runs."""
    assert child.process is not None
    return child.process.pid


async def page_of(child: ChildProcess) -> str:
    """Its metrics as text."""
    url = f"http://127.0.0.1:{child.health_port}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return await answer.text()
