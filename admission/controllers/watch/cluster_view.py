"""The controller process's view of the cluster: one informer per kind, and queries that combine several kinds.

It makes no decisions and no writes. Feed, scheduler and reconcilers all query it, so that a Workload's queue or a queue's
activity is determined in one place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

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
from admission.feature_gates import DEFAULT_GATES, FeatureGates
from api.admission_checks import AdmissionCheck
from api.advance_reservations import AdvanceReservation
from api.kube.client import Kube
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
)
from api.meta import is_true, object_key
from api.names import HOSTNAME_LABEL, QUOTA_RESERVED, SAKKARA_TOPOLOGY
from api.pod.devices import DeviceClass, ResourceClaimTemplate, ResourceSlice
from api.pod.labels import matches
from api.pod.pods import Namespace, Node
from api.pod.volumes import Claim, CsiCapacity, CsiDriver, CsiNode, StorageClass, Volume, read_claim, read_volume
from api.queues import ClusterQueue, Cohort, LocalQueue, WorkloadPriorityClass
from api.reading import read_workload
from api.sakkara import TOPOLOGY_NAMESPACE, ConfigMap
from api.topology import ResourceFlavor, Topology
from api.workloads import Workload

T = TypeVar("T")

BY_QUEUE = "queue"
BY_CLUSTER_QUEUE = "clusterQueue"
BY_NAMESPACE = "namespace"
BY_REPLACED = "replaced"
BY_HOSTNAME = "hostname"
BOUND_PODS = "spec.nodeName!="


@dataclass(frozen=True)
class ClusterView:
    """The objects of a cluster, whatever their source, and queries about them.

    `trees` holds the topologies that ConfigMaps (`topology_maps`) describe. `outside` is usage by pods that no Workload
    accounts for. `volumes` and `devices` translate volume and device claims into constraints of Workloads. `gates` are the
    feature gates.
    """

    nodes: Copy[Node]
    pods: Copy[ProjectedPod]
    namespaces: Copy[Namespace]
    limit_ranges: Copy[LimitRange]
    runtime_classes: Copy[RuntimeClass]
    claims: Copy[Claim]
    persistent_volumes: Copy[Volume]
    storage_classes: Copy[StorageClass]
    csi_nodes: Copy[CsiNode]
    csi_drivers: Copy[CsiDriver]
    csi_capacities: Copy[CsiCapacity]
    resource_slices: Copy[ResourceSlice]
    device_classes: Copy[DeviceClass]
    claim_templates: Copy[ResourceClaimTemplate]
    topologies: Copy[Topology]
    topology_maps: Copy[ConfigMap]
    flavors: Copy[ResourceFlavor]
    cluster_queues: Copy[ClusterQueue]
    local_queues: Copy[LocalQueue]
    cohorts: Copy[Cohort]
    reservations: Copy[AdvanceReservation]
    checks: Copy[AdmissionCheck]
    workloads: Copy[Workload]
    workload_priorities: Copy[WorkloadPriorityClass]
    priorities: Copy[dict[str, Any]]
    gates: FeatureGates = DEFAULT_GATES
    trees: Trees = field(init=False)
    outside: UnreservedUsage = field(init=False)
    volumes: VolumeView = field(init=False)
    devices: DeviceView = field(init=False)

    def __post_init__(self) -> None:
        """Builds the derived views; their handlers run first, so handlers of nodes and flavors see current trees."""
        self.nodes.add_index(BY_HOSTNAME, lambda node: [hostname(node)])
        object.__setattr__(self, "trees", Trees(self.topology_maps, self.nodes))
        volumes = VolumeView(
            self.claims,
            self.persistent_volumes,
            self.storage_classes,
            self.csi_nodes,
            DriverCapacity(self.csi_drivers, self.csi_capacities),
            self.nodes,
            self.workloads,
            self.pods,
        )
        object.__setattr__(self, "volumes", volumes)
        devices = DeviceView(self.resource_slices, self.device_classes, self.claim_templates, self.workloads, self.pods)
        object.__setattr__(self, "devices", devices)
        object.__setattr__(self, "outside", UnreservedUsage(self.pods, self.workloads))

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


@dataclass(frozen=True)
class Views(ClusterView):
    """ClusterView on the informers of the controller process."""

    nodes: Informer[Node]
    pods: Informer[ProjectedPod]
    namespaces: Informer[Namespace]
    limit_ranges: Informer[LimitRange]
    runtime_classes: Informer[RuntimeClass]
    claims: Informer[Claim]
    persistent_volumes: Informer[Volume]
    storage_classes: Informer[StorageClass]
    csi_nodes: Informer[CsiNode]
    csi_drivers: Informer[CsiDriver]
    csi_capacities: Informer[CsiCapacity]
    resource_slices: Informer[ResourceSlice]
    device_classes: Informer[DeviceClass]
    claim_templates: Informer[ResourceClaimTemplate]
    topologies: Informer[Topology]
    topology_maps: Informer[ConfigMap]
    flavors: Informer[ResourceFlavor]
    cluster_queues: Informer[ClusterQueue]
    local_queues: Informer[LocalQueue]
    cohorts: Informer[Cohort]
    reservations: Informer[AdvanceReservation]
    checks: Informer[AdmissionCheck]
    workloads: Informer[Workload]
    workload_priorities: Informer[WorkloadPriorityClass]
    priorities: Informer[dict[str, Any]]

    def all(self) -> Iterable[Informer[Any]]:
        """Returns every informer."""
        seen = (getattr(self, name) for name in self.__dataclass_fields__)
        return [each for each in seen if isinstance(each, Informer)]

    async def synced(self, seconds: float) -> None:
        """Waits until every informer holds its first list. Raises TimeoutError that names the missing resource."""
        await asyncio.gather(*(informer.synced(seconds) for informer in self.all()))


def index(workloads: Copy[Workload], local_queues: Copy[LocalQueue], limit_ranges: Copy[LimitRange]) -> None:
    """Creates the indexes that the queries use."""
    limit_ranges.add_index(BY_NAMESPACE, lambda limits: [limits.metadata.namespace])
    workloads.add_index(BY_REPLACED, lambda w: [key] if (key := replaced_key(w)) else [])
    workloads.add_index(BY_QUEUE, lambda w: [object_key(w.metadata.namespace, w.spec.queue_name)])
    local_queues.add_index(BY_CLUSTER_QUEUE, lambda queue: [queue.spec.cluster_queue])


def make_views(kube: Kube, topology_namespace: str = TOPOLOGY_NAMESPACE, gates: FeatureGates = DEFAULT_GATES) -> Views:
    """Returns the informers, not yet running. `topology_namespace` is the namespace of the topology ConfigMaps."""
    workloads, local_queues = Informer(kube, WORKLOADS, read_workload), Informer(kube, LOCAL_QUEUES, LocalQueue)
    limit_ranges = Informer(kube, LIMIT_RANGES, LimitRange)
    index(workloads, local_queues, limit_ranges)
    return Views(
        nodes=Informer(kube, NODES, NodeReader()),
        pods=Informer(kube, PODS, PodReader(), field_selector=BOUND_PODS),
        namespaces=Informer(kube, NAMESPACES, Namespace),
        limit_ranges=limit_ranges,
        runtime_classes=Informer(kube, RUNTIME_CLASSES, RuntimeClass),
        claims=LazyInformer(kube, CLAIMS, read_claim),
        persistent_volumes=LazyInformer(kube, VOLUMES, read_volume),
        storage_classes=LazyInformer(kube, STORAGE_CLASSES, StorageClass),
        csi_nodes=LazyInformer(kube, CSI_NODES, CsiNode),
        csi_drivers=LazyInformer(kube, CSI_DRIVERS, CsiDriver),
        csi_capacities=LazyInformer(kube, CSI_CAPACITIES, CsiCapacity),
        resource_slices=LazyInformer(kube, RESOURCE_SLICES, ResourceSlice),
        device_classes=LazyInformer(kube, DEVICE_CLASSES, DeviceClass),
        claim_templates=LazyInformer(kube, RESOURCE_CLAIM_TEMPLATES, ResourceClaimTemplate),
        topologies=Informer(kube, TOPOLOGIES, Topology),
        topology_maps=Informer(
            kube, CONFIG_MAPS, ConfigMap, namespace=topology_namespace, label_selector=SAKKARA_TOPOLOGY
        ),
        flavors=Informer(kube, RESOURCE_FLAVORS, ResourceFlavor),
        cluster_queues=Informer(kube, CLUSTER_QUEUES, ClusterQueue),
        local_queues=local_queues,
        cohorts=Informer(kube, COHORTS, Cohort),
        reservations=OptionalInformer(kube, ADVANCE_RESERVATIONS, AdvanceReservation),
        checks=Informer(kube, ADMISSION_CHECKS, AdmissionCheck),
        workloads=workloads,
        workload_priorities=Informer(kube, WORKLOAD_PRIORITY_CLASSES, WorkloadPriorityClass),
        priorities=Informer(kube, PRIORITY_CLASSES, dict),
        gates=gates,
    )


def hostname(node: Node) -> str:
    """Returns the node's name in assignments, or an empty string if it has no hostname label."""
    return node.metadata.labels.get(HOSTNAME_LABEL, "")
