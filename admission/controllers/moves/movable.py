"""Whether any workload may be moved at all, kept with each change, so that a cluster without such workloads pays nothing."""

from __future__ import annotations

from functools import partial
from typing import Any

from admission.controllers.watch.cluster_view import Views
from api.kube.informers.store import Change, ChangeType
from api.names import MOVABLE


class MovableIndex:
    """The objects that allow moves by their annotation: Workloads, queues and WorkloadPriorityClasses."""

    def __init__(self, views: Views) -> None:
        self._found: set[tuple[str, str]] = set()
        views.workloads.add_handler(partial(self._changed, "Workload"))
        views.cluster_queues.add_handler(partial(self._changed, "ClusterQueue"))
        views.local_queues.add_handler(partial(self._changed, "LocalQueue"))
        views.workload_priorities.add_handler(partial(self._changed, "WorkloadPriorityClass"))

    def __bool__(self) -> bool:
        """Reports whether any workload may be moved."""
        return bool(self._found)

    def _changed(self, kind: str, change: Change[Any]) -> None:
        if change.type is not ChangeType.DELETED and change.object.metadata.annotations.get(MOVABLE) == "true":
            self._found.add((kind, change.key))
        else:
            self._found.discard((kind, change.key))
