"""The pod controller: reconciles single pods and groups of pods with their Workloads.

It watches, asks `pod_plan` for the due actions and has them performed; it decides nothing. The reconciler's keys are units
(`pod:ns/name`, `group:ns/name`), and no key is reconciled by two workers at once. Pods of a group are created one by one: an
incomplete group is reconciled at most once per second, and later changes of its pods are collected for a time that grows with
their number, so the cost of a group of n pods is O(n) instead of O(n^2). A gang of one pod takes one reconcile to create its
Workload, one to start it, and one for all later steps of its pod (predicates.py). assembly.py builds the controller, which
runs on the leader only.
"""

from __future__ import annotations

import contextlib
import logging
from collections import ChainMap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from admission.controllers.jobs.context import JobContext
from admission.controllers.jobs.controller_context import ControllerContext
from admission.controllers.jobs.predicates import has_turned
from admission.controllers.pods.actions import PodGroupPlan
from admission.controllers.pods.executor import PodExecutor
from admission.controllers.pods.gang_plan import plan_gang
from admission.controllers.pods.gangs.gang import is_gang
from admission.controllers.pods.gangs.gang_events import GangMessages, reason_of
from admission.controllers.pods.gangs.podgroups import PodGroups
from admission.controllers.pods.pod_indexes import (
    BY_GROUP,
    BY_POD,
    BY_PREBUILT,
    BY_SLICE,
    GROUP,
    POD,
    PodsBeingDeleted,
    PodView,
    group_keys,
    keys_of,
    pod_keys,
    prebuilt_keys,
    slice_keys,
    unit_key,
)
from admission.controllers.pods.pod_plan import plan, plan_gone
from admission.controllers.pods.predicates import is_creation, is_irrelevant, is_pod_progress
from admission.controllers.pods.sets.set_slices import acting
from admission.controllers.pods.workload_updates import with_reason
from admission.controllers.state.actions import PlannedEvent
from admission.controllers.state.condition_table import Writer
from admission.controllers.watch.caches import (
    ExpectedWorkloads,
    InformerView,
    MutationCache,
    owner_uid,
)
from admission.controllers.watch.rounds import Rounds, steps_over
from admission.controllers.write.workload_writer import WorkloadWriter
from admission.integrations.pods.gang import from_text
from admission.integrations.pods.pod import QueuedPod, QueuedPodReader
from admission.integrations.pods.podgroup import PodUnit, UnlikePods
from api.annotations.requests import parse_int32
from api.errors import NotFound
from api.kube.events import ref_to
from api.kube.informers.store import Change, ChangeType
from api.kube.reconcile import Reconciler
from api.kube.resources import PODS
from api.meta import is_true, split_key
from api.names import ADMITTED, EVICTED, GANG_MEMBER, GANG_TERMS, POD_GROUP_TOTAL_COUNT, PodsHeldReason
from api.workloads import Workload

log = logging.getLogger(__name__)

SYNC_TIMEOUT: Final = 120.0
# A pod that merely has not reached the informer must not lose its Workload.
ORPHAN_GRACE: Final = 1.0
EXPECTATION: Final = 5.0
INCOMPLETE: Final = 1.0
"""Minimum seconds between two reconciles of a group whose pods are still being created."""
BATCH: Final = 0.1
"""Minimum seconds for which changes of a group's pods are collected."""
ON_ITS_WAY: Final = 5.0
"""Seconds for which progress of started pods is collected, since it requires no action (predicates.py)."""
_LOOKED_AT_A_SECOND: Final = 10_000.0
"""Reconciles a group of n pods at most every n / 10,000 seconds."""
_OWNER_REQUESTS: Final = 8
_UNLISTED: Final = 1.0


class PodController:
    """Reconciles units of pods. `views` are those of Workloads, flavors and priority classes.

    `at_once` bounds the concurrent writes of one unit; `claim_problem` is as in JobContext.
    """

    def __init__(
        self,
        context: ControllerContext,
        pods: PodView,
        *,
        gangs: PodGroups | None = None,
        claim_problem: Callable[[str], str | None] = lambda key: None,
        workers: int = 16,
        at_once: int = 32,
    ) -> None:
        kube, views, wall = context.kube, context.views, context.wall
        self._kube, self._wall = kube, wall
        self._pods, self._workloads, self._flavors = pods, views.workloads, views.flavors
        self._workload_classes, self._priority_classes = views.workload_priorities, views.priorities
        self._gangs, self._claim_problem = gangs or PodGroups({}), claim_problem
        self._options = context.options
        self._latest: MutationCache[Workload] = MutationCache()
        self._expected = ExpectedWorkloads(EXPECTATION, wall)
        self._going = PodsBeingDeleted()
        writer = WorkloadWriter(kube, self._latest, self._expected, Writer.PODS)
        self._read = read = QueuedPodReader(self._options.label_keys_to_copy, self._options.annotation_keys_to_copy)
        self._act = PodExecutor(kube, context.recorder, pods, self._going, writer, wall, at_once, read)
        self._reported_events: dict[str, tuple[PlannedEvent, ...]] = {}
        self._gang_messages = GangMessages()
        self._missing: dict[str, float] = {}
        self._held_up: set[str] = set()  # units that wait until the informer shows their new Workload
        self._missing_classes: set[str] = set()
        self._managed: dict[str, bool] = {}
        self.queue = Reconciler("pods", self.reconcile, workers=workers)
        self._rounds = Rounds("pods", self.queue.add, in_steps=True)
        self._subscribe()

    async def run(self) -> None:
        """Runs until cancelled, once the views have synced; their informers run elsewhere."""
        views: list[InformerView[Any]] = [
            self._pods,
            self._workloads,
            self._flavors,
            self._workload_classes,
            self._priority_classes,
        ]
        for view in views:
            await view.synced(SYNC_TIMEOUT)
        await self._gangs.synced(SYNC_TIMEOUT)
        await self.queue.run()

    # ---- watch handlers

    def _subscribe(self) -> None:
        self._pods.add_index(BY_GROUP, group_keys)
        self._pods.add_index(BY_PREBUILT, prebuilt_keys)
        self._pods.add_handler(self._pod_changed)
        self._workloads.add_index(BY_POD, pod_keys)
        self._workloads.add_index(BY_SLICE, slice_keys)
        self._workloads.add_handler(self._workload_changed)
        self._workload_classes.add_handler(self._class_changed)
        self._priority_classes.add_handler(self._class_changed)
        self._gangs.add_handler(self._gang_changed)

    def _pod_changed(self, change: Change[QueuedPod]) -> None:
        pod, key = change.object, unit_key(change.object)
        if change.type is ChangeType.DELETED or pod.deleted:
            self._going.seen(pod)
        if key is None or is_irrelevant(change):
            return
        ours = pod.metadata.uid in self._act.starting
        step = not self._options.wait_for_pods_ready and is_pod_progress(change, ours=ours) and self._is_admitted(key)
        if not pod.group:
            if pod.terminated or change.type is ChangeType.DELETED:
                self.queue.add(key, urgent=True)  # releases quota, for which others wait
            else:
                self.queue.add_after(key, ON_ITS_WAY if step else 0.0)
            return
        count = self._pods.count(BY_GROUP, key.partition(":")[2])
        wait = ON_ITS_WAY if step else INCOMPLETE if self._is_short(pod, key, count) else BATCH
        self.queue.add_after(key, max(wait, count / _LOOKED_AT_A_SECOND))

    def _gang_changed(self, name: str) -> None:
        key = f"{GROUP}:{name}"
        if self._pods.count(BY_GROUP, name):
            self.queue.add_after(key, INCOMPLETE if self._is_admitted(key) else BATCH)

    def _is_admitted(self, key: str) -> bool:
        """Reports whether the unit is admitted and not evicted."""
        kind, _, name = key.partition(":")
        if kind == GROUP:
            workloads = [self._workloads.objects[name]] if name in self._workloads.objects else []
        else:
            workloads = self._workloads.by_index(BY_POD, name)
        states = [workload.status.conditions for workload in workloads]
        return bool(states) and all(is_true(each, ADMITTED) and not is_true(each, EVICTED) for each in states)

    def _is_short(self, pod: QueuedPod, key: str, count: int) -> bool:
        """Reports whether the group has no Workload and more pods are to be created."""
        name = key.partition(":")[2]
        gang = from_text(pod.annotations.get(GANG_TERMS))
        if gang is not None:
            total = gang.minimum or self._gangs.minimum(name)
        else:
            total = parse_int32(pod.annotations.get(POD_GROUP_TOTAL_COUNT, ""))
        total = total or 0
        return count < total and name not in self._workloads.objects

    def _workload_changed(self, change: Change[Workload]) -> None:
        if change.type is ChangeType.DELETED:
            self._latest.forget(change.key, change.object)
        self._gangs.remember(change.object)
        keys = keys_of(change.object)
        group = next(iter(slice_keys(change.object)), change.key)
        if not keys and self._pods.count(BY_GROUP, group):
            keys = [f"{GROUP}:{group}"]
        if not keys:
            keys = [f"{POD}:{pod.key}" for pod in self._pods.by_index(BY_PREBUILT, change.key)]
        for key in (*keys, *self._gangs_of_late_joiners(keys)):
            made = change.key in self._act.making or self._expected.remaining(key) is not None
            self._expected.seen(key, change.key)
            if made and is_creation(change) and key not in self._held_up:
                self.queue.add_after(key, ON_ITS_WAY)
            else:
                self.queue.add(key, urgent=has_turned(change))

    def _gangs_of_late_joiners(self, keys: Sequence[str]) -> list[str]:
        """Returns the gangs that late joiners with Workloads of their own belong to."""
        pods = (self._pods.objects.get(key.partition(":")[2]) for key in keys if key.startswith(f"{POD}:"))
        return [key for pod in pods if pod is not None and pod.group and (key := unit_key(pod)) is not None]

    def _class_changed(self, change: Change[Any]) -> None:
        if change.type is ChangeType.ADDED:
            waiting, self._missing_classes = self._missing_classes, set()
            for key in waiting:
                self.queue.add(key)

    def namespace_changed(self, name: str, *, exists: bool = True) -> None:
        """Requeues a namespace's pods if its creation or new labels changed whether Stowage manages it."""
        managed, before = self._options.namespace_managed(name), self._managed.pop(name, None)
        if exists:
            self._managed[name] = managed
        if managed is before:
            return
        self._rounds.add_found(name, lambda: self._in_namespace(name))

    def _in_namespace(self, name: str) -> Iterator[str | None]:
        for key, pod in steps_over(self._pods.objects):
            yield unit_key(pod) if split_key(key)[0] == name else None

    # ---- one unit

    async def reconcile(self, key: str) -> float | None:
        """Performs the unit's next actions; returns the seconds until it must be reconciled again, or None."""
        if not self._pods.has_synced:
            return _UNLISTED  # until then, a pod missing from the view may still exist
        pods, workloads, strays = self._members_and_workloads(key)
        if not pods:
            self._forget(key)
        again = await self._plan_without_pods(key, strays)
        if pods:
            mine = await self._with_pods(key, pods, workloads)
            again = min((seconds for seconds in (again, mine) if seconds is not None), default=None)
        return again

    def _forget(self, key: str) -> None:
        """Drops the memory of a unit whose pods are gone."""
        self._reported_events.pop(key, None)
        self._gang_messages.forget(key)
        self._held_up.discard(key)
        self._missing_classes.discard(key)

    def _members_and_workloads(self, key: str) -> tuple[list[QueuedPod], list[Workload], list[Workload]]:
        """Returns the unit's pods, its Workloads, and Workloads whose pods do not exist."""
        kind, _, name = key.partition(":")
        if kind == GROUP:
            pods = self._pods.by_index(BY_GROUP, name)
            copy = self._workloads.objects.get(name)
            of_pod = [self._latest.of(name, copy)] if copy else []
            return (self._going.applied(pods), of_pod, []) if pods else ([], [], _of_pods(of_pod))
        pod = self._pods.objects.get(name)
        workloads = [self._latest.of(w.key, w) for w in self._workloads.by_index(BY_POD, name)]
        if pod is None or unit_key(pod) != key:
            return [], [], workloads if pod is None else []
        uid = pod.metadata.uid
        mine = [w for w in workloads if owner_uid(w) == uid]
        return self._going.applied([pod]), mine, [w for w in workloads if owner_uid(w) != uid]

    async def _with_pods(self, key: str, pods: list[QueuedPod], workloads: list[Workload]) -> float | None:
        waiting = None if workloads else self._expected.remaining(key)
        if waiting is not None:
            self._held_up.add(key)
            return waiting
        self._held_up.discard(key)
        unit = PodUnit.of(pods)
        planned = self._plan(key, unit, workloads)
        if planned.confirm:
            unit = await self._read_again(key, unit)
            planned = self._plan(key, unit, workloads)
        made = with_reason(planned, workloads, self._wall())
        if made.events != self._reported_events.get(key, ()):
            for event in made.events:
                for pod in unit.pods if event.each_pod else (unit.first,):
                    self._act.record(ref_to(PODS, pod), (event,))
            self._reported_events[key] = made.events
        if any(event.reason.endswith("PriorityClassNotFound") for event in made.events):
            self._missing_classes.add(key)
        again = await self._act.perform(key, unit.first, made)
        later = self._record_gang_events(key, unit, workloads, made) if is_gang(unit.pods) else None
        return min((seconds for seconds in (again, later) if seconds is not None), default=None)

    async def _read_again(self, key: str, unit: PodUnit) -> PodUnit:
        """Returns the gang with its pods as the API server has them now."""
        page = await self._kube.list_raw(PODS, unit.namespace, label_selector=f"{GANG_MEMBER}=true")
        known = {pod.metadata.uid for pod in unit.pods}
        for raw in page.items:
            with contextlib.suppress(
                msgspec.MsgspecError, ValueError
            ):  # an unreadable pod is not in the informer either
                pod = self._read(bytes(raw))
                if pod.metadata.uid in known:
                    self._pods.observe(pod)
        pods, _, _ = self._members_and_workloads(key)
        return PodUnit.of(pods) if pods else unit

    def _record_gang_events(
        self, key: str, unit: PodUnit, workloads: Sequence[Workload], plan: PodGroupPlan
    ) -> float | None:
        """Records events on waiting members with the reason of the wait."""
        gang = reason_of(workloads[0] if workloads else None, plan.note)
        reasons = {pod.key: gang for pod in unit.pods if pod.gated}
        for pod_key in reasons:
            for workload in self._workloads.by_index(BY_POD, pod_key):
                reasons[pod_key] = reason_of(self._latest.of(workload.key, workload), "") or gang
        events, again = self._gang_messages.due(key, unit.group, unit.pods, reasons, self._wall())
        for pod, event in events:
            self._act.record(ref_to(PODS, pod), (event,))
        return again

    def _plan(self, key: str, unit: PodUnit, workloads: list[Workload]) -> PodGroupPlan:
        now = self._wall()
        if not is_gang(unit.pods):
            return plan(unit, workloads, self._with_slices(key), now)
        try:
            terms = self._gangs.terms(key.partition(":")[2], unit.pods)
        except UnlikePods as unlike:
            return PodGroupPlan(
                events=(PlannedEvent(PodsHeldReason.UNLIKE_PODS, str(unlike), "Warning"),), note=str(unlike)
            )
        lates = {
            pod.key: [self._latest.of(w.key, w) for w in self._workloads.by_index(BY_POD, pod.key)] for pod in unit.pods
        }
        return plan_gang(unit, terms, workloads, lates, self._context(), now)

    def _with_slices(self, key: str) -> JobContext:
        """Returns the context of a gang.

        For a set in slices, its Workload under the group's name is the slice that the pods follow now.
        """
        context, name = self._context(), key.partition(":")[2]
        acts = acting([self._latest.of(w.key, w) for w in self._workloads.by_index(BY_SLICE, name)])
        return context if acts is None else replace(context, workloads=ChainMap({name: acts}, context.workloads))  # type: ignore[arg-type]

    def _context(self) -> JobContext:
        return JobContext(
            flavors=self._flavors.objects,
            workload_priority_classes=self._workload_classes.objects,
            priority_classes=self._priority_classes.objects,
            workloads=self._workloads.objects,
            options=self._options,
            claim_problem=self._claim_problem,
        )

    # ---- Workloads without pods

    async def _plan_without_pods(self, key: str, workloads: Sequence[Workload]) -> float | None:
        """Finishes Workloads once their pods are certainly gone; releases those that are being deleted."""
        if not workloads:
            self._missing.pop(key, None)
            return None
        since = self._missing.setdefault(key, self._wall())
        staying = [w for w in workloads if not w.metadata.deletion_timestamp]
        if staying and self._wall() - since < ORPHAN_GRACE:
            return ORPHAN_GRACE
        gone = [w for w in workloads if w.metadata.deletion_timestamp or not await self._has_owner(w)]
        self._missing.pop(key, None)
        made: PodGroupPlan = plan_gone(gone, self._wall(), self._options)
        again = await self._act.perform(key, None, made)
        return ORPHAN_GRACE if len(gone) < len(workloads) else again

    async def _has_owner(self, workload: Workload) -> bool:
        """Reports whether one of the Workload's pods exists; asks the API server for some of them only."""
        namespace = workload.metadata.namespace
        for owner in workload.metadata.owner_references[-_OWNER_REQUESTS:]:
            try:
                pod = await self._kube.get(PODS, owner.name, namespace)
            except NotFound:
                continue
            if pod["metadata"].get("uid", "") == owner.uid:
                return True
        return False


def _of_pods(workloads: Sequence[Workload]) -> list[Workload]:
    """Returns the Workloads of pod groups, without unrelated Workloads of the same name."""
    return [workload for workload in workloads if keys_of(workload)]
