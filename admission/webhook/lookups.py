"""What a review may look up: the queues, flavors and topologies as the process knows them at that moment.

The maps are those of the informers (keys `namespace/name` or `name`), so a look-up never waits. A thing that is not
there may just not be known yet: nothing is refused on that ground.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from admission.webhook.gang_pods import GangPod
from api.meta import object_key
from api.names import ELASTIC_QUOTA, ELASTIC_QUOTA_LABEL
from api.queues import AdmissionCheck, ClusterQueue, LocalQueue, WorkloadPriorityClass
from api.topology import ResourceFlavor, Topology

MULTIKUEUE_CONTROLLER = "kueue.x-k8s.io/multikueue"


GroupAndName = tuple[str, str]
"""Of an object: its API group and its name."""


def _no_quotas(_: str) -> Sequence[GroupAndName]:
    return ()


def _no_labels(_: str) -> Mapping[str, str] | None:
    return None


def _no_members(_: str) -> Iterable[GangPod]:
    return ()


@dataclass(frozen=True, slots=True)
class Lookups:
    """The maps; `namespace_labels` gives None for a namespace that is not known, `elastic_quotas` those of a namespace,
    `gang_pods` the pods that are known of a gang (by key).
    """

    local_queues: Mapping[str, LocalQueue] = field(default_factory=dict)
    cluster_queues: Mapping[str, ClusterQueue] = field(default_factory=dict)
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    topologies: Mapping[str, Topology] = field(default_factory=dict)
    admission_checks: Mapping[str, AdmissionCheck] = field(default_factory=dict)
    namespace_labels: Callable[[str], Mapping[str, str] | None] = _no_labels
    workload_priority_classes: Mapping[str, WorkloadPriorityClass] = field(default_factory=dict)
    gang_pods: Callable[[str], Iterable[GangPod]] = _no_members
    elastic_quotas: Callable[[str], Sequence[GroupAndName]] = _no_quotas

    def cluster_queue_of(self, namespace: str, queue: str) -> ClusterQueue | None:
        """The ClusterQueue behind a LocalQueue, None while either is not known."""
        local = self.local_queues.get(object_key(namespace, queue))
        return self.cluster_queues.get(local.spec.cluster_queue) if local else None

    def has_elastic_quota(self, namespace: str) -> bool:
        """Whether jobs of the namespace that name no queue use an elastic quota."""
        queue = self.local_queues.get(object_key(namespace, ELASTIC_QUOTA))
        return (queue is not None and ELASTIC_QUOTA_LABEL in queue.metadata.labels) or bool(
            self.elastic_quotas(namespace)
        )

    def levels_of(self, queue: ClusterQueue) -> tuple[str, ...] | None:
        """The levels of all flavors of the queue, widest first, each once; None while one of them is not known."""
        levels: dict[str, None] = {}
        for group in queue.spec.resource_groups:
            for quotas in group.flavors:
                known = self._flavor_levels(quotas.name)
                if known is None:
                    return None
                levels.update(dict.fromkeys(known))
        return tuple(levels)

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
        """Whether one of the queue's known checks hands its workloads to other clusters."""
        strategy = queue.spec.admission_checks_strategy
        checks = (self.admission_checks.get(rule.name) for rule in strategy.admission_checks) if strategy else ()
        return any(check is not None and check.spec.controller_name == MULTIKUEUE_CONTROLLER for check in checks)
