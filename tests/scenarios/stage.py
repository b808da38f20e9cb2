"""The two stages: the embedded API server with its stand-ins, and the real control plane with kwok nodes.

On both the three processes run as real processes; on the real one under their own ServiceAccounts, so that config/rbac is
what is tested, installed by `kubectl apply -k config/development`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from admission.cli.install import CONFIG, install, point_webhooks
from admission.cli.processes import COMMANDS, Processes
from admission.settings import WebhookSection
from api.fake.server import FakeServer, FakeSettings
from api.fake.workers.driver import Workers
from api.kube.client import Kube
from api.kube.settings import ClientSettings
from hack.controlplane.cluster import ControlPlane

NAMESPACE = "stowage-system"
# Seconds; a machine that runs other suites at the same time starts three interpreters slowly.
READY_WITHIN = 120.0


@dataclass
class Stage:
    """Where a scenario plays: the administrator's client and the processes; `server` is the embedded one."""

    name: str
    kube: Kube
    processes: Processes
    server: FakeServer | None = None


@contextlib.asynccontextmanager
async def embedded(
    folder: Path, environment: Mapping[str, str] | None = None, settings: FakeSettings | None = None
) -> AsyncIterator[Stage]:
    """An embedded API server of its own, which knows the processes by their ServiceAccounts (the token is the name)."""
    tokens = {name: f"system:serviceaccount:{NAMESPACE}:stowage-{name}" for name in COMMANDS}
    settings = dataclasses.replace(settings or FakeSettings(), tokens=tokens)
    async with FakeServer(settings) as server, contextlib.AsyncExitStack() as stack:
        kubeconfig = server.kubeconfig(folder / "kubeconfig")
        kubeconfigs = {name: server.kubeconfig(folder / f"{name}.kubeconfig", token=name) for name in COMMANDS}
        kube = await stack.enter_async_context(await Kube.connect(ClientSettings(kubeconfig=kubeconfig)))
        workers = asyncio.create_task(Workers(server.store).run(), name="workers")
        stack.push_async_callback(_ended, workers)
        processes = Processes(kubeconfigs, folder, environment or {}, READY_WITHIN)
        await install(kube, processes.webhook_url)
        await stack.enter_async_context(processes)
        yield Stage("embedded", kube, processes, server)


@contextlib.asynccontextmanager
async def real(
    cluster: ControlPlane, folder: Path, environment: Mapping[str, str] | None = None
) -> AsyncIterator[Stage]:
    """A real control plane that runs already; Stowage is installed into it."""
    await asyncio.to_thread(cluster.kubectl, "apply", "--server-side", "-k", str(CONFIG / "development"))
    kubeconfigs = {
        name: await asyncio.to_thread(cluster.service_account, NAMESPACE, f"stowage-{name}") for name in COMMANDS
    }
    settings = WebhookSection()
    async with await Kube.connect(ClientSettings(kubeconfig=cluster.kubeconfig)) as kube:
        processes = Processes(kubeconfigs, folder, environment or {}, READY_WITHIN)
        configurations = (settings.mutating_configuration, settings.validating_configuration)
        await point_webhooks(kube, processes.webhook_url, *configurations)
        async with processes:
            yield Stage("real", kube, processes)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
