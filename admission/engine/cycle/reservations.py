"""The capacity reservations of one cycle: those of earlier cycles and those that it makes.

A reservation (queue/pending.py) binds every workload that comes after its owner in the cycle's order. If workloads are evicted
for it, it also binds those that may come earlier only because of these evictions (`CapacityReservation.bars`): otherwise they
would take the freed capacity, be evicted again, and so on without end. A workload before the owner may use the reserved
capacity; the owner is then evaluated again.

On nodes a reservation counts at once: nothing else is placed there. In quota it cannot, since the victims hold the quota until
they leave. So a workload that starts has to fit twice: now, and `afterwards`, when all victims have left and all reservations
are used. The ledger is unchanged after the cycle. Called by cycle.py.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from admission.engine.cycle.nomination import Nomination
from admission.engine.cycle.together import starting_together
from admission.engine.flavors.assign import FlavorAssignment
from admission.engine.ledger.holds import BESIDE, Hold, HoldKind
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Admission, QueueingStrategy, Workload
from admission.engine.preemption.projected_quota import ProjectedQuota
from admission.engine.queue.cluster_queue import order_of
from admission.engine.queue.pending import CapacityReservation
from admission.engine.queue.positions import Order
from admission.engine.queue.queueing_hints import QueueingHint
from admission.engine.queue.queues import PendingQueues

_BESIDE_PODS: Final = "reserved beside pods"

FURTHEST: Final = sys.maxsize
"""No workload borrows further."""


_Due = tuple[int, Order, Hold]
"""What is charged from a place in the order of the cycle on: the level and order of the reservation's owner, and the hold."""


class Reservations:
    """The reservations of one cycle. `projected_quota` is the quota after the victims of all reservations have left."""

    def __init__(self, ledger: Ledger, queues: PendingQueues, *, fair: bool = False) -> None:
        self._ledger, self._queues, self._fair = ledger, queues, fair
        self.projected_quota = ProjectedQuota(ledger)
        self._held: dict[str, Admission] = {}
        self._names: dict[str, list[str]] = {}
        self._due: list[_Due] = []
        self._early: list[_Due] = []
        self._own: dict[str, tuple[Workload, CapacityReservation]] = {}
        self._trees: set[str] = set()
        for workload, reservation in (*queues.capacity_reservations(), *self._of_preemptors()):
            self.projected_quota.leave(reservation.victims)
            self._enter(workload, reservation)
        self._sort()
        if fair:
            self.hold_all()

    def _enter(self, workload: Workload, reservation: CapacityReservation) -> None:
        self._trees.add(self._ledger.quota.tree_of(workload.cluster_queue))
        if reservation.evicted:
            self._own[workload.key] = workload, reservation
        beside = self._waiting(reservation.beside)
        order = max(order_of(one) for one in (workload, *(one for one, _ in beside)))
        kind = HoldKind.CAPACITY_RESERVATION
        holds = [Hold.of(kind, workload, reservation.admission)]
        holds += [Hold.of(kind, one, admission, BESIDE) for one, admission in beside]
        holds += [
            Hold.beside(kind, one, admission, _BESIDE_PODS) for one, admission in self._waiting(reservation.spares)
        ]
        self._due += ((reservation.level, order, hold) for hold in holds)
        self._names[workload.key] = [hold.key for hold in holds]

    def _waiting(self, admissions: Iterable[tuple[str, Admission]]) -> list[tuple[Workload, Admission]]:
        """Returns the workloads of these keys that still wait, with their admissions."""
        return [(one, got) for key, got in admissions if (one := self._queues.workload(key)) is not None]

    def _sort(self) -> None:
        self._due.sort(key=lambda each: each[:2], reverse=True)

    def _of_preemptors(self) -> Iterator[tuple[Workload, CapacityReservation]]:
        """Yields the reservations of preemptors whose victims have all left and that will be evaluated again."""
        for key, reservation in self._queues.preemptors.items():
            owner = self._queues.workload(key)
            if owner is not None and not self._queues.holds_reservation(key):
                yield owner, reservation

    def __bool__(self) -> bool:
        """Reports whether there is a reservation; without one the ledger `afterwards` is the present ledger."""
        return bool(self.projected_quota)

    def concerns(self, tree: str) -> bool:
        """Reports whether a reservation of this tree (`QuotaTree.tree_of`) is charged, or may be charged later in the cycle."""
        return tree in self._trees or self.projected_quota.concerns(tree)

    @property
    def leaving(self) -> frozenset[str]:
        """The keys of all victims that have not left yet."""
        return self.projected_quota.leaving

    def free(self, workload: Workload) -> CapacityReservation | None:
        """Returns the reservation of the workload or its group if all victims evicted for it have left, else None."""
        if not (held := self._queues.preemptors):
            return None
        reservation = next((held[key] for key in starting_together(workload) if key in held), None)
        return None if reservation is None or reservation.victims else reservation

    def first(self, workload: Workload, *, fair: bool) -> int | None:
        """Returns the borrowing level up to which the workload comes before other heads, because all its victims have left;
        None if it does not.

        A workload with a higher priority that was queued since comes first as well and may still go before it.
        """
        if not self._queues.preemptors:
            return None
        if self.free(workload) is not None:
            return FURTHEST
        if fair:
            return None
        tree = self._ledger.quota.tree_of(workload.cluster_queue)
        for key, reservation in self._queues.preemptors.items():
            owner = self._queues.workload(key)
            if owner is None or self._ledger.quota.tree_of(owner.cluster_queue) != tree:
                continue
            if workload.priority > owner.priority and not self.bars(owner, reservation, workload):
                return reservation.level
        return None

    def hold_until(self, level: int, order: Order) -> None:
        """Charges the reservations of owners that come before this place in the order."""
        while self._due and self._due[-1][:2] < (level, order):
            self._own.pop(self._hold_next().key, None)
        if self._early:
            for passed in [each for each in self._early if each[:2] < (level, order)]:
                self._early.remove(passed)
                self._own.pop(passed[2].key, None)

    def hold_from(self, other: Workload) -> None:
        """Charges the reservations whose capacity `other` may not use, and releases those charged early for another head only.

        A workload between the two in the order may use that capacity: a reservation charged for one head binds only that head
        until its owner's place is reached.
        """
        if not self._own:
            return
        barring = [owner.key for owner, reservation in self._own.values() if self.bars(owner, reservation, other)]
        names = {name for key in barring for name in self._names.get(key, ())}
        self._release_early(names)
        if not names:
            return
        early = [each for each in self._due if each[2].key in names]
        self._due = [each for each in self._due if each[2].key not in names]
        for *_, hold in reversed(early):
            self._hold(hold)
        self._early += early

    def _release_early(self, but: Collection[str]) -> None:
        """Releases what was charged before its owner's place in the order, except for the workloads of these names."""
        released = [each for each in self._early if each[2].key not in but]
        if not released:
            return
        self._early = [each for each in self._early if each[2].key in but]
        for *_, hold in released:
            self._release(hold.key)
        self._due += released
        self._sort()

    def bars(self, owner: Workload, reservation: CapacityReservation, other: Workload) -> bool:
        """Reports whether `other` may not use the capacity of the owner's reservation, even if `other` comes first in the
        order.
        """
        queue = self._ledger.quota.spec(owner.cluster_queue)
        strict = queue is not None and queue.strategy is QueueingStrategy.STRICT_FIFO
        ahead = owner.cluster_queue == other.cluster_queue and self._queues.before(owner, other)
        return reservation.bars(owner, other, strict=strict, ahead=ahead)

    def hold_all(self) -> None:
        """Charges every reservation. Under fair sharing each owner had the smallest share when its reservation was made."""
        while self._due:
            self._hold_next()
        self._own.clear()

    def _hold_next(self) -> Hold:
        *_, hold = self._due.pop()
        self._hold(hold)
        return hold

    def make(
        self,
        key: str,
        nomination: Nomination,
        victims: frozenset[str],
        others: Sequence[Nomination] = (),
        hint: QueueingHint | None = None,
        evicted: frozenset[str] = frozenset(),
        now: float = 0.0,
    ) -> None:
        """Reserves `nomination` for the pending workload of this key, and `others` for the workloads that start with it.

        It binds all later heads of the cycle. But an owner whose earlier reservation ended is evaluated before the workloads of
        its queue that precede it: then it binds the heads after its owner in the order, and those that it bars. It lasts until
        `victims` have left. `hint` is the quota that would let the owner start earlier. `evicted` are the victims that the
        owner itself evicts, at `now` (epoch seconds).
        """
        self.projected_quota.leave(victims)
        beside = tuple((other.workload.key, other.admission()) for other in others)
        level = nomination.assignment.level
        spares = self._spares(nomination, *others)
        reservation = CapacityReservation(nomination.admission(), victims, level, beside, hint, evicted, now, spares)
        self._queues.reserve_capacity(key, reservation)
        self._enter_anew(nomination.workload, self._queues.preemptors.get(key, reservation))
        following = self._queues.head(nomination.workload.cluster_queue)
        if following is None or self._queues.before(nomination.workload, following):
            self._charge(key)

    def _spares(self, *nominations: Nomination) -> tuple[tuple[str, Admission], ...]:
        """Returns what these workloads hold beside their pods when all victims have left, by workload."""
        keeper = self._ledger.holds.keeper
        if keeper is None or not any(each.workload.asks_beside for each in nominations):
            return ()
        spares: list[tuple[str, Admission]] = []
        with self.afterwards(nominations[0].workload.cluster_queue):
            for each in nominations:
                self._ledger.charge(each.workload, each.admission())
            for each in nominations:
                keeper.hold(each.workload.key)
                spares += ((each.workload.key, hold.admission) for hold in self._ledger.holds.beside(each.workload.key))
        return tuple(spares)

    def _charge(self, key: str) -> None:
        """Charges this reservation for the rest of the cycle."""
        names = self._names[key]
        due, self._due = self._due, [each for each in self._due if each[2].key not in names]
        for *_, hold in due:
            if hold.key in names:
                self._hold(hold)
        self._own.pop(key, None)

    def _hold(self, hold: Hold) -> None:
        self._ledger.holds.put(hold.on_nodes())
        self._held[hold.key] = hold.admission
        self.projected_quota.take(hold.admission)

    def drop_for(self, head: Workload) -> None:
        """Releases the reservation of a head, and what that of one that starts together with it keeps for both."""
        if not self._names and not self._own:
            return
        self.drop(head.key)  # a head has no reservation: it was dropped, maybe in this cycle
        if head.gang is not None:
            for key in starting_together(head):
                if not self._queues.holds_reservation(key):
                    self.drop(key)

    def drop(self, key: str) -> None:
        """Releases the reservation of a workload and of those that start with it, because it is evaluated again.

        Its victims still leave.
        """
        self._own.pop(key, None)
        names = self._names.pop(key, ())
        if names:
            self._due = [each for each in self._due if each[2].key not in names]
            self._early = [each for each in self._early if each[2].key not in names]
        for name in names:
            self._release(name)

    def _release(self, name: str) -> None:
        if (admission := self._held.pop(name, None)) is not None:
            self._ledger.holds.drop(name)
            self.projected_quota.take(admission, -1)

    def restore(self, workload: Workload) -> None:
        """Charges the reservation again: the turn of its owner ended without a decision, and other heads are evaluated first.

        The reservation binds workloads with an earlier turn as before: they may fit only in capacity that its victims, or
        those of other preemptors, free.
        """
        reservation = self._queues.preemptors.get(workload.key)
        if reservation is not None and reservation.victims and workload.key not in self._names:
            self._enter_anew(workload, reservation)

    def _enter_anew(self, workload: Workload, reservation: CapacityReservation) -> None:
        self._own.pop(workload.key, None)
        self._enter(workload, reservation)
        self._sort()
        if self._fair:
            self.hold_all()

    @contextmanager
    def afterwards(self, queue: str | None = None, *, nodes: bool = True) -> Iterator[None]:
        """Opens a context with the ledger as it will be when all victims have left and all reservations are used.

        `queue` restricts this to the quota of that queue's cohort tree. `nodes` False leaves node capacity as it is.
        """
        with self._ledger.away(self.leaving, nodes=nodes):
            self.projected_quota.apply(queue)
            yield

    def leave_quota_for(self, queue: str, assignment: FlavorAssignment) -> bool:
        """Reports whether the quota suffices afterwards, too."""
        if not self:
            return True
        with self.projected_quota.held(queue):
            return self._ledger.quota.fits(queue, assignment.usage)

    def must_wait(self, nomination: Nomination) -> bool:
        """Reports whether a nomination that fits afterwards does not fit now, because victims have not left yet."""
        if not self:
            return False
        if not self._ledger.quota.fits(nomination.workload.cluster_queue, nomination.quota()):
            return True
        if not self._ledger.placement.fits(nomination.workload, nomination.admission()):
            return True
        return self._lacks_beside(nomination)

    def _lacks_beside(self, nomination: Nomination) -> bool:
        """Reports whether too little could be held beside the pods if the workload started now."""
        keeper = self._ledger.holds.keeper
        if keeper is None or not nomination.workload.asks_beside:
            return False
        with self._ledger.trial():
            self._ledger.charge(nomination.workload, nomination.admission())
            return bool(keeper.hold(nomination.workload.key))

    def end(self) -> None:
        """Ends the cycle: removes every reservation from the ledger."""
        for key in self._held:
            self._ledger.holds.drop(key)


@contextmanager
def places_held(ledger: Ledger, queues: PendingQueues) -> Iterator[None]:
    """Opens a context in which nothing else gets the nodes that are reserved for preemptors."""
    if not queues.preemptors:
        yield
        return
    reservations = Reservations(ledger, queues)
    reservations.hold_all()
    try:
        yield
    finally:
        reservations.end()
