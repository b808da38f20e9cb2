"""The changes of a remedy, as values: what a user, an administrator or time could do for a waiting workload.

apply_changes.py applies them to a ledger, wording.py describes them. Amounts of requests are per pod.
"""

from __future__ import annotations

from dataclasses import dataclass

from admission.engine.model import Taint


@dataclass(frozen=True, slots=True)
class RelaxTopology:
    """The pod sets of a group request a wider level or, if `required` is False, only prefer their level."""

    pod_sets: tuple[str, ...]
    level: str
    to: str
    required: bool


@dataclass(frozen=True, slots=True)
class NameLevel:
    """The pod sets name the level `to` instead of `level`, which no flavor of the queue has."""

    pod_sets: tuple[str, ...]
    level: str
    to: str


@dataclass(frozen=True, slots=True)
class SoftenConstraint:
    """The pod set's hard constraint at the level becomes soft."""

    pod_set: str
    level: str


@dataclass(frozen=True, slots=True)
class LowerRequest:
    """Each pod of the pod set requests `fits` of the resource instead of `asked`: the largest request that is admitted."""

    pod_set: str
    resource: str
    asked: int
    fits: int


@dataclass(frozen=True, slots=True)
class RequestResource:
    """Each pod of the pod sets requests at least `least` of a resource that the queue covers; they request none of them."""

    cluster_queue: str
    pod_sets: tuple[str, ...]
    resource: str
    least: int


@dataclass(frozen=True, slots=True)
class FewerPods:
    """The pod set has `fits` pods instead of `asked`."""

    pod_set: str
    asked: int
    fits: int


@dataclass(frozen=True, slots=True)
class LowerMinimum:
    """The pod set may start with `fits` pods instead of `asked` (a Job's job-min-parallelism).

    Its number of pods stays the same.
    """

    pod_set: str
    asked: int
    fits: int


@dataclass(frozen=True, slots=True)
class Tolerate:
    """Every pod set tolerates the taint."""

    taint: Taint


@dataclass(frozen=True, slots=True)
class DropSelector:
    """The pod sets' node selectors no longer contain the label."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class DropAffinity:
    """The pod set no longer has required node affinity."""

    pod_set: str


@dataclass(frozen=True, slots=True)
class Finish:
    """These workloads finish; none of them can be left out."""

    workloads: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LimitTime:
    """The workload runs for at most `seconds`, and so ends before another workload's reservation begins."""

    seconds: int


@dataclass(frozen=True, slots=True)
class LetEvict:
    """The queue's preemption policy permits the preemption."""

    cluster_queue: str
    field: str
    """The field of spec.preemption."""
    value: str
    """What it becomes."""
    evicts: tuple[str, ...]
    """The workloads that are then evicted."""


@dataclass(frozen=True, slots=True)
class LetReclaim:
    """The queue may reclaim whatever it lends, so no quota is kept for its refused head: reclaimWithinCohort becomes `Any`."""

    cluster_queue: str
    head: str


@dataclass(frozen=True, slots=True)
class RaiseQuota:
    """The queue's nominal quota becomes `nominal`, an increase by `by`."""

    cluster_queue: str
    flavor: str
    resource: str
    by: int
    nominal: int


@dataclass(frozen=True, slots=True)
class AnswerCheck:
    """The queue's admission check is created (no `controller`), or becomes active because its controller runs."""

    cluster_queue: str
    check: str
    controller: str


@dataclass(frozen=True, slots=True)
class DropCheck:
    """The queue no longer names the admission check, whose controller Stowage does not support."""

    cluster_queue: str
    check: str
    controller: str


@dataclass(frozen=True, slots=True)
class CoverResource:
    """The queue gets quota for a resource that none of its groups covers."""

    cluster_queue: str
    resource: str
    nominal: int
    """The quota in each of the flavors."""
    flavors: tuple[str, ...]
    beside: tuple[str, ...] = ()
    """The resources that the group of these flavors covers already; empty for a new group."""


@dataclass(frozen=True, slots=True)
class AddNodes:
    """`count` nodes like `like` are added to its domain, given by its values of these levels.

    `daemons` lists what is used of each resource on every node of the flavor, and will be on the new nodes.
    """

    flavor: str
    like: str
    levels: tuple[str, ...]
    domain: tuple[str, ...]
    daemons: tuple[tuple[str, int], ...]
    count: int


@dataclass(frozen=True, slots=True)
class AddNodesFirst(AddNodes):
    """AddNodes for a trial, with node names that sort before all others. No explanation contains this change."""


Change = (
    RelaxTopology
    | NameLevel
    | SoftenConstraint
    | LowerRequest
    | RequestResource
    | FewerPods
    | LowerMinimum
    | Tolerate
    | DropSelector
    | DropAffinity
    | Finish
    | LimitTime
    | LetEvict
    | LetReclaim
    | RaiseQuota
    | AnswerCheck
    | DropCheck
    | CoverResource
    | AddNodes
)


@dataclass(frozen=True, slots=True)
class Remedy:
    """Changes that together admit the workload, as tried on a trial of the ledger."""

    changes: tuple[Change, ...]
