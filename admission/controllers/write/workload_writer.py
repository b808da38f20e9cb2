"""Performs a plan's actions on Workloads, for the executors of jobs and of pods.

Every write carries the version it was planned for, and its answer is recorded, so that the next plan sees it before the
informer does.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, Final, Protocol

from admission.controllers.state.actions import (
    CreateWorkload,
    DeleteWorkload,
    PatchWorkload,
    PlannedEvent,
    SetStatus,
    WorkloadAction,
)
from admission.controllers.state.condition_table import Writer
from admission.controllers.watch.caches import ExpectedWorkloads, MutationCache
from admission.controllers.write.status import patch_status
from api.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from api.kube.client import Kube, PatchKind
from api.kube.events import ObjectRef
from api.kube.resources import WORKLOADS
from api.reading import read_workload
from api.workloads import Workload

log = logging.getLogger(__name__)

# The change that caused a conflict requeues the key by itself; this retry covers a watch that has stalled.
CONFLICT_RETRY: Final = 1.0


class Recorder(Protocol):
    """The part of api.kube.events.EventRecorder that is used."""

    def record(self, ref: ObjectRef, event_type: str, reason: str, message: str) -> None:
        """Records an event; never blocks."""


class PerformedAction(Protocol):
    """An action of a plan, of any kind."""

    @property
    def events(self) -> tuple[PlannedEvent, ...]:
        """The events to record once it has succeeded."""


def record_events(recorder: Recorder, ref: ObjectRef | None, events: Iterable[PlannedEvent]) -> None:
    """Records the events on the object; None records none."""
    if ref is not None:
        for event in events:
            recorder.record(ref, event.type, event.reason, event.message)


async def attempt(
    recorder: Recorder, key: str, ref: ObjectRef | None, action: PerformedAction, work: Awaitable[ObjectRef | None]
) -> bool:
    """Awaits `work`, which performs the action, and records its events on the object that `work` returns, or else on `ref`.

    Returns False if an object changed or was deleted meanwhile; that change requeues `key`. Raises other ApiErrors; if the API
    server refuses a new Workload, an event says why.
    """
    try:
        about = await work
    except (Conflict, NotFound) as error:
        log.debug("changed meanwhile", extra={"key": key, "error": str(error)})
        return False
    except (Forbidden, Invalid) as error:
        if isinstance(action, CreateWorkload):
            record_events(recorder, ref, (PlannedEvent("ErrWorkloadCompose", str(error), "Warning"),))
        raise
    record_events(recorder, about or ref, action.events)
    return True


class WorkloadWriter:
    """Writes Workloads in the name of `by`.

    `latest` caches the answers; `expected` holds created Workloads that were not seen yet.
    """

    def __init__(self, kube: Kube, latest: MutationCache[Workload], expected: ExpectedWorkloads, by: Writer) -> None:
        self._kube, self._latest, self._expected, self._by = kube, latest, expected, by

    async def perform(self, key: str, action: WorkloadAction) -> None:
        """Performs the action for the job or unit `key`. Raises ApiErrors, including Conflict and NotFound."""
        match action:
            case CreateWorkload(workload=workload):
                await self._create(key, workload)
            case PatchWorkload(workload=workload, patch=patch):
                await self.patch(workload, patch)
            case SetStatus(workload=workload, status=status):
                now = self._latest.of(workload.key, workload)
                self._latest.note(workload.key, now, await patch_status(self._kube, now, status, self._by))
            case DeleteWorkload(workload=workload):
                meta = workload.metadata
                await self._kube.delete(WORKLOADS, meta.name, meta.namespace, uid=meta.uid)

    async def patch(self, workload: Workload, patch: Mapping[str, Any]) -> Workload:
        """Applies a merge patch to the latest known version; returns that version."""
        now = self._latest.of(workload.key, workload)
        meta = now.metadata
        body = {**patch, "metadata": {**patch.get("metadata", {}), "resourceVersion": meta.resource_version}}
        answer = await self._kube.patch(
            WORKLOADS, meta.name, body, meta.namespace, kind=PatchKind.MERGE, decode=read_workload
        )
        self._latest.note(workload.key, now, answer)
        return now

    async def _create(self, key: str, workload: Workload) -> None:
        try:
            await self._kube.create(WORKLOADS, workload)
        except AlreadyExists:
            log.debug("Workload is there already", extra={"workload": workload.key})
        self._expected.expect(key, workload.key)
