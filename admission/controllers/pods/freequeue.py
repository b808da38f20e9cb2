"""The queue of gangs that name none: it counts nothing, so that such gangs wait for room on the nodes alone.

Flavor and ClusterQueue GANG_QUEUE, and a LocalQueue of that name in each namespace where a gang asks for it; the flavor means
all Linux nodes, each for itself, unless somebody made another one of the name. What is made stays: it costs nothing, and is
wanted again. Objects of the name that are somebody else's are used as they are.
"""

from __future__ import annotations

import logging
from typing import Final

from admission.controllers.pods.views import PodView
from admission.controllers.views import Views
from admission.integrations.pod import QueuedPod
from api.errors import AlreadyExists
from api.kube.client import Kube
from api.kube.reconcile import Reconciler
from api.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, Resource
from api.kube.store import Change
from api.meta import KubeObject, ObjectMeta, object_key
from api.names import GANG_MADE, GANG_QUEUE, HOSTNAME_LABEL, QUEUE_NAME_LABEL
from api.quantity import PODS
from api.queues import (
    ClusterQueue,
    ClusterQueueSpec,
    FlavorQuotas,
    LocalQueue,
    LocalQueueSpec,
    ResourceGroup,
    ResourceQuota,
)
from api.topology import InlineTopology, ResourceFlavor, ResourceFlavorSpec

log = logging.getLogger(__name__)

SYNC_TIMEOUT: Final = 120.0
_LABELS: Final = {GANG_MADE: "true"}
_WITHOUT_END: Final = "1G"
"""Pods: more than any cluster has."""


def flavor() -> ResourceFlavor:
    """All Linux nodes."""
    spec = ResourceFlavorSpec(
        node_labels={"kubernetes.io/os": "linux"}, topology=InlineTopology(levels=(HOSTNAME_LABEL,))
    )
    return ResourceFlavor(metadata=ObjectMeta(name=GANG_QUEUE, labels=_LABELS), spec=spec)


def cluster_queue() -> ClusterQueue:
    """Of any namespace, without a limit."""
    pods = FlavorQuotas(name=GANG_QUEUE, resources=(ResourceQuota(name=PODS, nominal_quota=_WITHOUT_END),))
    group = ResourceGroup(covered_resources=(PODS,), flavors=(pods,))
    spec = ClusterQueueSpec(namespace_selector={}, resource_groups=(group,))
    return ClusterQueue(metadata=ObjectMeta(name=GANG_QUEUE, labels=_LABELS), spec=spec)


def local_queue(namespace: str) -> LocalQueue:
    """The namespace's door to it."""
    meta = ObjectMeta(name=GANG_QUEUE, namespace=namespace, labels=_LABELS)
    return LocalQueue(metadata=meta, spec=LocalQueueSpec(cluster_queue=GANG_QUEUE))


class FreeQueueController:
    """Makes them. Only the leader runs it."""

    def __init__(self, kube: Kube, pods: PodView, views: Views) -> None:
        self._kube, self._pods, self._views = kube, pods, views
        self.queue = Reconciler("queues of gangs", self.reconcile, workers=1)
        pods.add_handler(self._pod_changed)

    async def run(self) -> None:
        """Until cancelled. The informers run elsewhere."""
        await self._pods.synced(SYNC_TIMEOUT)
        await self._views.synced(SYNC_TIMEOUT)
        await self.queue.run()

    def _pod_changed(self, change: Change[QueuedPod]) -> None:
        namespace = change.object.metadata.namespace
        asked = change.object.labels.get(QUEUE_NAME_LABEL) == GANG_QUEUE
        if asked and object_key(namespace, GANG_QUEUE) not in self._views.local_queues.objects:
            self.queue.add(namespace)

    async def reconcile(self, namespace: str) -> float | None:
        """What the namespace lacks."""
        if GANG_QUEUE not in self._views.flavors.objects:
            await self._create(RESOURCE_FLAVORS, flavor())
        if GANG_QUEUE not in self._views.cluster_queues.objects:
            await self._create(CLUSTER_QUEUES, cluster_queue())
        if object_key(namespace, GANG_QUEUE) not in self._views.local_queues.objects:
            await self._create(LOCAL_QUEUES, local_queue(namespace))
        return None

    async def _create(self, resource: Resource, obj: KubeObject) -> None:
        try:
            await self._kube.create(resource, obj.to_wire())
        except AlreadyExists:
            log.debug("%s %s is there already", resource.kind, obj.key)
