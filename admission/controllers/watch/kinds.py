"""The watched kinds that no feature of the view brings with it, and queries about them alone.

A kind comes after those that it depends on, so that each object of a world is fed only once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admission.controllers.watch.local_copies import Copy
from admission.controllers.watch.projection import NodeReader, PodReader
from admission.controllers.watch.resources import LimitRange
from admission.controllers.watch.runtime_classes import RuntimeClass
from admission.controllers.watch.watched import View, Watched, item
from admission.engine.convert import convert_nodes, convert_queues, convert_spares
from api.admission_checks import AdmissionCheck
from api.kube.decode import decode_dict
from api.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    RUNTIME_CLASSES,
    TOPOLOGIES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from api.meta import object_key
from api.pod.pods import Namespace, Node
from api.queues import ClusterQueue, Cohort, LocalQueue, WorkloadPriorityClass
from api.reading import read_workload
from api.topology import ResourceFlavor, Topology
from api.workloads import Workload

BOUND_PODS = "spec.nodeName!="


def _flavor(flavor: ResourceFlavor) -> object:
    return convert_queues.flavor(flavor, None), convert_spares.rule_of(flavor, None)


class Kinds(View):
    """A view of the kinds that each cluster has."""

    topologies = Watched(TOPOLOGIES, item(Topology))
    flavors = Watched(RESOURCE_FLAVORS, item(ResourceFlavor), check=_flavor)
    cohorts = Watched(COHORTS, item(Cohort), check=convert_queues.cohort)
    checks = Watched(ADMISSION_CHECKS, item(AdmissionCheck))
    namespaces = Watched(NAMESPACES, item(Namespace))
    limit_ranges = Watched(LIMIT_RANGES, item(LimitRange))
    runtime_classes = Watched(RUNTIME_CLASSES, item(RuntimeClass))
    nodes = Watched(NODES, NodeReader, whole=item(Node), check=convert_nodes.node)
    cluster_queues = Watched(CLUSTER_QUEUES, item(ClusterQueue), check=convert_queues.cluster_queue)
    local_queues = Watched(LOCAL_QUEUES, item(LocalQueue))
    workload_priorities = Watched(WORKLOAD_PRIORITY_CLASSES, item(WorkloadPriorityClass))
    priorities = Watched(PRIORITY_CLASSES, lambda: decode_dict)
    workloads = Watched(WORKLOADS, lambda: read_workload, whole=item(Workload))
    pods = Watched(PODS, PodReader, field_selector=BOUND_PODS)

    def __init__(self, copies: Mapping[Resource, Copy[Any]]) -> None:
        self.keep(copies)

    def local_queue_of(self, workload: Workload) -> LocalQueue | None:
        """Returns the LocalQueue that the Workload names, or None."""
        return self.local_queues.objects.get(object_key(workload.metadata.namespace, workload.spec.queue_name))

    def implies_topology(self, workload: Workload) -> bool:
        """Reports whether all flavors of the Workload's ClusterQueue have a topology."""
        aware = self.topologies_of(workload)
        return bool(aware) and all(aware)

    def topologies_of(self, workload: Workload) -> list[bool]:
        """Tells of each flavor of the Workload's ClusterQueue whether it has a topology."""
        local = self.local_queue_of(workload)
        queue = self.cluster_queues.objects.get(local.spec.cluster_queue) if local else None
        groups = queue.spec.resource_groups if queue is not None else ()
        flavors = [self.flavors.objects.get(flavor.name) for group in groups for flavor in group.flavors]
        return [flavor is not None and flavor.topology_aware for flavor in flavors]
