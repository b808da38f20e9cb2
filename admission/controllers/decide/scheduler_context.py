"""The dependencies of the scheduler and its helpers: ledger, queues, the feed that fills them, and settings. `app` builds
it."""

from __future__ import annotations

from dataclasses import dataclass

from admission.controllers.decide.readiness import Readiness
from admission.controllers.watch.cycle_due import CycleDue
from admission.controllers.watch.feed import Feed
from admission.engine.ledger.ledger import Ledger
from admission.engine.queue.queues import PendingQueues
from admission.engine.quota.fairness import FairSharingRules
from admission.settings import ControllerSection


@dataclass(frozen=True, slots=True)
class SchedulerContext:
    """What the scheduler's parts share."""

    feed: Feed
    ledger: Ledger
    queues: PendingQueues
    cycle_due: CycleDue
    """Set when a cycle could decide something."""
    settings: ControllerSection
    sharing: FairSharingRules | None = None
    """None if fair sharing is off."""
    readiness: Readiness | None = None
    """None if admissions do not wait for the pods of other workloads."""
