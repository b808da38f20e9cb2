"""A whole cluster in this process, with Stowage installed: embedded API server, its workers, our three real processes.

For the demo and the suites. Needs nothing but Python.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from admission.cli.install import install
from admission.cli.processes import COMMANDS, Processes
from api.fake.server import FakeServer
from api.fake.workers.driver import Workers
from api.kube.client import Kube
from api.kube.settings import ClientSettings

_READY = 60.0  # seconds: a busy machine takes long to import


@contextlib.asynccontextmanager
async def embedded(folder: Path, environment: Mapping[str, str] | None = None) -> AsyncIterator[tuple[Kube, Processes]]:
    """The administrator's client and the processes, ready. `folder` takes kubeconfig and logs.

    Raises ProcessFailed when a process does not come up.
    """
    async with FakeServer() as server, contextlib.AsyncExitStack() as stack:
        kubeconfig = server.kubeconfig(folder / "kubeconfig")
        kube = await stack.enter_async_context(await Kube.connect(ClientSettings(kubeconfig=kubeconfig)))
        workers = asyncio.create_task(Workers(server.store).run(), name="workers")
        stack.push_async_callback(_ended, workers)
        processes = Processes(dict.fromkeys(COMMANDS, kubeconfig), folder, environment or {}, ready_within=_READY)
        await install(kube, processes.webhook_url)
        await stack.enter_async_context(processes)
        yield kube, processes


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
