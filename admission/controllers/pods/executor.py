"""Performs a plan for pods through the API server and records its events.

Actions go out in order, but those on pods that stand side by side go out together, so many at once. Pods are patched by
name of what changes, on condition of their uid alone: other writers of a pod (the scheduler, the kubelet) are never
in the way. What the writes were answered is shown to the informer's copy, and what was deleted is remembered, so that the
next plan sees it before the watch does.

A pod of a Job that we delete has not failed: before it goes it loses the Job's tracking finalizer, as when the Job controller
itself deletes pods of a Job that is suspended. So it is not counted, and spends nothing of the Job's backoffLimit; the Job,
and the JobSet or whatever else is above it, makes another one at once, which waits with its gang.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from admission.controllers.actions import CreateWorkload, PlannedEvent, WorkloadAction
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
from admission.controllers.workload_writer import CONFLICT_RETRY, Recorder, WorkloadWriter
from admission.integrations.pod import QueuedPod, QueuedPodReader
from api.errors import Conflict, Forbidden, Invalid, NotFound
from api.kube.client import Kube, PatchKind
from api.kube.events import ObjectRef, ref_to
from api.kube.metrics import GATE_REMOVAL
from api.kube.resources import PODS, WORKLOADS
from api.meta import rfc3339
from api.names import ADMISSION_GATE, JOB_TRACKING_FINALIZER, MANAGED_FINALIZER

log = logging.getLogger(__name__)

_OnWorkload = AdoptWorkload | WorkloadAction
_Step = list[PodAction] | _OnWorkload

TERMINATION_TARGET: Final = "TerminationTarget"


class PodExecutor:
    """See the module. `workloads` performs what concerns those; `at_once` bounds the writes on pods in flight.

    `read` decodes the pods that writes are answered with.
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
        """The uids of the pods whose gates are being opened."""
        self.making: set[str] = set()
        """The keys of the Workloads that are being created."""

    async def perform(self, key: str, first: QueuedPod | None, made: PodGroupPlan) -> float | None:
        """Seconds after which to look again, as the plan says or because it was cut short. Raises other ApiErrors.

        `first` is the pod that events about the whole are recorded on; without it there are none.
        """
        ref = ref_to(PODS, first) if first else None
        if made.note:
            log.info("pods held up", extra={"pods": key, "why": made.note})
        for step in _steps(made.actions):
            if not await self._step(key, ref, step):
                return CONFLICT_RETRY
        return made.again_in

    def record(self, ref: ObjectRef | None, events: Iterable[PlannedEvent]) -> None:
        """On the object."""
        if ref is not None:
            for event in events:
                self._recorder.record(ref, event.type, event.reason, event.message)

    async def _step(self, key: str, ref: ObjectRef | None, step: _Step) -> bool:
        """Whether all of it was done."""
        return await (self._together(step) if isinstance(step, list) else self._whole(key, ref, step))

    async def _whole(self, key: str, ref: ObjectRef | None, action: _OnWorkload) -> bool:
        try:
            about = await self._on_workload(key, action)
        except (Conflict, NotFound) as error:
            log.debug("changed meanwhile", extra={"pods": key, "error": str(error)})
            return False
        except (Forbidden, Invalid) as error:
            if isinstance(action, CreateWorkload):
                self.record(ref, (PlannedEvent("ErrWorkloadCompose", str(error), "Warning"),))
            raise
        self.record(about or ref, action.events)
        return True

    async def _on_workload(self, key: str, action: _OnWorkload) -> ObjectRef | None:
        """What the action's events are about, where it is not the first pod."""
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

    async def _together(self, actions: Sequence[PodAction]) -> bool:
        """Performs all of them, also after a failure; raises the first failure afterwards."""
        outcomes = await asyncio.gather(*(self._one(action) for action in actions), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return all(outcomes)

    async def _one(self, action: PodAction) -> bool:
        async with self._slots:
            try:
                await self._do(action)
            except (Conflict, NotFound) as error:
                log.debug("changed meanwhile", extra={"pod": action.pod.key, "error": str(error)})
                return False
        self.record(ref_to(PODS, action.pod), action.events)
        return True

    async def _do(self, action: PodAction) -> None:
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
    """Neighbours that are all about pods, and of one kind, as one step; every other action on its own."""
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
