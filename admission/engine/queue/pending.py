"""One pending workload and what the queues store for it: its class, its reservations. Called by queues.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from admission.engine.model import Admission, Workload
from admission.engine.queue.cluster_queue import EquivalenceClass, order_of, shape_of
from admission.engine.queue.positions import Position
from admission.engine.queue.queueing_hints import QueueingHint

Positions = Callable[[Workload], Position]
"""The sort key of a workload within its ClusterQueue."""


@dataclass(frozen=True, slots=True)
class CapacityReservation:
    """The quota and nodes reserved for a workload (the owner) until its victims (keys) have left."""

    admission: Admission
    victims: frozenset[str]
    level: int = 0
    """How far up the cohort tree it borrows."""
    beside: tuple[tuple[str, Admission], ...] = ()
    """Admissions of workloads that start together with it, by key."""
    hint: QueueingHint | None = None
    """The quota that would let it start before its victims leave; None: any change may let it."""
    evicted: frozenset[str] = frozenset()
    """All workloads evicted for it, also those that have left."""
    since: float = 0.0
    """When the first of them was chosen (epoch seconds)."""
    spares: tuple[tuple[str, Admission], ...] = ()
    """What these workloads hold beside their pods, by key."""

    def bars(self, owner: Workload, other: Workload, *, strict: bool, ahead: bool) -> bool:
        """Reports whether `other` may not use the reserved capacity, even if the cycle evaluates it before the owner.

        `ahead`: the owner comes before `other`, if both are of one queue. Victims may not. In the same queue a workload before
        the owner may if the queue is StrictFIFO (`strict`) or if it was queued after `since`. In another queue a workload may
        if it has a higher priority and was queued after `since`. The cycle that chose the victims knew all that were queued by
        then.
        """
        if not self.evicted or other.key in self.evicted:
            return bool(self.evicted)
        if other.cluster_queue == owner.cluster_queue:
            return ahead or (not strict and other.queued <= self.since)
        return other.priority <= owner.priority or other.queued <= self.since


@dataclass(frozen=True, slots=True)
class StartReservation:
    """The reservation of the head of a queue that reserves starts."""

    start: float
    """The latest start (epoch seconds)."""
    admission: Admission
    level: int = 0
    """How far it borrows then."""
    found: float = 0.0
    """When the start was computed."""
    firm: bool = True
    """Whether no workload admitted since uses its nodes, or its quota without a check."""

    def same_as(self, other: StartReservation) -> bool:
        """Reports whether both keep the same capacity until the same moment."""
        return (self.start, self.level, self.admission) == (other.start, other.level, other.admission)


@dataclass(frozen=True, slots=True)
class KeptRequest:
    """The request of the refused head of a StrictFIFO queue, kept from borrowers as far as its queue's quota covers it.

    `level`: how far up the cohort tree it would borrow.
    """

    admission: Admission
    level: int = 0


@dataclass(slots=True)
class PendingWorkload:
    """A pending workload. Without a class (`group`) it is blocked, or waits for its backoff or for its victims."""

    workload: Workload
    group: EquivalenceClass | None = None
    reservation: CapacityReservation | None = None
    lapsed: bool = False

    @property
    def active(self) -> bool:
        return self.reservation is not None or (self.group is not None and self.group.refused is None)


def same_place(old: Workload, new: Workload, *, timed: bool = False) -> bool:
    """Reports whether the update keeps the workload's position: same queue, order, shape, block and backoff.

    `timed`: see `shape_of`.
    """
    return old == new or (
        old.cluster_queue == new.cluster_queue
        and order_of(old) == order_of(new)
        and old.blocked == new.blocked
        and old.not_before == new.not_before
        and shape_of(old, timed=timed) == shape_of(new, timed=timed)
    )
