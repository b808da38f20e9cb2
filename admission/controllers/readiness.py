"""Whether the pods of all admitted workloads are ready, for clusters that admit one workload at a time (blockAdmission).

Two gangs that start at once may take each other's last nodes and both hang; so the next one starts when the pods of those
before it are ready. The scheduler asks before each cycle; when the last pods have become ready, the workloads that were refused
for it is woken. Lifecycle description, 3.6.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from admission.controllers.cluster_view import ClusterView
from api.kube.store import Change, ChangeType
from api.meta import is_true
from api.names import ADMITTED, FINISHED, PODS_READY
from api.workloads import Workload


class Readiness:
    """Kept current by the watch. `request_cycle` is called when the last workload that was waited for is ready or gone."""

    def __init__(self, views: ClusterView, request_cycle: Callable[[], object]) -> None:
        self._request_cycle = request_cycle
        self._unready: set[str] = set()
        views.workloads.add_handler(self._workload_changed)

    def startable(self, in_flight: bool) -> int:
        """How many workloads may be admitted now. `in_flight`: an admission is being written that the watch may not show."""
        return 0 if in_flight or self._unready else 1

    def waited_for(self, in_flight: Collection[str]) -> set[str]:
        """The workloads whose pods are not ready; `in_flight` (by key) are being admitted."""
        return self._unready.union(in_flight)

    def settled(self, in_flight: bool) -> None:
        """A write has ended. If it admitted nothing, requeue the workloads that were refused because of it."""
        if self.startable(in_flight):
            self._request_cycle()

    def _workload_changed(self, change: Change[Workload]) -> None:
        if change.type is not ChangeType.DELETED and unready(change.object):
            self._unready.add(change.key)
        elif change.key in self._unready:
            self._unready.discard(change.key)
            if not self._unready:
                self._request_cycle()


def unready(workload: Workload) -> bool:
    """Whether it is admitted and its pods are not ready yet."""
    states = workload.status.conditions
    return is_true(states, ADMITTED) and not is_true(states, PODS_READY) and not is_true(states, FINISHED)
