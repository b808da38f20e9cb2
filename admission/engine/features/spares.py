"""Spare hosts in the cycle: those that are missing are held before any head is evaluated."""

from __future__ import annotations

from functools import partial

from admission.engine.cycle import flavor_spares, spare_hosts
from admission.engine.cycle.feature import Feature
from admission.engine.cycle.reservations import places_kept
from admission.engine.preemption.projected_quota import reclaimable_beside


class Spares(Feature):
    """Holds the spare hosts of workloads and of flavors that are missing."""

    def before_cycle(self) -> None:
        """Holds them on nodes that are not reserved for preemptors, and requeues what hosts that were given back may admit."""
        with places_kept(self.ledger, self.queues):
            spare_hosts.hold_missing(self.ledger)
            freed = flavor_spares.hold_missing(self.ledger)
        if freed:
            beside = partial(reclaimable_beside, self.ledger)
            for queue in sorted({*freed.values()} - {""}):
                self.queues.lines.quota_freed(self.ledger.quota.relatives(queue) | {queue}, beside)
            self.queues.lines.capacity_freed(list(freed), beside)
