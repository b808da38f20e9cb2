"""The engine's inputs as frozen values.

Everything the engine reads has these types: API objects are parsed once (convert.py) into integers, tuples and plain names.
Invalid input raises `api.errors.InvalidObject` (or InvalidQuantity) with the field; the feed turns the error into a condition.
State is in ledger.py and queue/, results are in decision.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from api.exclusive import HOST_PORT
from api.exclusive import PREFIXES as EXCLUSIVE_PREFIXES
from api.names import HOSTNAME_LABEL
from api.pod_terms import Labels, PodFacts, PodTerm, SpreadTerm
from api.pods import NodeSelectorRequirement, NodeSelectorTerm, PreferredTerm, Taint, Toleration
from api.quantity import CPU, LARGEST, PODS, to_text
from api.queues import QueueingStrategy, StopPolicy

__all__ = [
    "CPU",
    "EXCLUSIVE_PREFIXES",
    "HOSTNAME_LABEL",
    "HOST_PORT",
    "LARGEST",
    "PODS",
    "Labels",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "PodFacts",
    "PodTerm",
    "PreferredTerm",
    "QueueingStrategy",
    "SpreadTerm",
    "StopPolicy",
    "Taint",
    "Toleration",
    "to_text",
]

Amounts = Mapping[str, int]
"""Integer amount by resource name: cpu in milli-units, everything else in its base unit."""

FlavorResource = tuple[str, str]
"""(flavor, resource), by which quota is counted."""

AUTO_LEVEL = "auto"
"""As the level of a preferred request, the lowest level of the flavor's topology."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node. `usable` means Ready and schedulable; `allocatable` has no pods subtracted."""

    name: str
    labels: Mapping[str, str]
    allocatable: Amounts
    taints: tuple[Taint, ...] = ()
    usable: bool = True


@dataclass(frozen=True, slots=True)
class BoundPod:
    """A pod that occupies a node (bound, not terminated).

    `workload` is the key of the Workload that the pod names. `exclusive` is what only one pod per node can have
    (api.exclusive). `facts` is what terms of other pods can match; None means unknown, and no term counts the pod.
    """

    key: str
    node: str
    requests: Amounts
    workload: str | None = None
    pod_set: str | None = None
    exclusive: Amounts = field(default_factory=dict)
    facts: PodFacts | None = None


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace and its labels, by which pod terms select it."""

    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Flavor:
    """A class of nodes. `levels` is None without a topology; `topology` names it in messages.

    `topology` without `levels` means that the named Topology does not exist.
    """

    name: str
    node_labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str | None = None
    levels: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """Quota of one (flavor, resource); a limit is None if not set."""

    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


@dataclass(frozen=True, slots=True)
class FlavorQuotas:
    """The quotas of one flavor of a resource group, by resource."""

    flavor: str
    quotas: Mapping[str, Quota]


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources that are assigned one flavor together; flavors are tried in order."""

    resources: tuple[str, ...]
    flavors: tuple[FlavorQuotas, ...]


@dataclass(frozen=True, slots=True)
class FungibilityPolicy:
    """When the search over flavors stops, with fields and values of ClusterQueue.spec.flavorFungibility."""

    when_can_borrow: str = "MayStopSearch"
    when_can_preempt: str = "TryNextFlavor"
    preference: str | None = None


@dataclass(frozen=True, slots=True)
class PreemptionPolicy:
    """Preemption policy, with fields and values of ClusterQueue.spec.preemption.

    `elastic` selects the rules of elastic quotas (elastic-quota.md): a workload that stays within its queue's nominal quota
    may only preempt workloads of other queues, any other only workloads of its own queue; and no queue's usage may fall below
    its nominal quota.
    """

    reclaim_within_cohort: str = "Never"
    within_cluster_queue: str = "Never"
    borrow_policy: str = "Never"
    borrow_threshold: int | None = None
    elastic: bool = False

    @property
    def evicts(self) -> bool:
        """Reports whether the queue's workloads may ever preempt others."""
        return self.within_cluster_queue != "Never" or self.reclaim_within_cohort != "Never"

    @property
    def by_age(self) -> bool:
        """Reports whether age matters between equal priorities: an older workload may then preempt newer ones."""
        return "LowerOrNewerEqualPriority" in (self.within_cluster_queue, self.reclaim_within_cohort)


@dataclass(frozen=True, slots=True)
class UnansweredCheck:
    """An admission check that no controller answers: missing (no `controller`), inactive, or not `supported`.

    `says` is the message of its Active condition.
    """

    name: str
    controller: str = ""
    supported: bool = True
    says: str = ""


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """A queue with its quota.

    `inactive` is the message of its Active condition while it admits nothing, else None. `unanswered` holds its admission
    checks that no controller answers; `only_checks` means that nothing else keeps it inactive. Whether the queue accepts a
    namespace is decided by the feed, which knows namespace labels, and comes with each workload. With `ignores_uncovered`,
    resources that no group covers are not counted; otherwise a workload that requests them fits nowhere. With `backfill`, the
    queue's head gets a reservation, and workloads that do not delay the head may overtake it (backfill.py). `outside` is usage
    of its quota by pods that no Workload counts, charged to the first flavor of each resource.
    """

    name: str
    groups: tuple[ResourceGroup, ...] = ()
    cohort: str | None = None
    strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO
    stop: StopPolicy = StopPolicy.NONE
    fungibility: FungibilityPolicy = FungibilityPolicy()
    preemption: PreemptionPolicy = PreemptionPolicy()
    weight_milli: int = 1000
    checks: tuple[str, ...] = ()
    inactive: str | None = None
    unanswered: tuple[UnansweredCheck, ...] = ()
    only_checks: bool = False
    profile: Profile | None = None
    ignores_uncovered: bool = False
    backfill: bool = False
    outside: Amounts = field(default_factory=dict)

    @property
    def flavors(self) -> tuple[str, ...]:
        """All flavors, in the order of the groups."""
        return tuple(quotas.flavor for group in self.groups for quotas in group.flavors)

    def group_of(self, resource: str) -> ResourceGroup | None:
        """Returns the resource group that covers the resource, or None."""
        return next((group for group in self.groups if resource in group.resources), None)


@dataclass(frozen=True, slots=True)
class Cohort:
    """A node of the cohort tree, with quota of its own to share."""

    name: str
    parent: str | None = None
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    weight_milli: int = 1000


@dataclass(frozen=True, slots=True)
class SliceLayer:
    """A slice layer: every `size` consecutive pods share one domain of `level`."""

    level: str
    size: int


class Spreading(StrEnum):
    """How the pods of a domain are distributed to its child domains: onto few of them, or evenly onto many."""

    PACK = "pack"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True)
class LevelConstraint:
    """A placement constraint of a pod set at one level (sakkara.md).

    A `hard` constraint is never violated, others as little as possible. `partitions` is the exact number of child domains to
    spread over. `minimum` and `maximum` bound the pods in a used domain, and `factor` must divide their number.
    """

    level: str
    spreading: Spreading = Spreading.PACK
    partitions: int | None = None
    minimum: int | None = None
    maximum: int | None = None
    factor: int | None = None
    hard: bool = False


class Profile(StrEnum):
    """How domains are chosen among several possibilities.

    Exact finds a proved optimum (topology/optimum, topology/joint). Compatible gives Kueue's answer exactly. LeastFree is like
    Compatible, but prefers domains with little free capacity for all requests.
    """

    EXACT = "Exact"
    COMPATIBLE = "Compatible"
    LEAST_FREE = "LeastFree"


@dataclass(frozen=True, slots=True)
class TopologyAsk:
    """A pod set's topology request. At most one of required, preferred, unconstrained applies, in that order.

    `explicit` is False if only an index label was recorded: then topology applies only if the queue implies it. `constraints`
    apply inside the domain to which the request is bound. `relax_after` is the number of seconds after which a required level
    widens by one level, finally becoming preferred; None for never. `near` is the full path (level values, widest first) of a
    node whose domain of the required level must hold the pods; None for any domain. `spare_hosts` is the number of hosts to
    hold free for pods whose host fails.
    """

    required: str | None = None
    preferred: str | None = None
    unconstrained: bool | None = None
    group: str | None = None
    slices: tuple[SliceLayer, ...] = ()
    slice_topology_only: bool = False
    explicit: bool = True
    constraints: tuple[LevelConstraint, ...] = ()
    relax_after: int | None = None
    near: tuple[str, ...] | None = None
    spare_hosts: int = 0


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods with equal requests. `requests` are those of a single pod, without `pods`; `affinity` is None without affinity.

    `charged` is what a pod counts in quota if that differs from its requests (resources excluded or transformed), else None.
    `exclusive` is what only one pod per node can have (api.exclusive). `volumes` has, for each volume that some nodes cannot
    reach, the node terms of which one must match; `gathered` has the topology keys of which one domain each must hold all pods,
    because they share a volume that is chosen later. `labels` are those of the template. `facts` describes the pods to other
    pods' terms if they have terms themselves, else None.
    """

    name: str
    count: int
    requests: Amounts
    min_count: int | None = None
    topology: TopologyAsk | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[NodeSelectorTerm, ...] | None = None
    preferred_affinity: tuple[PreferredTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    charged: Amounts | None = None
    exclusive: Amounts = field(default_factory=dict)
    volumes: tuple[tuple[NodeSelectorTerm, ...], ...] = ()
    gathered: tuple[str, ...] = ()
    labels: Labels = ()
    facts: PodFacts | None = None


@dataclass(frozen=True, slots=True)
class DomainCount:
    """`count` pods in the domain with these level values, widest first; only the hostname in host topologies."""

    values: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """A pod set's domains, in the order in which the ungater assigns ranks."""

    levels: tuple[str, ...]
    domains: tuple[DomainCount, ...]


@dataclass(frozen=True, slots=True)
class PodSetAdmission:
    """The admission of one pod set. `usage` is the total charged to quota; `count` may be lower than requested."""

    name: str
    flavors: Mapping[str, str]
    usage: Amounts
    count: int
    assignment: Assignment | None = None


@dataclass(frozen=True, slots=True)
class Admission:
    """The admission of a workload: its queue and its pod sets."""

    cluster_queue: str
    pod_sets: tuple[PodSetAdmission, ...]

    def usage(self) -> dict[FlavorResource, int]:
        """Returns the total per (flavor, resource)."""
        total: dict[FlavorResource, int] = {}
        for pod_set in self.pod_sets:
            for resource, amount in pod_set.usage.items():
                key = (pod_set.flavors[resource], resource)
                total[key] = total.get(key, 0) + amount
        return total


@dataclass(frozen=True, slots=True)
class Gang:
    """The gang that a workload is, or joins late. `uid` orders gangs of equal time, so that members are adjacent.

    `together` holds the keys of the workloads that start in one cycle or not at all (a gang group, including this workload),
    or nothing. `started` means that its pods were ungated. `joins` is the key of the gang's own workload, for a late joiner.
    """

    uid: str
    together: tuple[str, ...] = ()
    started: bool = False
    joins: str = ""


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload as the engine sees it. Times are in epoch seconds.

    `queue` is the LocalQueue's key, `cluster_queue` its ClusterQueue. `queued` is the time that orders workloads of equal
    priority (creation, or an eviction's time where the rules say so; for a gang, the creation of its first pod). `blocked` is
    why the workload must not be considered at all (deactivated, gated, queue missing or stopped, namespace rejected), as
    (reason, message), or None. `defect` is an error of its pods, reported when its turn comes, so it holds up a StrictFIFO
    queue as `blocked` does not. `not_before` ends its backoff. `reserved` is since when it has held quota, None for just now.
    `job_uid` is the owning job's UID, for messages. `gang` is set for gangs and late joiners. `time_limit` is the number of
    seconds it may still run, None for no limit; `admitted` is since when it runs, or None. `gated` means that a preemption
    gate is closed, so it must not preempt. `one_pod` marks the Workload of a single plain pod, which nothing replaces.
    `replaces` is the key of the elastic job's admitted workload that this one replaces, or empty. `pod_labels` are labels that
    its owner gives each pod in addition to the template's. `boost` is the part of its priority from the annotation
    `priority-boost`.
    """

    key: str
    uid: str
    queue: str
    cluster_queue: str
    pod_sets: tuple[PodSet, ...]
    priority: int = 0
    queued: float = 0.0
    not_before: float = 0.0
    blocked: tuple[str, str] | None = None
    defect: str | None = None
    admission: Admission | None = None
    evicted: bool = False
    profile: Profile | None = None
    reserved: float | None = None
    job_uid: str = ""
    gang: Gang | None = None
    time_limit: float | None = None
    admitted: float | None = None
    gated: bool = False
    one_pod: bool = False
    replaces: str = ""
    pod_labels: Labels = ()
    boost: int = 0

    def facts_of(self, pod_set: PodSet) -> PodFacts:
        """Returns what terms of other pods see of a pod of this pod set."""
        if pod_set.facts is not None:
            return pod_set.facts
        return PodFacts(self.key.partition("/")[0], pod_set.labels + self.pod_labels)

    @property
    def ends(self) -> float | None:
        """When the workload must have ended, in epoch seconds; None without a limit."""
        return None if self.time_limit is None or self.admitted is None else self.admitted + self.time_limit


# ---- events that the feed passes to the ledger and the queues


class RemovedKind(StrEnum):
    """The kinds of objects whose removal is an event."""

    NODE = "node"
    POD = "pod"
    FLAVOR = "flavor"
    CLUSTER_QUEUE = "clusterqueue"
    COHORT = "cohort"
    WORKLOAD = "workload"
    NAMESPACE = "namespace"


@dataclass(frozen=True, slots=True)
class ObjectRemoved:
    """The object of that kind and key was removed."""

    kind: RemovedKind
    key: str


Event = Node | BoundPod | Namespace | Flavor | ClusterQueue | Cohort | Workload | ObjectRemoved
"""The complete present object, created or changed, or its removal."""


class Counting(StrEnum):
    """Where pods are counted if the lowest level is wider than a host.

    Nodes counts on each node, with its taints and labels: a rack of two nodes with 3 free GPUs each holds no pod of 4 GPUs.
    Domains counts on the domain's sum, ignoring taints and selectors, as Kueue does; the conformance cases use it.
    """

    NODES = "Nodes"
    DOMAINS = "Domains"


@dataclass(frozen=True, slots=True)
class PlacementOptions:
    """Placement options: Kueue's feature gates and their defaults (quirks A.2), and Stowage's own.

    `counting`, `profile` and `exact_budget` are Stowage's. `exact_budget` bounds the exact solvers by the number of search
    nodes instead of time, so that the same input always gives the same answer; at least 1.
    """

    counting: Counting = Counting.NODES
    profile: Profile = Profile.EXACT
    exact_budget: int = 20_000
    least_free_for_unconstrained: bool = True  # TASProfileMixed
    balanced: bool = False  # TASBalancedPlacement
    multi_layer: bool = True  # TASMultiLayerTopology
    respect_preferred_affinity: bool = False  # TASRespectNodeAffinityPreferred
    overlapping_flavors: bool = True  # TASHandleOverlappingFlavors
    leader_constraints: bool = True  # a leader's own selectors and tolerations apply, not only its workers'


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """One pod set to place on the nodes of one flavor; `implied` means that the queue, not the user, requests topology.

    `previous` is its present assignment: of the older slice (to place) or of this workload (to replace a node). `profile` is
    the workload's or its queue's own, or None for that of the options. `facts` is what terms of other pods see of its pods.
    """

    pod_set: PodSet
    flavor: str
    count: int
    implied: bool = False
    previous: Assignment | None = None
    profile: Profile | None = None
    facts: PodFacts | None = None

    @property
    def spare_hosts(self) -> int:
        """The number of hosts to hold in addition to the pods' hosts."""
        return 0 if self.pod_set.topology is None else self.pod_set.topology.spare_hosts
