"""The two stages: the embedded API server with its stand-ins, and the real control plane with kwok nodes.

On both the three processes run as real processes; on the real one under their own ServiceAccounts, so that config/rbac is
what is tested, installed by `kubectl apply -k config/development`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from admission.cli.embedded import NAMESPACE
from admission.cli.embedded import embedded as embedded_cluster
from admission.cli.install import CONFIG, point_webhooks
from admission.cli.processes import COMMANDS, StowageProcesses
from admission.settings import WebhookSection
from api.fake.server import FakeServer, FakeSettings
from api.kube.client import Kube
from api.kube.settings import ClientSettings
from hack.controlplane.cluster import ControlPlane
from tests.scenarios.stage_processes import playing


@dataclass
class Stage:
    """Where a scenario plays: the administrator's client and the processes; `server` is the embedded one."""

    name: str
    kube: Kube
    processes: StowageProcesses
    server: FakeServer | None = None


@contextlib.asynccontextmanager
async def embedded(
    folder: Path, environment: Mapping[str, str] | None = None, settings: FakeSettings | None = None
) -> AsyncIterator[Stage]:
    """An embedded API server of its own."""
    async with embedded_cluster(folder, environment, settings) as found:
        with playing(found.processes):
            yield Stage("embedded", found.kube, found.processes, found.server)


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
        processes = StowageProcesses(kubeconfigs, folder, environment or {})
        configurations = (settings.mutating_configuration, settings.validating_configuration)
        await point_webhooks(kube, processes.webhook_url, *configurations)
        async with processes:
            with playing(processes):
                yield Stage("real", kube, processes)
