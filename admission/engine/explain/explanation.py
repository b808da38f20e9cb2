"""An explanation as values: why a workload waits, and what the obstacles are. changes.py has the remedies.

One value feeds the status, the event, `stowage explain` and its JSON (explanation_json.py); explain.py computes it. Amounts
are integers as everywhere in the engine: cpu in milli-units, everything else in its base unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from admission.engine.decision import Certificate
from admission.engine.explain.changes import Remedy
from admission.engine.reasons import Reason, ReasonCode


class Verdict(StrEnum):
    """The overall state of the workload."""

    ADMITTED = "Admitted"
    RESERVED = "Reserved"
    FITS = "Fits"
    WAITS = "Waits"
    BLOCKED = "Blocked"
    CANNOT_RUN = "CannotRun"


class CapacityUserKind(StrEnum):
    """What uses capacity: a pod that belongs to no admitted workload, an admitted workload, or a flavor's spare hosts."""

    POD = "Pod"
    WORKLOAD = "Workload"
    SPARE_HOSTS = "SpareHosts"


@dataclass(frozen=True, slots=True)
class CapacityUser:
    """A user of `amount` of a resource. `name` is a workload's or pod's key, or the flavor; `node`, the node of a pod."""

    kind: CapacityUserKind
    name: str
    amount: int
    node: str = ""


@dataclass(frozen=True, slots=True)
class Shortage:
    """A resource that by itself does not suffice for all pods, on those nodes of one domain that the pods may use.

    `asked` is the request of all pods together; `free`, the free amount; `pods`, how many pods that holds; `short`, the
    request of the remaining pods. `takers` are the largest users of the rest, at most five.
    """

    resource: str
    asked: int
    free: int
    pods: int
    short: int
    takers: tuple[CapacityUser, ...] = ()


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Excluded nodes of one domain. `what` is the taint or the label; `pods` is how many pods they would hold otherwise.

    `more` is how many taints or labels `what` counts because there are too many to name them; 0 if it names one.
    """

    code: Reason
    what: str
    nodes: int
    pods: int
    more: int = 0


@dataclass(frozen=True, slots=True)
class LevelView:
    """What one level offers to the pod sets of one group.

    `domain` is the path of its best domain, widest level first, which holds `fits` of `wanted` (`unit`: pods or slices);
    `everywhere` is what all domains of the level hold together. `asked` tells whether the request names this level.
    `shortages` are resources of which too little is free; `torn`, resources of which enough is free, but in pieces that hold
    too few whole pods. `fragmented` means that no resource is short and still not all pods fit. `leader` tells whether the
    group's leader finds a node.
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
        """Yields the reason codes of what limits the best domain."""
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
    """Pod sets that are placed together and were not placed on a flavor; `message` is the placement's own."""

    pod_sets: tuple[str, ...]
    message: str
    levels: tuple[LevelView, ...] = ()


@dataclass(frozen=True, slots=True)
class QuotaUser:
    """A ClusterQueue that uses the quota; `borrowed` is how much of that exceeds its own quota."""

    cluster_queue: str
    amount: int
    borrowed: int


@dataclass(frozen=True, slots=True)
class QuotaView:
    """Quota of one resource in a flavor.

    `available` is what the queue can use now, including borrowing; `most`, what it could use if no workload used any. `short`
    is the amount by which the request exceeds `available`. `users` and `workloads` are the largest users, at most five.
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
    """A flavor that was tried. `code` and `message` tell why it does not match at all; None and empty if it does.

    `pod_sets` are those that were not placed on its nodes, irrespective of quota.
    """

    flavor: str
    topology: str | None
    code: Reason | None = None
    message: str = ""
    quota: tuple[QuotaView, ...] = ()
    pod_sets: tuple[PodSetView, ...] = ()


@dataclass(frozen=True, slots=True)
class Behind:
    """A workload whose reserved start this one would delay; `start` is when it begins, in epoch seconds."""

    workload: str
    start: float


@dataclass(frozen=True, slots=True)
class Proved:
    """A certificate for a pod set's domains on the present nodes."""

    pod_set: str
    certificate: Certificate


@dataclass(frozen=True, slots=True)
class Taken:
    """A remedy that does not suffice: `by` (at most five) would start instead, or block the workload's StrictFIFO queue."""

    remedy: Remedy
    by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why the workload is in its state. `message` is Kueue's text for its condition.

    `starts` is its latest start if one is reserved, in epoch seconds; `behind`, the reservations that hold it back although it
    fits; `victims`, the workloads evicted for it, which must leave first. `cause` tells why its queue is inactive, or that no
    controller answers its admission checks. `proofs` are certificates of an admitted or fitting workload's domains. `ahead`
    holds the workloads ahead of it in its queue, if it would fit; at most five. Each of the `remedies` suffices alone, also
    after all workloads considered first had their turn; the easiest comes first. `taken` holds remedies that would suffice
    only without competitors. `usage` names LocalQueues that come first by usage, and holds of nodes that charge its queue.
    `complete` is False if the search for remedies exhausted its budget. `forecast` tells between which times the controller
    expects the start; empty if it does not.
    """

    workload: str
    cluster_queue: str
    verdict: Verdict
    reason: ReasonCode
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
    usage: str = ""
    forecast: str = ""

    @property
    def codes(self) -> tuple[ReasonCode, ...]:
        """All reason codes of the explanation without duplicates, the condition's first."""
        return tuple(dict.fromkeys(self._codes()))

    def _codes(self) -> Iterator[ReasonCode]:
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
