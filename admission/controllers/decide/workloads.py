"""Reconciles Workloads: computes each Workload's next status with `lifecycle.step` and writes it.

A Workload is reconciled when it changes, when its admission context changes, and when time passes. For Workloads without a
managed owner, which no job controller handles, it also removes the finalizer when they are deleted and the reservation when
they are evicted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from admission import metrics
from admission.controllers.state import conditions, lifecycle, unsupported_fields
from admission.controllers.state.waiting_pods import only_pod, reason_of_wait
from admission.controllers.watch.cluster_view import BY_CLUSTER_QUEUE, BY_QUEUE, Views
from admission.controllers.watch.rounds import Rounds
from admission.controllers.write.evictor import Evictor
from admission.controllers.write.status import patch_status
from admission.engine.reasons import Reason
from admission.integrations.owners import is_ours
from api.errors import Conflict, NotFound
from api.kube.client import Kube, PatchKind
from api.kube.events import EventRecorder, ref_to
from api.kube.informers.store import Change, ChangeType
from api.kube.reconcile import Reconciler
from api.kube.resources import WORKLOADS
from api.meta import find_condition, is_true, parse_time
from api.names import ADMITTED, EVICTED, FINISHED, GROUP, IN_USE_FINALIZER, QUOTA_RESERVED
from api.queues import ClusterQueue, LocalQueue, WorkloadPriorityClass
from api.reading import read_workload
from api.workloads import Workload

log = logging.getLogger(__name__)


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
        self._kube, self._views, self._recorder, self._validation_error, self._now = (
            kube,
            views,
            recorder,
            validation_error,
            now,
        )
        self._rules, self._decided = rules or lifecycle.LifecycleRules(), decided
        self._evictor = Evictor(kube, views, recorder, now)
        self._reconciler = Reconciler("workloads", self._reconcile, workers=workers)
        self._revalued: set[str] = set()
        self._rounds = Rounds("workloads", self.again, in_steps=True)
        self._revaluing = Rounds("workloads", self._revalue_later, in_steps=True)
        views.workloads.add_handler(self._workload_changed)
        views.local_queues.add_handler(self._local_queue_changed)
        views.cluster_queues.add_handler(self._cluster_queue_changed)
        views.flavors.add_handler(lambda _: self._all_waiting())
        views.topologies.add_handler(lambda _: self._all_waiting())
        views.trees.add_handler(lambda _: self._all_waiting())
        views.checks.add_handler(lambda _: self._all_waiting())
        views.cohorts.add_handler(lambda _: self._all_waiting())
        views.namespaces.add_handler(lambda _: self._all_waiting())
        views.runtime_classes.add_handler(lambda _: self._all_waiting())
        views.volumes.add_handler(self._add)
        views.devices.add_handler(lambda changed: self._add(changed.workloads))
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
            await self._let_go(workload)
            return None
        context = self._views.context(workload, self._validation_error(workload), self._decided(key))
        result = lifecycle.step(workload, context, self._now(), self._rules)
        if result.delete:
            await self._delete(workload, result)
            return None
        workload = await self._write(workload, result, owned=owned)
        if result.deactivate:
            await self._deactivate(workload)
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
            meta = workload.metadata
            body = {"metadata": {"resourceVersion": meta.resource_version}, "spec": {"priority": priority_class.value}}
            workload = await self._kube.patch(
                WORKLOADS, meta.name, body, meta.namespace, kind=PatchKind.MERGE, decode=read_workload
            )
            self._views.workloads.observe(workload)
        self._revalued.discard(workload.key)
        return workload

    async def _write(self, workload: Workload, result: lifecycle.LifecycleStep, *, owned: bool) -> Workload:
        status = result.status
        if is_true(status.conditions, EVICTED) and is_true(status.conditions, QUOTA_RESERVED) and not owned:
            status = conditions.released(status, self._now(), workload.metadata.generation)
        fields = unsupported_fields.of_workload(workload)
        noted = unsupported_fields.noted(status.conditions, fields, workload.metadata.generation, self._now())
        if noted is not status.conditions:
            status = status.model_copy(update={"conditions": noted})
        if status is workload.status:
            return workload
        if result.eviction is not None:
            answer = await self._evictor.write(workload, status, result.eviction)
        else:
            answer = await patch_status(self._kube, workload, status)
            self._views.workloads.observe(answer)
        self._record_events(workload, answer, result)
        return answer

    def _record_events(self, before: Workload, after: Workload, result: lifecycle.LifecycleStep) -> None:
        about = ref_to(WORKLOADS, after)
        for event in result.events:
            self._recorder.record(about, event.type, event.reason, event.message)
        self._tell_pod(before, after)
        admission = after.status.admission
        if (
            admission is None
            or is_true(before.status.conditions, ADMITTED)
            or not is_true(after.status.conditions, ADMITTED)
        ):
            return
        reserved, ref = find_condition(after.status.conditions, QUOTA_RESERVED), after.spec.priority_class_ref
        waited = self._now() - (parse_time(reserved.last_transition_time if reserved else None) or self._now())
        text = (
            f"Admitted by ClusterQueue {admission.cluster_queue}, wait time since reservation was {max(0, waited):.0f}s"
        )
        self._recorder.record(about, "Normal", "Admitted", text)
        metrics.ADMITTED.labels(admission.cluster_queue, ref.name if ref else "").inc()

    def _tell_pod(self, before: Workload, after: Workload) -> None:
        """Records on a pod that queues by itself what keeps its Workload out of the cycles."""
        waits, pod = find_condition(after.status.conditions, QUOTA_RESERVED), only_pod(after)
        reason = reason_of_wait(after)
        if pod is None or waits is None or reason in (None, reason_of_wait(before), Reason.PENDING_EVALUATION):
            return
        self._recorder.record(pod, "Warning", waits.reason, waits.message)

    async def _deactivate(self, workload: Workload) -> None:
        """Deactivates the Workload; its eviction follows once the change is observed."""
        meta = workload.metadata
        body = {"metadata": {"resourceVersion": meta.resource_version}, "spec": {"active": False}}
        answer = await self._kube.patch(
            WORKLOADS, meta.name, body, meta.namespace, kind=PatchKind.MERGE, decode=read_workload
        )
        self._views.workloads.observe(answer)

    async def _delete(self, workload: Workload, result: lifecycle.LifecycleStep) -> None:
        meta = workload.metadata
        try:
            await self._kube.delete(WORKLOADS, meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):
            log.debug("already gone", extra={"workload": workload.key})
            return
        for event in result.events:
            self._recorder.record(ref_to(WORKLOADS, workload), event.type, event.reason, event.message)

    async def _let_go(self, workload: Workload) -> None:
        finalizers = [name for name in workload.metadata.finalizers if name != IN_USE_FINALIZER]
        if len(finalizers) == len(workload.metadata.finalizers):
            return
        meta = workload.metadata
        body = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": finalizers}}
        try:
            await self._kube.patch(WORKLOADS, meta.name, body, meta.namespace, kind=PatchKind.MERGE)
        except NotFound:
            log.debug("already gone", extra={"workload": workload.key})


def _class_of(workload: Workload) -> str | None:
    """Returns the WorkloadPriorityClass that sets the priority, or None."""
    ref = workload.spec.priority_class_ref
    return ref.name if ref is not None and ref.group == GROUP else None
