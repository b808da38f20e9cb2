"""The controller of sets (StatefulSet, LeaderWorkerSet): reconciles their Workloads and labels their pods.

It watches, asks `setplan` for the due actions and performs them; it decides nothing itself. The reconciler's keys are sets
(`framework:ns/name`), and no key is reconciled by two workers at once; changes of a set's pods are collected. assembly.py
builds the controller, which runs on the leader only. The pod controller starts and ends the pods.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from admission.controllers.jobs.context import JobContext
from admission.controllers.jobs.controller_context import ControllerContext
from admission.controllers.jobs.orphans import is_gone
from admission.controllers.jobs.plan.workload import is_managed
from admission.controllers.pods.pod_indexes import PodView
from admission.controllers.pods.sets.orphaned_pods import is_left_behind
from admission.controllers.pods.sets.pods_without_group import PodsWithoutGroup
from admission.controllers.pods.sets.setactions import JoinPod, SetPlan
from admission.controllers.pods.sets.setplan import plan_gone, plan_set
from admission.controllers.state.actions import PlannedEvent
from admission.controllers.state.condition_table import Writer
from admission.controllers.watch.caches import (
    ExpectedWorkloads,
    InformerView,
    MutationCache,
    file_owned,
    job_key,
    job_keys,
    owner_key,
    owner_uid,
)
from admission.controllers.watch.rounds import Rounds
from admission.controllers.write.workload_writer import CONFLICT_RETRY, WorkloadWriter, attempt, record_events
from admission.integrations.pods.pod import QueuedPod, QueuedPodReader
from admission.integrations.sets.sets import SETS, SetKind, kind_of
from api.errors import Conflict, NotFound
from api.kube.client import PatchKind
from api.kube.events import ObjectRef, ref_to
from api.kube.informers.store import Change, ChangeType
from api.kube.reconcile import Reconciler
from api.kube.resources import PODS
from api.meta import object_key
from api.names import POD_SUSPENDING_PARENT, SET_NAME
from api.workloads import Workload

log = logging.getLogger(__name__)

BY_SET: Final = "set"
SYNC_TIMEOUT: Final = 120.0
EXPECTATION: Final = 5.0
BATCH: Final = 0.1
"""Seconds for which changes of a set's pods are collected."""
ORPHAN_GRACE: Final = 1.0
_UNLISTED: Final = 1.0


class SetController:
    """Reconciles sets. `sets` holds an informer view per framework; `views`, those of Workloads and priority classes.

    `at_once` bounds concurrent writes of pods.
    """

    def __init__(
        self,
        context: ControllerContext,
        sets: Mapping[str, InformerView[dict[str, Any]]],
        pods: PodView,
        *,
        workers: int = 4,
        at_once: int = 32,
    ) -> None:
        kube, views, wall = context.kube, context.views, context.wall
        self._kube, self._recorder, self._wall = kube, context.recorder, wall
        self._kinds: dict[str, SetKind] = {kind.framework: kind for kind in SETS if kind.framework in sets}
        self._frameworks = {(k.resource.group, k.resource.kind): f for f, k in self._kinds.items()}
        self._sets, self._pods, self._workloads = dict(sets), pods, views.workloads
        self._workload_classes, self._priority_classes = views.workload_priorities, views.priorities
        self._options = context.options
        self._latest: MutationCache[Workload] = MutationCache()
        self._expected = ExpectedWorkloads(EXPECTATION, wall)
        self._writer = WorkloadWriter(kube, self._latest, self._expected, Writer.SETS)
        self._read = QueuedPodReader(self._options.label_keys_to_copy, self._options.annotation_keys_to_copy)
        self._slots = asyncio.Semaphore(at_once)
        self._reported_events: dict[str, tuple[PlannedEvent, ...]] = {}
        self._missing_classes: set[str] = set()
        self._missing: dict[str, float] = {}
        self.queue = Reconciler("sets", self.reconcile, workers=workers)
        self._rounds = Rounds("sets", self.queue.add, in_steps=True)
        self._without_group = PodsWithoutGroup(
            pods, self._kinds, self._sets, self._recorder, lambda obj: is_managed(obj, self._context())
        )
        self._subscribe()

    async def run(self) -> None:
        """Runs until cancelled, once the views have synced; their informers run elsewhere."""
        views: list[InformerView[Any]] = [self._pods, self._workloads, self._workload_classes, self._priority_classes]
        for view in (*views, *tuple(self._sets.values())):
            await view.synced(SYNC_TIMEOUT)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.queue.run(), name="sets")
            group.create_task(self._without_group.queue.run(), name="pods without a set")

    # ---- watch handlers

    def _subscribe(self) -> None:
        self._pods.add_index(BY_SET, self._pod_keys)
        self._pods.add_handler(self._pod_changed)
        self._workloads.add_index(BY_SET, self._workload_keys)
        self._workloads.add_handler(self._workload_changed)
        for framework, view in self._sets.items():
            view.add_handler(self._set_handler(framework))
        self._workload_classes.add_handler(self._class_changed)
        self._priority_classes.add_handler(self._class_changed)

    def _pod_keys(self, pod: QueuedPod) -> Iterable[str]:
        """Returns the keys from the pod itself, since its kind may be declared after it was created."""
        kind, framework = kind_of(pod), pod.annotations.get(POD_SUSPENDING_PARENT, "")
        name = pod.annotations.get(SET_NAME) if kind is None else kind.set_of(pod)
        return (job_key(framework, object_key(pod.metadata.namespace, name)),) if framework and name else ()

    def _workload_keys(self, workload: Workload) -> Iterable[str]:
        key = owner_key(workload, self._frameworks)
        return (key,) if key else ()

    async def add_kind(self, kind: SetKind, view: InformerView[dict[str, Any]]) -> None:
        """Adds a kind, also for its objects that already have Workloads and pods. The informer runs elsewhere, from then on:
        a set that is seen before its Workloads are indexed would be taken for one without.
        """
        framework, resource = kind.framework, kind.resource
        self._frameworks[resource.group, resource.kind] = framework
        owners = await file_owned(self._workloads, BY_SET, self._frameworks, framework)
        self._kinds[framework], self._sets[framework] = kind, view
        view.add_handler(self._set_handler(framework))
        self._rounds.add(owners)

    def remove_kind(self, kind: SetKind) -> None:
        """Removes a kind: its objects are no longer managed. Running pods keep running, waiting pods keep waiting.

        Its Workloads stay indexed by their sets, for which nobody asks; each leaves the index with its next change.
        """
        for known in (self._kinds, self._sets):
            known.pop(kind.framework, None)
        self._frameworks.pop((kind.resource.group, kind.resource.kind), None)

    def _pod_changed(self, change: Change[QueuedPod]) -> None:
        for key in self._pod_keys(change.object):
            self.queue.add_after(key, BATCH)
        self._without_group.changed(change.object)

    def _workload_changed(self, change: Change[Workload]) -> None:
        if change.type is ChangeType.DELETED:
            self._latest.forget(change.key, change.object)
        self._expected.seen(change.key, change.key)
        for key in self._workload_keys(change.object):
            self.queue.add(key)

    def _set_handler(self, framework: str) -> Callable[[Change[dict[str, Any]]], None]:
        return lambda change: self.queue.add(job_key(framework, change.key))

    def _class_changed(self, change: Change[Any]) -> None:
        if change.type is ChangeType.ADDED:
            waiting, self._missing_classes = self._missing_classes, set()
            for key in waiting:
                self.queue.add(key)

    def namespace_changed(self, name: str) -> None:
        """Requeues a namespace's sets after its creation or a change of its labels."""
        self._rounds.add_found(name, lambda: job_keys(self._sets, name))

    # ---- one set

    async def reconcile(self, key: str) -> float | None:
        """Performs the set's next actions; returns the seconds until it must be reconciled again, or None."""
        framework, _, name = key.partition(":")
        if framework not in self._kinds:
            return None
        if not self._sets[framework].has_synced or not self._pods.has_synced:
            return _UNLISTED
        obj = self._sets[framework].objects.get(name)
        uid = obj["metadata"].get("uid", "") if obj else ""
        owned = [self._latest.of(w.key, w) for w in self._workloads.by_index(BY_SET, key)]
        pods = self._pods.by_index(BY_SET, key)
        strays = await self._without_set(key, [w for w in owned if owner_uid(w) != uid or obj is None], pods)
        if obj is None:
            self._reported_events.pop(key, None)
            self._missing_classes.discard(key)
            return strays
        mine = [w for w in owned if owner_uid(w) == uid]
        again = await self._with_set(key, obj, mine, pods)
        return min((seconds for seconds in (strays, again) if seconds is not None), default=None)

    async def _with_set(
        self, key: str, obj: dict[str, Any], workloads: Sequence[Workload], pods: Sequence[QueuedPod]
    ) -> float | None:
        kind = self._kinds[key.partition(":")[0]]
        namespace = obj["metadata"].get("namespace")

        def is_made(name: str) -> bool:
            return self._expected.remaining(object_key(namespace, name)) is not None

        behind = self._left_behind(pods)
        made = plan_set(kind, obj, workloads, pods, self._context(), self._wall(), is_made, behind)
        if made.events != self._reported_events.get(key, ()):
            record_events(self._recorder, ref_to(kind.resource, obj), made.events)
            self._reported_events[key] = made.events
        if any(event.reason.endswith("PriorityClassNotFound") for event in made.events):
            self._missing_classes.add(key)
        return await self._perform(ref_to(kind.resource, obj), key, made)

    def _left_behind(self, pods: Iterable[QueuedPod]) -> list[Workload]:
        keys = sorted({object_key(pod.metadata.namespace, pod.group) for pod in pods if pod.group})
        workloads = (self._latest.of(key, w) for key in keys if (w := self._workloads.objects.get(key)) is not None)
        return [workload for workload in workloads if is_left_behind(workload)]

    def _context(self) -> JobContext:
        return JobContext(
            workload_priority_classes=self._workload_classes.objects,
            priority_classes=self._priority_classes.objects,
            workloads=self._workloads.objects,
            options=self._options,
        )

    async def _without_set(self, key: str, workloads: Sequence[Workload], pods: Sequence[QueuedPod]) -> float | None:
        """Finishes Workloads once their set is certainly gone; releases those that are being deleted."""
        if not workloads:
            self._missing.pop(key, None)
            return None
        since = self._missing.setdefault(key, self._wall())
        if self._wall() - since < ORPHAN_GRACE:
            return ORPHAN_GRACE
        gone = [w for w in workloads if w.metadata.deletion_timestamp or await self._is_gone(key, owner_uid(w))]
        return await self._perform(None, key, plan_gone(gone, pods, self._wall(), self._options))

    async def _is_gone(self, key: str, uid: str) -> bool:
        framework, _, name = key.partition(":")
        return await is_gone(self._kube, self._kinds[framework].resource, name, uid)

    # ---- perform

    async def _perform(self, ref: ObjectRef | None, key: str, plan: SetPlan) -> float | None:
        if plan.note:
            log.info("set held up", extra={"set": key, "why": plan.note})
        for action in plan.workloads():
            work = self._writer.perform(action.workload.key, action)
            if not await attempt(self._recorder, key, ref, action, work):
                return CONFLICT_RETRY
        joined = await asyncio.gather(*(self._join(key, each) for each in plan.joins()))
        return plan.again_in if all(joined) else CONFLICT_RETRY

    async def _join(self, key: str, action: JoinPod) -> bool:
        meta = action.pod.metadata
        async with self._slots:
            try:
                answer = await self._kube.patch(
                    PODS,
                    meta.name,
                    action.patch,
                    meta.namespace,
                    kind=PatchKind.STRATEGIC,
                    repeatable=True,
                    decode=self._read,
                )
            except (Conflict, NotFound) as error:
                log.debug("changed meanwhile", extra={"set": key, "error": str(error)})
                return False
        self._pods.observe(answer)
        return True
