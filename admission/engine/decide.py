"""One cycle as the running system makes it: with all features, with preemption, and with fair sharing where it is on.

The controller and every simulation call `decide`, so that both decide alike.
"""

from __future__ import annotations

from admission.engine.cycle.cycle import CycleReport, run_cycle
from admission.engine.cycle.feature import CycleContext
from admission.engine.features import features_of
from admission.engine.ledger.ledger import Ledger
from admission.engine.preemption.preemptor import Preemptor
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
    features = features_of(CycleContext(ledger, queues, now, sharing is not None))
    features.before_cycle()
    preemptor = Preemptor(ledger, now, sharing, past=queues.past)
    return run_cycle(
        ledger, queues, now, budget, preemptor, fair=sharing is not None, startable=startable, features=features
    )
