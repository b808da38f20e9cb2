"""Assembles the visibility API from the controller's parts and keeps its certificate and its trust up to date.

`run` is one task of the controller process, of each replica: all have the queues. Called by admission.app.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from admission.controllers.watch.cluster_view import Views
from admission.engine.queue.queues import PendingQueues
from admission.serving.certificate_authority import Lifetimes
from admission.serving.certificates import CertificateLocations, OwnCertificates, keep, service_names
from admission.serving.connections import Listening
from admission.settings import AdmissionSettings
from admission.visibility.api_documents import GROUP, VERSIONS
from admission.visibility.front_proxy import FrontProxyTls, fetch_trust
from admission.visibility.server import Queues, VisibilityServer
from api.errors import StowageError
from api.kube.backoff import Backoff
from api.kube.client import Kube
from api.meta import object_key
from api.process.access import Permissions

log = logging.getLogger(__name__)

_TRUST_PERIOD: Final = 30.0
"""Seconds between two reads of the ConfigMap with the proxy's CA, which changes once in years."""
_RETRY: Final = Backoff(0.5, 15.0)
_DAY: Final = 86400.0


async def run(kube: Kube, settings: AdmissionSettings, views: Views, queues: PendingQueues) -> None:
    """Serves until cancelled."""
    section, tls, loaded = settings.visibility_server, FrontProxyTls(), asyncio.Event()
    locations = CertificateLocations(
        namespace=settings.namespace,
        secret=section.secret,
        names=service_names(section.service, settings.namespace),
        service=section.service,
        api_services=tuple(f"{version}.{GROUP}" for version in VERSIONS),
    )
    lifetime = section.certificate_days * _DAY
    certificates = OwnCertificates(kube, locations, tls, Lifetimes(lifetime, renew_before=lifetime / 3))
    server = VisibilityServer(_read(views, queues), Permissions(kube).may, lambda: tls.trust)
    async with asyncio.TaskGroup() as group:
        kept = keep(certificates, interval=section.certificate_period, loaded=loaded.set)
        group.create_task(kept, name="certificates of the visibility API")
        await loaded.wait()
        async with server.listening(lambda: tls.context, section.bind_address, section.bind_port) as listening:
            await _follow_trust(kube, tls, listening)


def _read(views: Views, queues: PendingQueues) -> Queues:
    def missing() -> str | None:
        unlisted = [informer.resource.plural for informer in views.all() if not informer.is_settled]
        return f"not listed yet: {', '.join(unlisted)}" if unlisted else None

    def cluster_queue_of(namespace: str, name: str) -> str | None:
        local_queue = views.local_queues.objects.get(object_key(namespace, name))
        return local_queue.spec.cluster_queue if local_queue else None

    return Queues(
        missing,
        views.cluster_queues.objects.__contains__,
        cluster_queue_of,
        queues.workloads,
        views.workloads.objects.get,
        queues.positions_now,
    )


async def _follow_trust(kube: Kube, tls: FrontProxyTls, listening: Listening) -> None:
    """Reads the proxy's CA periodically; no client is trusted before the first answer."""
    failures = 0
    while True:
        try:
            if tls.use(await fetch_trust(kube)):
                listening.end_connections()
                log.info("the proxy's CA was read", extra={"names": sorted(tls.trust.names)})
            failures = 0
        except (StowageError, TimeoutError, OSError) as failed:  # ssl.SSLError is an OSError
            failures += 1
            log.warning("the proxy's CA could not be read", extra={"error": str(failed)})
        await asyncio.sleep(_RETRY.delay(failures) if failures else _TRUST_PERIOD)
