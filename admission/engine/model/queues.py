"""Flavors, ClusterQueues and Cohorts as frozen values (convert_queues.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from admission.engine.model.node_holds import NodeHold
from admission.engine.model.nodes import Amounts, FlavorResource
from admission.engine.model.restart import NO_TERMS, RestartTerms
from admission.engine.model.topology import Profile
from api.pod.pods import Taint, Toleration
from api.queues import QueueingStrategy, StopPolicy


@dataclass(frozen=True, slots=True)
class SpareRule:
    """Hosts of a flavor that are kept free: in each domain of `level`, `hosts` of each full `of` hosts.

    `queue` is the ClusterQueue whose quota counts them; empty for none.
    """

    hosts: int
    of: int
    level: str
    queue: str = ""


@dataclass(frozen=True, slots=True)
class Flavor:
    """A class of nodes. A topology without levels does not exist."""

    name: str
    node_labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str | None = None
    """Names the topology in messages."""
    levels: tuple[str, ...] | None = None
    """None without a topology."""
    spare: SpareRule | None = None
    """The rule for hosts that are kept free."""
    node_holds: tuple[NodeHold, ...] = ()
    """All holds of nodes of the cluster, by name; the ledger adds them."""


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

    `keeps_nominal` selects the rules of elastic quotas (elastic-quota.md): a workload that stays within its queue's nominal
    quota may only preempt workloads of other queues, any other only workloads of its own queue; and no queue's usage may fall
    below its nominal quota.
    """

    reclaim_within_cohort: str = "Never"
    within_cluster_queue: str = "Never"
    borrow_policy: str = "Never"
    borrow_threshold: int | None = None
    keeps_nominal: bool = False

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
    """An admission check that no controller answers: missing, inactive, or not supported."""

    name: str
    controller: str = ""
    """Empty if it is missing."""
    supported: bool = True
    says: str = ""
    """The message of its Active condition."""


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """A queue with its quota.

    Whether the queue accepts a namespace is decided by the feed, which knows namespace labels, and comes with each workload.
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
    """The message of its Active condition while it admits nothing, else None."""
    unanswered: tuple[UnansweredCheck, ...] = ()
    """Its admission checks that no controller answers."""
    only_checks: bool = False
    """Whether nothing but these checks keeps it inactive."""
    profile: Profile | None = None
    ignores_uncovered: bool = False
    """Whether resources that no group covers are not counted; otherwise a workload that requests them fits nowhere."""
    reserves_starts: bool = False
    """Whether the first waiting workload gets a reserved start, and others that do not delay it may overtake it."""
    by_guess: bool = False
    """Whether those of this queue without a time limit may also overtake by their guess."""
    outside: Amounts = field(default_factory=dict)
    """Usage of its quota by pods that no Workload counts, charged to the first flavor of each resource."""
    restart: RestartTerms = NO_TERMS
    """The terms of its workloads that give none."""
    moves_per_day: int | None = None
    """How many of its workloads may be moved in 24 hours; None for any number."""
    by_usage: bool = False
    """Whether the past usage of LocalQueues orders its workloads (admission fair sharing), where that is configured."""

    @property
    def flavors(self) -> tuple[str, ...]:
        """All flavors, in the order of the groups."""
        return tuple([quotas.flavor for group in self.groups for quotas in group.flavors])

    def group_of(self, resource: str) -> ResourceGroup | None:
        """Returns the resource group that covers the resource, or None."""
        for group in self.groups:
            if resource in group.resources:
                return group
        return None


@dataclass(frozen=True, slots=True)
class Cohort:
    """A node of the cohort tree, with quota of its own to share."""

    name: str
    parent: str | None = None
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    weight_milli: int = 1000
