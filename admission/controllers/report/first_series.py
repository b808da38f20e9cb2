"""Series that begin at 0, before their first event.

Where a series begins with its first event, Prometheus sees no increase, and panels of a board are empty. Of a ClusterQueue they
are six series; owned_series.py removes them with it.
"""

from __future__ import annotations

from typing import Final

from admission.controllers.write.outcome import MOVE_OUTCOMES
from admission.engine.features.moves.plans import NoPlanReason
from admission.metrics import controller as metrics
from api.kube.informers.store import Change, ChangeType
from api.queues import ClusterQueue

STARTED: Final = "Started"
DONE: Final = "Done"
CHANGED: Final = "Changed"


def of_process() -> None:
    """Begins the series without a queue."""
    for result in (STARTED, DONE, CHANGED, *NoPlanReason):
        metrics.MOVE_PLANS.labels(result)


def of_queue(change: Change[ClusterQueue]) -> None:
    """Begins the series of a ClusterQueue that exists. They keep their values if they have begun."""
    if change.type is ChangeType.DELETED:
        return
    for outcome in MOVE_OUTCOMES:
        metrics.MOVES.labels(change.key, outcome)
    for metric in (metrics.MOVE_LOSS, metrics.NOT_CREATED, metrics.UNSCHEDULABLE):
        metric.labels(change.key)
