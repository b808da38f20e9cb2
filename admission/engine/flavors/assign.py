"""The result of a flavor search as values: per resource, per pod set and for the workload, with its message.

Modes, severities and texts are those of Kueue (cycle.md 4.4 and 4.6). search.py produces these values, cycle/nominate.py adds
the messages of the placement, and the cycle reads them. The preemption engine implements the two protocols of this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from admission.engine.decision import Victim
from admission.engine.model import FlavorResource, Workload
from admission.engine.quota.tree import QuotaTree
from admission.engine.reasons import Reason

SEVERITY = (
    Reason.TOPOLOGY_PLACEMENT_FAILED,
    Reason.WAITING_FOR_QUOTA,
    Reason.EXCEEDS_MAX_QUOTA,
    Reason.NO_MATCHING_FLAVOR,
)
"""Reasons from the mildest, which may pass by itself, to the most severe, which never does."""


def most_severe(reasons: Iterable[Reason | None]) -> Reason | None:
    """Returns the reason to report when several parts must all fit; None if there is none."""
    return max((reason for reason in reasons if reason is not None), key=SEVERITY.index, default=None)


def mildest(reasons: Iterable[Reason | None]) -> Reason | None:
    """Returns the reason to report when one of several alternatives must fit; None if there is none."""
    return min((reason for reason in reasons if reason is not None), key=SEVERITY.index, default=None)


class Mode(IntEnum):
    """How well a request fits, worst first. PREEMPT may evict workloads of the same ClusterQueue; RECLAIM only those of other
    ClusterQueues.
    """

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


class PreemptionOracle(Protocol):
    """Answers whether evictions could free one resource, by quota alone. Implemented by the preemption engine."""

    def simulate(self, queue: str, fr: FlavorResource, amount: int) -> tuple[Mode, int]:
        """Returns NO_CANDIDATES, PREEMPT or RECLAIM, and the borrowing level after the evictions."""


class VictimFinder(PreemptionOracle, Protocol):
    """A `PreemptionOracle` that also selects the victims. Implemented by the preemption engine."""

    def targets(self, workload: Workload, assignment: FlavorAssignment) -> Sequence[Victim]:
        """Returns the victims whose eviction makes quota and placement fit, in the order chosen; empty if nothing helps.

        `workload` has the pod counts of `assignment`, whose mode is below Fit and above NoFit. The resources that are short
        are those whose pick is not Fit. Leaves the ledger as it is.
        """


class Preemptions(Protocol):
    """Creates victim finders for workloads, for the present state of the ledger."""

    def about(self, workload: Workload) -> VictimFinder:
        """Returns the `VictimFinder` of this workload."""


class NoPreemption:
    """A `Preemptions` and `VictimFinder` that never evicts."""

    def __init__(self, quota: QuotaTree) -> None:
        self._quota = quota

    def about(self, workload: Workload) -> VictimFinder:
        """Returns itself, since the answer is the same for all workloads."""
        return self

    def simulate(self, queue: str, fr: FlavorResource, amount: int) -> tuple[Mode, int]:
        """Returns NO_CANDIDATES at the present borrowing level."""
        return Mode.NO_CANDIDATES, self._quota.borrowing(queue, fr, amount).level

    def targets(self, workload: Workload, assignment: FlavorAssignment) -> Sequence[Victim]:
        """Returns no victims."""
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
    """The result of one flavor for a pod set."""

    flavor: str
    mode: Mode
    level: int = 0
    reasons: tuple[str, ...] = ()
    """Why it does not fit at once."""
    reason: Reason | None = None
    """Classifies that."""
    needed_quota: tuple[FlavorResource, int] | None = None
    """The resources that are short of quota, with the least amount that must be free."""

    def text(self) -> str:
        """Returns the text for an event: the flavor with its mode, borrowing level and reasons."""
        mode = _WORDS[self.mode]
        borrowing = [f"borrow={self.level}"] if self.level else []
        return f"{self.flavor}({';'.join([mode, *borrowing, *self.reasons])})"


@dataclass(frozen=True, slots=True)
class Pick:
    """The flavor of one resource.

    `tried` is the position in the queue's list where the search ended, -1 at the end of the list.
    """

    flavor: str
    mode: Mode
    level: int = 0
    tried: int = -1


@dataclass(frozen=True, slots=True)
class PodSetFlavors:
    """The flavors of one pod set."""

    name: str
    picks: Mapping[str, Pick]
    requests: Mapping[str, int]
    """Totals."""
    reasons: tuple[str, ...] = ()
    """Why they do not fit at once."""
    reason: Reason | None = None
    error: str | None = None
    """Why the pod set is invalid."""
    topology: str | None = None
    """The flavor on whose nodes the pod set is placed; None if it is not placed."""
    attempts: tuple[Attempt, ...] = ()
    """The flavors that were tried, in order; if the pod set gets none, those of the resource group that failed."""
    unplaced: str | None = None
    """The reason that the placement gave."""

    @property
    def mode(self) -> Mode:
        """The worst mode of its resources."""
        if self.error is not None or (self.reason is not None and not self.picks):
            return Mode.NO_FIT
        worst = Mode.FIT
        for pick in self.picks.values():
            if pick.mode < worst:
                worst = pick.mode
        return worst

    def message(self) -> str | None:
        """Returns the pod set's part of the condition message; None if its flavors fit at once."""
        if self.error is not None:
            return f"failed to assign flavors to pod set {self.name}: {self.error}"
        if not self.reasons:
            return None
        return f"couldn't assign flavors to pod set {self.name}: {', '.join(sorted(self.reasons))}"


@dataclass(frozen=True, slots=True)
class FlavorAssignment:
    """The flavors of the whole workload. Pod sets after the first one that gets none are left out."""

    pod_sets: tuple[PodSetFlavors, ...]
    usage: Mapping[FlavorResource, int]

    @property
    def mode(self) -> Mode:
        """The worst mode of its pod sets."""
        worst = Mode.FIT
        for pod_set in self.pod_sets:
            if (mode := pod_set.mode) < worst:
                worst = mode
        return worst

    @property
    def level(self) -> int:
        """The borrowing level: how far up the cohort tree it borrows."""
        return max([pick.level for pod_set in self.pod_sets for pick in pod_set.picks.values()], default=0)

    @property
    def tried(self) -> dict[tuple[str, str], int]:
        """The positions where the search ended, by pod set and resource; the next search continues behind them."""
        return {(p.name, resource): pick.tried for p in self.pod_sets for resource, pick in p.picks.items()}

    @property
    def reason(self) -> Reason:
        """The most severe reason of its pod sets."""
        return most_severe(pod_set.reason for pod_set in self.pod_sets) or Reason.WAITING_FOR_QUOTA

    def considered(self) -> str:
        """Returns the text that the admission event adds: flavors that did not fit at once; empty if all did."""
        considered = [
            f"{pod_set.name}: {', '.join(attempt.text() for attempt in notable)}"
            for pod_set in self.pod_sets
            if (notable := [attempt for attempt in pod_set.attempts if attempt.reasons or attempt.level])
        ]
        return f"; Flavors considered: {' | '.join(considered)}" if considered else ""

    def message(self) -> str:
        """Returns the condition message; empty if all pod sets fit at once."""
        return "; ".join(text for pod_set in self.pod_sets if (text := pod_set.message()) is not None)
