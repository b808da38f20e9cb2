"""Who admits what a benchmark posts: Stowage, nobody, or a process that makes the queueing's own writes and decides nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from enum import Enum
from pathlib import Path

from admission.cli.local_cluster.install import CONFIG
from api.kube.resources import ALL, WORKLOADS
from api.names import GROUP
from hack.controlplane.api import eventually
from hack.controlplane.cluster import ControlPlane

_ROOT = Path(__file__).resolve().parents[2]


class BenchMode(Enum):
    """The value is what a label of the run ends with."""

    STOWAGE = ""
    FLOOR = " floor"
    PROTOCOL = " protocol"


@contextlib.asynccontextmanager
async def stamping(cluster: ControlPlane, module: str) -> AsyncIterator[int]:
    """Only the kinds, and the process that writes (`module`); its pid."""
    await asyncio.to_thread(cluster.kubectl, "apply", "--server-side", "-k", str(CONFIG / "crd"))
    await asyncio.to_thread(_convert_by_name, cluster)
    # Until the storage of a new kind stands, a watch of it is refused, and the load tool takes that for the end.
    await asyncio.to_thread(eventually, "Workloads are served", lambda: _served(cluster))
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", module, str(cluster.kubeconfig), cwd=_ROOT)
    try:
        yield process.pid
    finally:
        process.kill()
        await process.wait()


def _convert_by_name(cluster: ControlPlane) -> None:
    """Lets the API server convert without a webhook, which does not run here.

    Otherwise its watch cache of the older version fails at each event and lists all objects again.
    """
    patch = json.dumps({"spec": {"conversion": {"strategy": "None", "webhook": None}}})
    for plural in (each.plural for each in ALL if each.group == GROUP):
        cluster.kubectl("patch", "crd", f"{plural}.{GROUP}", "--type=merge", "-p", patch)


def _served(cluster: ControlPlane) -> bool:
    return cluster.try_kubectl("get", WORKLOADS.plural, "--all-namespaces").returncode == 0
