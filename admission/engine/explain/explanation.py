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
from admission.engine.ledger.holds import USER_OF_FLAVOR
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
    """What uses capacity: a pod that belongs to no admitted workload, an admitted workload, or hosts held of a flavor."""

    POD = "Pod"
    WORKLOAD = "Workload"
    HELD = USER_OF_FLAVOR


@dataclass(frozen=True, slots=True)
class CapacityUser:
    """A user of a resource."""

    kind: CapacityUserKind
    name: str
    """A workload's or pod's key, or the flavor."""
    amount: int
    """How much it uses."""
    node: str = ""
    """The node of a pod."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """A resource that by itself does not suffice for all pods, on those nodes of one domain that the pods may use."""

    resource: str
    asked: int
    """The request of all pods together."""
    free: int
    """The free amount."""
    pods: int
    """How many pods the free amount holds."""
    short: int
    """The request of the remaining pods."""
    takers: tuple[CapacityUser, ...] = ()
    """The largest users of the rest, at most five."""


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Excluded nodes of one domain."""

    code: Reason
    what: str
    """The taint or the label."""
    nodes: int
    pods: int
    """How many pods the nodes would hold otherwise."""
    more: int = 0
    """How many taints or labels `what` counts because there are too many to name them; 0 if it names one."""


@dataclass(frozen=True, slots=True)
class LevelView:
    """What one level offers to the pod sets of one group."""

    level: str
    domain: tuple[str, ...]
    """The path of its best domain, widest level first."""
    fits: int
    """How many units that domain holds."""
    wanted: int
    """How many units must fit."""
    unit: str
    """Pods or slices."""
    everywhere: int
    """How many units all domains of the level hold together."""
    asked: bool = False
    """Whether the request names this level."""
    shortages: tuple[Shortage, ...] = ()
    """Resources of which too little is free."""
    torn: tuple[Shortage, ...] = ()
    """Resources of which enough is free, but in pieces that hold too few whole pods."""
    exclusions: tuple[Exclusion, ...] = ()
    fragmented: bool = False
    """Whether no resource is short and still not all pods fit."""
    leader: bool = True
    """Whether the group's leader finds a node."""

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
    """Quota of one resource in a flavor."""

    resource: str
    asked: int
    nominal: int
    available: int
    """What the queue can use now, including borrowing."""
    most: int
    """What it could use if no workload used any."""
    short: int
    """The amount by which the request exceeds what is available."""
    users: tuple[QuotaUser, ...] = ()
    """The largest users, at most five."""
    workloads: tuple[CapacityUser, ...] = ()
    """The workloads that use most, at most five."""


@dataclass(frozen=True, slots=True)
class FlavorView:
    """A flavor that was tried."""

    flavor: str
    topology: str | None
    code: Reason | None = None
    """Why it does not match at all; None if it does."""
    message: str = ""
    """The words of that; empty if it matches."""
    quota: tuple[QuotaView, ...] = ()
    pod_sets: tuple[PodSetView, ...] = ()
    """Those that were not placed on its nodes, irrespective of quota."""


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
    """Why the workload is in its state."""

    workload: str
    cluster_queue: str
    verdict: Verdict
    reason: ReasonCode
    message: str
    """Kueue's text for its condition."""
    flavors: tuple[FlavorView, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    """Each suffices alone, also after all workloads considered first had their turn; the easiest comes first."""
    ahead: tuple[str, ...] = ()
    """The workloads ahead of it in its queue, if it would fit; at most five."""
    complete: bool = True
    """False if the search for remedies exhausted its budget."""
    starts: float | None = None
    """Its latest start if one is reserved, in epoch seconds."""
    behind: tuple[Behind, ...] = ()
    """The reservations that hold it back although it fits."""
    victims: tuple[str, ...] = ()
    """The workloads evicted for it, which must leave first."""
    taken: tuple[Taken, ...] = ()
    """Remedies that would suffice only without competitors."""
    proofs: tuple[Proved, ...] = ()
    """Certificates of an admitted or fitting workload's domains."""
    cause: str = ""
    """Why its queue is inactive, or that no controller answers its admission checks."""
    usage: str = ""
    """LocalQueues that come first by usage, and holds of nodes that charge its queue."""
    forecast: str = ""
    """Between which times the controller expects the start; empty if it does not."""

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
