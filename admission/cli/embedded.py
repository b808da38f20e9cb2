"""A whole cluster in this process, with Stowage installed: embedded API server, its workers, our three real processes.

For the demo and the suites. Needs nothing but Python.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from admission.cli.install import install
from admission.cli.processes import COMMANDS, Start, StowageProcesses, start_interpreter
from api.fake.server import FakeServer, FakeSettings
from api.fake.workers.driver import Workers
from api.kube.client import Kube
from api.kube.settings import ClientSettings

NAMESPACE = "stowage-system"


@dataclass
class EmbeddedCluster:
    """The administrator's client, the processes, and the server itself, so that a caller can look inside."""

    kube: Kube
    processes: StowageProcesses
    server: FakeServer


@contextlib.asynccontextmanager
async def embedded(
    folder: Path,
    environment: Mapping[str, str] | None = None,
    settings: FakeSettings | None = None,
    launch: Start = start_interpreter,
) -> AsyncIterator[EmbeddedCluster]:
    """Everything is ready inside. `folder` takes kubeconfigs and logs; `environment` goes to the processes.

    The server knows each process by its ServiceAccount (the token is the process's name), and users that `settings` names by
    a token; `launch` starts a process. Raises ProcessFailed when one does not come up.
    """
    tokens = {name: f"system:serviceaccount:{NAMESPACE}:stowage-{name}" for name in COMMANDS}
    settings = settings or FakeSettings()
    settings = dataclasses.replace(settings, tokens={**tokens, **settings.tokens})
    async with FakeServer(settings) as server, contextlib.AsyncExitStack() as stack:
        kubeconfig = server.kubeconfig(folder / "kubeconfig")
        kubeconfigs = {name: server.kubeconfig(folder / f"{name}.kubeconfig", token=name) for name in COMMANDS}
        kube = await stack.enter_async_context(await Kube.connect(ClientSettings(kubeconfig=kubeconfig)))
        workers = asyncio.create_task(Workers(server.store).run(), name="workers")
        stack.push_async_callback(_ended, workers)
        processes = StowageProcesses(kubeconfigs, folder, environment or {}, launch=launch)
        await install(kube, processes.webhook_url)
        await stack.enter_async_context(processes)
        yield EmbeddedCluster(kube, processes, server)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
