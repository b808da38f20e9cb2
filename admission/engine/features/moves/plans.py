"""What a planner returns: a plan with its moves, cost and proof, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from admission.engine.decision import Certificate, Victim
from admission.engine.model import Admission


@dataclass(frozen=True, slots=True)
class Move:
    """A running workload that gets another place. `cost` is the device-seconds of work that it loses."""

    workload: str
    before: Admission
    after: Admission
    cost: int


@dataclass(frozen=True, slots=True)
class PlannedEviction:
    """A running workload that is evicted in a plan of moves. `cost` is the device-seconds of work that it loses."""

    victim: Victim
    cost: int


@dataclass(frozen=True, slots=True)
class MovePlan:
    """The moves, in the order in which the places were found, and the place that they make free.

    All moves are made or none, and `evictions` after all moves (blockers.py). `workload` is the gang, and `admission` is
    its admission afterwards; for a plan that makes a domain free, both are empty and `domain` is its path. The
    certificate's cost is (device-seconds lost, number of moves); with evictions, the figures of blockers.py.
    """

    moves: tuple[Move, ...]
    certificate: Certificate
    workload: str = ""
    admission: Admission | None = None
    domain: tuple[str, ...] = ()
    evictions: tuple[PlannedEviction, ...] = ()

    @property
    def cost(self) -> int:
        """The device-seconds of work that all workloads lose that move or are evicted."""
        return sum(move.cost for move in self.moves) + sum(each.cost for each in self.evictions)


class NoPlanReason(StrEnum):
    """Why there is no plan."""

    FITS = "Fits"
    """The gang fits without moves."""
    BLOCKED = "Blocked"
    """The gang may not start at all, such as while its queue is stopped."""
    QUOTA = "Quota"
    """The gang waits for quota, which moves do not free."""
    NEVER = "Never"
    """The gang fits on none of its flavors even if no workload runs, or requests no topology."""
    TOO_LITTLE_FREE = "TooLittleFree"
    """All that is free, wherever it is, is less than the gang requests."""
    NOT_COUNTED = "NotCounted"
    """The gang's request is of a form whose capacity cannot be counted by domain."""
    NOT_MOVABLE = "NotMovable"
    """In every domain, too few workloads may be moved."""
    NO_OTHER_PLACE = "NoOtherPlace"
    """For the workloads that would have to move, no other places are free together."""
    TOO_EXPENSIVE = "TooExpensive"
    """The moves would lose more work than the gang loses by waiting."""
    BUDGET = "Budget"
    """The search ended at its budget before it found a plan."""


@dataclass(frozen=True, slots=True)
class NoPlan:
    """Why there is no plan. `stays` counts the workloads that may not be moved, by the reason of each."""

    reason: NoPlanReason
    message: str
    stays: Mapping[str, int] = field(default_factory=dict)
    expanded: int = 0
