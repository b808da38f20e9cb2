"""Performs a plan for pods through the API server and records its events.

Actions run in order, but adjacent actions on pods run concurrently, up to a limit. Patches of pods are conditional on the uid
only, so other writers (kube-scheduler, kubelet) never conflict. Answers are passed to the informer and deletions are
remembered, so the next plan sees both before the watch does.

A pod of a Job that Stowage deletes has not failed: it first loses the Job's tracking finalizer, as when the Job controller
deletes pods of a suspended Job. So it does not count against the Job's backoffLimit, and the Job, or the JobSet above it,
creates a replacement at once, which waits with its gang.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from admission.controllers.pods.actions import (
    Action,
    AdoptWorkload,
    DeletePod,
    PodAction,
    PodGroupPlan,
    ReleasePod,
    StartPod,
    StopPod,
)
from admission.controllers.pods.pod_indexes import PodsBeingDeleted, PodView
from admission.controllers.state.actions import CreateWorkload, PlannedEvent, WorkloadAction
from admission.controllers.write.workload_writer import CONFLICT_RETRY, Recorder, WorkloadWriter, attempt, record_events
from admission.integrations.pods.pod import QueuedPod, QueuedPodReader
from api.errors import Conflict, NotFound
from api.kube.client import Kube, PatchKind
from api.kube.events import ObjectRef, ref_to
from api.kube.metrics import GATE_REMOVAL
from api.kube.resources import PODS, WORKLOADS
from api.meta import rfc3339
from api.names import ADMISSION_GATE, JOB_TRACKING_FINALIZER, MANAGED_FINALIZER
from api.process import tracing

log = logging.getLogger(__name__)

_OnWorkload = AdoptWorkload | WorkloadAction
_Step = list[PodAction] | _OnWorkload

TERMINATION_TARGET: Final = "TerminationTarget"


class PodExecutor:
    """Performs plans of pods.

    `workloads` performs the actions on Workloads; `at_once` bounds concurrent writes of pods; `read` decodes the pods in
    answers.
    """

    def __init__(
        self,
        kube: Kube,
        recorder: Recorder,
        pods: PodView,
        going: PodsBeingDeleted,
        workloads: WorkloadWriter,
        wall: Callable[[], float],
        at_once: int = 32,
        read: QueuedPodReader | None = None,
    ) -> None:
        self._kube, self._recorder, self._pods, self._going = kube, recorder, pods, going
        self._workloads, self._wall = workloads, wall
        self._slots = asyncio.Semaphore(at_once)
        self._read = read or QueuedPodReader()
        self.starting: set[str] = set()
        """The uids of pods whose gates are being removed."""
        self.making: set[str] = set()
        """The keys of Workloads that are being created."""

    async def perform(self, key: str, first: QueuedPod | None, plan: PodGroupPlan) -> float | None:
        """Performs the plan; returns the seconds until the next one, or None. Raises ApiErrors other than conflicts.

        `first` is the pod on which events about the whole unit are recorded; None records none.
        """
        ref = ref_to(PODS, first) if first else None
        if plan.note:
            log.info("pods held up", extra={"pods": key, "why": plan.note})
        for step in _steps(plan.actions):
            if not await self._step(key, ref, step):
                return CONFLICT_RETRY
        return plan.again_in

    def record(self, ref: ObjectRef | None, events: Iterable[PlannedEvent]) -> None:
        """Records the events on the object."""
        record_events(self._recorder, ref, events)

    async def _step(self, key: str, ref: ObjectRef | None, step: _Step) -> bool:
        """Performs the step; returns False if a conflict prevented part of it."""
        if isinstance(step, list):
            return await self._perform_all(step)
        return await attempt(self._recorder, key, ref, step, self._perform_on_workload(key, step))

    async def _perform_on_workload(self, key: str, action: _OnWorkload) -> ObjectRef | None:
        """Performs the action; returns the object of its events if that is not the first pod."""
        if isinstance(action, AdoptWorkload):
            return ref_to(WORKLOADS, await self._workloads.patch(action.workload, action.patch))
        made = {action.workload.key} if isinstance(action, CreateWorkload) else set()
        self.making |= made
        try:
            await self._workloads.perform(key, action)
        finally:
            self.making -= made
        return None

    # ---- pods

    async def _perform_all(self, actions: Sequence[PodAction]) -> bool:
        """Performs all actions, even after a failure, and then raises the first failure."""
        began = self._wall()
        outcomes = await asyncio.gather(*(self._perform_one(action) for action in actions), return_exceptions=True)
        started = [
            action.admitted for action in actions if isinstance(action, StartPod) and action.admitted is not None
        ]
        if started:
            about: dict[str, tracing.Value] = {"stowage.workload": started[0].key, "stowage.pods": len(started)}
            tracing.record("start the pods", started[0].metadata, began, self._wall(), about)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return all(outcomes)

    async def _perform_one(self, action: PodAction) -> bool:
        async with self._slots:
            try:
                await self._perform_pod_action(action)
            except (Conflict, NotFound) as error:
                log.debug("changed meanwhile", extra={"pod": action.pod.key, "error": str(error)})
                return False
        self.record(ref_to(PODS, action.pod), action.events)
        return True

    async def _perform_pod_action(self, action: PodAction) -> None:
        pod = action.pod
        match action:
            case StartPod(patch=patch):
                self.starting.add(pod.metadata.uid)
                try:
                    await self._patch(pod, patch)
                finally:
                    self.starting.discard(pod.metadata.uid)
                removal = GATE_REMOVAL.labels(ADMISSION_GATE, action.cluster_queue, str(bool(pod.group)).lower())
                removal.observe(max(0.0, self._wall() - action.since))
            case StopPod(reason=reason, message=message):
                target = {"type": TERMINATION_TARGET, "status": "True", "reason": reason, "message": message}
                target["lastTransitionTime"] = rfc3339(self._wall())
                body = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [target]}}
                await self._patch(pod, body, "status")
                await self._delete(pod)
            case ReleasePod():
                await self._release(pod)
            case DeletePod():
                if pod.held:
                    await self._release(pod)
                if not pod.deleted:
                    await self._delete(pod)

    async def _release(self, pod: QueuedPod) -> None:
        await self._without_finalizer(pod, MANAGED_FINALIZER)

    async def _without_finalizer(self, pod: QueuedPod, name: str) -> None:
        finalizers = {"$deleteFromPrimitiveList/finalizers": [name]}
        await self._patch(pod, {"metadata": {"uid": pod.metadata.uid, **finalizers}})

    async def _patch(self, pod: QueuedPod, body: dict[str, Any], subresource: str | None = None) -> None:
        answer = await self._kube.patch(
            PODS,
            pod.metadata.name,
            body,
            pod.metadata.namespace,
            kind=PatchKind.STRATEGIC,
            subresource=subresource,
            repeatable=True,
            decode=self._read,
        )
        self._pods.observe(answer)

    async def _delete(self, pod: QueuedPod) -> None:
        if pod.tracked and not pod.terminated:
            await self._without_finalizer(pod, JOB_TRACKING_FINALIZER)
        await self._kube.delete(PODS, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid)
        self._going.deleted(pod)


def _steps(actions: Sequence[Action]) -> Iterator[_Step]:
    """Yields adjacent pod actions of one type as one step, and every other action by itself."""
    pods: list[PodAction] = []
    for action in actions:
        if pods and type(action) is not type(pods[0]):
            yield pods
            pods = []
        if isinstance(action, PodAction):
            pods.append(action)
        else:
            yield action
    if pods:
        yield pods
