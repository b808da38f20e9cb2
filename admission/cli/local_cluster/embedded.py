"""A cluster in this process with Stowage installed: embedded API server, its workers, and the three real processes.

For the demo and the test suites. Needs only Python.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from admission.cli.local_cluster.install import install
from admission.cli.local_cluster.processes import COMMANDS, Start, StowageProcesses, start_interpreter
from api.embedded.server import EmbeddedServer, EmbeddedSettings
from api.embedded.workers.base import Worker
from api.embedded.workers.driver import ALL, Workers
from api.kube.client import Kube
from api.kube.settings import ClientSettings

NAMESPACE = "stowage-system"


@dataclass
class EmbeddedCluster:
    """A running cluster: an administrator's client, the processes, and the server for inspection."""

    kube: Kube
    processes: StowageProcesses
    server: EmbeddedServer
    kubeconfig: Path


@contextlib.asynccontextmanager
async def embedded(
    folder: Path,
    environment: Mapping[str, str] | None = None,
    settings: EmbeddedSettings | None = None,
    launch: Start = start_interpreter,
    workers: Sequence[type[Worker]] = ALL,
) -> AsyncIterator[EmbeddedCluster]:
    """Starts a cluster and yields it once all processes are ready.

    `folder` receives kubeconfigs and logs; `environment` is passed to the processes. The server authenticates each process
    as its ServiceAccount by a token equal to the process's name, and further users by the tokens in `settings`. `launch`
    starts a process; `workers` stand in for the cluster's controllers. Raises ProcessFailed if a process does not become ready.
    """
    tokens = {name: f"system:serviceaccount:{NAMESPACE}:stowage-{name}" for name in COMMANDS}
    settings = settings or EmbeddedSettings()
    settings = dataclasses.replace(settings, tokens={**tokens, **settings.tokens})
    async with EmbeddedServer(settings) as server, contextlib.AsyncExitStack() as stack:
        kubeconfig = server.kubeconfig(folder / "kubeconfig")
        kubeconfigs = {name: server.kubeconfig(folder / f"{name}.kubeconfig", token=name) for name in COMMANDS}
        kube = await stack.enter_async_context(await Kube.connect(ClientSettings(kubeconfig=kubeconfig)))
        working = asyncio.create_task(Workers(server.store, workers).run(), name="workers")
        stack.push_async_callback(_ended, working)
        processes = StowageProcesses(kubeconfigs, folder, environment or {}, launch=launch)
        await install(kube, processes.webhook_url)
        await stack.enter_async_context(processes)
        yield EmbeddedCluster(kube, processes, server, kubeconfig)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
