"""Assembles the dashboard: as a process of a cluster with tokens and TLS, or for this machine's user on localhost.

`run_dashboard` is `python -m admission dashboard`; `serving_locally` is for `stowage dashboard` and `stowage demo --page`,
`following` for `stowage mcp`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from importlib.metadata import version
from typing import Final

from admission.dashboard.cluster import Connected, connected
from admission.dashboard.dashboard import Dashboard, Facts
from admission.dashboard.mcp.mcp_endpoint import Endpoint, paths
from admission.dashboard.serve.server import Authenticate, DashboardServer, plain_listening
from admission.dashboard.viewer import LocalUser, TokenUser, Viewer, permissions_of
from admission.serving.certificate_authority import Lifetimes
from admission.serving.certificates import (
    CertificateLocations,
    MountedCertificates,
    OwnCertificates,
    keep,
    service_names,
)
from admission.serving.tls import Serving
from admission.settings import AdmissionSettings
from api.kube.client import Kube
from api.kube.partial import PartialKube
from api.process.access import Access, Permissions
from api.process.identities import Identities
from api.process.process import Process

LOCALHOST: Final = "127.0.0.1"
_NAME: Final = "dashboard"
_DAY: Final = 86400.0


async def run_dashboard(process: Process, settings: AdmissionSettings) -> None:
    """Serves until cancelled. Users sign in with a token of the cluster, and see what it lets them."""
    section, tls, loaded = settings.dashboard, Serving(), asyncio.Event()
    async with await Kube.connect(settings.client_settings(_NAME)) as kube:
        parts = connected(kube, settings)
        dashboard = Dashboard(parts.cluster, Facts(version("stowage"), section.cluster_name, "token"))
        process.may_read, process.ready = Access(kube).may_read, dashboard.missing
        tools = Endpoint(dashboard)
        server = DashboardServer(dashboard, authenticating(kube), paths(tools))
        if section.certificates == "Files":
            certificates: MountedCertificates | OwnCertificates = MountedCertificates(section.certificate_dir, tls)
        else:
            names = service_names(section.service, settings.namespace)
            locations = CertificateLocations(settings.namespace, section.secret, names)
            lifetime = section.certificate_days * _DAY
            certificates = OwnCertificates(kube, locations, tls, Lifetimes(lifetime, renew_before=lifetime / 3))
        async with asyncio.TaskGroup() as group:
            follow(group, parts, dashboard)
            group.create_task(tools.run(), name="tools")
            kept = keep(certificates, interval=section.certificate_period, loaded=loaded.set)
            group.create_task(kept, name="certificates")
            await loaded.wait()
            async with server.listening(lambda: tls.context, section.host, section.port):
                await asyncio.Event().wait()


def authenticating(kube: Kube) -> Authenticate:
    """Returns how a token becomes a viewer: by TokenReview and SubjectAccessReview."""
    identities, permissions = Identities(kube), Permissions(kube)

    async def viewer(token: str, source: str) -> Viewer | None:
        subject = await identities.of(token, source)
        return None if subject is None else TokenUser(subject, permissions.may)

    return viewer


def follow(group: asyncio.TaskGroup, connected: Connected, dashboard: Dashboard) -> list[asyncio.Task[None]]:
    """Starts the tasks that keep the dashboard current."""
    tasks = [
        group.create_task(informer.run(), name=f"informer {informer.resource.plural}")
        for informer in connected.informers
    ]
    return [*tasks, group.create_task(dashboard.run(), name="changes")]


@contextlib.asynccontextmanager
async def following(kube: Kube, settings: AdmissionSettings, cluster: str = "") -> AsyncIterator[Dashboard]:
    """Yields the dashboard of what `kube` may read, kept current while the block runs, for this machine's user."""
    parts = connected(kube, settings)
    dashboard = Dashboard(parts.cluster, Facts(version("stowage"), cluster))
    async with _task_group() as group:
        tasks = follow(group, parts, dashboard)
        try:
            yield dashboard
        finally:
            for task in tasks:
                task.cancel()


@contextlib.asynccontextmanager
async def serving_locally(
    kube: Kube, settings: AdmissionSettings, port: int = 0, cluster: str = ""
) -> AsyncIterator[tuple[str, Dashboard]]:
    """Serves this machine's user while the block runs, without tokens; yields the page's address, and the dashboard.

    What is shown is what `kube` may read, also a PartialKube. Raises OSError if the port is taken.
    """
    local = LocalUser(read=partial(permissions_of, kube)) if isinstance(kube, PartialKube) else LocalUser()
    async with following(kube, settings, cluster) as dashboard, _task_group() as group:
        tools = Endpoint(dashboard)
        running = group.create_task(tools.run(), name="tools")
        try:
            server = DashboardServer(dashboard, extra=paths(tools), local=local)
            async with plain_listening(server, LOCALHOST, port) as bound:
                yield f"http://{LOCALHOST}:{bound}/", dashboard
        finally:
            running.cancel()


@contextlib.asynccontextmanager
async def _task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Yields a TaskGroup that raises a single error as it is, so that callers can catch what their own block raises."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as failed:
        if len(failed.exceptions) > 1:
            raise
        raise failed.exceptions[0] from None
