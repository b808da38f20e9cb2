"""Tracks whether the pods of all admitted workloads are ready, for clusters that admit one workload at a time.

With blockAdmission, the next workload starts only once the pods of earlier ones are ready: two gangs that start at once could
take each other's last nodes and both hang. The scheduler asks before each cycle; when the last pods become ready, a cycle is
requested for the workloads that waited. Source: lifecycle.md 3.6.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from admission.controllers.watch.cluster_view import ClusterView
from api.kube.informers.store import Change, ChangeType
from api.meta import is_true
from api.names import ADMITTED, FINISHED, PODS_READY
from api.workloads import Workload


class Readiness:
    """The admitted workloads whose pods are not ready. `request_cycle` is called when none is left."""

    def __init__(self, views: ClusterView, request_cycle: Callable[[], object]) -> None:
        self._request_cycle = request_cycle
        self._unready: set[str] = set()
        views.workloads.add_handler(self._workload_changed)

    def startable(self, in_flight: bool) -> int:
        """Returns how many workloads may be admitted now; `in_flight` means that an admission is being written."""
        return 0 if in_flight or self._unready else 1

    def waited_for(self, in_flight: Collection[str]) -> set[str]:
        """Returns the workloads whose pods are not ready, including those of `in_flight`, which are being admitted."""
        return self._unready.union(in_flight)

    def settled(self, in_flight: bool) -> None:
        """Handles the end of a write: requests a cycle if nothing blocks admission any more."""
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
    """Reports whether the workload is admitted and its pods are not ready."""
    states = workload.status.conditions
    return is_true(states, ADMITTED) and not is_true(states, PODS_READY) and not is_true(states, FINISHED)
