"""The ungater process: reads the settings, builds the parts and runs them until it is stopped."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgspec

from api.kube import owned_series
from api.kube.client import Kube
from api.kube.informers.informer import Informer
from api.kube.informers.lazy_informer import LazyInformer
from api.kube.owned_series import Living, OwnerKind
from api.kube.resources import CLAIMS, CLUSTER_QUEUES, NODES, PODS, WORKLOADS
from api.names import OPENED_LABEL, PODSET_LABEL
from api.pod.pods import PENDING_PODS, GatedPod
from api.process.access import Access
from api.process.environment import BAD_SETTINGS, faults
from api.process.leader import LeaderElection
from api.process.process import Process, serve
from api.reading import read_workload
from ungater.adoption import UNLABELLED, Adoption
from ungater.gate_controller import Ungater
from ungater.named import Host, Named
from ungater.settings import UngaterSettings

NAME = "ungater"


async def run(process: Process, settings: UngaterSettings) -> None:
    """Runs the informers always, so that a standby starts fast, and opens gates while leading."""
    async with await Kube.connect(settings.client_settings(NAME)) as kube:
        workloads = Informer(kube, WORKLOADS, read_workload)
        # Pods created without the gate (controller.openTemplates) need no work and would be most of the events.
        pods = Informer(kube, PODS, GatedPod, label_selector=f"{PODSET_LABEL},!{OPENED_LABEL}")
        nodes = Informer(kube, NODES, msgspec.json.Decoder(Host).decode)
        claims = LazyInformer(kube, CLAIMS, msgspec.json.Decoder(Named).decode)
        queues = Informer(kube, CLUSTER_QUEUES, msgspec.json.Decoder(Named).decode)
        unlabelled = Informer(kube, PODS, GatedPod, label_selector=UNLABELLED, field_selector=PENDING_PODS)
        informers: tuple[Informer[Any], ...] = (workloads, pods, nodes, unlabelled, claims)
        election = LeaderElection(kube, settings.leader_settings(NAME))
        writer = kube.fenced(election.fence) if settings.lease.enabled else kube
        adoption = Adoption(writer, unlabelled)
        ungater = Ungater(writer, workloads, pods, nodes, claims, settings.ungater)
        process.may_read = Access(kube).may_read
        process.ready = lambda: next(
            (f"{informer.resource.plural} are not listed yet" for informer in informers if not informer.is_settled),
            None,
        )

        async def lead() -> None:
            for informer in informers:
                await informer.synced(settings.sync_timeout)
            # The refresh shows the previous leader's last patches, which the watch may not have delivered yet.
            await asyncio.gather(workloads.refresh(), pods.refresh())
            async with asyncio.TaskGroup() as work:
                work.create_task(ungater.run(), name="ungater")
                work.create_task(adoption.run(), name="adoption")

        async with asyncio.TaskGroup() as group:
            # The queues are no condition for the rest: only the removal of their series depends on them.
            for informer in (*informers, queues):
                group.create_task(informer.run(), name=f"informer {informer.resource.plural}")
            group.create_task(owned_series.keep(lambda: _living(queues)), name="series")
            leading = election.run(lead) if settings.lease.enabled else election.run_alone(lead)
            group.create_task(leading, name="ungater")


def _living(queues: Informer[Named]) -> Living:
    """Returns the ClusterQueues whose series are kept; nothing, which keeps all, before the first list."""
    return {OwnerKind.CLUSTER_QUEUE: queues.objects} if queues.has_synced else {}


def main() -> int:
    """Runs the process and returns its exit code; 2 for invalid settings."""
    try:
        settings = UngaterSettings()
    except BAD_SETTINGS as bad:
        print(faults(bad), file=sys.stderr)
        return 2
    return serve(lambda process: run(process, settings), settings.process_settings(NAME))
