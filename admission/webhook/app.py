"""The webhook process: builds lookups, certificates and server from the settings, and runs them."""

from __future__ import annotations

import asyncio
import ctypes
import resource
import sys
from asyncio.sslproto import SSLProtocol
from typing import Any
from urllib.parse import urlsplit

from admission.integrations.job_kinds import JobKinds
from admission.metrics.reviews import count_review
from admission.serving.certificate_authority import Lifetimes
from admission.serving.certificates import (
    CertificateLocations,
    Certificates,
    MountedCertificates,
    OwnCertificates,
    keep,
    service_names,
)
from admission.serving.tls import Serving
from admission.settings import AdmissionSettings, WebhookSection
from admission.webhook.guards.owners import Owners
from admission.webhook.kinds.declared_rules import DeclaredRules
from admission.webhook.notices import Notices
from admission.webhook.rules.gang_pods import gang_keys, read_member
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import webhook_rules
from admission.webhook.server.handlers import Handlers
from admission.webhook.server.server import serving
from api.admission_checks import AdmissionCheck
from api.elastic_quotas import ElasticQuota, SigsElasticQuota
from api.kube.client import Kube
from api.kube.informers.informer import Informer
from api.kube.resources import (
    ADMISSION_CHECKS,
    ALL,
    CLUSTER_QUEUES,
    ELASTIC_QUOTAS,
    LOCAL_QUEUES,
    NAMESPACES,
    PODS,
    RESOURCE_FLAVORS,
    SIGS_ELASTIC_QUOTAS,
    TOPOLOGIES,
    WORKLOAD_PRIORITY_CLASSES,
)
from api.names import GANG_MEMBER, GROUP
from api.pod.pods import Namespace
from api.process.access import Access, Permissions
from api.process.process import Process
from api.queues import ClusterQueue, LocalQueue, WorkloadPriorityClass
from api.topology import ResourceFlavor, Topology

WEBHOOK = "webhook"
# Parameters of glibc's mallopt (malloc.h).
_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
_TLS_BUFFER = 32 * 1024
_DAY = 86400.0
_BY_NAMESPACE = "namespace"
_BY_GANG = "gang"


async def run_webhook(process: Process, settings: AdmissionSettings) -> None:
    """Runs the webhook until cancelled. Every replica answers; there is no leader election."""
    _open_files()
    _bound_memory()
    sys.setswitchinterval(0.001)
    async with await Kube.connect(settings.client_settings(WEBHOOK)) as kube:
        lookups, informers = _lookups(kube)
        kinds = JobKinds(kube)
        declared = DeclaredRules(
            kube, settings.webhook.mutating_configuration, settings.webhook.validating_configuration
        )
        kinds.on_change(declared.changed.set)
        tls, loaded, listening = Serving(settings.webhook.client_ca_file), asyncio.Event(), asyncio.Event()
        certificates = _certificates(kube, settings, tls)

        def missing() -> str | None:
            if not loaded.is_set():
                return "no serving certificate yet"
            if not listening.is_set():
                return "not listening yet"
            unlisted = [informer.resource.plural for informer in informers if not informer.has_synced]
            if not kinds.informer.is_settled:
                unlisted.append(kinds.informer.resource.plural)
            return f"not listed yet: {', '.join(unlisted)}" if unlisted else None

        process.may_read = Access(kube).may_read
        process.ready = missing
        rules, clients = webhook_rules(settings), settings.webhook.client_names
        notices = Notices(kube, f"stowage-{WEBHOOK}", lookups)
        handlers = Handlers(
            lookups,
            rules,
            lambda: missing() is None,
            observe=count_review,
            owners=Owners(kube),
            permissions=Permissions(kube),
            clients=clients,
            report=notices.report,
        )

        async def serve() -> None:
            await loaded.wait()
            async with serving(handlers, tls, settings.webhook.host, settings.webhook.port):
                listening.set()
                await asyncio.Event().wait()

        async with asyncio.TaskGroup() as group:
            for informer in (*informers, kinds.informer):
                group.create_task(informer.run(), name=f"informer {informer.resource.plural}")
            kept = keep(certificates, interval=settings.webhook.certificate_period, loaded=loaded.set)
            group.create_task(kept, name="certificates")
            group.create_task(serve(), name="server")
            group.create_task(declared.run(), name="rules of declared kinds")
            group.create_task(notices.run(), name="notices")


def _lookups(kube: Kube) -> tuple[Lookups, tuple[Informer[Any], ...]]:
    """Returns the lookups, and the informers that keep them up to date."""
    local_queues = Informer(kube, LOCAL_QUEUES, LocalQueue)
    cluster_queues = Informer(kube, CLUSTER_QUEUES, ClusterQueue)
    flavors = Informer(kube, RESOURCE_FLAVORS, ResourceFlavor)
    topologies = Informer(kube, TOPOLOGIES, Topology)
    checks = Informer(kube, ADMISSION_CHECKS, AdmissionCheck)
    classes = Informer(kube, WORKLOAD_PRIORITY_CLASSES, WorkloadPriorityClass)
    namespaces = Informer(kube, NAMESPACES, Namespace)
    of_quotas = Informer(kube, ELASTIC_QUOTAS, ElasticQuota), Informer(kube, SIGS_ELASTIC_QUOTAS, SigsElasticQuota)
    members = Informer(kube, PODS, read_member, label_selector=f"{GANG_MEMBER}=true")
    members.add_index(_BY_GANG, gang_keys)
    for quotas in of_quotas:
        quotas.add_index(_BY_NAMESPACE, lambda quota: [quota.metadata.namespace or ""])

    def labels_of(namespace: str) -> dict[str, str] | None:
        namespace_object = namespaces.objects.get(namespace)
        return namespace_object.metadata.labels if namespace_object else None

    def quotas_of(namespace: str) -> list[tuple[str, str]]:
        return [
            (each.resource.group, quota.metadata.name)
            for each in of_quotas
            for quota in each.by_index(_BY_NAMESPACE, namespace)
        ]

    lookups = Lookups(
        local_queues=local_queues.objects,
        cluster_queues=cluster_queues.objects,
        flavors=flavors.objects,
        topologies=topologies.objects,
        admission_checks=checks.objects,
        workload_priority_classes=classes.objects,
        namespace_labels=labels_of,
        elastic_quotas=quotas_of,
        gang_pods=lambda key: members.filed(_BY_GANG, key),
    )
    return lookups, (
        local_queues,
        cluster_queues,
        flavors,
        topologies,
        checks,
        classes,
        namespaces,
        *of_quotas,
        members,
    )


def _open_files() -> None:
    """Raises the limit of open files to the system's maximum: clients may open many before the limits apply."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _bound_memory() -> None:
    """Shrinks asyncio's TLS buffer from 256 KiB per connection, even an idle one: 2,000 connections would take 512 MiB.

    32 KiB hold two TLS records. With the lower threshold glibc returns the memory of closed connections to the system.
    """
    SSLProtocol.max_size = _TLS_BUFFER
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _TLS_BUFFER)
        mallopt(_ARENA_MAX, 2)


def _certificates(kube: Kube, settings: AdmissionSettings, tls: Serving) -> Certificates:
    section = settings.webhook
    if section.certificates == "Files":
        return MountedCertificates(section.certificate_dir, tls)
    place = CertificateLocations(
        namespace=settings.namespace,
        secret=section.secret,
        names=_names(section, settings.namespace),
        mutating=section.mutating_configuration,
        validating=section.validating_configuration,
        crds=tuple(f"{resource.plural}.{GROUP}" for resource in ALL if resource.group == GROUP),
        service=section.service,
    )
    lifetime = section.certificate_days * _DAY
    lifetimes = Lifetimes(lifetime, renew_before=lifetime / 3, settle=section.certificate_settle)
    return OwnCertificates(kube, place, tls, lifetimes)


def _names(section: WebhookSection, namespace: str) -> tuple[str, ...]:
    """Returns the names that the certificate must cover: those of the Service, or the host of a development URL."""
    host = urlsplit(section.url).hostname if section.url else None
    return (host,) if host else service_names(section.service, namespace)
