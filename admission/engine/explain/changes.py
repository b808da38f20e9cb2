"""The changes that a remedy is made of, as values: what a user, an administrator or time could do for a waiting workload.

What each does to a ledger is in apply_changes.py, how it is said in wording.py. Amounts are per pod where they are of requests.
"""

from __future__ import annotations

from dataclasses import dataclass

from admission.engine.model import Taint


@dataclass(frozen=True, slots=True)
class RelaxTopology:
    """The pod sets of a group ask for a higher level, or (`required` False) only prefer the level."""

    pod_sets: tuple[str, ...]
    level: str
    to: str
    required: bool


@dataclass(frozen=True, slots=True)
class NameLevel:
    """The pod sets name the level `to` wherever they name `level`, which no flavor of the queue has."""

    pod_sets: tuple[str, ...]
    level: str
    to: str


@dataclass(frozen=True, slots=True)
class SoftenConstraint:
    """The pod set's hard constraint at the level becomes a soft one."""

    pod_set: str
    level: str


@dataclass(frozen=True, slots=True)
class LowerRequest:
    """Each pod of the pod set asks for `fits` of the resource instead of `asked`: the most with which it is admitted."""

    pod_set: str
    resource: str
    asked: int
    fits: int


@dataclass(frozen=True, slots=True)
class FewerPods:
    """The pod set has `fits` pods instead of `asked`."""

    pod_set: str
    asked: int
    fits: int


@dataclass(frozen=True, slots=True)
class LowerMinimum:
    """The pod set, which may start with `asked` pods (a Job's job-min-parallelism), may start with `fits` pods.

    What its number of pods is stays: one that may start with fewer keeps its minimum below that.
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
    """The pod sets' node selectors no longer name the label."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class DropAffinity:
    """The pod set has no required node affinity any more."""

    pod_set: str


@dataclass(frozen=True, slots=True)
class Finish:
    """These workloads finish; without any one of them the others would not do."""

    workloads: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LimitTime:
    """The workload runs for `seconds` at most: then it has ended before another workload's reservation begins."""

    seconds: int


@dataclass(frozen=True, slots=True)
class LetEvict:
    """The queue's preemption policy lets the workload evict others: `field` of spec.preemption becomes `explanation`."""

    cluster_queue: str
    field: str
    value: str
    evicts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LetReclaim:
    """The queue may take back whatever it lends, so nothing is kept for its refused head: reclaimWithinCohort becomes `Any`."""

    cluster_queue: str
    head: str


@dataclass(frozen=True, slots=True)
class RaiseQuota:
    """The queue's nominal quota becomes `nominal`, `by` more."""

    cluster_queue: str
    flavor: str
    resource: str
    by: int
    nominal: int


@dataclass(frozen=True, slots=True)
class AnswerCheck:
    """The queue's admission check is made (no `controller`), or becomes active since its controller runs."""

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
    """The queue gives quota for the resource, which no group of it covers: `nominal` in each of these flavors.

    `beside`: what the resource group of these flavors covers already; none: it is a new group.
    """

    cluster_queue: str
    resource: str
    nominal: int
    flavors: tuple[str, ...]
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AddNodes:
    """`count` more nodes like `like` come to its domain (`domain`: its values of these levels).

    `daemons`: what of each resource is taken on every node of the flavor, and so will be on the new ones.
    """

    flavor: str
    like: str
    levels: tuple[str, ...]
    domain: tuple[str, ...]
    daemons: tuple[tuple[str, int], ...]
    count: int


Change = (
    RelaxTopology
    | NameLevel
    | SoftenConstraint
    | LowerRequest
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
    """Changes that admit the workload when all are made: that was tried on a trial of the ledger."""

    changes: tuple[Change, ...]
