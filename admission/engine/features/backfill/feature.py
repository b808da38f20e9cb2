"""Aggressive (EASY) backfill with reservation: workloads that may start before a waiting head without delaying it.

A queue with backfill gives a reservation to its *head*, the first of its workloads that does not fit: the earliest moment at
which it would fit if no other workload were admitted and every running workload ended at its time limit (`Workload.ends`; a
workload without a limit never ends). Another workload starts before the head only if that moment does not move:

- it ends before that moment, by its own limit; or
- it is expected to end before that moment, and its queue allows to go by that (`ClusterQueue.by_guess`); or
- the head still fits at that moment with the other workload charged and all workloads removed that end by then. Quota and nodes
  both count.

What is expected may be wrong, and the start of the head must hold. So a workload that starts only by its guess counts as
ended at the moment of the head: if it still runs so long before that moment as its pods have to end (`Workload.yields`), and
the head will not fit beside it, it is evicted for the head. Without the head in its way it runs on, and may be evicted later
for another head: at once for one that would fit in its place, or in time for the start of one. A guess never makes a
reservation: the moment of a head comes from limits alone.

If the start of the head is unknown, because running workloads have no limits, nothing is reserved in its queue: a moment given
to a workload behind it would not hold, since the head may start first and take the capacity.

So the cluster does not idle behind a large head, and a stream of small workloads does not starve it. There is one reservation
per queue, so the second workload of a queue may be delayed.

A reservation binds the workloads after the head: all behind it in its own queue and, in other queues that use one of its
flavors, those later in the order of the cycle (head_order.py); under fair sharing all of them. A workload before the head may
take its capacity; the head then gets another moment. A head that is bound by another reservation never counts on its capacity.

If every workload keeps its limit, the head starts no later than at its first moment: at least the workloads counted on have
ended by then, and every admission since was checked against the moment.

Only the reservations change (queue/pending_reservations.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from admission.engine.cycle.feature import CycleContext, CycleParts, Feature, Turn, Why
from admission.engine.cycle.heads.head_order import Head
from admission.engine.cycle.nomination import Nomination
from admission.engine.cycle.outcomes import Refusal, requested
from admission.engine.decision import Decision, Preempt
from admission.engine.expected_start import expected
from admission.engine.features.backfill.behind import Behind, share_no_domain
from admission.engine.features.backfill.future import Future
from admission.engine.features.backfill.heads import BEHIND, Heads
from admission.engine.features.backfill.outlasted import Outlasted, pending_eviction
from admission.engine.features.backfill.start_order import StartOrder
from admission.engine.flavors.assign import FlavorAssignment
from admission.engine.model import ClusterQueue, Workload

_ASK_AGAIN: Final = 1.0
"""Seconds until a workload is evaluated again for which a cycle had no search left."""


class Backfill(Feature):
    """The reserved starts during one cycle."""

    def __init__(self, context: CycleContext) -> None:
        super().__init__(context)
        ledger, queues, now = context.ledger, context.queues, context.now
        self._now = now
        self._order = StartOrder(ledger, queues.starts, queues.before, fair=context.fair)
        self._future = Future(ledger, self._order, now, fair=context.fair)
        self._heads = Heads(ledger, queues, self._future, self._order, now)
        self._behind = Behind(ledger, self._future, self._order, now)
        self._outlasted = Outlasted(ledger, queues, self._future, self._order, now)

    def turn(self, workload: Workload) -> Turn | None:
        """Returns that those may be evicted for the head which outlasted their guess, if there are any."""
        return Turn(room=self._end_others) if self.ledger.allocations.yielding else None

    def _end_others(
        self, head: Head, queue: ClusterQueue, assignment: FlavorAssignment, parts: CycleParts
    ) -> Decision | None:
        """Evicts the workloads that overtook the head by their guess and are in its way now that it is to start."""
        leaving = parts.reservations.leaving
        if not (late := self._outlasted.late(queue, leaving)):
            return None
        with parts.reservations.afterwards(queue.name):
            room = self._outlasted.at_once(head.workload, queue, assignment.level, late, leaving)
        if room is None or not room.victims:
            return None
        if (refusal := self._behind.permission(queue, room).refusal) is not None:
            return parts.outcomes.wait(head, queue, BEHIND, refusal)
        parts.outcomes.reserve(head, room, frozenset(victim.workload for victim in room.victims), evicts=True)
        message = pending_eviction(len(room.victims))
        return Preempt(head.workload.key, room.victims, message, requested(head.workload, queue))

    def allows(self, nomination: Nomination) -> Nomination | Why:
        """Returns why the workload would delay a head, or the nomination, maybe to overtake a head by its guess."""
        if (queue := self.ledger.quota.spec(nomination.workload.cluster_queue)) is None:
            return nomination
        permission = self._behind.permission(queue, nomination)
        if permission.refusal is not None:
            return BEHIND, permission.refusal
        return replace(nomination, overtaking=permission.overtaking) if permission.overtaking else nomination

    def starts(self, nomination: Nomination) -> Why | None:
        """Records a start, which changes the ends.

        A workload that comes before a head was not checked against its reservation, so that reservation is no longer firm.
        """
        if (queue := self.ledger.quota.spec(nomination.workload.cluster_queue)) is None:
            return None
        workload, admission = nomination.charged(queue, self._now), nomination.admission()
        self._future.record_start(workload, admission)
        for one in tuple(self._order.all()):
            head, reservation = one.head, one.reservation
            if workload.ends is not None and workload.ends <= reservation.start:
                if workload.yields is not None:
                    self.queues.wake(head.key, reservation.start - workload.termination)
                continue
            if not reservation.firm or head.key == workload.key:
                continue
            relevant = self._order.binds(one, workload, nomination.assignment.level) or not self._related(
                head, workload
            )
            if not relevant or not share_no_domain(reservation.admission, admission):
                self._order.reserve(head.key, replace(reservation, firm=False))
        held = self.queues.starts.of(workload.cluster_queue)
        self.requeued |= held is not None and held[0].key == workload.key
        return None

    def _related(self, first: Workload, second: Workload) -> bool:
        tree_of = self.ledger.quota.tree_of
        return tree_of(first.cluster_queue) == tree_of(second.cluster_queue)

    def waits(self, refusal: Refusal) -> Refusal:
        """Reserves a start for the first workload of a queue with backfill that waits. Others leave in time for it."""
        queue, again = refusal.queue, refusal.again
        if refusal.reason is BEHIND and self._behind.unsearched:
            again = _first(again, self._now + _ASK_AGAIN)
        if not queue.reserves_starts or refusal.overtaken:
            return replace(refusal, again=again)
        head, before = refusal.head, self.queues.starts.of(queue.name)
        level = 0 if head.assignment is None else head.assignment.level
        reserved = self._heads.refused(head.workload, queue, refusal.reason, level, fits_nowhere=head.fits_nowhere)
        self.requeued |= self.queues.start_moved(queue.name, before)
        refusal = replace(
            refusal, again=again, overtaken=reserved.overtaken, hint=None
        )  # its start moves with all that ends
        if (start := reserved.start) is None:
            return refusal
        victims = self._outlasted.leaving_for(head.workload, reserved.level, start)
        parts = (pending_eviction(len(victims)) if victims else "", refusal.message, expected(start))
        again = _first(again, self._outlasted.next_look(start))
        return replace(refusal, message="; ".join(filter(None, parts)), again=again, victims=victims)


def _first(*moments: float | None) -> float | None:
    return min((at for at in moments if at is not None), default=None)
