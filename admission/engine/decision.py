"""The engine's outputs: Admit, Preempt, Wait, Evict and Reject, each with its reason and figures.

Decisions are values without effect; controllers write them to the API server, metrics and events. Texts are Kueue's (cycle.md
4.6, placement.md 5.7), so that existing tools can read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from admission.engine.model import Admission, Assignment
from admission.engine.reasons import Reason, ReasonCode


@dataclass(frozen=True, slots=True)
class Exclusions:
    """Why nodes were excluded: the number of nodes by cause."""

    total_nodes: int = 0
    node_selector: int = 0
    affinity: int = 0
    topology_domain: int = 0
    volumes: int = 0
    taints: Mapping[str, int] = field(default_factory=dict)
    """The taints that exclude most."""
    pods: Mapping[str, int] = field(default_factory=dict)
    resources: Mapping[str, int] = field(default_factory=dict)
    """The scarcest resource of each node."""
    more_taints: int = 0
    """How many other taints exclude nodes."""
    beyond: int = 0
    """How many nodes these exclude."""


@dataclass(frozen=True, slots=True)
class NoPlacement:
    """Why a pod set was not placed."""

    message: str
    fits: int = 0
    """How many pods or slices the best attempt held."""
    wanted: int = 0
    """How many it had to hold."""
    exclusions: Exclusions = Exclusions()
    quota: bool = False
    """Whether the nodes have capacity, but quota is short for what is held beside the pods."""


class Proof(StrEnum):
    """What an exact solver has proved about its answer."""

    OPTIMAL = "Optimal"
    FEASIBLE = "Feasible"
    INFEASIBLE = "Infeasible"


class Proven(StrEnum):
    """The scope of a certificate: with Proof.OPTIMAL, no answer is better in this respect."""

    FIGURES = "AllFigures"
    LEVELS = "DownToLevel"
    ONE_DOMAIN = "OneDomain"
    DOMAINS = "NumberOfDomains"
    CONSTRAINTS = "Constraints"


_PROVEN = {
    Proven.FIGURES: "no answer has better figures",
    Proven.LEVELS: "no answer opens fewer domains or strands less room, the requested level first, down to {level}",
    Proven.ONE_DOMAIN: "one domain of {level} holds all, and none that does holds less",
    Proven.DOMAINS: "no answer opens fewer domains of {level}; of the room that is stranded nothing is proved",
    Proven.CONSTRAINTS: "no answer breaks the constraints less, level by level, nor then strands less room in {level}",
}


@dataclass(frozen=True, slots=True)
class Certificate:
    """How good an answer is with respect to a claim. Feasible means that the budget was spent. Figures are those of the
    objective that the solver's docstring lists, most important first.
    """

    proof: Proof
    cost: tuple[int, ...] = ()
    """The answer's figures."""
    bound: tuple[int, ...] = ()
    """No answer can have better figures."""
    expanded: int = 0
    """The number of search nodes."""
    claim: Proven = Proven.FIGURES
    level: str = ""
    """Down to this level the claim is about the answer."""
    unproved: str = ""
    """Nothing is proved about this level and those below it."""

    @property
    def text(self) -> str:
        """The statement in words."""
        if self.proof is Proof.INFEASIBLE:
            return "proved: there is no place"
        if self.proof is Proof.FEASIBLE:
            return "not proved: there may be a better answer"
        statement = _PROVEN[self.claim].format(level=self.level or "the requested levels")
        return f"proved: {statement}" + (f"; of {self.unproved} and below nothing is proved" if self.unproved else "")


@dataclass(frozen=True, slots=True)
class PlacementResult:
    """Assignments, and reasons for failures, by pod set name; pod sets after the first failing group are in neither.

    `certificates` covers the pod sets that an exact solver placed (Profile Exact).
    """

    assignments: Mapping[str, Assignment]
    failures: Mapping[str, NoPlacement]
    certificates: Mapping[str, Certificate] = field(default_factory=dict)

    @property
    def fits(self) -> bool:
        """Reports whether every pod set was placed."""
        return not self.failures


@dataclass(frozen=True, slots=True)
class Overtaking:
    """The workload starts before a waiting head because it is expected to end in time. It may be evicted for the head so long
    before the head's start that its pods have ended by then.
    """

    head: str
    guess: float
    """For how many seconds it is expected to run at most."""
    start: float
    """When the head is to start (epoch seconds)."""
    termination: float = 0.0
    """The seconds that its pods have to end."""

    @property
    def until(self) -> float:
        """From when on it may be evicted (epoch seconds)."""
        return self.start - self.termination


@dataclass(frozen=True, slots=True)
class Admit:
    """Admits the workload with this admission."""

    workload: str
    admission: Admission
    note: str = ""
    """Extends the message of its status."""
    considered: str = ""
    """Extends the message of the QuotaReserved event, with rejected flavors and borrowing."""
    overtaking: Overtaking | None = None
    """Set if it starts only because of its guess."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Leaves the workload in the queue."""

    workload: str
    reason: ReasonCode
    message: str
    """That of its condition QuotaReserved=False."""
    retry: bool = False
    """Whether it stays in the heap for the next cycle; otherwise it is inadmissible until something changes that could help
    it."""
    requested: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The total per pod set, for the status."""
    never: bool = False
    """Whether it would not fit even in an empty cluster (cycle/admission_attempt.py)."""
    gated: bool = False
    """Whether it could start if its preemption gates were open."""
    too_large: str = ""
    """What a pod of it asks for and no host has; the message keeps Kueue's words."""


class PreemptionReason(StrEnum):
    """The reason of the condition Preempted: the policy that permits the preemption."""

    IN_CLUSTER_QUEUE = "InClusterQueue"
    """The victim is in the preemptor's ClusterQueue (withinClusterQueue)."""
    IN_COHORT_RECLAMATION = "InCohortReclamation"
    """The victim's queue borrows quota that the preemptor's queue reclaims (reclaimWithinCohort)."""
    IN_COHORT_FAIR_SHARING = "InCohortFairSharing"
    """The victim's queue has the larger share (fair sharing)."""
    IN_COHORT_RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
    """The preemptor borrows, and the victim's priority is below the threshold (borrowWithinCohort)."""
    OUTLASTED = "BackfillEnded"
    """The victim overtook a waiting workload by its learned run time and outlasted it. Not in Kueue."""


@dataclass(frozen=True, slots=True)
class Victim:
    """A workload to evict, by key, and the reason of its preemption."""

    workload: str
    claim: PreemptionReason


@dataclass(frozen=True, slots=True)
class Preempt:
    """Evicts these workloads first; the preemptor waits, and the capacity that they release is reserved for it.

    The same decision may recur, for the same victims or others, whenever something changes before the victims are gone. If a
    victim cannot be evicted after all, requeue the preemptor.
    """

    workload: str
    victims: tuple[Victim, ...]
    message: str
    """That of the preemptor's condition QuotaReserved=False."""
    requested: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The total per pod set, for the status."""


PREEMPTION_GATED = "Workload requires preemption, but it's gated"
"""The message of a workload that could start if its preemption gates were open."""

NODE_FAILURES = "NodeFailures"
"""Eviction reason: nodes failed and their pods could not be placed elsewhere."""


@dataclass(frozen=True, slots=True)
class Evict:
    """Evicts a workload that has quota."""

    workload: str
    reason: str
    """That of its Evicted condition."""
    message: str
    """That of its Evicted condition."""
    failed: str = ""
    """Why an attempt to avoid the eviction failed; it is reported if the eviction cannot be written."""


@dataclass(frozen=True, slots=True)
class Reject:
    """Rejects a workload that can never run because of its own error, not because of missing capacity."""

    workload: str
    reason: Reason
    message: str


Decision = Admit | Wait | Preempt | Evict | Reject


def explain(decision: Decision) -> str:
    """Describes the decision in one sentence."""
    match decision:
        case Admit(workload, admission, note):
            return f"{workload} is admitted by ClusterQueue {admission.cluster_queue}{note and f': {note}'}"
        case Preempt(workload, victims, message):
            return f"{workload} waits for {len(victims)} workload(s) to leave: {message}"
        case Evict(workload, reason, message):
            return f"{workload} is evicted ({reason}): {message}"
        case Wait(workload, reason, message) | Reject(workload, reason, message):
            return f"{workload} waits ({reason}): {message}"
