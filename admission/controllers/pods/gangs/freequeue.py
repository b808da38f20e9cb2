"""Creates the queues of gangs that name none; they limit no quota, so such gangs wait only for node capacity.

These are flavor and ClusterQueue GANG_QUEUE, and a LocalQueue of that name in each namespace where a gang needs it. The flavor
means all Linux nodes with hostname as only level, unless a user created a flavor of that name. A gang that requests another
level can use the cluster's other flavors with a topology: the ClusterQueue lists them after its own flavor, and follows their
changes. Created objects are kept for the next gang. Objects of these names that others created are used unchanged.

Sakkara groups have the same under the name SAKKARA_QUEUE, with the tree of that name (sakkara_trees.py); there a group may
preempt groups of lower priority.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from admission.controllers.pods.pod_indexes import PodView
from admission.controllers.watch.cluster_view import Views
from admission.controllers.write.creation import create_unless_present
from admission.integrations.pods.pod import QueuedPod
from api.kube.client import Kube, PatchKind
from api.kube.informers.store import Change
from api.kube.reconcile import Reconciler
from api.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS
from api.meta import ObjectMeta, object_key, split_key
from api.names import GANG, GANG_MADE, GANG_QUEUE, HOSTNAME_LABEL, OS_LABEL, QUEUE_NAME_LABEL, SAKKARA_QUEUE
from api.queues import (
    ClusterQueue,
    ClusterQueueSpec,
    FlavorQuotas,
    LocalQueue,
    LocalQueueSpec,
    Preemption,
    ResourceGroup,
    ResourceQuota,
)
from api.text.quantity import PODS
from api.topology import InlineTopology, ResourceFlavor, ResourceFlavorSpec
from api.workloads import Workload

log = logging.getLogger(__name__)

SYNC_TIMEOUT: Final = 120.0
_LABELS: Final = {GANG_MADE: "true"}
_WITHOUT_END: Final = "1G"
"""Number of pods: more than any cluster has."""


QUEUES: Final = (GANG_QUEUE, SAKKARA_QUEUE)
MOST_FLAVORS: Final = 64
"""Maximum number of flavors of a ClusterQueue."""


def flavor(name: str = GANG_QUEUE) -> ResourceFlavor:
    """Returns the flavor of all Linux nodes."""
    linux = {OS_LABEL: "linux"}
    if name == SAKKARA_QUEUE:
        spec = ResourceFlavorSpec(node_labels=linux, topology_name=SAKKARA_QUEUE)
    else:
        spec = ResourceFlavorSpec(node_labels=linux, topology=InlineTopology(levels=(HOSTNAME_LABEL,)))
    return ResourceFlavor(metadata=ObjectMeta(name=name, labels=_LABELS), spec=spec)


def cluster_queue(name: str = GANG_QUEUE, flavors: Mapping[str, ResourceFlavor] | None = None) -> ClusterQueue:
    """Returns the ClusterQueue, open to all namespaces and without limits; `flavors` are all of the cluster."""
    endless = (ResourceQuota(name=PODS, nominal_quota=_WITHOUT_END),)
    quotas = tuple(
        FlavorQuotas(name=each, resources=endless) for each in (name, *_flavors_with_levels(name, flavors or {}))
    )
    group = ResourceGroup(covered_resources=(PODS,), flavors=quotas)
    spec = ClusterQueueSpec(namespace_selector={}, resource_groups=(group,))
    if name == SAKKARA_QUEUE:
        spec = spec.model_copy(update={"preemption": Preemption(within_cluster_queue="LowerPriority")})
    return ClusterQueue(metadata=ObjectMeta(name=name, labels=_LABELS), spec=spec)


def _flavors_with_levels(name: str, flavors: Mapping[str, ResourceFlavor]) -> list[str]:
    """Returns the other flavors in which a gang may find the level that it requests."""
    if name != GANG_QUEUE:
        return []
    levelled = (made for made in flavors.values() if made.spec.topology_name or made.spec.topology)
    # a flavor being deleted can be removed only once no ClusterQueue lists it
    staying = (made.key for made in levelled if not made.metadata.deletion_timestamp)
    return sorted(each for each in staying if each not in QUEUES)[: MOST_FLAVORS - 1]


def local_queue(namespace: str, name: str = GANG_QUEUE) -> LocalQueue:
    """Returns the namespace's LocalQueue."""
    meta = ObjectMeta(name=name, namespace=namespace, labels=_LABELS)
    return LocalQueue(metadata=meta, spec=LocalQueueSpec(cluster_queue=name))


class FreeQueueController:
    """Creates the queues; it runs on the leader only."""

    def __init__(self, kube: Kube, pods: PodView, views: Views) -> None:
        self._kube, self._pods, self._views = kube, pods, views
        self.queue = Reconciler("queues of gangs", self.reconcile, workers=1)
        pods.add_handler(self._pod_changed)
        views.workloads.add_handler(self._workload_changed)
        views.flavors.add_handler(self._flavor_changed)

    async def run(self) -> None:
        """Runs until cancelled; the informers run elsewhere."""
        await self._pods.synced(SYNC_TIMEOUT)
        await self._views.synced(SYNC_TIMEOUT)
        await self.queue.run()

    def _pod_changed(self, change: Change[QueuedPod]) -> None:
        """Queues the namespace of a gang without its queues; pods outside gangs get none."""
        if GANG not in change.object.annotations:
            return
        self._requested(change.object.metadata.namespace, change.object.labels.get(QUEUE_NAME_LABEL, ""))

    def _workload_changed(self, change: Change[Workload]) -> None:
        """Queues the namespace of a Workload, whose queue may differ from the one that its pods name."""
        self._requested(change.object.metadata.namespace or "", change.object.spec.queue_name)

    def _flavor_changed(self, change: Change[ResourceFlavor]) -> None:
        """Updates the ClusterQueue, since the flavor may have a level that gangs request."""
        if GANG_QUEUE in self._views.cluster_queues.objects:
            self.queue.add(object_key(None, GANG_QUEUE))

    def _requested(self, namespace: str, queue: str) -> None:
        key = object_key(namespace, queue)
        if queue in QUEUES and key not in self._views.local_queues.objects:
            self.queue.add(key)

    async def reconcile(self, key: str) -> float | None:
        """Creates the missing objects of a namespace's queue; updates the ClusterQueue."""
        namespace, queue = split_key(key)
        if queue not in self._views.flavors.objects:
            await create_unless_present(self._kube, RESOURCE_FLAVORS, flavor(queue))
        wanted, stored = (
            cluster_queue(queue, self._views.flavors.objects),
            self._views.cluster_queues.objects.get(queue),
        )
        if stored is None:
            await create_unless_present(self._kube, CLUSTER_QUEUES, wanted)
        elif GANG_MADE in stored.metadata.labels and _flavors(stored) != _flavors(wanted):
            groups = wanted.to_wire()["spec"]["resourceGroups"]
            await self._kube.patch(CLUSTER_QUEUES, queue, {"spec": {"resourceGroups": groups}}, kind=PatchKind.MERGE)
        if namespace and key not in self._views.local_queues.objects:
            await create_unless_present(self._kube, LOCAL_QUEUES, local_queue(namespace, queue))
        return None


def _flavors(queue: ClusterQueue) -> list[str]:
    return [quotas.name for group in queue.spec.resource_groups for quotas in group.flavors]
