"""The engine's inputs as frozen values, and their conversion: the only engine file that imports `api`.

Everything the engine reads comes in through here: wire types are parsed once into integers, tuples and plain names. Wrong
input raises `api.errors.InvalidObject` (or InvalidQuantity) that names the field; the feed turns that into a condition.
Not here: state (ledger.py, queue/), answers (decision.py).
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
"""Resource name to integer amount: cpu in milli-units, everything else in whole units."""

FlavorResource = tuple[str, str]
"""(flavor, resource): what quota is counted by."""

AUTO_LEVEL = "auto"
"""As the level of a preferred request: the lowest level of the flavor's topology."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node. `usable`: Ready and schedulable. `allocatable` with no pod subtracted."""

    name: str
    labels: Mapping[str, str]
    allocatable: Amounts
    taints: tuple[Taint, ...] = ()
    usable: bool = True


@dataclass(frozen=True, slots=True)
class BoundPod:
    """A pod that holds a node (bound, not terminated). `workload`: key of the Workload it declares itself part of.

    `exclusive`: what only one pod of a node can have (api.exclusive). `facts`: what the terms of other pods see of it; None:
    not known, and no term counts it.
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
    """A namespace with its labels, by which terms of pods select it."""

    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Flavor:
    """A kind of nodes. `levels` is None without topology; `topology` names it in messages.

    `topology` set while `levels` is None means that the named Topology does not exist (yet).
    """

    name: str
    node_labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str | None = None
    levels: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """Quota of one (flavor, resource); limits are None where not set."""

    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


@dataclass(frozen=True, slots=True)
class FlavorQuotas:
    """One flavor of a resource group."""

    flavor: str
    quotas: Mapping[str, Quota]


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources that get one flavor together; flavors are tried in order."""

    resources: tuple[str, ...]
    flavors: tuple[FlavorQuotas, ...]


@dataclass(frozen=True, slots=True)
class FungibilityPolicy:
    """When the search over flavors stops (fields and values as ClusterQueue.spec.flavorFungibility)."""

    when_can_borrow: str = "MayStopSearch"
    when_can_preempt: str = "TryNextFlavor"
    preference: str | None = None


@dataclass(frozen=True, slots=True)
class PreemptionPolicy:
    """Fields and values as ClusterQueue.spec.preemption.

    `elastic`: as elastic quotas have it (elastic-quota.md): relatives' workloads go only for one that stays within the nominal
    quota, own ones only for one that does not; and no queue's usage goes below its nominal quota.
    """

    reclaim_within_cohort: str = "Never"
    within_cluster_queue: str = "Never"
    borrow_policy: str = "Never"
    borrow_threshold: int | None = None
    elastic: bool = False

    @property
    def evicts(self) -> bool:
        """Whether the queue's workloads may ever evict others."""
        return self.within_cluster_queue != "Never" or self.reclaim_within_cohort != "Never"

    @property
    def by_age(self) -> bool:
        """Whether of two workloads of equal priority the older one may evict others that the newer one may not."""
        return "LowerOrNewerEqualPriority" in (self.within_cluster_queue, self.reclaim_within_cohort)


@dataclass(frozen=True, slots=True)
class UnansweredCheck:
    """An admission check that no controller answers: it does not exist (no `controller`), is inactive, or is not `supported`.

    `says`: the message of its Active condition.
    """

    name: str
    controller: str = ""
    supported: bool = True
    says: str = ""


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """A queue with its quota. `inactive`: why it admits nothing (its condition's message), None while active.

    `unanswered`: its admission checks that no controller answers; `only_checks`: nothing else keeps it inactive.

    `allows(namespace)` is decided by the feed and comes with each workload, since namespace labels live there.
    `ignores_uncovered`: resources that no group covers are not counted; else a workload that requests them fits nowhere.
    `backfill`: its head gets a reservation, and workloads that do not delay it may overtake it (backfill.py).
    `outside`: what pods that no Workload counts hold of its quota, of the first flavor of each resource.
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
        """All flavors, in order of the groups."""
        return tuple(quotas.flavor for group in self.groups for quotas in group.flavors)

    def group_of(self, resource: str) -> ResourceGroup | None:
        """The resource group that covers the resource."""
        return next((group for group in self.groups if resource in group.resources), None)


@dataclass(frozen=True, slots=True)
class Cohort:
    """A node of the cohort tree with quota of its own to share."""

    name: str
    parent: str | None = None
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    weight_milli: int = 1000


@dataclass(frozen=True, slots=True)
class SliceLayer:
    """Every `size` pods stay in one domain of `level`."""

    level: str
    size: int


class Spreading(StrEnum):
    """How the pods of one domain are handed to the units below it: onto few units, or evenly onto many."""

    PACK = "pack"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True)
class LevelConstraint:
    """What a pod set wants at one level (sakkara.md). `hard`: violated never; else as little as can be.

    `partitions`: spread over exactly that many units. `minimum`, `maximum`: bounds of the pods on a used unit. `factor`: pods
    on a used unit are a multiple of it.
    """

    level: str
    spreading: Spreading = Spreading.PACK
    partitions: int | None = None
    minimum: int | None = None
    maximum: int | None = None
    factor: int | None = None
    hard: bool = False


class Profile(StrEnum):
    """How domains are chosen where several would do.

    Exact: a proved optimum (topology/optimum, topology/joint). Compatible: Kueue's answer to the letter. LeastFree: as
    Compatible, small free domains first, for all requests.
    """

    EXACT = "Exact"
    COMPATIBLE = "Compatible"
    LEAST_FREE = "LeastFree"


@dataclass(frozen=True, slots=True)
class TopologyAsk:
    """What a pod set asks of the topology. At most one of required, preferred, unconstrained is in force, in that order.

    `explicit` is False where only an index label was recorded: then topology is used only if the queue implies it.
    `constraints` shape what happens inside the domain that the request is bound to. `relax_after`: seconds after which a
    required level climbs by one, the last step being preferred; None: never. `near`: the full path (level values, widest first)
    of a place in whose domain of the required level the pods have to be; None: any domain. `spare_hosts`: so many hosts are
    held free for pods whose own fails.
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
    """Pods of one shape. `requests` are of a single pod, without the `pods` slot; affinity terms None: no affinity.

    `charged`: what a single pod counts for in quota where that is not what it requests of its node (resources excluded or
    transformed); None: the same. `exclusive`: what only one pod of a node can have (api.exclusive). `volumes`: for each of its
    volumes that not every node reaches, the terms of which its node meets one. `labels`: those of its template. `facts`: with
    all that is known of its pods where they have terms for other pods; else None.
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
    labels: Labels = ()
    facts: PodFacts | None = None


@dataclass(frozen=True, slots=True)
class DomainCount:
    """`count` pods in the domain with these level values (widest first; only the hostname for host topologies)."""

    values: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """A pod set's domains, in the order that the ungater hands out ranks."""

    levels: tuple[str, ...]
    domains: tuple[DomainCount, ...]


@dataclass(frozen=True, slots=True)
class PodSetAdmission:
    """What one pod set got. `usage` is the total charged to quota; `count` may be below the asked (partial admission)."""

    name: str
    flavors: Mapping[str, str]
    usage: Amounts
    count: int
    assignment: Assignment | None = None


@dataclass(frozen=True, slots=True)
class Admission:
    """What a workload got, in which queue."""

    cluster_queue: str
    pod_sets: tuple[PodSetAdmission, ...]

    def usage(self) -> dict[FlavorResource, int]:
        """Total per (flavor, resource)."""
        total: dict[FlavorResource, int] = {}
        for pod_set in self.pod_sets:
            for resource, amount in pod_set.usage.items():
                key = (pod_set.flavors[resource], resource)
                total[key] = total.get(key, 0) + amount
        return total


@dataclass(frozen=True, slots=True)
class Gang:
    """The gang that a workload is, or joins late. `uid` orders gangs of one time, so that what belongs together is adjacent.

    `together`: the keys of the workloads that start in one cycle or not at all (a GangGroup, this one among them), or none.
    `started`: its pods were let go. `joins`: the key of the gang's own workload, of one that came after that had started.
    """

    uid: str
    together: tuple[str, ...] = ()
    started: bool = False
    joins: str = ""


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload as the engine sees it. Times are epoch seconds.

    `queue` is the LocalQueue's key, `cluster_queue` where it leads. `queued` is the time that orders it among equals
    (creation, or an eviction's time where the rules say so). `blocked`: why it may not be considered at all (deactivated,
    gated, queue missing or stopped, namespace refused): (reason, message), None when it may. `defect`: what is wrong with its
    pods, reported when its turn comes (so it holds up a StrictFIFO queue; `blocked` does not). `not_before`: backoff.
    `reserved`: since when it has held quota, None: only just. `job_uid`: the owning job's UID, for messages.
    `gang`: if it is one, or part of one; then `queued` is when the gang's first pod came. `time_limit`: how many seconds it may
    still run, None: for ever; `admitted`: since when it runs, None while it does not. `gated`: a preemption gate of its is
    closed, so it may not evict. `one_pod`: it is the Workload of one plain pod, which nothing replaces. `replaces`: the key of
    the admitted workload of the same elastic job that this one takes the place of, with other pod counts; empty for none.
    `pod_labels`: those that its owner gives each of its pods beside the template's. `boost`: the part of its priority that its
    annotation `priority-boost` adds.
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
        """What terms of other pods see of a pod of this pod set."""
        if pod_set.facts is not None:
            return pod_set.facts
        return PodFacts(self.key.partition("/")[0], pod_set.labels + self.pod_labels)

    @property
    def ends(self) -> float | None:
        """When it has ended at the latest (epoch seconds); None where nothing says so."""
        return None if self.time_limit is None or self.admitted is None else self.admitted + self.time_limit


# ---- events: what the feed tells the ledger and the queues


class RemovedKind(StrEnum):
    """The kinds of objects whose disappearance is an event."""

    NODE = "node"
    POD = "pod"
    FLAVOR = "flavor"
    CLUSTER_QUEUE = "clusterqueue"
    COHORT = "cohort"
    WORKLOAD = "workload"
    NAMESPACE = "namespace"


@dataclass(frozen=True, slots=True)
class ObjectRemoved:
    """The object of that kind and key is no more."""

    kind: RemovedKind
    key: str


Event = Node | BoundPod | Namespace | Flavor | ClusterQueue | Cohort | Workload | ObjectRemoved
"""An object as it is now (created or changed; always the whole object), or that it is gone."""


class Counting(StrEnum):
    """Where pods are counted when the lowest level is wider than a host.

    Nodes: on each node, with its taints and labels; a rack of two nodes of 3 free GPUs holds no pod of 4.
    Domains: on the domain's sum, blind to taints and selectors, as Kueue does; what the conformance cases run with.
    """

    NODES = "Nodes"
    DOMAINS = "Domains"


@dataclass(frozen=True, slots=True)
class PlacementOptions:
    """The gates of placement, with Kueue's defaults (quirks A.2); `counting`, `profile` and `exact_budget` are ours.

    `exact_budget` bounds the exact solvers by what they look at (search nodes expanded, not time), so that the same
    question always has the same answer; at least 1.
    """

    counting: Counting = Counting.NODES
    profile: Profile = Profile.EXACT
    exact_budget: int = 20_000
    least_free_for_unconstrained: bool = True  # TASProfileMixed
    balanced: bool = False  # TASBalancedPlacement
    multi_layer: bool = True  # TASMultiLayerTopology
    respect_preferred_affinity: bool = False  # TASRespectNodeAffinityPreferred
    overlapping_flavors: bool = True  # TASHandleOverlappingFlavors
    leader_constraints: bool = True  # a leader's own selectors and tolerations count, not its workers' alone


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """One pod set to place on the nodes of one flavor. `implied`: the queue, not the user, asks for topology.

    `previous`: where its pods are already; of the older slice (to place) or of this workload (to replace a node).
    `profile`: the workload's or its queue's own; None: that of the options. `facts`: what terms of other pods see of its pods.
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
        """How many hosts are to be held beside its pods."""
        return 0 if self.pod_set.topology is None else self.pod_set.topology.spare_hosts
