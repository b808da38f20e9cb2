"""Cached queues, flavors, topologies and pods that reviews look up.

The maps belong to informers (keys `namespace/name` or `name`), so a lookup never blocks. A missing object may only be
missing from the cache, so validators never refuse an object because another one is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from admission.webhook.rules.gang_pods import GangPod
from api.admission_checks import AdmissionCheck
from api.meta import object_key
from api.names import ELASTIC_QUOTA, ELASTIC_QUOTA_LABEL, HOSTNAME_LABEL, MULTIKUEUE
from api.queues import ClusterQueue, LocalQueue, WorkloadPriorityClass
from api.topology import ResourceFlavor, Topology

GroupAndName = tuple[str, str]
"""An object's API group and name."""


def _no_quotas(_: str) -> Sequence[GroupAndName]:
    return ()


def _no_labels(_: str) -> Mapping[str, str] | None:
    return None


def _no_members(_: str) -> Iterable[GangPod]:
    return ()


@dataclass(frozen=True, slots=True)
class Lookups:
    """The caches of a review."""

    local_queues: Mapping[str, LocalQueue] = field(default_factory=dict)
    cluster_queues: Mapping[str, ClusterQueue] = field(default_factory=dict)
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    topologies: Mapping[str, Topology] = field(default_factory=dict)
    admission_checks: Mapping[str, AdmissionCheck] = field(default_factory=dict)
    namespace_labels: Callable[[str], Mapping[str, str] | None] = _no_labels
    """Returns None for an unknown namespace."""
    workload_priority_classes: Mapping[str, WorkloadPriorityClass] = field(default_factory=dict)
    gang_pods: Callable[[str], Iterable[GangPod]] = _no_members
    """Lists the known pods of a gang by its key `namespace/name`."""
    elastic_quotas: Callable[[str], Sequence[GroupAndName]] = _no_quotas
    """Lists those of a namespace."""

    def cluster_queue_of(self, namespace: str, queue: str) -> ClusterQueue | None:
        """Returns the ClusterQueue of a LocalQueue, or None while either is unknown."""
        local = self.local_queues.get(object_key(namespace, queue))
        return self.cluster_queues.get(local.spec.cluster_queue) if local else None

    def has_elastic_quota(self, namespace: str) -> bool:
        """Reports whether jobs of the namespace without a queue name use an elastic quota.

        Its queue outlives it while workloads name that queue; it is then outside the cohort of elastic quotas.
        """
        if self.elastic_quotas(namespace):
            return True
        queue = self.local_queues.get(object_key(namespace, ELASTIC_QUOTA))
        if queue is None or ELASTIC_QUOTA_LABEL not in queue.metadata.labels:
            return False
        cluster_queue = self.cluster_queues.get(queue.spec.cluster_queue)
        if cluster_queue is None or ELASTIC_QUOTA_LABEL not in cluster_queue.metadata.labels:
            return True
        return cluster_queue.spec.cohort_name == ELASTIC_QUOTA

    def levels_of(self, queue: ClusterQueue) -> tuple[str, ...] | None:
        """Returns the distinct levels of the queue's flavors, widest first, or None while a flavor or topology is unknown."""
        levels: dict[str, None] = {}
        for group in queue.spec.resource_groups:
            for quotas in group.flavors:
                known = self._flavor_levels(quotas.name)
                if known is None:
                    return None
                levels.update(dict.fromkeys(known))
        return tuple(levels)

    def placement_labels(self) -> set[str]:
        """Returns the node labels of all known levels and flavors, which admission writes into nodeSelectors."""
        labels = {HOSTNAME_LABEL}
        for topology in self.topologies.values():
            labels.update(topology.levels)
        for flavor in self.flavors.values():
            labels.update(flavor.spec.node_labels)
            labels.update(flavor.spec.topology.levels if flavor.spec.topology else ())
        return labels

    def _flavor_levels(self, name: str) -> tuple[str, ...] | None:
        flavor = self.flavors.get(name)
        if flavor is None:
            return None
        if flavor.spec.topology is not None:
            return flavor.spec.topology.levels
        if flavor.spec.topology_name is None:
            return ()
        topology = self.topologies.get(flavor.spec.topology_name)
        return topology.levels if topology else None

    def uses_multikueue(self, queue: ClusterQueue) -> bool:
        """Reports whether one of the queue's known admission checks is MultiKueue's."""
        strategy = queue.spec.admission_checks_strategy
        checks = (self.admission_checks.get(rule.name) for rule in strategy.admission_checks) if strategy else ()
        return any(check is not None and check.spec.controller_name == MULTIKUEUE for check in checks)
