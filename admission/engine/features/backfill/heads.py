"""Heads: the first waiting workload of each queue with backfill gets a reserved start.

The moment is searched among the ends of running workloads (projected_ledger.py): first at the same distance from the
moment of the last head of this shape as that one had from the one before it, then in growing steps in the direction
where it must be, then by bisection; at first by free resources alone (capacity_bound.py), which rule out most moments
without a placement. Most heads need one placement. More free capacity never hurts the exact placement; under the other
profiles the moment may not be the earliest one. The search runs when the head is refused, which happens
once until something changes that could help it (queue/queues.py).

A moment is kept for `_KEPT` seconds even if an earlier one became possible.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from admission.engine.cycle.nomination import Nomination
from admission.engine.cycle.together import starts_with_others
from admission.engine.features.backfill.future import Future
from admission.engine.features.backfill.gallop import galloping_search
from admission.engine.features.backfill.projected_ledger import ProjectedLedger
from admission.engine.features.backfill.start_order import StartOrder
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import ClusterQueue, Workload
from admission.engine.queue.cluster_queue import shape_of
from admission.engine.queue.pending import StartReservation
from admission.engine.queue.queues import PendingQueues
from admission.engine.reasons import Reason, ReasonCode
from admission.engine.requests import possible_requests

BEHIND: Final = Reason.PENDING_EVALUATION
"""The reason of a workload that waits because it would delay a head."""

_MAY_PASS: Final = (Reason.WAITING_FOR_QUOTA, Reason.TOPOLOGY_PLACEMENT_FAILED, BEHIND)
_KEPT: Final = 60.0


@dataclass(frozen=True, slots=True)
class ReservedStart:
    """The latest start of a workload that was just refused, if it has a reservation."""

    start: float | None = None
    """In epoch seconds."""
    overtaken: bool = False
    """Whether a workload of its queue has a reservation, so that those behind it may be evaluated."""
    level: int = 0
    """How far it would borrow then."""


class Heads:
    """The heads of one cycle at `now` (epoch seconds)."""

    def __init__(self, ledger: Ledger, queues: PendingQueues, future: Future, order: StartOrder, now: float) -> None:
        self._ledger, self._queues, self._future, self._order, self._now = ledger, queues, future, order, now
        self._last = now
        self._guesses: dict[Hashable, tuple[float, int]] = {}

    def refused(
        self, workload: Workload, queue: ClusterQueue, reason: ReasonCode, level: int, *, fits_nowhere: bool = False
    ) -> ReservedStart:
        """Reserves a start for a refused workload of a backfill queue if it is the first that waits.

        `level`: how far it would borrow. `fits_nowhere`: not even an empty cluster would hold it.
        """
        held = self._queues.starts.of(queue.name)
        if held is not None and self._queues.before(held[0], workload):
            return ReservedStart(overtaken=True)
        if held is not None and held[0].key == workload.key and self._still_holds(held[1]):
            return ReservedStart(held[1].start, overtaken=True, level=level)
        first = self._queues.starts.unforeseen(queue.name)
        if first is not None and self._queues.before(first, workload):
            self._order.reserve(workload.key, None)
            return ReservedStart()
        passing = reason in _MAY_PASS and not (fits_nowhere and reason is Reason.TOPOLOGY_PLACEMENT_FAILED)
        earliest = self._earliest(workload, queue, level) if passing and not starts_with_others(workload) else None
        if earliest is None:
            self._order.reserve(workload.key, None)
            if passing:
                self._queues.mark_start_unknown(workload.key)
                return ReservedStart()
            return ReservedStart(overtaken=self._queues.starts.of(queue.name) is not None)
        start, nomination = earliest
        admission, borrows = nomination.admission(), nomination.assignment.level
        self._order.reserve(workload.key, StartReservation(start, admission, borrows, self._now))
        return ReservedStart(start, overtaken=True, level=borrows)

    def _still_holds(self, reservation: StartReservation) -> bool:
        """Reports whether the reservation still holds, so that no new search is needed."""
        return reservation.firm and reservation.start > self._now and self._now - reservation.found < _KEPT

    def _earliest(self, workload: Workload, queue: ClusterQueue, level: int) -> tuple[float, Nomination] | None:
        """Returns the first end (epoch seconds) after which the workload fits, and its nomination at that moment."""
        with self._future.at_later_moments(workload, level) as future:
            shape = shape_of(workload)
            last, stride = self._guesses.get(shape, (self._last, 1))
            before = future.position(last)
            first = self._first_fit(workload, queue, future, before + stride)
            if first is None:
                return None
            position, nomination = first
            self._last = future.time(position)
            self._guesses[shape] = self._last, max(0, position - before)
            return self._last, nomination

    def _first_fit(
        self, workload: Workload, queue: ClusterQueue, future: ProjectedLedger, guess: int
    ) -> tuple[int, Nomination] | None:
        """Returns the first position at which the workload fits, and its nomination: often the first at which free resources
        alone do not rule it out.
        """
        bound = self._ledger.placement.capacity_bound(possible_requests(workload, queue, self._ledger.flavors))

        def possible(position: int) -> bool | None:
            future.move_after(position)
            return None if bound.rules_out() else True

        def fits(position: int) -> Nomination | None:
            return self._future.fit(workload, future.move_after(position))

        end = len(future)
        if (first := galloping_search(possible, 0, end, guess)) is None:
            return None
        nomination = fits(first[0])
        return galloping_search(fits, first[0], end, guess) if nomination is None else (first[0], nomination)
