"""What an attempt to assign flavors comes to, as values: per resource, per pod set, for the workload; with its message.

Modes, severities and texts are Kueue's (cycle.md 4.4 and 4.6). The search that makes them is search.py, cycle/nominate.py
adds what the placement says; the cycle reads them. The preemption engine answers to the two protocols of this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from admission.engine.decision import Reason, Victim
from admission.engine.model import FlavorResource, Workload
from admission.engine.quota.tree import QuotaTree

SEVERITY = (
    Reason.TOPOLOGY_PLACEMENT_FAILED,
    Reason.WAITING_FOR_QUOTA,
    Reason.EXCEEDS_MAX_QUOTA,
    Reason.NO_MATCHING_FLAVOR,
)
"""Mildest first: what passes by itself before what never does."""


def most_severe(reasons: Iterable[Reason | None]) -> Reason | None:
    """What is said of several parts that all have to fit."""
    return max((reason for reason in reasons if reason is not None), key=SEVERITY.index, default=None)


def mildest(reasons: Iterable[Reason | None]) -> Reason | None:
    """What is said of several ways of which one has to work."""
    return min((reason for reason in reasons if reason is not None), key=SEVERITY.index, default=None)


class Mode(IntEnum):
    """How well a request fits, worst first. Preempt: by evicting also own workloads; Reclaim: only the relatives'."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


class PreemptionOracle(Protocol):
    """Knows whether evicting could make room for one resource, by quota alone (the preemption engine)."""

    def simulate(self, queue: str, fr: FlavorResource, amount: int) -> tuple[Mode, int]:
        """NO_CANDIDATES, PREEMPT or RECLAIM, and the borrowing level that would remain."""


class VictimFinder(PreemptionOracle, Protocol):
    """Finds victims as well (the preemption engine)."""

    def targets(self, workload: Workload, assignment: FlavorAssignment) -> Sequence[Victim]:
        """The victims whose eviction makes the workload fit, quota and placement both, in order; none if nothing helps.

        `workload` has the pod counts that `assignment` was found for. Asked where the assignment's mode is below Fit and
        above NoFit; the resources that need capacity are those whose pick is not Fit. Leaves the ledger as it is.
        """


class Preemptions(Protocol):
    """The victims that each workload could evict now."""

    def about(self, workload: Workload) -> VictimFinder:
        """For this one."""


class NoPreemption:
    """Never evicts."""

    def __init__(self, quota: QuotaTree) -> None:
        self._quota = quota

    def about(self, workload: Workload) -> VictimFinder:
        """The same for all."""
        return self

    def simulate(self, queue: str, fr: FlavorResource, amount: int) -> tuple[Mode, int]:
        """No candidates; the borrowing level as it is."""
        return Mode.NO_CANDIDATES, self._quota.borrowing(queue, fr, amount).level

    def targets(self, workload: Workload, assignment: FlavorAssignment) -> Sequence[Victim]:
        """No victims."""
        return ()


_WORDS = {
    Mode.NO_FIT: "NoFit",
    Mode.NO_CANDIDATES: "preemptionMode=NoCandidates",
    Mode.PREEMPT: "preemptionMode=Preempt",
    Mode.RECLAIM: "preemptionMode=Reclaim",
    Mode.FIT: "Fit",
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """How one flavor did for a pod set: `reasons` why it is less than a fit, `reason` what kind of lack that is.

    `needed_quota`: of which resource how much has to be free at least, where quota is short.
    """

    flavor: str
    mode: Mode
    level: int = 0
    reasons: tuple[str, ...] = ()
    reason: Reason | None = None
    needed_quota: tuple[FlavorResource, int] | None = None

    def text(self) -> str:
        """As events word it."""
        mode = _WORDS[self.mode]
        borrowing = [f"borrow={self.level}"] if self.level else []
        return f"{self.flavor}({';'.join([mode, *borrowing, *self.reasons])})"


@dataclass(frozen=True, slots=True)
class Pick:
    """The flavor for one resource. `tried`: where in the queue's list the search ended, -1 if at the list's end."""

    flavor: str
    mode: Mode
    level: int = 0
    tried: int = -1


@dataclass(frozen=True, slots=True)
class PodSetFlavors:
    """What one pod set would get. `requests` are totals; `reasons` why it is less than a fit; `error` that it cannot be.

    `topology`: the flavor on whose nodes it is to be placed, None where no topology is wanted. `attempts`: the flavors that
    were tried, in order; of a pod set that gets nothing, those of the resource group that failed. `unplaced`: which of the
    reasons is the placement's.
    """

    name: str
    picks: Mapping[str, Pick]
    requests: Mapping[str, int]
    reasons: tuple[str, ...] = ()
    reason: Reason | None = None
    error: str | None = None
    topology: str | None = None
    attempts: tuple[Attempt, ...] = ()
    unplaced: str | None = None

    @property
    def mode(self) -> Mode:
        """The worst over its resources."""
        if self.error is not None or (self.reason is not None and not self.picks):
            return Mode.NO_FIT
        return min((pick.mode for pick in self.picks.values()), default=Mode.FIT)

    def message(self) -> str | None:
        """Its part of the condition's message."""
        if self.error is not None:
            return f"failed to assign flavors to pod set {self.name}: {self.error}"
        if not self.reasons:
            return None
        return f"couldn't assign flavors to pod set {self.name}: {', '.join(sorted(self.reasons))}"


@dataclass(frozen=True, slots=True)
class FlavorAssignment:
    """What the whole workload would get; the pod sets after the first that gets nothing are left out."""

    pod_sets: tuple[PodSetFlavors, ...]
    usage: Mapping[FlavorResource, int]

    @property
    def mode(self) -> Mode:
        """The worst over the pod sets."""
        return min((pod_set.mode for pod_set in self.pod_sets), default=Mode.FIT)

    @property
    def level(self) -> int:
        """How far up the cohort tree it borrows."""
        return max((pick.level for pod_set in self.pod_sets for pick in pod_set.picks.values()), default=0)

    @property
    def tried(self) -> dict[tuple[str, str], int]:
        """Where the search ended, by pod set and resource: what the next search goes on from."""
        return {(p.name, resource): pick.tried for p in self.pod_sets for resource, pick in p.picks.items()}

    @property
    def reason(self) -> Reason:
        """The most severe of the pod sets' reasons."""
        return most_severe(pod_set.reason for pod_set in self.pod_sets) or Reason.WAITING_FOR_QUOTA

    def considered(self) -> str:
        """What the event of the admission adds: flavors that did not simply fit; empty where all did at once."""
        considered = [
            f"{pod_set.name}: {', '.join(attempt.text() for attempt in notable)}"
            for pod_set in self.pod_sets
            if (notable := [attempt for attempt in pod_set.attempts if attempt.reasons or attempt.level])
        ]
        return f"; Flavors considered: {' | '.join(considered)}" if considered else ""

    def message(self) -> str:
        """The text for the condition."""
        return "; ".join(text for pod_set in self.pod_sets if (text := pod_set.message()) is not None)
