"""The start reservations in the order of the cycle, and the capacity of the reservations before a workload.

The order and the joint footprint are kept while one head after the other gets its reservation: a head is usually bound by the
reservations that bind the head before it, and by the reservation of that head.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from admission.engine.features.backfill.projected_ledger import FutureReservation
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Admission, Workload
from admission.engine.queue.cluster_queue import order_of
from admission.engine.queue.pending import StartReservation
from admission.engine.queue.pending_reservations import StartReservations
from admission.engine.queue.positions import Order
from admission.engine.topology.allocation.footprint import Footprint, joined

_Turn = tuple[int, Order]
_turn = attrgetter("turn")


@dataclass(frozen=True, slots=True)
class BindingStart:
    """A head with its reservation, and the capacity that it uses from its start on.

    `future` is None if only a hold determines the nodes.
    """

    turn: _Turn
    head: Workload
    reservation: StartReservation
    future: FutureReservation | None

    @property
    def end(self) -> float | None:
        """When the head frees its capacity (epoch seconds); None if that is unknown."""
        limit = self.head.time_limit
        return None if limit is None else self.reservation.start + limit + self.head.termination


def future_of(
    ledger: Ledger, workload: Workload, admission: Admission, taken: Footprint, end: float | None
) -> FutureReservation:
    """Returns the reservation of the admission, with this footprint on the nodes, until `end` (epoch seconds)."""
    name = admission.cluster_queue
    return FutureReservation(workload.key, name, ledger.quota.tree_of(name), admission.usage(), taken, end)


class StartOrder:
    """The reservations of `starts`; all changes during the cycle go through `reserve`. `fair`: fair sharing is on."""

    def __init__(
        self, ledger: Ledger, starts: StartReservations, before: Callable[[Workload, Workload], bool], *, fair: bool
    ) -> None:
        """`before` reports whether the first of two workloads of one queue comes first."""
        self._ledger, self._starts, self._before, self._fair = ledger, starts, before, fair
        self._sorted: list[BindingStart] = []
        self._version = -1
        self._known: dict[str, BindingStart] = {}
        self._joined: tuple[list[BindingStart], Footprint] = ([], {})

    def reserve(self, key: str, reservation: StartReservation | None) -> None:
        """Stores a reservation as `StartReservations.reserve` does, and keeps the order."""
        if self._version != self._starts.version:
            self._starts.reserve(key, reservation)
            return
        name = self._starts.reserve(key, reservation)
        self._version = self._starts.version
        self._sorted = [one for one in self._sorted if one.head.cluster_queue != name]
        if (held := self._starts.of(name)) is not None:
            insort(self._sorted, self._entry(*held), key=_turn)

    def all(self) -> Sequence[BindingStart]:
        """Returns all reservations, by borrowing level, then in the order of workloads."""
        if self._version != self._starts.version:
            self._sorted = sorted((self._entry(*held) for held in self._starts.all()), key=_turn)
            self._version = self._starts.version
        return self._sorted

    def _entry(self, head: Workload, reservation: StartReservation) -> BindingStart:
        known = self._known.get(head.key)
        if known is None or known.reservation is not reservation or known.head is not head:
            known = BindingStart((reservation.level, order_of(head)), head, reservation, None)
            claim = self._ledger.claim(head, reservation.admission)
            if claim is not None:
                future = future_of(self._ledger, head, reservation.admission, claim, known.end)
                known = replace(known, future=future)
            self._known[head.key] = known
        return known

    def binds(self, start: BindingStart, workload: Workload, level: int) -> bool:
        """Reports whether a workload that would borrow so far comes after this head."""
        if start.head.key == workload.key:
            return False
        if start.head.cluster_queue == workload.cluster_queue:
            return self._before(start.head, workload)
        return self._fair or start.turn < (level, order_of(workload))

    def ahead(self, workload: Workload, level: int, besides: str = "") -> list[BindingStart]:
        """Returns the reservations that bind the workload, in order, except that of the workload `besides`."""
        held = self.all()
        first = len(held) if self._fair else bisect_left(held, (level, order_of(workload)), key=_turn)
        name = workload.cluster_queue
        starts = [one for one in held[:first] if one.head.cluster_queue != name and one.head.key != besides]
        own = self._starts.of(name)
        if own is not None and own[0].key not in (workload.key, besides) and self._before(own[0], workload):
            insort(starts, self._entry(*own), key=_turn)
        return starts

    def footprint(self, ahead: list[BindingStart]) -> Footprint:
        """Returns the capacity that these reservations use on the nodes together, without those whose nodes only a hold
        determines.
        """
        known, before = self._joined
        if known != ahead[: len(known)]:
            known, before = [], {}
        parts = [before, *(one.future.footprint for one in ahead[len(known) :] if one.future is not None)]
        flavors = {flavor for part in parts for flavor in part}
        self._joined = ahead, {flavor: joined(parts, flavor)[0] for flavor in flavors} if len(parts) > 1 else before
        return self._joined[1]
