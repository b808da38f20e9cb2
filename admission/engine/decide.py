"""One cycle as the running system makes it: with preemption, and with fair sharing where it is on.

The controller and every simulation call `decide`, so that both decide alike.
"""

from __future__ import annotations

from functools import partial

from admission.engine.cycle import flavor_spares, spare_hosts
from admission.engine.cycle.cycle import CycleReport, run_cycle
from admission.engine.cycle.reservations import places_kept
from admission.engine.ledger.ledger import Ledger
from admission.engine.preemption.preemptor import Preemptor
from admission.engine.preemption.projected_quota import reclaimable_beside
from admission.engine.queue.queues import PendingQueues
from admission.engine.quota.fairness import FairSharingRules


def decide(
    ledger: Ledger,
    queues: PendingQueues,
    now: float,
    budget: int,
    sharing: FairSharingRules | None = None,
    *,
    startable: int | None = None,
) -> CycleReport:
    """Runs one cycle (`run_cycle`). `sharing` is None if fair sharing is off."""
    with places_kept(ledger, queues):
        spare_hosts.hold_missing(ledger)
        freed = flavor_spares.hold_missing(ledger)
    if freed:
        beside = partial(reclaimable_beside, ledger)
        for queue in sorted({*freed.values()} - {""}):
            queues.lines.quota_freed(ledger.quota.relatives(queue) | {queue}, beside)
        queues.lines.capacity_freed(list(freed), beside)
    preemptor = Preemptor(ledger, now, sharing, past=queues.past)
    return run_cycle(ledger, queues, now, budget, preemptor, fair=sharing is not None, startable=startable)
