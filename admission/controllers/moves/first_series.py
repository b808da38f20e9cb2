"""Series of moves that begin at 0, before their first event, as report/first_series.py says: four of each ClusterQueue."""

from __future__ import annotations

from typing import Final

from admission.controllers.write.outcome import Outcome
from admission.engine.features.moves.plans import NoPlanReason
from admission.metrics import moves as metrics
from api.kube.informers.store import Change, ChangeType
from api.queues import ClusterQueue

STARTED: Final = "Started"
DONE: Final = "Done"
CHANGED: Final = "Changed"
OUTCOMES: Final = (Outcome.WRITTEN, Outcome.LEFT, Outcome.CHANGED)
"""What becomes of the write of a move."""


def of_process() -> None:
    """Begins the series without a queue."""
    for result in (STARTED, DONE, CHANGED, *NoPlanReason):
        metrics.PLANS.labels(result)


def of_queue(change: Change[ClusterQueue]) -> None:
    """Begins the series of a ClusterQueue that exists. They keep their values if they have begun."""
    if change.type is ChangeType.DELETED:
        return
    for outcome in OUTCOMES:
        metrics.MOVES.labels(change.key, outcome)
    metrics.LOSS.labels(change.key)
