"""Spare hosts in the cycle: the missing ones are held before any head is evaluated, and a head starts with all of its own."""

from __future__ import annotations

from functools import partial

from admission.engine.cycle.feature import Feature, Why
from admission.engine.cycle.nomination import Nomination
from admission.engine.cycle.reservations import places_held
from admission.engine.cycle.solve import quota_shortage
from admission.engine.cycle.spares import flavor_spares, spare_hosts
from admission.engine.cycle.together import starts_with_others
from admission.engine.preemption.projected_quota import reclaimable_beside
from admission.engine.reasons import Reason


class Spares(Feature):
    """Holds the spare hosts of workloads and of flavors."""

    def before_cycle(self) -> None:
        """Holds those that are missing, on nodes that are not reserved for preemptors.

        Requeues what hosts that were given back may admit.
        """
        with places_held(self.ledger, self.queues):
            spare_hosts.hold_missing(self.ledger)
            freed = flavor_spares.hold_missing(self.ledger)
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
        lacking = spare_hosts.hold(self.ledger, key) if key in self.ledger.spare_host_owners else ""
        return (Reason.TOPOLOGY_PLACEMENT_FAILED, lacking) if lacking else None
