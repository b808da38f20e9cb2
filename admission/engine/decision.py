"""The engine's outputs: Admit, Preempt, Wait, Evict, Reject; each with its reason and numbers.

Decisions are values: the shell writes them to the API server, metrics and events; nothing here acts. Texts are
Kueue's own (cycle.md 4.6, placement.md 5.7), so that existing tools read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from typing import Self

from admission.engine.model import Admission, Assignment


class ReasonOwner(StrEnum):
    """Which part of the program finds a reason first."""

    ENGINE = "engine"
    CONTROLLERS = "controllers"
    EXPLANATION = "explanation"


class OlderReason(Enum):
    """Which of Kueue's older reasons is written for a reason where the settings ask for these."""

    PENDING = auto()
    INADMISSIBLE = auto()
    WAITING = auto()
    UNCHANGED = auto()


class Reason(StrEnum):
    """Every reason code: stable names, each with its meaning as `__doc__`, its owner, whether it is
    retained, and its older form.

    The reasons of QuotaReserved=False come first, the most specific first where several hold. Those of the controllers
    reach the engine as `Workload.blocked` and are passed on; where the engine meets the same case, it gives the same
    reason. Those of an explanation (explain/) stand behind a reason of the engine: they are never the reason of one of
    Kueue's conditions.

    `retained`: the object alone cannot disprove it, so it stays in the status until the next cycle, or until the controller
    that wrote it removes it.
    """

    owner: ReasonOwner
    retained: bool
    older: OlderReason

    def __new__(
        cls,
        value: str,
        meaning: str = "",
        owner: ReasonOwner = ReasonOwner.ENGINE,
        retained: bool = False,
        older: OlderReason = OlderReason.PENDING,
    ) -> Self:
        """A member with all that is declared of it."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.__doc__ = meaning
        member.owner, member.retained, member.older = owner, retained, older
        return member

    NO_MATCHING_FLAVOR = (
        "NoMatchingFlavor",
        "no flavor of the queue suits: taints, node affinity, levels, or no such resource",
        ReasonOwner.ENGINE,
        True,
    )
    EXCEEDS_MAX_QUOTA = (
        "ExceedsMaxQuota",
        "asks for more than the queue could ever use, borrowing included",
        ReasonOwner.ENGINE,
        True,
    )
    WAITING_FOR_QUOTA = "WaitingForQuota", "others use the quota that it needs", ReasonOwner.ENGINE, True
    TOPOLOGY_PLACEMENT_FAILED = (
        "TopologyPlacementFailed",
        "no domains of the topology hold all its pods at the moment",
        ReasonOwner.ENGINE,
        True,
    )
    WAITING_FOR_PREEMPTED = (
        "WaitingForPreemptedWorkloads",
        "the workloads that make room for it have not left yet",
        ReasonOwner.ENGINE,
        True,
    )
    REPEATED_PREEMPTION = (
        "RepeatedPreemption",
        "it had the same workload evicted twice within ten minutes and does not run: it waits before it may evict it again",
        ReasonOwner.ENGINE,
        True,
    )
    MISCONFIGURED = (
        "Misconfigured",
        "a queue is missing, or cannot admit as it is set up",
        ReasonOwner.CONTROLLERS,
        False,
        OlderReason.INADMISSIBLE,
    )
    WAITING_FOR_OBJECTS = (
        "WaitingForObjects",
        "an object that its pods name is missing or not ready yet, so they would be refused or never bound",
        ReasonOwner.CONTROLLERS,
        False,
        OlderReason.INADMISSIBLE,
    )
    UNSUPPORTED_POD_TERMS = (
        "UnsupportedPodTerms",
        "its pods have a term by which nobody here can tell whether a node takes them",
        ReasonOwner.CONTROLLERS,
        False,
        OlderReason.INADMISSIBLE,
    )
    SUSPENDED = "Suspended", "a queue is stopped", ReasonOwner.CONTROLLERS, False, OlderReason.INADMISSIBLE
    PENDING_EVALUATION = (
        "PendingEvaluation",
        "it was not considered yet: others come first, or a backoff is not over",
        ReasonOwner.CONTROLLERS,
        True,
    )
    WAITING_FOR_PODS_READY = (
        "WaitingForPodsReady",
        "pods of workloads admitted before it are not ready yet",
        ReasonOwner.ENGINE,
        True,
        OlderReason.WAITING,
    )
    WAITING_FOR_GANGS = (
        "WaitingForGangs",
        "the gangs that start together with it are not ready to start",
        ReasonOwner.ENGINE,
        True,
    )
    ADMISSION_GATED = (
        "AdmissionGated",
        "an admission gate holds it, or a preemption gate keeps it from evicting other workloads",
        ReasonOwner.CONTROLLERS,
        False,
        OlderReason.UNCHANGED,
    )
    DEACTIVATED = "Deactivated", "spec.active is false", ReasonOwner.CONTROLLERS, False, OlderReason.INADMISSIBLE
    ON_HOLD = "OnHold", "its queue holds it back", ReasonOwner.CONTROLLERS, True, OlderReason.UNCHANGED
    OWNER_NOT_MANAGED = (
        "OwnerNotManaged",
        "its owner is of a kind that Stowage does not manage",
        ReasonOwner.CONTROLLERS,
        False,
        OlderReason.INADMISSIBLE,
    )
    UNSATISFIED_CHECKS = (
        "UnsatisfiedAdmissionChecks",
        "it has quota, and admission checks are not ready yet",
        ReasonOwner.EXPLANATION,
    )

    CANNOT_RUN = (
        "CannotRun",
        "would not fit even if no other workload were admitted and all quota were free",
        ReasonOwner.EXPLANATION,
    )
    FLAVOR_NOT_FOUND = "FlavorNotFound", "the queue names a flavor that does not exist", ReasonOwner.EXPLANATION
    LEVEL_MISMATCH = (
        "LevelMismatch",
        "the flavor has no topology, or not the levels that are asked for",
        ReasonOwner.EXPLANATION,
    )
    BAD_REQUEST = "BadRequest", "the topology request breaks a rule, so it fits nowhere", ReasonOwner.EXPLANATION
    NO_DOMAINS = (
        "NoDomains",
        "the level has no domain: no usable node of the flavor bears the labels",
        ReasonOwner.EXPLANATION,
    )
    INSUFFICIENT_RESOURCE = (
        "InsufficientResource",
        "too little of a resource is free in the domain",
        ReasonOwner.EXPLANATION,
    )
    FRAGMENTED = (
        "Fragmented",
        "enough is free in the domain, but not together where whole pods or slices need it",
        ReasonOwner.EXPLANATION,
    )
    UNTOLERATED_TAINT = (
        "UntoleratedTaint",
        "nodes repel its pods by a taint that they do not tolerate",
        ReasonOwner.EXPLANATION,
    )
    NODE_SELECTOR_MISMATCH = (
        "NodeSelectorMismatch",
        "nodes lack a label that the node selector names",
        ReasonOwner.EXPLANATION,
    )
    NODE_AFFINITY_MISMATCH = (
        "NodeAffinityMismatch",
        "nodes do not match the required node affinity",
        ReasonOwner.EXPLANATION,
    )
    POD_ANTI_AFFINITY = (
        "PodAntiAffinity",
        "required anti-affinity keeps its pods off nodes: that of its pods, or of pods that are there",
        ReasonOwner.EXPLANATION,
    )
    POD_AFFINITY = (
        "PodAffinity",
        "no bound pod that its required pod affinity selects is near the nodes",
        ReasonOwner.EXPLANATION,
    )
    NO_PLACE_FOR_LEADER = (
        "NoPlaceForLeader",
        "no node of the domain holds the leader of the group",
        ReasonOwner.EXPLANATION,
    )
    CONSTRAINED = (
        "Constrained",
        "the domain holds all pods, but not under the constraints, or not beside the other pod sets",
        ReasonOwner.EXPLANATION,
    )
    FOREIGN_PODS = "ForeignPods", "pods that belong to no admitted workload take the room", ReasonOwner.EXPLANATION
    ADMITTED_WORKLOADS = "AdmittedWorkloads", "admitted workloads take the room", ReasonOwner.EXPLANATION


@dataclass(frozen=True, slots=True)
class Exclusions:
    """Why nodes did not count: how many by nodeSelector, affinity, volumes, each taint, each term of pods, each resource
    that ran short first.
    """

    total_nodes: int = 0
    node_selector: int = 0
    affinity: int = 0
    topology_domain: int = 0
    volumes: int = 0
    taints: Mapping[str, int] = field(default_factory=dict)
    pods: Mapping[str, int] = field(default_factory=dict)
    resources: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NoPlacement:
    """A pod set that found no place. `fits` of `wanted` (pods or slices) is the best that one try could hold."""

    message: str
    fits: int = 0
    wanted: int = 0
    exclusions: Exclusions = Exclusions()


class Proof(StrEnum):
    """What is known of an answer of the exact solvers."""

    OPTIMAL = "Optimal"
    FEASIBLE = "Feasible"
    INFEASIBLE = "Infeasible"


class Proven(StrEnum):
    """Of what a certificate speaks: Optimal says that no answer is better in this."""

    FIGURES = "AllFigures"
    LEVELS = "DownToLevel"
    ONE_DOMAIN = "OneDomain"
    DOMAINS = "NumberOfDomains"
    CONSTRAINTS = "Constraints"


_PROVEN = {
    Proven.FIGURES: "no answer has better figures",
    Proven.LEVELS: "no answer opens fewer domains or strands less room, the asked level first, down to {level}",
    Proven.ONE_DOMAIN: "one domain of {level} holds all, and none that does holds less",
    Proven.DOMAINS: "no answer opens fewer domains of {level}; of the room that is stranded nothing is proved",
    Proven.CONSTRAINTS: "no answer breaks the constraints less, level by level, nor then strands less room in {level}",
}


@dataclass(frozen=True, slots=True)
class Certificate:
    """How good an answer is, in what is claimed, down to `level`; of `unproved` and the levels below it nothing is said.

    Feasible: the budget was spent; no answer can be better than `bound` (the objective's figures, most important first, as the
    solver's docstring lists them; `cost` is the answer's). `expanded`: search nodes examined.
    """

    proof: Proof
    cost: tuple[int, ...] = ()
    bound: tuple[int, ...] = ()
    expanded: int = 0
    claim: Proven = Proven.FIGURES
    level: str = ""
    unproved: str = ""

    @property
    def text(self) -> str:
        """What is proved, in words."""
        if self.proof is Proof.INFEASIBLE:
            return "proved: there is no place"
        if self.proof is Proof.FEASIBLE:
            return "not proved: there may be a better answer"
        statement = _PROVEN[self.claim].format(level=self.level or "the asked levels")
        return f"proved: {statement}" + (f"; of {self.unproved} and below nothing is proved" if self.unproved else "")


@dataclass(frozen=True, slots=True)
class PlacementResult:
    """Per pod set name: its assignment, or why there is none. Pod sets after the first failing group are in neither.

    `certificates`: of the pod sets that an exact solver answered for (Profile Exact).
    """

    assignments: Mapping[str, Assignment]
    failures: Mapping[str, NoPlacement]
    certificates: Mapping[str, Certificate] = field(default_factory=dict)

    @property
    def fits(self) -> bool:
        """Whether every pod set found its place."""
        return not self.failures


@dataclass(frozen=True, slots=True)
class Admit:
    """The workload may start, with this admission. `note`: what else its status is to say of it.

    `considered`: what the event of the reservation ends with (flavors that did not do, borrowing).
    """

    workload: str
    admission: Admission
    note: str = ""
    considered: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """The workload stays in the queue. `message` is what its QuotaReserved=False condition says.

    `retry`: stays in the heap for the next cycle; otherwise it sleeps among the inadmissible until something that could
    help it changes. `requested` is the total per pod set, for the status. `never`: it cannot run as it is, since it would
    not fit if it were alone (cycle/admission_attempt.py). `gated`: it could start if its preemption gates were open.
    """

    workload: str
    reason: Reason
    message: str
    retry: bool = False
    requested: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    never: bool = False
    gated: bool = False


class PreemptionReason(StrEnum):
    """By which right a workload is evicted for another: the reasons of the condition Preempted."""

    IN_CLUSTER_QUEUE = "InClusterQueue"
    IN_COHORT_RECLAMATION = "InCohortReclamation"
    IN_COHORT_FAIR_SHARING = "InCohortFairSharing"
    IN_COHORT_RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"


@dataclass(frozen=True, slots=True)
class Victim:
    """A workload (by key) that is to be evicted, and by which right."""

    workload: str
    claim: PreemptionReason


@dataclass(frozen=True, slots=True)
class Preempt:
    """These workloads must go first; until they are gone the workload waits, and what it then gets is kept for it.

    It may come again, for the same victims or others, whenever something changes before they have left. If a victim cannot be
    evicted after all, wake the queue.
    `message` is what its QuotaReserved=False condition says, `requested` the total per pod set, for the status.
    """

    workload: str
    victims: tuple[Victim, ...]
    message: str
    requested: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


PREEMPTION_GATED = "Workload requires preemption, but it's gated"
"""The message for a workload that could start if its preemption gates were open."""

NODE_FAILURES = "NodeFailures"
"""Reason of an eviction: nodes failed, and there was no other place for the pods on them."""


@dataclass(frozen=True, slots=True)
class Evict:
    """The workload holds quota and has to go: `reason` and `message` of its Evicted condition.

    `failed`: what was tried for it first, and why it failed; reported if the eviction cannot be written.
    """

    workload: str
    reason: str
    message: str
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Reject:
    """The workload can never run as it is: its own error, not a lack of room."""

    workload: str
    reason: Reason
    message: str


Decision = Admit | Wait | Preempt | Evict | Reject


def explain(decision: Decision) -> str:
    """One sentence for people."""
    match decision:
        case Admit(workload, admission, note):
            return f"{workload} is admitted by ClusterQueue {admission.cluster_queue}{note and f': {note}'}"
        case Preempt(workload, victims, message):
            return f"{workload} waits for {len(victims)} workload(s) to leave: {message}"
        case Evict(workload, reason, message):
            return f"{workload} is evicted ({reason}): {message}"
        case Wait(workload, reason, message) | Reject(workload, reason, message):
            return f"{workload} waits ({reason}): {message}"
