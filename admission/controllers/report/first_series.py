"""Series that begin at 0, before their first event.

Where a series begins with its first event, Prometheus sees no increase, and panels of a board are empty. owned_series.py
removes those of a ClusterQueue with it.
"""

from __future__ import annotations

from admission.metrics import controller as metrics
from api.kube.informers.store import Change, ChangeType
from api.queues import ClusterQueue


def of_queue(change: Change[ClusterQueue]) -> None:
    """Begins the series of a ClusterQueue that exists. They keep their values if they have begun."""
    if change.type is not ChangeType.DELETED:
        for metric in (metrics.NOT_CREATED, metrics.UNSCHEDULABLE):
            metric.labels(change.key)
