"""Audits the ledger's consistency. A difference is a bug, which a log line and a metric report. app.py calls it each minute."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from admission.engine.ledger.ledger import Ledger
from admission.metrics import controller as metrics

log = logging.getLogger(__name__)

_PAUSE: Final = 0.03


async def audited(ledger: Ledger, pause: float = _PAUSE) -> None:
    """Makes one audit. Without pauses (seconds), an audit of 100,000 nodes could lose the Lease."""
    count = 0
    for differences in ledger.auditing():
        count += len(differences)
        for difference in differences:
            log.error("the ledger disagrees with itself: %s", difference)
        await asyncio.sleep(pause)
    metrics.LEDGER_DIFFERENCES.set(count)
