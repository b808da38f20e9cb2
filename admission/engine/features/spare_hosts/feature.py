"""Spare hosts in the cycle: the missing ones are held before any head is evaluated, and a head starts with all of its own."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

from admission.engine.cycle.feature import CycleContext, Feature, Why
from admission.engine.cycle.nomination import Nomination
from admission.engine.cycle.reservations import places_held
from admission.engine.cycle.solve import quota_shortage
from admission.engine.cycle.together import starts_with_others
from admission.engine.features.spare_hosts import of_flavors, of_workloads
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Admission
from admission.engine.preemption.projected_quota import reclaimable_beside
from admission.engine.reasons import Reason


class SpareKeeper:
    """Holds spare hosts beside pods, and gives them to pods that lost their host."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def hold(self, key: str, /) -> str:
        """See of_workloads.hold."""
        return of_workloads.hold(self._ledger, key)

    def give(self, key: str, admission: Admission, /) -> tuple[list[str], list[str]]:
        """Releases the workload's spare hosts and those of its flavors nearby. The next cycle holds what is left of these."""
        return of_workloads.release(self._ledger, key), of_flavors.release_near(self._ledger, admission)


class Spares(Feature):
    """Holds the spare hosts of workloads and of flavors."""

    def __init__(self, context: CycleContext) -> None:
        super().__init__(context)
        self.ledger.holds.keeper = SpareKeeper(self.ledger)

    def before_cycle(self) -> None:
        """Holds those that are missing, on nodes that are not reserved for preemptors.

        Requeues what hosts that were given back may admit.
        """
        holds = self.ledger.holds
        with places_held(self.ledger, self.queues) if holds.askers or holds.of_flavor else nullcontext():
            of_workloads.hold_missing(self.ledger)
            freed = of_flavors.hold_missing(self.ledger)
        if freed:
            beside = partial(reclaimable_beside, self.ledger)
            for queue in sorted({*freed.values()} - {""}):
                self.queues.lines.quota_freed(self.ledger.quota.relatives(queue) | {queue}, beside)
            self.queues.lines.capacity_freed(list(freed), beside)

    def allows(self, nomination: Nomination) -> Nomination | Why:
        """Returns that there is too little quota for the spare hosts of a head that starts now, not with a group."""
        if nomination.victims or starts_with_others(nomination.workload):
            return nomination
        shortage = quota_shortage(self.ledger, (nomination,))
        return nomination if shortage is None else (Reason.WAITING_FOR_QUOTA, shortage[1])

    def starts(self, nomination: Nomination) -> Why | None:
        """Holds the spare hosts of a workload that starts; returns why there are too few of them."""
        key = nomination.workload.key
        lacking = of_workloads.hold(self.ledger, key) if key in self.ledger.holds.askers else ""
        return (Reason.TOPOLOGY_PLACEMENT_FAILED, lacking) if lacking else None
