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
from admission.controllers.watch.contradictions import contradiction
from admission.controllers.watch.devices.view import DeviceView
from admission.controllers.watch.local_copies import Copy
from admission.controllers.watch.node_amounts import NOTHING
from admission.controllers.watch.projection import NodeReader, PodReader, ProjectedPod
from admission.controllers.watch.resources import LimitRange
from admission.controllers.watch.runtime_classes import RuntimeClass, refusal
from admission.controllers.watch.sakkara_trees import Trees
from admission.controllers.watch.slices import replaced_key, waits_for
from admission.controllers.watch.unreserved_usage import UnreservedUsage
from admission.controllers.watch.volumes.capacity import DriverCapacity
from admission.controllers.watch.volumes.view import VolumeView
from admission.controllers.watch.watched import InformedView, View, Watched, item
from admission.feature_gates import DEFAULT_GATES, FeatureGates
from api.admission_checks import AdmissionCheck
from api.advance_reservations import AdvanceReservation
from api.kube.client import Kube
from api.kube.decode import decode_dict
from api.kube.informers.informer import Informer
from api.kube.informers.lazy_informer import LazyInformer
from api.kube.informers.optional_informer import OptionalInformer
from api.kube.resources import (
    ADMISSION_CHECKS,
    ADVANCE_RESERVATIONS,
    CLAIMS,
    CLUSTER_QUEUES,
    COHORTS,
    CONFIG_MAPS,
    CSI_CAPACITIES,
    CSI_DRIVERS,
    CSI_NODES,
    DEVICE_CLASSES,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_FLAVORS,
    RESOURCE_SLICES,
    RUNTIME_CLASSES,
    STORAGE_CLASSES,
    TOPOLOGIES,
    VOLUMES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from api.meta import is_true, object_key
from api.names import HOSTNAME_LABEL, QUOTA_RESERVED, SAKKARA_TOPOLOGY
from api.pod.devices import DeviceClass, ResourceClaimTemplate, ResourceSlice
from api.pod.labels import matches
from api.pod.pods import Namespace, Node
from api.pod.volumes import CsiCapacity, CsiDriver, CsiNode, StorageClass, read_claim, read_volume
from api.queues import ClusterQueue, Cohort, LocalQueue, WorkloadPriorityClass
from api.reading import read_workload
from api.sakkara import TOPOLOGY_NAMESPACE, ConfigMap
from api.topology import ResourceFlavor, Topology
from api.workloads import Workload

BY_QUEUE = "queue"
BY_CLUSTER_QUEUE = "clusterQueue"
BY_NAMESPACE = "namespace"
BY_REPLACED = "replaced"
BY_HOSTNAME = "hostname"
BOUND_PODS = "spec.nodeName!="


class ClusterView(View):
    """The objects of a cluster, whatever their source, and queries about them.

    The attributes are the one list of watched kinds; a kind comes after those that it depends on, so that each object of a
    world is fed only once. `trees` holds the topologies that ConfigMaps (`topology_maps`) describe. `outside` is usage by pods
    that no Workload accounts for. `volumes` and `devices` translate volume and device claims into constraints of Workloads.
    `gates` are the feature gates.
    """

    topology_maps = Watched(
        CONFIG_MAPS,
        item(ConfigMap),
        of_topologies=True,
        label_selector=SAKKARA_TOPOLOGY,
        without="Sakkara's trees and groups",
    )
    topologies = Watched(TOPOLOGIES, item(Topology))
    flavors = Watched(RESOURCE_FLAVORS, item(ResourceFlavor))
    cohorts = Watched(COHORTS, item(Cohort))
    reservations = Watched(ADVANCE_RESERVATIONS, item(AdvanceReservation), informer=OptionalInformer)
    checks = Watched(ADMISSION_CHECKS, item(AdmissionCheck))
    namespaces = Watched(NAMESPACES, item(Namespace))
    limit_ranges = Watched(LIMIT_RANGES, item(LimitRange))
    runtime_classes = Watched(RUNTIME_CLASSES, item(RuntimeClass))
    storage_classes = Watched(
        STORAGE_CLASSES, item(StorageClass), informer=LazyInformer, without="the classes of claims"
    )
    persistent_volumes = Watched(VOLUMES, lambda: read_volume, informer=LazyInformer, without="the volumes of claims")
    claims = Watched(CLAIMS, lambda: read_claim, informer=LazyInformer, without="claims of pods")
    csi_nodes = Watched(CSI_NODES, item(CsiNode), informer=LazyInformer, without="how many volumes nodes can have")
    csi_drivers = Watched(
        CSI_DRIVERS, item(CsiDriver), informer=LazyInformer, without="which drivers tell their capacity"
    )
    csi_capacities = Watched(
        CSI_CAPACITIES, item(CsiCapacity), informer=LazyInformer, without="how much drivers can provision"
    )
    resource_slices = Watched(RESOURCE_SLICES, item(ResourceSlice), informer=LazyInformer, without="devices")
    device_classes = Watched(DEVICE_CLASSES, item(DeviceClass), informer=LazyInformer, without="the classes of devices")
    claim_templates = Watched(
        RESOURCE_CLAIM_TEMPLATES,
        item(ResourceClaimTemplate),
        informer=LazyInformer,
        without="the devices that pods ask for",
    )
    nodes = Watched(NODES, NodeReader, whole=item(Node))
    cluster_queues = Watched(CLUSTER_QUEUES, item(ClusterQueue))
    local_queues = Watched(LOCAL_QUEUES, item(LocalQueue))
    workload_priorities = Watched(WORKLOAD_PRIORITY_CLASSES, item(WorkloadPriorityClass))
    priorities = Watched(PRIORITY_CLASSES, lambda: decode_dict)
    workloads = Watched(WORKLOADS, lambda: read_workload, whole=item(Workload))
    pods = Watched(PODS, PodReader, field_selector=BOUND_PODS)

    def __init__(self, copies: Mapping[Resource, Copy[Any]], gates: FeatureGates = DEFAULT_GATES) -> None:
        """Builds the derived views; their handlers run first, so handlers of nodes and flavors see current trees."""
        vars(self).update({kind.name: copies[kind.resource] for kind in WATCHED.values()})
        self.gates = gates
        self.limit_ranges.add_index(BY_NAMESPACE, lambda limits: [limits.metadata.namespace])
        self.workloads.add_index(BY_REPLACED, lambda w: [key] if (key := replaced_key(w)) else [])
        self.workloads.add_index(BY_QUEUE, lambda w: [object_key(w.metadata.namespace, w.spec.queue_name)])
        self.local_queues.add_index(BY_CLUSTER_QUEUE, lambda queue: [queue.spec.cluster_queue])
        self.nodes.add_index(BY_HOSTNAME, lambda node: [hostname(node)])
        self.trees = Trees(self.topology_maps, self.nodes)
        self.volumes = VolumeView(
            self.claims,
            self.persistent_volumes,
            self.storage_classes,
            self.csi_nodes,
            DriverCapacity(self.csi_drivers, self.csi_capacities),
            self.nodes,
            self.workloads,
            self.pods,
        )
        self.devices = DeviceView(
            self.resource_slices, self.device_classes, self.claim_templates, self.workloads, self.pods
        )
        self.outside = UnreservedUsage(self.pods, self.workloads)

    def node_named(self, host: str) -> Node | None:
        """Returns the node of that hostname, by which assignments name nodes, or None."""
        return next(iter(self.nodes.by_index(BY_HOSTNAME, host)), None)

    def topology(self, name: str) -> Topology | None:
        """Returns the topology of that name, from a Topology object or a ConfigMap, or None."""
        return self.topologies.objects.get(name) or self.trees.topologies.get(name)

    def local_queue_of(self, workload: Workload) -> LocalQueue | None:
        """Returns the LocalQueue that the Workload names, or None."""
        return self.local_queues.objects.get(object_key(workload.metadata.namespace, workload.spec.queue_name))

    def activity(self, queue: ClusterQueue) -> Activity:
        """Computes the queue's Active condition from the present objects."""
        topologies = {**self.trees.topologies, **self.topologies.objects}
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

    def more_offered(self, node: str) -> Mapping[str, int]:
        """Returns the node's extra capacity beyond its resources: devices and attachable volumes."""
        devices, volumes = self.devices.offered(node), self.volumes.attachments.offered(node)
        local = self.volumes.local.offered(node)
        return {**devices, **volumes, **local} if devices or volumes or local else NOTHING

    def more_taken(self, pod: ProjectedPod) -> Mapping[str, int]:
        """Returns what a bound pod uses of that extra capacity."""
        devices, volumes = self.devices.taken(pod), self.volumes.attachments.taken(pod)
        local = self.volumes.local.taken(pod)
        return {**devices, **volumes, **local} if devices or volumes or local else NOTHING

    def _refusal(self, workload: Workload) -> tuple[str, str] | None:
        """Returns why pods of a Workload without quota would be rejected or never bound, or None."""
        if is_true(workload.status.conditions, QUOTA_RESERVED):
            return None
        of_class = refusal(workload, self.runtime_classes.objects)
        of_volumes = of_class or self.volumes.refusal(workload)
        contradicts = contradiction(
            workload, lambda: self._implies_topology(workload), lambda: any(self._topologies_of(workload))
        )
        return contradicts or of_volumes or self.devices.refusal(workload) or self._refusal_by_name(workload)

    def _refusal_by_name(self, workload: Workload) -> tuple[str, str] | None:
        """Returns why no node of a topology has the extended resources of the pods; without a topology, quota alone counts."""
        if not self._implies_topology(workload):
            return None
        return self.devices.refusal_by_name(
            workload, lambda name: any(name in node.status.allocatable for node in self.nodes.objects.values())
        )

    def _implies_topology(self, workload: Workload) -> bool:
        """Reports whether all flavors of the Workload's ClusterQueue have a topology."""
        aware = self._topologies_of(workload)
        return bool(aware) and all(aware)

    def _topologies_of(self, workload: Workload) -> list[bool]:
        """Tells of each flavor of the Workload's ClusterQueue whether it has a topology."""
        local = self.local_queue_of(workload)
        queue = self.cluster_queues.objects.get(local.spec.cluster_queue) if local else None
        groups = queue.spec.resource_groups if queue is not None else ()
        flavors = [self.flavors.objects.get(flavor.name) for group in groups for flavor in group.flavors]
        return [flavor is not None and flavor.topology_aware for flavor in flavors]


WATCHED: Final[Mapping[Resource, Watched[Any]]] = {
    kind.resource: kind for kind in vars(ClusterView).values() if isinstance(kind, Watched)
}
"""The declarations of all watched kinds, in their order."""


class Views(ClusterView, InformedView):
    """ClusterView on informers, which do not run yet. `topology_namespace` is the namespace of the topology ConfigMaps."""

    def __init__(
        self, kube: Kube, topology_namespace: str = TOPOLOGY_NAMESPACE, gates: FeatureGates = DEFAULT_GATES
    ) -> None:
        self.informers: Mapping[Resource, Informer[Any]] = {
            resource: kind.watch(kube, topology_namespace) for resource, kind in WATCHED.items()
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
