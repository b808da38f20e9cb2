"""Finds the workloads that a change of another object concerns, which may be thousands, and has them converted in rounds of
short steps (rounds.py). Part of the feed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from admission.controllers.watch.cluster_view import BY_CLUSTER_QUEUE, BY_QUEUE, ClusterView
from admission.controllers.watch.resources import LimitRange
from admission.controllers.watch.rounds import Rounds
from admission.controllers.watch.runtime_classes import RuntimeClass, named
from api.annotations.of_features import KEYS_OF_CLASSES
from api.kube.informers.store import Change, ChangeType
from api.meta import is_true
from api.names import FINISHED, QUOTA_RESERVED
from api.queues import LocalQueue, WorkloadPriorityClass
from api.workloads import Workload

_DELETED = ChangeType.DELETED


class AffectedWorkloads:
    """`refresh` converts the Workload of a key, or the ClusterQueue of a name; `request_cycle` is called after each round."""

    def __init__(self, views: ClusterView, refresh: Callable[[str], None], request_cycle: Callable[[], None]) -> None:
        self._views = views
        self.rounds = Rounds("workloads", refresh, request_cycle)
        views.local_queues.add_handler(self._local_queue_changed)
        views.workload_priorities.add_handler(self._class_changed)
        views.limit_ranges.add_handler(self._limits_changed)
        views.runtime_classes.add_handler(self._runtime_changed)

    def add(self, workloads: Iterable[Workload]) -> None:
        """Has these Workloads converted."""
        self.rounds.add(workload.key for workload in workloads)

    def by_cluster_queue(self, name: str) -> None:
        """Has the Workloads of a ClusterQueue converted."""
        for local in self._views.local_queues.by_index(BY_CLUSTER_QUEUE, name):
            self.add(self._views.workloads.by_index(BY_QUEUE, local.key))

    def by_namespace(self, name: str) -> None:
        """Has the Workloads converted that wait in a namespace with new labels.

        With quota, a Workload no longer depends on the queue's namespace selector, and thousands may run.
        """
        self._scan(f"namespace {name}", lambda w: w.metadata.namespace == name and _waits(w))

    def by_kinds(self) -> None:
        """Has the Workloads with an owner converted, after a change of the managed job kinds."""
        self._scan("kinds", lambda w: bool(w.metadata.owner_references))

    def _local_queue_changed(self, change: Change[LocalQueue]) -> None:
        same = change.old is not None and change.type is not _DELETED and change.old.spec == change.object.spec
        if not same or _terms_changed(change):
            self.add(self._views.workloads.by_index(BY_QUEUE, change.key))

    def _class_changed(self, change: Change[WorkloadPriorityClass]) -> None:
        if _terms_changed(change):
            name = change.key
            self._scan(f"class {name}", lambda w: (ref := w.spec.priority_class_ref) is not None and ref.name == name)

    def _limits_changed(self, change: Change[LimitRange]) -> None:
        if change.type is not _DELETED and change.old is not None and change.old.spec == change.object.spec:
            return
        namespace = change.object.metadata.namespace
        self._scan(f"limits {namespace}", lambda w: w.metadata.namespace == namespace)

    def _runtime_changed(self, change: Change[RuntimeClass]) -> None:
        if change.type is not _DELETED and change.old is not None and change.old.given == change.object.given:
            return
        name = change.object.metadata.name
        self._scan(f"runtime class {name}", lambda w: any(each == name for _, _, each in named(w)))

    def _scan(self, name: str, concerned: Callable[[Workload], bool]) -> None:
        """Has the unfinished Workloads converted that the change concerns."""
        self.rounds.add_where(name, self._views.workloads.objects, lambda w: concerned(w) and not _finished(w))


def _terms_changed(change: Change[LocalQueue] | Change[WorkloadPriorityClass]) -> bool:
    """Reports whether the annotations that complete those of Workloads differ from before."""
    new = {} if change.type is _DELETED else change.object.metadata.annotations
    old = {} if change.old is None else change.old.metadata.annotations
    return any(old.get(key) != new.get(key) for key in KEYS_OF_CLASSES)


def _waits(workload: Workload) -> bool:
    return not is_true(workload.status.conditions, QUOTA_RESERVED)


def _finished(workload: Workload) -> bool:
    return is_true(workload.status.conditions, FINISHED)
