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

The moment is searched among the ends of running workloads (projected_ledger.py): first at the same distance from the
moment of the last head of this shape as that one had from the one before it, then in growing steps in the direction
where it must be, then by bisection; at first by free resources alone (capacity_bound.py), which rule out most moments
without a placement. Most heads need one placement. More free capacity never hurts the exact placement; under the other
profiles the moment may not be the earliest one. The search runs when the head is refused, which happens
once until something changes that could help it (queue/queues.py). If every workload keeps its limit, the head starts no
later than at its first moment: at least the workloads counted on have ended by then, and every admission since was
checked against the moment.

A moment is kept for `_KEPT` seconds even if an earlier one became possible. A workload that uses none of the head's nodes and
none of the quota that it needs starts without a placement check; other nodes for the head are searched for `_SEARCHES`
workloads per cycle; the rest are asked again in a second.

Only the reservations change. Called by cycle.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import ceil

from admission.engine.cycle.gallop import galloping_search
from admission.engine.cycle.held_capacity import drawing
from admission.engine.cycle.nomination import Nomination
from admission.engine.cycle.projected_ledger import Departures, FutureReservation, ProjectedLedger, Step
from admission.engine.cycle.solve import Unsolved, solve
from admission.engine.cycle.start_order import BindingStart, StartOrder, future_of
from admission.engine.cycle.together import starts_with_others
from admission.engine.decision import Overtaking, PreemptionReason, Victim
from admission.engine.ledger.holds import BESIDE, Hold, HoldKind
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Admission, ClusterQueue, FlavorResource, Workload
from admission.engine.queue.cluster_queue import shape_of
from admission.engine.queue.pending import StartReservation
from admission.engine.queue.queues import PendingQueues
from admission.engine.reasons import Reason
from admission.engine.requests import possible_requests

BEHIND = Reason.PENDING_EVALUATION
"""The reason of a workload that waits because it would delay a head."""

_MAY_PASS = (Reason.WAITING_FOR_QUOTA, Reason.TOPOLOGY_PLACEMENT_FAILED, BEHIND)

ASK_AGAIN = 1.0
"""Seconds until a workload is evaluated again for which a cycle had no search left."""

_KEPT = 60.0
_SEARCHES = 2
_SPARED = 8
_WRITTEN = 1.0
"""Seconds by which `Workload.yields` may be later than the cycle decided: the status has whole seconds."""


def rfc3339(start: float) -> str:
    """Returns a time (epoch seconds) in RFC 3339: whole seconds, rounded up."""
    return datetime.fromtimestamp(ceil(start), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def expected(start: float) -> str:
    """Returns the message for a workload whose start (epoch seconds) is reserved."""
    return f"expected to start at {rfc3339(start)} or before"


@dataclass(frozen=True, slots=True)
class ReservedStart:
    """The latest start (epoch seconds) of a workload that was just refused, if it has a reservation.

    `overtaken`: a workload of its queue has a reservation, so those behind it may be evaluated. `look` is when time alone
    requeues it: at its start, or before, if another workload may have to be evicted so that it starts in time.
    """

    start: float | None = None
    overtaken: bool = False
    look: float | None = None

    def with_start(self, message: str) -> str:
        """Returns the message of the wait with the moment added."""
        return message if self.start is None else f"{message}; {expected(self.start)}"

    def requeue_at(self, again: float | None, now: float) -> float | None:
        """Returns when time alone requeues the workload: at `again` or at `look`, whichever is first."""
        return min((at for at in (again, self.look) if at is not None), default=None)


@dataclass(frozen=True, slots=True)
class Permission:
    """Whether a workload may start now: not if it would delay a head, which `refusal` names.

    `overtaking` is set if it may only because it is expected to end in time.
    """

    refusal: str | None = None
    overtaking: Overtaking | None = None

    def applied_to(self, workload: Workload) -> Workload:
        """Returns the workload as it runs if it starts with this permission."""
        return workload if self.overtaking is None else replace(workload, yields=self.overtaking.until)


def running(workload: Workload, queue: ClusterQueue, now: float) -> Workload:
    """Returns the workload as it is charged when it is admitted now. With admission checks its start, and so its end, is
    unknown.
    """
    return workload if workload.time_limit is None or queue.checks else replace(workload, admitted=now)


class Backfill:
    """The reservations during one cycle at `now` (epoch seconds). `fair`: fair sharing is on."""

    def __init__(self, ledger: Ledger, queues: PendingQueues, now: float, *, fair: bool) -> None:
        self._ledger, self._queues, self._now, self._fair = ledger, queues, now, fair
        self._known: list[Step] | None = None
        self._departures: Departures | None = None
        self._started: dict[str, FutureReservation] = {}
        self._order = StartOrder(ledger, queues.starts, queues.before, fair=fair)
        self._last = now
        self._guesses: dict[Hashable, tuple[float, int]] = {}
        self._leaving: dict[float, dict[str, dict[FlavorResource, int]]] = {}
        self._told: set[str] = set()
        self._victims: dict[str, tuple[Victim, ...]] = {}
        self._searches = _SEARCHES
        self.unsearched = False
        """Whether the workload that was asked about last was refused only because the cycle had no search left."""

    def record_admission(self, workload: Workload, admission: Admission, level: int) -> bool:
        """Records an admission, which changes the ends. Returns whether the workload had the reservation of its queue.

        A workload that comes before a head was not checked against its reservation, so that reservation is no longer firm.
        """
        self._known = None
        self._leaving.clear()
        self._record_start(workload, admission)
        for one in tuple(self._order.all()):
            head, reservation = one.head, one.reservation
            if workload.ends is not None and workload.ends <= reservation.start:
                if workload.yields is not None:
                    self._queues.wake(head.key, reservation.start - workload.termination)
                continue
            if not reservation.firm or head.key == workload.key:
                continue
            relevant = self._order.binds(one, workload, level) or not self._related(head, workload)
            if not relevant or not _share_no_domain(reservation.admission, admission):
                self._order.reserve(head.key, replace(reservation, firm=False))
        held = self._queues.starts.of(workload.cluster_queue)
        return held is not None and held[0].key == workload.key

    def _record_start(self, workload: Workload, admission: Admission) -> None:
        """Counts a workload that this cycle has admitted among the running ones."""
        if workload.replaces:
            self._departures = None
        if self._departures is None:
            self._started.clear()
        elif workload.ends is not None:
            taken = self._ledger.footprint(workload.key)
            self._started[workload.key] = future_of(self._ledger, workload, admission, taken, workload.ends)

    # ---- the head

    def refused(
        self, workload: Workload, queue: ClusterQueue, reason: Reason, level: int, *, fits_nowhere: bool = False
    ) -> ReservedStart:
        """Reserves a start for a refused workload of a backfill queue if it is the first that waits.

        `level`: how far it would borrow. `fits_nowhere`: not even an empty cluster would hold it.
        """
        held = self._queues.starts.of(queue.name)
        if held is not None and self._queues.before(held[0], workload):
            return ReservedStart(overtaken=True)
        if held is not None and held[0].key == workload.key and self._still_holds(held[1]):
            return self._reserved(workload, level, held[1].start)
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
        return self._reserved(workload, borrows, start)

    def _reserved(self, head: Workload, level: int, start: float) -> ReservedStart:
        """Evicts who has to leave now for this start, and returns it with the next moment at which others may have to."""
        self._make_leave(head, level, start)
        late = [one for one in self._yielding() if one.ends is not None and one.ends < start + _WRITTEN]
        moments = (start, *(max(one.yields or start, start - one.termination) for one in late if not one.evicted))
        return ReservedStart(start, overtaken=True, look=min((at for at in moments if at > self._now), default=None))

    def _still_holds(self, reservation: StartReservation) -> bool:
        """Reports whether the reservation still holds, so that no new search is needed."""
        return reservation.firm and reservation.start > self._now and self._now - reservation.found < _KEPT

    def _earliest(self, workload: Workload, queue: ClusterQueue, level: int) -> tuple[float, Nomination] | None:
        """Returns the first end (epoch seconds) after which the workload fits, and its nomination at that moment."""
        with self._future(workload, level) as future:
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
            return self._fit(workload, future.move_after(position))

        end = len(future)
        if (first := galloping_search(possible, 0, end, guess)) is None:
            return None
        nomination = fits(first[0])
        return galloping_search(fits, first[0], end, guess) if nomination is None else (first[0], nomination)

    # ---- those behind

    def delays(self, queue: ClusterQueue, nomination: Nomination) -> str | None:
        """Returns the message that names the head that this workload would delay if it started now; None if it delays none.

        Its guess does not count.
        """
        return self._permission(queue, nomination, None).refusal

    def permission(self, queue: ClusterQueue, nomination: Nomination) -> Permission:
        """Returns whether the workload may start now, be it by its guess."""
        workload = nomination.workload
        asked = queue.by_guess and workload.time_limit is None and not nomination.victims and not workload.replaces
        if not asked or queue.checks:
            return self._permission(queue, nomination, None)
        made = self._permission(queue, nomination, workload.guess)
        return made if made.refusal is None else replace(made, refusal=f"{made.refusal}; {_guess_in_words(workload)}")

    def _permission(self, queue: ClusterQueue, nomination: Nomination, guess: float | None) -> Permission:
        level, overtaking, self.unsearched = nomination.assignment.level, None, False
        for one in sorted(self._order.all(), key=lambda start: (start.reservation.start, start.head.key)):
            head, reservation = one.head, one.reservation
            if not self._order.binds(one, nomination.workload, level) or not _share_flavor(reservation, nomination):
                continue
            if overtaking is not None and overtaking.until <= reservation.start:
                continue
            if self._holds(head, reservation, queue, nomination):
                continue
            if (
                guess is None
                or not _may_evict(head)
                or self._now + guess + nomination.workload.termination > reservation.start
            ):
                return Permission(f"would delay {head.key}, which comes before it and is {expected(reservation.start)}")
            overtaking = Overtaking(head.key, guess, reservation.start, nomination.workload.termination)
        return Permission(overtaking=overtaking)

    def _yielding(self) -> list[Workload]:
        """Returns the workloads that started by their guess; some are evicted already."""
        running = map(self._ledger.workload, self._ledger.allocations.yielding)
        return [one for one in running if one is not None and one.time_limit is None]

    def _worth(self, workload: Workload) -> tuple[int, float, str]:
        """Returns the sort key by which those that are worth most come first."""
        return -workload.priority, workload.reserved or self._now, workload.key

    def late(self, queue: ClusterQueue, leaving: frozenset[str]) -> list[Workload]:
        """Returns the workloads that outlasted their guess and may be evicted for a head of this queue.

        Those that are worth most come first, and those that leave already last. `leaving` leave for other preemptors.
        """
        if not queue.backfill:
            return []
        late = [one for one in self._yielding() if (one.yields or 0.0) <= self._now and one.key not in leaving]
        return sorted(late, key=lambda workload: (workload.evicted, *self._worth(workload)))

    def _overdue(self) -> frozenset[str]:
        return _keys([step for step in self._steps() if step[0] <= self._now])

    def outlasted(
        self,
        workload: Workload,
        queue: ClusterQueue,
        level: int,
        late: Sequence[Workload],
        leaving: frozenset[str] = frozenset(),
    ) -> Nomination | None:
        """Returns the nomination of a head that would fit now without the `late` ones, with those in its way as victims.

        None if it is no head whose time has come, or does not fit then. The ledger is as it will be when those `leaving` have
        left.
        """
        if not _may_evict(workload):
            return None
        held, first = self._queues.starts.of(queue.name), self._queues.starts.unforeseen(queue.name)
        if held is not None and (held[1].start > self._now or self._queues.before(held[0], workload)):
            return None
        if first is not None and self._queues.before(first, workload):
            return None
        with self._ledger.trial():
            for one in self._order.ahead(workload, level):
                self._ledger.holds.put(Hold.of(HoldKind.START_RESERVATION, one.head, one.reservation.admission))
            for key in (self._overdue() | {one.key for one in late}) - leaving:
                self._ledger.remove_with_pods(key)
            if (nomination := self._fit(workload, self._now)) is None:
                return None
            nomination, stay = self._sparing(nomination, [one for one in late if not one.evicted], self._now)
            return replace(nomination, victims=_victims([one for one in late if one.key not in stay]))

    def _sparing(self, nomination: Nomination, late: Sequence[Workload], at: float) -> tuple[Nomination, set[str]]:
        """In a trial without the late ones: returns the nomination at this moment, and the keys of those that may stay."""
        stay = set()
        for one in late[:_SPARED]:
            if one.admission is None:
                continue
            with self._ledger.trial() as trial:
                self._ledger.holds.put(Hold.of(HoldKind.START_RESERVATION, one, one.admission, BESIDE))
                if (other := self._fit(nomination.workload, at)) is not None:
                    trial.keep()
                    nomination = other
                    stay.add(one.key)
        return nomination, stay

    def _make_leave(self, head: Workload, level: int, start: float) -> None:
        """Evicts those that outlasted their guess and would be in the way of the head at its reserved start, if their pods need
        the time until then to end.
        """
        leaving = {key for _, reservation in self._queues.capacity_reservations() for key in reservation.victims}
        late = [one for one in self._yielding() if (one.yields or 0.0) <= self._now and not one.evicted]
        late = [one for one in late if start - one.termination <= self._now and one.key not in leaving | self._told]
        if not late or not _may_evict(head):
            return
        late.sort(key=self._worth)
        with self._ledger.trial():
            for one in late:
                if self._now + one.termination > start:
                    self._ledger.remove_with_pods(one.key)
            with self._future(head, level) as future:
                future.move_to(future.position(start))
                if (nomination := self._fit(head, start)) is None:
                    return
                _, stay = self._sparing(nomination, late, start)
        if leave := [one for one in late if one.key not in stay]:
            self._told.update(one.key for one in leave)
            self._victims[head.key] = _victims(leave)

    def take_victims(self, key: str) -> tuple[Victim, ...]:
        """Returns the workloads that leave for a head of this key, which waits for its reserved start; each only once."""
        return self._victims.pop(key, ())

    def _related(self, first: Workload, second: Workload) -> bool:
        tree_of = self._ledger.quota.tree_of
        return tree_of(first.cluster_queue) == tree_of(second.cluster_queue)

    def _holds(
        self, head: Workload, reservation: StartReservation, queue: ClusterQueue, nomination: Nomination
    ) -> bool:
        ends = running(nomination.workload, queue, self._now).ends
        if ends is not None and ends <= reservation.start:
            return True
        target = self._ledger.quota.spec(head.cluster_queue)
        if target is None:
            return True
        steps = [step for step in self._steps() if step[0] <= reservation.start]
        admission = nomination.admission()
        apart = reservation.firm and not nomination.victims and _share_no_domain(reservation.admission, admission)
        if apart and self._quota_suffices(head, reservation, admission, steps):
            return True
        if self._searches <= 0:
            self.unsearched = True
            return False
        self._searches -= 1
        with self._ledger.trial():
            for victim in nomination.victims:
                self._ledger.remove_with_pods(victim.workload)
            self._ledger.charge(nomination.workload, admission)
            with self._future(head, reservation.level, besides=nomination.workload.key) as future:
                future.move_to(future.position(reservation.start))
                other = self._fit(head, reservation.start)
        if other is None:
            return False
        self._order.reserve(head.key, replace(reservation, admission=other.admission(), firm=True))
        return True

    def _quota_suffices(
        self, head: Workload, reservation: StartReservation, admission: Admission, steps: Sequence[Step]
    ) -> bool:
        """Reports whether the quota of the head's reservation is free at its start although `admission` is charged."""
        with self._ledger.trial():
            self._ledger.quota.add(admission.cluster_queue, admission.usage())
            for other in self._order.ahead(head, reservation.level):
                taken = other.reservation.admission
                self._ledger.quota.add(taken.cluster_queue, taken.usage())
            if reservation.start not in self._leaving:
                self._leaving[reservation.start] = self._usage(_keys(steps))
            for name, usage in self._leaving[reservation.start].items():
                self._ledger.quota.remove(name, usage)
            with drawing(self._ledger, head):
                return self._ledger.quota.fits(head.cluster_queue, reservation.admission.usage())

    # ---- the ledger at a later moment

    @contextmanager
    def _future(self, workload: Workload, level: int, besides: str = "") -> Iterator[ProjectedLedger]:
        """Opens a context with the ledger at later moments for this workload: the reservations that bind it are charged until
        they end.
        """
        ahead = self._order.ahead(workload, level, besides)
        departures, started = self._departing()
        with self._ledger.trial():
            packed = {one.head.key: self._packed(one) for one in ahead if one.future is None}
            held = [*started, *(one.future or packed[one.head.key] for one in ahead)]
            future = ProjectedLedger(
                self._ledger,
                departures,
                held,
                workload.cluster_queue,
                self._now,
                taken=self._order.footprint(ahead),
                charged={one.key for one in started} | packed.keys(),
            )
            with future.opened():
                yield future

    def _packed(self, start: BindingStart) -> FutureReservation:
        """In a trial: holds the reserved capacity, since only the packing determines the nodes, and returns it."""
        head, admission = start.head, start.reservation.admission
        self._ledger.holds.put(Hold.of(HoldKind.START_RESERVATION, head, admission))
        return future_of(self._ledger, head, admission, self._ledger.footprint(head.key), start.end)

    def _steps(self) -> list[Step]:
        """Returns the running workloads by end (`_end`), the earliest end first."""
        if self._known is None:
            at: dict[float, set[str]] = {}
            for key, allocation in self._ledger.allocations.by_workload.items():
                if (end := self._end(allocation.workload)) is not None:
                    at.setdefault(end, set()).add(key)
            self._known = [(end, frozenset(at[end])) for end in sorted(at)]
        return self._known

    def _end(self, workload: Workload) -> float | None:
        """Returns when a running workload has left at the latest (epoch seconds); one that should have left counts as gone.

        One that outlasted its guess is evicted from now on, and its pods have time to end.
        """
        if workload.yields is not None and workload.time_limit is None and not workload.evicted:
            return max(workload.yields, self._now) + workload.termination
        return None if workload.ends is None else max(workload.ends, self._now)

    def _departing(self) -> tuple[Departures, list[FutureReservation]]:
        """Returns the departures of admitted workloads, and those of the workloads that this cycle has started since they were
        sorted.

        A caller that has victims leave in a trial gets them without these.
        """
        here = self._ledger.admissions.__contains__
        if self._ledger.journal.recording:
            known = self._departures
            if known is None or not all(map(here, known.keys)):
                return self._sorted_departures(), []
            return known, [one for one in self._started.values() if here(one.key)]
        if self._departures is None:
            self._departures = self._sorted_departures()
            self._started.clear()
        return self._departures, list(self._started.values())

    def _sorted_departures(self) -> Departures:
        admitted = self._ledger.admissions.keys()
        return Departures(self._ledger, [(end, gone) for end, keys in self._steps() if (gone := keys & admitted)])

    def _usage(self, keys: frozenset[str]) -> dict[str, dict[FlavorResource, int]]:
        total: dict[str, dict[FlavorResource, int]] = {}
        for key in keys:
            if (admission := self._ledger.admission(key)) is not None:
                usage = total.setdefault(admission.cluster_queue, {})
                for fr, amount in self._ledger.returned(key, admission).items():
                    usage[fr] = usage.get(fr, 0) + amount
        return total

    def _fit(self, workload: Workload, at: float) -> Nomination | None:
        """Returns the nomination of the workload on the ledger as it is, without preemption; None if it does not fit."""
        solved = solve(self._ledger, (workload,), at, fair=self._fair)
        return None if isinstance(solved, Unsolved) else solved[0]


def _guess_in_words(workload: Workload) -> str:
    if workload.guess is None:
        return "nothing is known of its run time"
    return f"jobs like it run for {workload.guess:.0f} s at most"


def _may_evict(head: Workload) -> bool:
    """Reports whether workloads that outlast their guess can be evicted for this head."""
    return not head.gated and not head.replaces and not starts_with_others(head)


def _victims(workloads: Sequence[Workload]) -> tuple[Victim, ...]:
    return tuple(Victim(one.key, PreemptionReason.BACKFILL_ENDED) for one in workloads)


def _keys(steps: Sequence[Step]) -> frozenset[str]:
    return frozenset().union(*(ended for _, ended in steps))


def _share_no_domain(first: Admission, second: Admission) -> bool:
    """Reports whether the two have no topology domain in common. Ignores quota."""
    return _places(first).isdisjoint(_places(second))


def _places(admission: Admission) -> set[tuple[str, tuple[str, ...]]]:
    return {
        (flavor, domain.values)
        for pod_set in admission.pod_sets
        if pod_set.assignment is not None
        for domain in pod_set.assignment.domains
        for flavor in set(pod_set.flavors.values())
    }


def _flavors(admission: Admission) -> set[str]:
    return {flavor for pod_set in admission.pod_sets for flavor in pod_set.flavors.values()}


def _share_flavor(reservation: StartReservation, nomination: Nomination) -> bool:
    """Reports whether both use a common flavor."""
    return not _flavors(reservation.admission).isdisjoint(_flavors(nomination.admission()))
