"""Chooses the workloads that are evicted for a head because they ran longer than their learned run time, and when.

Each may be evicted from `Workload.yields` on. For a head with a reserved start it leaves when its pods need the rest of the
time to end; a head without one, or whose time has come, may have its place at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from admission.engine.cycle.nomination import Nomination
from admission.engine.cycle.together import starts_with_others
from admission.engine.decision import PreemptionReason, Victim
from admission.engine.features.backfill.future import Future
from admission.engine.features.backfill.start_order import StartOrder
from admission.engine.ledger.holds import BESIDE, Hold, HoldKind
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import ClusterQueue, Workload
from admission.engine.queue.queues import PendingQueues

_SPARED: Final = 8
_WRITTEN: Final = 1.0
"""Seconds by which `Workload.yields` may be later than the cycle decided: the status has whole seconds."""


def may_evict(head: Workload) -> bool:
    """Reports whether workloads that outlast their guess can be evicted for this head."""
    return not head.gated and not head.replaces and not starts_with_others(head)


def pending_eviction(count: int) -> str:
    """Returns the message of a head for which so many leave."""
    return f"Pending the eviction of {count} workload(s) that overtook it and ran longer than expected"


class Outlasted:
    """The workloads that outlast their guess, at `now` (epoch seconds)."""

    def __init__(self, ledger: Ledger, queues: PendingQueues, future: Future, order: StartOrder, now: float) -> None:
        self._ledger, self._queues, self._future, self._order, self._now = ledger, queues, future, order, now
        self._told: set[str] = set()

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
        if not queue.reserves_starts:
            return []
        late = [one for one in self._yielding() if (one.yields or 0.0) <= self._now and one.key not in leaving]
        return sorted(late, key=lambda workload: (workload.evicted, *self._worth(workload)))

    def at_once(
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
        if not may_evict(workload):
            return None
        held, first = self._queues.starts.of(queue.name), self._queues.starts.unforeseen(queue.name)
        if held is not None and (held[1].start > self._now or self._queues.before(held[0], workload)):
            return None
        if first is not None and self._queues.before(first, workload):
            return None
        with self._ledger.trial():
            for one in self._order.ahead(workload, level):
                self._ledger.holds.put(Hold.of(HoldKind.START_RESERVATION, one.head, one.reservation.admission))
            for key in (self._future.ended(self._now) | {one.key for one in late}) - leaving:
                self._ledger.remove_with_pods(key)
            if (nomination := self._future.fit(workload, self._now)) is None:
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
                if (other := self._future.fit(nomination.workload, at)) is not None:
                    trial.keep()
                    nomination = other
                    stay.add(one.key)
        return nomination, stay

    def leaving_for(self, head: Workload, level: int, start: float) -> tuple[Victim, ...]:
        """Returns those that would be in the way of the head at its reserved start, and whose pods need the time until then to
        end. Each is returned once a cycle.
        """
        leaving = {key for _, reservation in self._queues.capacity_reservations() for key in reservation.victims}
        late = [one for one in self._yielding() if (one.yields or 0.0) <= self._now and not one.evicted]
        late = [one for one in late if start - one.termination <= self._now and one.key not in leaving | self._told]
        if not late or not may_evict(head):
            return ()
        late.sort(key=self._worth)
        with self._ledger.trial():
            for one in late:
                if self._now + one.termination > start:
                    self._ledger.remove_with_pods(one.key)
            with self._future.at_later_moments(head, level) as future:
                future.move_to(future.position(start))
                if (nomination := self._future.fit(head, start)) is None:
                    return ()
                _, stay = self._sparing(nomination, late, start)
        leave = [one for one in late if one.key not in stay]
        self._told.update(one.key for one in leave)
        return _victims(leave)

    def next_look(self, start: float) -> float | None:
        """Returns the next moment at which a head with this reserved start is looked at: its start, or the moment at which
        another workload may have to leave for it.
        """
        late = [one for one in self._yielding() if one.ends is not None and one.ends < start + _WRITTEN]
        moments = (start, *(max(one.yields or start, start - one.termination) for one in late if not one.evicted))
        return min((at for at in moments if at > self._now), default=None)


def _victims(workloads: Sequence[Workload]) -> tuple[Victim, ...]:
    return tuple(Victim(one.key, PreemptionReason.OUTLASTED) for one in workloads)
