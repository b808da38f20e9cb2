"""What an explanation is, as values: why a workload waits, and what stands in its way where. Remedies are in changes.py.

One value feeds the status, the event, `stowage explain` and its JSON (explanation_json.py). explain.py makes it; nothing here
computes. Amounts are integers as everywhere in the engine: cpu in milli-units, everything else in whole units.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from admission.engine.decision import Certificate, Reason
from admission.engine.explain.changes import Remedy


class Verdict(StrEnum):
    """Where the workload stands."""

    ADMITTED = "Admitted"
    RESERVED = "Reserved"
    FITS = "Fits"
    WAITS = "Waits"
    BLOCKED = "Blocked"
    CANNOT_RUN = "CannotRun"


class CapacityUserKind(StrEnum):
    """What takes capacity: a pod that belongs to no admitted workload, or an admitted workload."""

    POD = "Pod"
    WORKLOAD = "Workload"


@dataclass(frozen=True, slots=True)
class CapacityUser:
    """A workload or pod that takes `amount` of a resource. `node`: where a pod stands; empty for a workload."""

    kind: CapacityUserKind
    name: str
    amount: int
    node: str = ""


@dataclass(frozen=True, slots=True)
class Shortage:
    """A resource of one domain, seen alone, on the nodes that the pods may use; it is not enough for all of them.

    `asked`: what all pods take together; `free`: what is left; `pods`: how many of them that holds; `short`: what the
    pods beyond those would take. `capacity_users`: the users of most of the rest, at most five.
    """

    resource: str
    asked: int
    free: int
    pods: int
    short: int
    takers: tuple[CapacityUser, ...] = ()


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Nodes of one domain that do not count. `what`: the taint, or the label; `pods`: how many they would hold otherwise."""

    code: Reason
    what: str
    nodes: int
    pods: int


@dataclass(frozen=True, slots=True)
class LevelView:
    """What one level offers to the pod sets of one group.

    `domain`: the values of its best domain, widest first; `fits` of `wanted` (`unit`: pods or slices) is what that domain
    holds, `everywhere` what all domains of the level hold together. `asked`: whether the request names this level.
    `shortages`: resources of which too little is free; `torn`: of which enough is free, but for whole pods on too few nodes.
    `fragmented`: none is short, and still not all fits. `leader`: whether the group's leader finds a node.
    """

    level: str
    domain: tuple[str, ...]
    fits: int
    wanted: int
    unit: str
    everywhere: int
    asked: bool = False
    shortages: tuple[Shortage, ...] = ()
    torn: tuple[Shortage, ...] = ()
    exclusions: tuple[Exclusion, ...] = ()
    fragmented: bool = False
    leader: bool = True

    def codes(self) -> Iterator[Reason]:
        """The codes of what limits the best domain."""
        if not self.domain:
            yield Reason.NO_DOMAINS
        if not self.leader:
            yield Reason.NO_PLACE_FOR_LEADER
        if self.shortages:
            yield Reason.INSUFFICIENT_RESOURCE
        if self.fragmented:
            yield Reason.FRAGMENTED
        yield from (exclusion.code for exclusion in self.exclusions)
        kinds = {taker.kind for shortage in (*self.shortages, *self.torn) for taker in shortage.takers}
        if CapacityUserKind.POD in kinds:
            yield Reason.FOREIGN_PODS
        if CapacityUserKind.WORKLOAD in kinds:
            yield Reason.ADMITTED_WORKLOADS


@dataclass(frozen=True, slots=True)
class PodSetView:
    """Pod sets that are placed together and found no place on a flavor. `message` is the placement's own."""

    pod_sets: tuple[str, ...]
    message: str
    levels: tuple[LevelView, ...] = ()


@dataclass(frozen=True, slots=True)
class QuotaUser:
    """A ClusterQueue that uses the quota. `borrowed`: how much of that is beyond its own."""

    cluster_queue: str
    amount: int
    borrowed: int


@dataclass(frozen=True, slots=True)
class QuotaView:
    """Quota of one resource in a flavor. `available`: to the queue now, borrowing included; `most`: if no workload used any.

    `short`: by how much the request is beyond `available`. `users` and `workloads`: what uses it, most first, at most five.
    """

    resource: str
    asked: int
    nominal: int
    available: int
    most: int
    short: int
    users: tuple[QuotaUser, ...] = ()
    workloads: tuple[CapacityUser, ...] = ()


@dataclass(frozen=True, slots=True)
class FlavorView:
    """One flavor that was tried. `code` and `message`: why it does not suit at all, None and empty where it does.

    `pod_sets`: those that found no place on its nodes, quota aside.
    """

    flavor: str
    topology: str | None
    code: Reason | None = None
    message: str = ""
    quota: tuple[QuotaView, ...] = ()
    pod_sets: tuple[PodSetView, ...] = ()


@dataclass(frozen=True, slots=True)
class Behind:
    """A workload that has a reservation (backfill), which this one would delay; `start`: when it begins (epoch seconds)."""

    workload: str
    start: float


@dataclass(frozen=True, slots=True)
class Proved:
    """What is proved of a pod set's domains, the nodes as they are now."""

    pod_set: str
    certificate: Certificate


@dataclass(frozen=True, slots=True)
class Taken:
    """A remedy that is not enough: `by`, at most five, would start instead, or stand before it in a StrictFIFO queue."""

    remedy: Remedy
    by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why the workload is where it is. `message` is Kueue's text for its condition.

    `starts`: when it starts at the latest, where that is reserved for it (epoch seconds); `behind`: whose reservations keep it
    waiting though it fits; `victims`: the workloads evicted for it, which must leave first.

    `cause`: why its queue is inactive, or no controller answers its admission checks; with their controllers.

    `proofs`: of an admitted one, or one that fits, what is proved of its domains.

    `cycle_trials`: the workloads before it in its queue, if it would fit; at most five. `remedies`: each sufficient alone,
    the least trouble first, also when all that are considered before it have had their turn; `taken`: what would do without
    these. `complete`: False where the search for remedies was cut off at its budget.
    """

    workload: str
    cluster_queue: str
    verdict: Verdict
    reason: Reason
    message: str
    flavors: tuple[FlavorView, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    ahead: tuple[str, ...] = ()
    complete: bool = True
    starts: float | None = None
    behind: tuple[Behind, ...] = ()
    victims: tuple[str, ...] = ()
    taken: tuple[Taken, ...] = ()
    proofs: tuple[Proved, ...] = ()
    cause: str = ""

    @property
    def codes(self) -> tuple[Reason, ...]:
        """All reason codes in it, the condition's first, each once."""
        return tuple(dict.fromkeys(self._codes()))

    def _codes(self) -> Iterator[Reason]:
        yield self.reason
        if self.verdict is Verdict.CANNOT_RUN:
            yield Reason.CANNOT_RUN
        for flavor in self.flavors:
            if flavor.code is not None:
                yield flavor.code
            for pod_set in flavor.pod_sets:
                if not pod_set.levels:
                    yield Reason.BAD_REQUEST
                if any(level.asked and level.leader and level.fits >= level.wanted for level in pod_set.levels):
                    yield Reason.CONSTRAINED
                for level in pod_set.levels:
                    if level.fits < level.wanted or not level.leader:
                        yield from level.codes()
