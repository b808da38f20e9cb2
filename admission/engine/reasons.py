"""The reasons for which a workload waits. Each has its meaning, its owner, whether it is retained, and Kueue's older reason.

A feature may declare further ones (`Feature.reasons`); features/__init__.py has all of them.
"""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from typing import Self


class ReasonOwner(StrEnum):
    """The part of the program that first finds a reason."""

    ENGINE = "engine"
    CONTROLLERS = "controllers"
    EXPLANATION = "explanation"


class OlderReason(Enum):
    """Which of Kueue's legacy reasons replaces a reason if the settings select legacy reasons."""

    PENDING = auto()
    INADMISSIBLE = auto()
    WAITING = auto()
    UNCHANGED = auto()


class ReasonCode(StrEnum):
    """A reason code: a stable name with its meaning as `__doc__`."""

    owner: ReasonOwner
    """Who finds it."""
    retained: bool
    """Whether it cannot be disproved from the object alone, so that it stays in the status until the next cycle, or until the
    controller that wrote it removes it."""
    older: OlderReason
    """Its legacy form."""

    def __new__(
        cls,
        value: str,
        meaning: str = "",
        owner: ReasonOwner = ReasonOwner.ENGINE,
        retained: bool = False,
        older: OlderReason = OlderReason.PENDING,
    ) -> Self:
        """Creates a member from its declaration."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.__doc__ = meaning
        member.owner, member.retained, member.older = owner, retained, older
        return member


class Reason(ReasonCode):
    """The reasons of the cycle, of the controllers and of explanations.

    The reasons of QuotaReserved=False come first, the most specific first where several hold. Reasons of the controllers reach
    the engine as `Workload.blocked` and are passed on; the engine gives the same reason in the same case. Reasons of an
    explanation (explain/) detail a reason of the engine and never appear in Kueue's conditions.
    """

    NO_MATCHING_FLAVOR = (
        "NoMatchingFlavor",
        "no flavor of the queue matches: taints, node affinity, levels, or a missing resource",
        ReasonOwner.ENGINE,
        True,
    )
    EXCEEDS_MAX_QUOTA = (
        "ExceedsMaxQuota",
        "requests more than the queue could ever use, borrowing included",
        ReasonOwner.ENGINE,
        True,
    )
    WAITING_FOR_QUOTA = "WaitingForQuota", "other workloads use the quota that it needs", ReasonOwner.ENGINE, True
    TOPOLOGY_PLACEMENT_FAILED = (
        "TopologyPlacementFailed",
        "no domains of the topology have capacity for all its pods at present",
        ReasonOwner.ENGINE,
        True,
    )
    WAITING_FOR_PREEMPTED = (
        "WaitingForPreemptedWorkloads",
        "the workloads evicted for it have not released their capacity yet",
        ReasonOwner.ENGINE,
        True,
    )
    REPEATED_PREEMPTION = (
        "RepeatedPreemption",
        "it preempted the same workload twice within ten minutes without running: it waits before it may do so again",
        ReasonOwner.ENGINE,
        True,
    )
    MISCONFIGURED = (
        "Misconfigured",
        "a queue is missing, or does not accept the workload",
        ReasonOwner.CONTROLLERS,
        False,
        OlderReason.INADMISSIBLE,
    )
    WAITING_FOR_OBJECTS = (
        "WaitingForObjects",
        "an object that its pods name is missing or not ready, so the pods would be rejected or never bound",
        ReasonOwner.CONTROLLERS,
        False,
        OlderReason.INADMISSIBLE,
    )
    UNSUPPORTED_POD_TERMS = (
        "UnsupportedPodTerms",
        "its pods have a term for which Stowage cannot decide whether a node accepts them",
        ReasonOwner.CONTROLLERS,
        False,
        OlderReason.INADMISSIBLE,
    )
    SUSPENDED = (
        "Suspended",
        "a queue is stopped, or cannot admit as it is set up",
        ReasonOwner.CONTROLLERS,
        False,
        OlderReason.INADMISSIBLE,
    )
    PENDING_EVALUATION = (
        "PendingEvaluation",
        "it was not evaluated yet: other workloads come first, or its backoff has not ended",
        ReasonOwner.CONTROLLERS,
        True,
    )
    WAITING_FOR_PODS_READY = (
        "WaitingForPodsReady",
        "pods of workloads admitted earlier are not ready yet",
        ReasonOwner.ENGINE,
        True,
        OlderReason.WAITING,
    )
    ADMISSION_GATED = (
        "AdmissionGated",
        "an admission gate holds it, or a preemption gate keeps it from evicting other workloads",
        ReasonOwner.CONTROLLERS,
        False,
        OlderReason.UNCHANGED,
    )
    DEACTIVATED = "Deactivated", "spec.active is false", ReasonOwner.CONTROLLERS
    ON_HOLD = (
        "OnHold",
        "its job is on hold, such as a StatefulSet with 0 replicas",
        ReasonOwner.CONTROLLERS,
        True,
        OlderReason.UNCHANGED,
    )
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
        "the flavor has no topology, or not the requested levels",
        ReasonOwner.EXPLANATION,
    )
    BAD_REQUEST = "BadRequest", "the topology request breaks a rule, so it fits nowhere", ReasonOwner.EXPLANATION
    NO_DOMAINS = (
        "NoDomains",
        "the level has no domain: no usable node of the flavor has the labels",
        ReasonOwner.EXPLANATION,
    )
    INSUFFICIENT_RESOURCE = (
        "InsufficientResource",
        "the domain has too little free capacity of a resource",
        ReasonOwner.EXPLANATION,
    )
    FRAGMENTED = (
        "Fragmented",
        "the domain has enough free capacity, but not in pieces that hold whole pods or slices",
        ReasonOwner.EXPLANATION,
    )
    UNTOLERATED_TAINT = (
        "UntoleratedTaint",
        "nodes repel its pods by a taint that they do not tolerate",
        ReasonOwner.EXPLANATION,
    )
    HELD_NODE = (
        "AdvanceReservation",
        "nodes are reserved for a later time, and the workload may run beyond it",
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
        "no node of the domain has capacity for the group's leader",
        ReasonOwner.EXPLANATION,
    )
    CONSTRAINED = (
        "Constrained",
        "the domain has capacity for all pods, but not under the constraints, or not together with the other pod sets",
        ReasonOwner.EXPLANATION,
    )
    FOREIGN_PODS = "ForeignPods", "pods that belong to no admitted workload use the capacity", ReasonOwner.EXPLANATION
    ADMITTED_WORKLOADS = "AdmittedWorkloads", "admitted workloads use the capacity", ReasonOwner.EXPLANATION
