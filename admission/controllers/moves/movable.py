"""Whether any workload may be moved at all, kept with each change, so that a cluster without such workloads pays nothing."""

from __future__ import annotations

from admission.controllers.cluster_view import Views
from api.kube.store import Change, ChangeType
from api.names import MOVABLE
from api.queues import ClusterQueue
from api.workloads import Workload


class MovableIndex:
    """The Workloads and ClusterQueues that allow moves by their annotation."""

    def __init__(self, views: Views) -> None:
        self._workloads: set[str] = set()
        self._queues: set[str] = set()
        views.workloads.add_handler(self._workload_changed)
        views.cluster_queues.add_handler(self._queue_changed)

    def __bool__(self) -> bool:
        """Reports whether any workload may be moved."""
        return bool(self._workloads or self._queues)

    def _workload_changed(self, change: Change[Workload]) -> None:
        _note(self._workloads, change.key, change.type, change.object.metadata.annotations.get(MOVABLE))

    def _queue_changed(self, change: Change[ClusterQueue]) -> None:
        _note(self._queues, change.key, change.type, change.object.metadata.annotations.get(MOVABLE))


def _note(found: set[str], key: str, kind: ChangeType, value: str | None) -> None:
    if value == "true" and kind is not ChangeType.DELETED:
        found.add(key)
    else:
        found.discard(key)
