"""The events that the feed passes to the ledger and the queues."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from admission.engine.model.node_holds import NodeHold
from admission.engine.model.nodes import BoundPod, Namespace, Node, Payer
from admission.engine.model.queues import ClusterQueue, Cohort, Flavor
from admission.engine.model.workloads import Workload


class RemovedKind(StrEnum):
    """The kinds of objects whose removal is an event."""

    NODE = "node"
    POD = "pod"
    FLAVOR = "flavor"
    CLUSTER_QUEUE = "clusterqueue"
    COHORT = "cohort"
    WORKLOAD = "workload"
    NAMESPACE = "namespace"
    NODE_HOLD = "nodehold"


@dataclass(frozen=True, slots=True)
class ObjectRemoved:
    """The object of that kind and key was removed."""

    kind: RemovedKind
    key: str


Event = Node | BoundPod | Payer | Namespace | Flavor | ClusterQueue | Cohort | Workload | NodeHold | ObjectRemoved
"""The complete present object, created or changed, or its removal."""
