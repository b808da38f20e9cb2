"""The two stages: the embedded API server with its stand-ins, and the real control plane with kwok nodes.

On both the three processes run as real processes, forked from one that has imported them (forked_processes.py); on the real
one under their own ServiceAccounts, so that config/rbac is what is tested, installed by
`kubectl apply -k config/development`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from admission.cli.local_cluster.embedded import NAMESPACE
from admission.cli.local_cluster.embedded import embedded as embedded_cluster
from admission.cli.local_cluster.install import CONFIG, by_url
from admission.cli.local_cluster.processes import COMMANDS, Start, StowageProcesses
from admission.settings import WebhookSection
from api.embedded.server import EmbeddedServer, EmbeddedSettings
from api.embedded.workers.driver import ALL as ALL_WORKERS
from api.embedded.workers.jobs import JobWorker
from api.kube.client import Kube, PatchKind
from api.kube.resources import ALL, CRDS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from api.kube.settings import ClientSettings
from api.names import GROUP
from hack.controlplane.cluster import ControlPlane
from tests.scenarios.forked_processes import start_forked
from tests.scenarios.stage_processes import playing


class QuickJobs(JobWorker):
    """Replaces failed pods after 1, 2, 4 seconds; the real Job controller after 10, 20, 40, which the real stage shows."""

    first_delay = 1.0


WORKERS = [QuickJobs if each is JobWorker else each for each in ALL_WORKERS]


async def point_webhooks(kube: Kube, webhook_url: str, mutating: str, validating: str) -> None:
    """Gives installed webhook configurations, and the CRDs that we convert, the address of the webhook process."""
    for resource, name in ((MUTATING_WEBHOOKS, mutating), (VALIDATING_WEBHOOKS, validating)):
        hooks = (await kube.get(resource, name))["webhooks"]
        body = {"webhooks": [by_url(hook, webhook_url) for hook in hooks]}
        await kube.patch(resource, name, body, kind=PatchKind.MERGE)
    for plural in (each.plural for each in ALL if each.group == GROUP):
        webhook = (await kube.get(CRDS, f"{plural}.{GROUP}"))["spec"]["conversion"]["webhook"]
        client = {**by_url(webhook, webhook_url)["clientConfig"], "service": None}
        conversion = {"spec": {"conversion": {"webhook": {"clientConfig": client}}}}
        await kube.patch(CRDS, f"{plural}.{GROUP}", conversion, kind=PatchKind.MERGE)


@dataclass
class Stage:
    """Where a scenario plays: the administrator's client and the processes; `server` is the embedded one."""

    name: str
    kube: Kube
    processes: StowageProcesses
    server: EmbeddedServer | None = None


@contextlib.asynccontextmanager
async def embedded(
    folder: Path, environment: Mapping[str, str] | None = None, settings: EmbeddedSettings | None = None
) -> AsyncIterator[Stage]:
    """An embedded API server of its own."""
    async with embedded_cluster(folder, environment, settings, start_forked, WORKERS) as found:
        with playing(found.processes):
            yield Stage("embedded", found.kube, found.processes, found.server)


@contextlib.asynccontextmanager
async def real(
    cluster: ControlPlane,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    *,
    install: bool = True,
    launch: Start = start_forked,
) -> AsyncIterator[Stage]:
    """A real control plane that runs already. Stowage is installed into it, unless the test has done that."""
    if install:
        await asyncio.to_thread(cluster.kubectl, "apply", "--server-side", "-k", str(CONFIG / "development"))
    kubeconfigs = {
        name: await asyncio.to_thread(cluster.service_account, NAMESPACE, f"stowage-{name}") for name in COMMANDS
    }
    settings = WebhookSection()
    async with await Kube.connect(ClientSettings(kubeconfig=cluster.kubeconfig)) as kube:
        processes = StowageProcesses(kubeconfigs, folder, environment or {}, launch=launch)
        configurations = (settings.mutating_configuration, settings.validating_configuration)
        await point_webhooks(kube, processes.webhook_url, *configurations)
        async with processes:
            with playing(processes):
                yield Stage("real", kube, processes)
