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
    """A class of nodes. `levels` is None without a topology; `topology` names it in messages.

    `topology` without `levels` means that the named Topology does not exist. `spare` is the rule for hosts that are kept free.
    `node_holds` are all holds of nodes of the cluster, by name; the ledger adds them.
    """

    name: str
    node_labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str | None = None
    levels: tuple[str, ...] | None = None
    spare: SpareRule | None = None
    node_holds: tuple[NodeHold, ...] = ()


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
    resources that no group covers are not counted; otherwise a workload that requests them fits nowhere. With
    `reserves_starts`, the first waiting workload gets a reserved start, and others that do not delay it may overtake it; with
    `by_guess`, those of this queue without a time limit may also do so by their guess. `outside` is usage
    of its quota by pods that no Workload counts, charged to the first flavor of each resource. `restart` are the terms of its
    workloads that give none; `moves_per_day` is how many of them may be moved in 24 hours, None for any number.
    `by_usage`: the past usage of LocalQueues orders its workloads (admission fair sharing), where that is configured.
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
    reserves_starts: bool = False
    by_guess: bool = False
    outside: Amounts = field(default_factory=dict)
    restart: RestartTerms = NO_TERMS
    moves_per_day: int | None = None
    by_usage: bool = False

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
