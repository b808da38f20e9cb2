"""Workloads behind a head with a reserved start: who may start before it.

A workload that uses none of the head's nodes and none of the quota that it needs starts without a placement check; other nodes
for the head are searched for `_SEARCHES` workloads per cycle; the rest are asked again in a second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from admission.engine.cycle.held_capacity import drawing
from admission.engine.cycle.nomination import Nomination
from admission.engine.cycle.together import starts_with_others
from admission.engine.decision import Overtaking
from admission.engine.expected_start import expected
from admission.engine.features.backfill.future import Future
from admission.engine.features.backfill.outlasted import may_evict
from admission.engine.features.backfill.start_order import StartOrder
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Admission, ClusterQueue, Workload
from admission.engine.queue.pending import StartReservation

_SEARCHES: Final = 2


@dataclass(frozen=True, slots=True)
class Permission:
    """Whether a workload may start now: not if it would delay a head, which `refusal` names.

    `overtaking` is set if it may only because it is expected to end in time.
    """

    refusal: str | None = None
    overtaking: Overtaking | None = None


class Behind:
    """Those behind the heads with a reserved start, at `now` (epoch seconds)."""

    def __init__(self, ledger: Ledger, future: Future, order: StartOrder, now: float) -> None:
        self._ledger, self._future, self._order, self._now = ledger, future, order, now
        self._searches = _SEARCHES
        self.unsearched = False
        """Whether the workload that was asked about last was refused only because the cycle had no search left."""

    def permission(self, queue: ClusterQueue, nomination: Nomination) -> Permission:
        """Returns whether the workload may start now, be it by its guess."""
        workload = nomination.workload
        asked = queue.by_guess and workload.time_limit is None and not nomination.victims
        if not asked or queue.checks or workload.replaces or starts_with_others(workload):
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
                or not may_evict(head)
                or self._now + guess + nomination.workload.termination > reservation.start
            ):
                return Permission(f"would delay {head.key}, which comes before it and is {expected(reservation.start)}")
            overtaking = Overtaking(head.key, guess, reservation.start, nomination.workload.termination)
        return Permission(overtaking=overtaking)

    def _holds(
        self, head: Workload, reservation: StartReservation, queue: ClusterQueue, nomination: Nomination
    ) -> bool:
        ends = nomination.charged(queue, self._now).ends
        if ends is not None and ends <= reservation.start:
            return True
        target = self._ledger.quota.spec(head.cluster_queue)
        if target is None:
            return True
        admission = nomination.admission()
        apart = reservation.firm and not nomination.victims and share_no_domain(reservation.admission, admission)
        if apart and self._quota_suffices(head, reservation, admission):
            return True
        if self._searches <= 0:
            self.unsearched = True
            return False
        self._searches -= 1
        with self._ledger.trial():
            for victim in nomination.victims:
                self._ledger.remove_with_pods(victim.workload)
            self._ledger.charge(nomination.workload, admission)
            with self._future.at_later_moments(head, reservation.level, besides=nomination.workload.key) as future:
                future.move_to(future.position(reservation.start))
                other = self._future.fit(head, reservation.start)
        if other is None:
            return False
        self._order.reserve(head.key, replace(reservation, admission=other.admission(), firm=True))
        return True

    def _quota_suffices(self, head: Workload, reservation: StartReservation, admission: Admission) -> bool:
        """Reports whether the quota of the head's reservation is free at its start although `admission` is charged."""
        with self._ledger.trial():
            self._ledger.quota.add(admission.cluster_queue, admission.usage())
            for other in self._order.ahead(head, reservation.level):
                taken = other.reservation.admission
                self._ledger.quota.add(taken.cluster_queue, taken.usage())
            for name, usage in self._future.returned(reservation.start).items():
                self._ledger.quota.remove(name, usage)
            with drawing(self._ledger, head):
                return self._ledger.quota.fits(head.cluster_queue, reservation.admission.usage())


def _guess_in_words(workload: Workload) -> str:
    if workload.guess is None:
        return "nothing is known of its run time"
    return f"jobs like it run for {workload.guess:.0f} s at most"


def share_no_domain(first: Admission, second: Admission) -> bool:
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
