"""What the scheduler and its helpers decide with: the books, the feed that fills them, and the rules. Built by `app`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from admission.controllers.feed import Feed
from admission.controllers.readiness import Readiness
from admission.engine.ledger import Ledger
from admission.engine.queue.queues import PendingQueues
from admission.engine.quota.fairness import FairSharing
from admission.settings import ControllerSection


@dataclass(frozen=True, slots=True)
class Desk:
    """`woken` is set when a cycle could do something. `sharing` is None where fair sharing is off, `readiness` where nobody
    waits for the pods of others."""

    feed: Feed
    ledger: Ledger
    queues: PendingQueues
    woken: asyncio.Event
    settings: ControllerSection
    sharing: FairSharing | None = None
    readiness: Readiness | None = None
