"""Updates the places of jobs that have shrunk to those of the remaining pods.

The scheduler calls it before each cycle; features/elastic/shrunk_places.py finds the places. A Workload is checked when it has
given up pods or has replaced another slice, and whenever one of its pods is bound or ends, until all of its pods are bound.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator

from admission.controllers.state.conditions import is_running
from admission.controllers.state.moving import is_moving
from admission.controllers.watch.cluster_view import Views
from admission.controllers.watch.projection import ProjectedPod
from admission.controllers.watch.slices import first_key, is_slice, replaced_key
from admission.engine.decision import Admit
from admission.engine.features.elastic.shrunk_places import shrunk_places
from admission.engine.ledger.ledger import Ledger
from api import assignment
from api.errors import InvalidObject
from api.kube.informers.store import Change, ChangeType
from api.topology_assignment import TopologyAssignment
from api.workloads import Workload


class ShrunkJobs:
    """The Workloads whose places may differ from those of their pods; `request_cycle` is called when one is to be looked at."""

    def __init__(self, views: Views, ledger: Ledger, request_cycle: Callable[[], None]) -> None:
        self._views, self._ledger, self._request_cycle = views, ledger, request_cycle
        self._open: dict[str, set[str]] = {}
        """The Workloads (one, and another one while it replaces the first) by the key of their first slice, which the pods
        name."""
        self._due: set[str] = set()
        views.workloads.add_handler(self._changed)
        views.pods.add_handler(self._pod_changed)

    def again(self, key: str) -> None:
        """Considers the Workload again after a failed write."""
        self._due.add(key)
        self._request_cycle()

    def written(self, key: str) -> None:
        """Handles the end of a write of the Workload."""
        if key in self._due:
            self._request_cycle()

    def decisions(self, busy: Container[str]) -> Iterator[Admit]:
        """Yields the places to write; `busy` holds Workloads with a write in progress, which stay due until `written`."""
        due = sorted(key for key in self._due if key not in busy)
        self._due.difference_update(due)
        for key in due:
            workload = self._views.workloads.objects.get(key)
            if workload is None or not _is_running(workload):
                continue
            if self._ledger.workload(key) is None:
                self._due.add(key)  # another slice is charged while its admission is being written
                continue
            places = shrunk_places(self._ledger, key)
            if places is None:
                continue
            self._close(workload)
            if _written(workload) != _places(places):
                yield places

    def _changed(self, change: Change[Workload]) -> None:
        workload = change.object
        if change.type is ChangeType.DELETED or not _is_running(workload):
            self._due.discard(workload.key)
            # The slice before it is charged again.
            for key in self._close(workload):
                self.again(key)
        elif (_is_outdated(workload) or replaced_key(workload)) and (
            change.old is None or _differs(change.old, workload)
        ):
            self._open.setdefault(first_key(workload), set()).add(workload.key)
            self.again(workload.key)

    def _close(self, workload: Workload) -> Collection[str]:
        """Ends the checks of the Workload; returns the other slices of its job that are checked."""
        first = first_key(workload)
        if (slices := self._open.get(first)) is None:
            return ()
        slices.discard(workload.key)
        if not slices:
            del self._open[first]
        return sorted(slices)

    def _pod_changed(self, change: Change[ProjectedPod]) -> None:
        for seen in (change.object, change.old):
            bound = None if seen is None else seen.bound
            if bound is not None and bound.workload in self._open:
                for key in self._open[bound.workload]:
                    self.again(key)
                return


def _is_running(workload: Workload) -> bool:
    status = workload.status
    return (
        is_slice(workload)
        and status.admission is not None
        and is_running(status)
        and not is_moving(status)  # its pods are at the old place
    )


def _differs(old: Workload, new: Workload) -> bool:
    return not _is_running(old) or old.spec is not new.spec or old.status.admission != new.status.admission


def _is_outdated(workload: Workload) -> bool:
    """Reports whether the written places are more than the pods that the Workload still requests."""
    counts = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    return any(sum(count for _, count in domains) > counts.get(name, 0) for name, domains in _written(workload).items())


def _written(workload: Workload) -> dict[str, list[assignment.Domain]]:
    """Returns the domains in the status by pod set; pod sets without places or with unreadable ones are left out."""
    admission = workload.status.admission
    assignments = {psa.name: psa.topology_assignment for psa in (admission.pod_set_assignments if admission else ())}
    read = {name: _decoded(placed) for name, placed in assignments.items() if placed is not None}
    return {name: domains for name, domains in read.items() if domains is not None}


def _decoded(placed: TopologyAssignment) -> list[assignment.Domain] | None:
    try:
        return assignment.decode(placed)
    except InvalidObject:
        return None


def _places(decided: Admit) -> dict[str, list[assignment.Domain]]:
    """Returns the domains of the decision by pod set, like `_written`."""
    return {
        got.name: [(domain.values, domain.count) for domain in got.assignment.domains]
        for got in decided.admission.pod_sets
        if got.assignment is not None
    }
