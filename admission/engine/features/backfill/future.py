"""The ledger at later moments, for the heads that wait in one cycle: without the workloads that have ended by then, and with
the reservations of other heads.

What has ended is known from limits, and of those that started by their guess from the moment at which they may be evicted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from admission.engine.cycle.nomination import Nomination
from admission.engine.cycle.solve import Unsolved, solve
from admission.engine.features.backfill.projected_ledger import Departures, FutureReservation, ProjectedLedger, Step
from admission.engine.features.backfill.start_order import BindingStart, StartOrder, future_of
from admission.engine.ledger.holds import Hold, HoldKind
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Admission, FlavorResource, Workload


class Future:
    """The future from `now` on (epoch seconds). `fair`: fair sharing is on."""

    def __init__(self, ledger: Ledger, order: StartOrder, now: float, *, fair: bool) -> None:
        self._ledger, self._order, self._now, self._fair = ledger, order, now, fair
        self._known: list[Step] | None = None
        self._departures: Departures | None = None
        self._started: dict[str, FutureReservation] = {}
        self._leaving: dict[float, dict[str, dict[FlavorResource, int]]] = {}

    def record_start(self, workload: Workload, admission: Admission) -> None:
        """Counts a workload that this cycle has admitted among the running ones."""
        self._known = None
        self._leaving.clear()
        if workload.replaces:
            self._departures = None
        if self._departures is None:
            self._started.clear()
        elif workload.ends is not None:
            taken = self._ledger.footprint(workload.key)
            self._started[workload.key] = future_of(self._ledger, workload, admission, taken, workload.ends)

    def fit(self, workload: Workload, at: float) -> Nomination | None:
        """Returns the nomination of the workload on the ledger as it is, without preemption; None if it does not fit."""
        solved = solve(self._ledger, (workload,), at, fair=self._fair)
        return None if isinstance(solved, Unsolved) else solved[0]

    @contextmanager
    def at_later_moments(self, workload: Workload, level: int, besides: str = "") -> Iterator[ProjectedLedger]:
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

    def steps(self) -> list[Step]:
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

    def ended(self, moment: float) -> frozenset[str]:
        """Returns the keys of the workloads that have ended by this moment."""
        return frozenset().union(*(keys for end, keys in self.steps() if end <= moment))

    def returned(self, moment: float) -> dict[str, dict[FlavorResource, int]]:
        """Returns the quota that those return which have ended by this moment, by queue."""
        if moment not in self._leaving:
            self._leaving[moment] = self._usage(self.ended(moment))
        return self._leaving[moment]

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
        return Departures(self._ledger, [(end, gone) for end, keys in self.steps() if (gone := keys & admitted)])

    def _usage(self, keys: frozenset[str]) -> dict[str, dict[FlavorResource, int]]:
        total: dict[str, dict[FlavorResource, int]] = {}
        for key in keys:
            if (admission := self._ledger.admission(key)) is not None:
                usage = total.setdefault(admission.cluster_queue, {})
                for fr, amount in self._ledger.returned(key, admission).items():
                    usage[fr] = usage.get(fr, 0) + amount
        return total
