"""The controller process's view of the cluster: one informer per kind, and queries that combine several kinds.

It makes no decisions and no writes. Feed, scheduler and reconcilers all query it, so that a Workload's queue or a queue's
activity is determined in one place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from admission.controllers.state.active_conditions import Activity, cluster_queue_activity
from admission.controllers.state.admission_context import AdmissionContext
from admission.controllers.state.checks import checks_for, own_checks
from admission.controllers.watch.advance_reservations.view import AdvanceReservationView
from admission.controllers.watch.contradictions import contradiction
from admission.controllers.watch.devices.view import DeviceView
from admission.controllers.watch.kinds import Kinds
from admission.controllers.watch.local_copies import Copy
from admission.controllers.watch.runtime_classes import refusal
from admission.controllers.watch.sakkara_trees import Trees
from admission.controllers.watch.slices import replaced_key, waits_for
from admission.controllers.watch.unreserved_usage import UnreservedUsage
from admission.controllers.watch.view_feature import ViewFeature, ViewFeatures
from admission.controllers.watch.volumes.view import VolumeView
from admission.controllers.watch.watched import InformedView, View, Watched
from admission.feature_gates import DEFAULT_GATES, FeatureGates
from api.kube.client import Kube
from api.kube.informers.informer import Informer
from api.kube.resources import Resource
from api.meta import is_true, object_key
from api.names import HOSTNAME_LABEL, QUOTA_RESERVED
from api.pod.labels import matches
from api.pod.pods import Node
from api.queues import ClusterQueue
from api.sakkara import TOPOLOGY_NAMESPACE
from api.topology import Topology
from api.workloads import Workload

BY_QUEUE = "queue"
BY_CLUSTER_QUEUE = "clusterQueue"
BY_NAMESPACE = "namespace"
BY_REPLACED = "replaced"
BY_HOSTNAME = "hostname"


class ClusterView(Kinds):
    """The objects of a cluster, whatever their source, and queries about them.

    `features` translates what only some clusters have, such as volume and device claims, into constraints of Workloads.
    `outside` is usage by pods that no Workload accounts for. `gates` are the feature gates.
    """

    def __init__(self, copies: Mapping[Resource, Copy[Any]], gates: FeatureGates = DEFAULT_GATES) -> None:
        """Builds the derived views; their handlers run first, so handlers of nodes and flavors see current trees."""
        super().__init__(copies)
        self.gates = gates
        self.limit_ranges.add_index(BY_NAMESPACE, lambda limits: [limits.metadata.namespace])
        self.workloads.add_index(BY_REPLACED, lambda w: [key] if (key := replaced_key(w)) else [])
        self.workloads.add_index(BY_QUEUE, lambda w: [object_key(w.metadata.namespace, w.spec.queue_name)])
        self.local_queues.add_index(BY_CLUSTER_QUEUE, lambda queue: [queue.spec.cluster_queue])
        self.nodes.add_index(BY_HOSTNAME, lambda node: [hostname(node)])
        self.features = ViewFeatures([feature(self, copies) for feature in FEATURES])
        self.outside = UnreservedUsage(self.pods, self.workloads)

    def node_named(self, host: str) -> Node | None:
        """Returns the node of that hostname, by which assignments name nodes, or None."""
        return next(iter(self.nodes.by_index(BY_HOSTNAME, host)), None)

    def topology(self, name: str) -> Topology | None:
        """Returns the topology of that name, from a Topology object or a ConfigMap, or None."""
        return self.topologies.objects.get(name) or self.features.topologies.get(name)

    def activity(self, queue: ClusterQueue) -> Activity:
        """Computes the queue's Active condition from the present objects."""
        topologies = {**self.features.topologies, **self.topologies.objects}
        return cluster_queue_activity(
            queue, self.flavors.objects, topologies, self.checks.objects, self.cohorts.objects
        )

    def namespace_matches(self, queue: ClusterQueue, namespace: str | None) -> bool:
        """Reports whether the queue accepts workloads of the namespace."""
        stored = self.namespaces.objects.get(namespace or "")
        return matches(queue.spec.namespace_selector, stored.metadata.labels if stored else {})

    def context(
        self, workload: Workload, validation_error: str | None = None, decided: str | None = None
    ) -> AdmissionContext:
        """Returns everything that the Workload's next status depends on."""
        local = self.local_queue_of(workload)
        queue = self.cluster_queues.objects.get(local.spec.cluster_queue) if local else None
        return AdmissionContext(
            local_queue=local,
            cluster_queue=queue,
            cluster_queue_active=queue is not None and self.activity(queue).active,
            namespace_matches=queue is not None and self.namespace_matches(queue, workload.metadata.namespace),
            validation_error=validation_error,
            checks=own_checks(workload) + (checks_for(queue, workload.status.admission) if queue else ()),
            refusal=self._refusal(workload),
            gated_by=self.gates.admission_gated_by,
            decided=decided,
            waits_for_slice=waits_for(workload, self.workloads.objects.get(key))
            if (key := replaced_key(workload))
            else None,
        )

    def _refusal(self, workload: Workload) -> tuple[str, str] | None:
        """Returns why pods of a Workload without quota would be rejected or never bound, or None."""
        if is_true(workload.status.conditions, QUOTA_RESERVED):
            return None
        of_class = refusal(workload, self.runtime_classes.objects)
        contradicts = contradiction(
            workload, lambda: self.implies_topology(workload), lambda: any(self.topologies_of(workload))
        )
        return contradicts or of_class or self.features.refusal(workload)


FEATURES: Final[list[type[ViewFeature]]] = [
    Trees,
    VolumeView,
    DeviceView,
    AdvanceReservationView,
]
"""The features of the view. What is left out costs nothing and breaks nothing."""


def watched_kinds() -> dict[Resource, Watched[Any]]:
    """Returns the declarations of all watched kinds, in their order: those of features first, on which the others depend."""
    views: list[type[View]] = [*FEATURES, Kinds]
    return {kind.resource: kind for view in views for kind in view.kinds()}


WATCHED: Final[Mapping[Resource, Watched[Any]]] = watched_kinds()


class Views(ClusterView, InformedView):
    """ClusterView on informers, which do not run yet. `topology_namespace` is the namespace of the topology ConfigMaps."""

    def __init__(
        self, kube: Kube, topology_namespace: str = TOPOLOGY_NAMESPACE, gates: FeatureGates = DEFAULT_GATES
    ) -> None:
        self.informers: Mapping[Resource, Informer[Any]] = {
            resource: kind.watch(kube, topology_namespace) for resource, kind in watched_kinds().items()
        }
        super().__init__(self.informers, gates)

    def all(self) -> Iterable[Informer[Any]]:
        """Returns every informer."""
        return self.informers.values()

    async def synced(self, seconds: float) -> None:
        """Waits until every informer holds its first list. Raises TimeoutError that names the missing resource."""
        await asyncio.gather(*(informer.synced(seconds) for informer in self.all()))


def hostname(node: Node) -> str:
    """Returns the node's name in assignments, or an empty string if it has no hostname label."""
    return node.metadata.labels.get(HOSTNAME_LABEL, "")
