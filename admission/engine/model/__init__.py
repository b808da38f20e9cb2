"""The engine's inputs as frozen values.

Everything the engine reads has these types: API objects are parsed once (convert_workloads.py) into integers, tuples and plain
names. Invalid input raises `api.errors.InvalidObject` (or InvalidQuantity) with the field; the feed turns the error into a
condition. State is in ledger.py and queue/, results are in decision.py. Import the types from this package, also those of `api`
that the engine uses unchanged.

workloads   Workloads, their pod sets and admissions
queues      flavors, ClusterQueues and Cohorts
nodes       nodes, bound pods and namespaces
topology    topology requests and assignments
level_rule  placement constraints
placement   placement requests and options
restart     what a restart costs, and whether it may be at another place
node_holds  holds of nodes, and their marks on nodes
events      the events that the feed passes on
"""

from __future__ import annotations

from admission.engine.model.events import Event, ObjectRemoved, RemovedKind
from admission.engine.model.level_rule import LevelConstraint, LevelRule, Spreading
from admission.engine.model.node_holds import RESERVED_EFFECT, NodeHold, marked
from admission.engine.model.nodes import Amounts, BoundPod, FlavorResource, Namespace, Node, Payer
from admission.engine.model.placement import Counting, PlacementOptions, PlacementRequest
from admission.engine.model.queues import (
    ClusterQueue,
    Cohort,
    Flavor,
    FlavorQuotas,
    FungibilityPolicy,
    PreemptionPolicy,
    Quota,
    ResourceGroup,
    SpareRule,
    UnansweredCheck,
)
from admission.engine.model.restart import NO_TERMS, RestartTerms
from admission.engine.model.topology import (
    AUTO_LEVEL,
    Assignment,
    DomainCount,
    Profile,
    SliceLayer,
    TopologyRequest,
)
from admission.engine.model.workloads import Admission, Gang, PodSet, PodSetAdmission, Workload
from api.names import HOSTNAME_LABEL
from api.pod.exclusive import DISK, HOST_ADDRESS, HOST_PORT, node_has
from api.pod.exclusive import PREFIXES as EXCLUSIVE_PREFIXES
from api.pod.pod_terms import Labels, PodFacts, PodTerm, SpreadTerm
from api.pod.pods import NodeSelectorRequirement, NodeSelectorTerm, PreferredTerm, Taint, Toleration
from api.queues import QueueingStrategy, StopPolicy
from api.text.quantity import CPU, LARGEST, PODS, to_text

__all__ = [
    "AUTO_LEVEL",
    "CPU",
    "DISK",
    "EXCLUSIVE_PREFIXES",
    "HOSTNAME_LABEL",
    "HOST_ADDRESS",
    "HOST_PORT",
    "LARGEST",
    "NO_TERMS",
    "PODS",
    "RESERVED_EFFECT",
    "Admission",
    "Amounts",
    "Assignment",
    "BoundPod",
    "ClusterQueue",
    "Cohort",
    "Counting",
    "DomainCount",
    "Event",
    "Flavor",
    "FlavorQuotas",
    "FlavorResource",
    "FungibilityPolicy",
    "Gang",
    "Labels",
    "LevelConstraint",
    "LevelRule",
    "Namespace",
    "Node",
    "NodeHold",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "ObjectRemoved",
    "Payer",
    "PlacementOptions",
    "PlacementRequest",
    "PodFacts",
    "PodSet",
    "PodSetAdmission",
    "PodTerm",
    "PreemptionPolicy",
    "PreferredTerm",
    "Profile",
    "QueueingStrategy",
    "Quota",
    "RemovedKind",
    "ResourceGroup",
    "RestartTerms",
    "SliceLayer",
    "SpareRule",
    "SpreadTerm",
    "Spreading",
    "StopPolicy",
    "Taint",
    "Toleration",
    "TopologyRequest",
    "UnansweredCheck",
    "Workload",
    "marked",
    "node_has",
    "to_text",
]
