"""Reconciles Workloads: computes each Workload's next status with `lifecycle.step`, which lifecycle_writer.py writes.

A Workload is reconciled when it changes, when its admission context changes, and when time passes. For Workloads without a
managed owner, which no job controller handles, it also removes the finalizer when they are deleted and the reservation when
they are evicted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from admission.controllers.state import lifecycle
from admission.controllers.watch.cluster_view import BY_CLUSTER_QUEUE, BY_QUEUE, Views
from admission.controllers.watch.rounds import Rounds
from admission.controllers.write.lifecycle_writer import LifecycleWriter
from admission.integrations.owners import is_ours
from api.kube.client import Kube
from api.kube.events import EventRecorder
from api.kube.informers.store import Change, ChangeType
from api.kube.reconcile import Reconciler
from api.meta import is_true
from api.names import FINISHED, GROUP, QUOTA_RESERVED
from api.queues import ClusterQueue, LocalQueue, WorkloadPriorityClass
from api.workloads import Workload


class WorkloadController:
    """Keeps each Workload's status current with its admission context.

    `decided` returns the reason, as written, for which the latest cycle lets the Workload with that key wait.
    """

    def __init__(
        self,
        kube: Kube,
        views: Views,
        recorder: EventRecorder,
        validation_error: Callable[[Workload], str | None],
        workers: int,
        now: Callable[[], float] = time.time,
        rules: lifecycle.LifecycleRules | None = None,
        decided: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        self._views, self._validation_error, self._now = views, validation_error, now
        self._rules, self._decided = rules or lifecycle.LifecycleRules(), decided
        self._writer = LifecycleWriter(kube, views, recorder, now)
        self._reconciler = Reconciler("workloads", self._reconcile, workers=workers)
        self._revalued: set[str] = set()
        self._rounds = Rounds("workloads", self.again, in_steps=True)
        self._revaluing = Rounds("workloads", self._revalue_later, in_steps=True)
        views.workloads.add_handler(self._workload_changed)
        views.local_queues.add_handler(self._local_queue_changed)
        views.cluster_queues.add_handler(self._cluster_queue_changed)
        views.flavors.add_handler(lambda _: self._all_waiting())
        views.topologies.add_handler(lambda _: self._all_waiting())
        views.features.on_trees(lambda _: self._all_waiting())
        views.checks.add_handler(lambda _: self._all_waiting())
        views.cohorts.add_handler(lambda _: self._all_waiting())
        views.namespaces.add_handler(lambda _: self._all_waiting())
        views.runtime_classes.add_handler(lambda _: self._all_waiting())
        views.features.on_amounts(lambda changed: self._add(changed.workloads))
        views.workload_priorities.add_handler(self._class_changed)

    async def run(self) -> None:
        """Runs until cancelled."""
        await self._reconciler.run()

    # ---- watch handlers

    def _workload_changed(self, change: Change[Workload]) -> None:
        # One that is gone is queued too: that ends the timer of the day on which it would have been deleted.
        if change.type is ChangeType.DELETED or not self._settled(change.object):
            self._reconciler.add(change.key)

    def _local_queue_changed(self, change: Change[LocalQueue]) -> None:
        if change.old is None or change.type is ChangeType.DELETED or change.old.spec != change.object.spec:
            self._add(self._views.workloads.by_index(BY_QUEUE, change.key))

    def _cluster_queue_changed(self, change: Change[ClusterQueue]) -> None:
        if change.old is not None and change.type is not ChangeType.DELETED and change.old.spec == change.object.spec:
            return
        for local in self._views.local_queues.by_index(BY_CLUSTER_QUEUE, change.key):
            self._add(self._views.workloads.by_index(BY_QUEUE, local.key))

    def _class_changed(self, change: Change[WorkloadPriorityClass]) -> None:
        """Queues the class's Workloads for its new value; Workloads of a deleted class keep theirs."""
        if change.type is ChangeType.DELETED or (change.old is not None and change.old.value == change.object.value):
            return
        name, value = change.key, change.object.value
        self._revaluing.add_where(
            name, self._views.workloads.objects, lambda w: _class_of(w) == name and w.spec.priority != value
        )

    def _revalue_later(self, key: str) -> None:
        self._revalued.add(key)
        self._reconciler.add(key)

    def _all_waiting(self) -> None:
        self._scan("waiting", lambda w: not is_true(w.status.conditions, QUOTA_RESERVED))

    def _add(self, workloads: Iterable[Workload]) -> None:
        self._rounds.add(workload.key for workload in workloads)

    def again(self, key: str) -> None:
        """Reconciles the Workload again, unless nothing remains to be done."""
        workload = self._views.workloads.objects.get(key)
        if workload is not None and not self._settled(workload):
            self._reconciler.add(key)

    def kinds_changed(self) -> None:
        """Reconciles every Workload with an owner, after a change of the managed job kinds."""
        self._scan("kinds", lambda w: bool(w.metadata.owner_references))

    def _scan(self, name: str, concerned: Callable[[Workload], bool]) -> None:
        self._rounds.add_where(name, self._views.workloads.objects, concerned)

    def _settled(self, workload: Workload) -> bool:
        """Reports whether nothing remains to be done: finished, kept forever, and not being deleted."""
        over = is_true(workload.status.conditions, FINISHED) and not workload.metadata.deletion_timestamp
        return over and self._rules.finished_kept is None

    # ---- one Workload

    async def _reconcile(self, key: str) -> float | None:
        workload = self._views.workloads.objects.get(key)
        if workload is None:
            self._revalued.discard(key)
            return None
        workload = await self._revalue(workload)
        owned = is_ours(workload)
        if lifecycle.may_let_go(workload, self._rules, owned=owned):
            await self._writer.let_go(workload)
            return None
        context = self._views.context(workload, self._validation_error(workload), self._decided(key))
        result = lifecycle.step(workload, context, self._now(), self._rules)
        if result.delete:
            await self._writer.delete(workload, result)
            return None
        workload = await self._writer.write(workload, result, owned=owned)
        if result.deactivate:
            await self._writer.deactivate(workload)
        return result.again_in

    async def _revalue(self, workload: Workload) -> Workload:
        """Gives the Workload its WorkloadPriorityClass's value, once after each change of the class.

        It is not enforced at every reconcile, since users who may write Workloads may set a priority, as in Kueue.
        """
        if workload.key not in self._revalued:
            return workload
        priority_class = self._views.workload_priorities.objects.get(_class_of(workload) or "")
        over = is_true(workload.status.conditions, FINISHED)
        if priority_class is not None and priority_class.value != workload.spec.priority and not over:
            workload = await self._writer.change(workload, {"priority": priority_class.value})
        self._revalued.discard(workload.key)
        return workload


def _class_of(workload: Workload) -> str | None:
    """Returns the WorkloadPriorityClass that sets the priority, or None."""
    ref = workload.spec.priority_class_ref
    return ref.name if ref is not None and ref.group == GROUP else None
