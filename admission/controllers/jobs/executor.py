"""Performs a plan of the job controller through the API server, in order, and records its events.

Every write carries the resourceVersion it was planned for. A conflict or a missing object ends the plan quietly, since the
change behind it requeues the job. workload_writer.py performs the actions on Workloads.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from admission.controllers.jobs.actions import Action, DeleteJob, JobPlan, PatchChild, PatchJob
from admission.controllers.jobs.pods_still_bound import postponed
from admission.controllers.state.actions import CreateWorkload, DeleteWorkload, PatchWorkload, PlannedEvent, SetStatus
from admission.controllers.watch.caches import MutationCache
from admission.controllers.write.workload_writer import CONFLICT_RETRY, Recorder, WorkloadWriter, attempt, record_events
from admission.integrations.base import JobIntegration
from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.paths import not_kept, written
from api.kube.client import Kube, PatchKind
from api.kube.events import ref_to
from api.kube.resources import Resource
from api.meta import ObjectMeta, split_key
from api.process import tracing

log = logging.getLogger(__name__)


class Executor:
    """Performs job plans. `resources` is keyed by framework; `jobs` caches the API server's answers; `workloads` writes
    Workloads; `ending` reports whether bound pods of a Workload have yet to end.
    """

    def __init__(
        self,
        kube: Kube,
        recorder: Recorder,
        resources: Mapping[str, Resource],
        jobs: MutationCache[dict[str, Any]],
        workloads: WorkloadWriter,
        ending: Callable[[str], bool] = lambda key: False,
    ) -> None:
        self._ending = ending
        self._kube, self._recorder, self._resources = kube, recorder, resources
        self._jobs, self._workloads = jobs, workloads

    async def perform(
        self, key: str, kind: JobIntegration | None, job: dict[str, Any] | None, plan: JobPlan
    ) -> float | None:
        """Performs the plan; returns the seconds until the job must be planned again, or None. Raises other ApiErrors.

        `key` identifies the job among all kinds. Without `kind` and `job`, only actions on Workloads are possible.
        """
        plan = postponed(plan, self._ending)
        ref = ref_to(kind.resource, job) if kind and job else None
        record_events(self._recorder, ref, plan.events)
        if plan.note:
            log.info("job held up", extra={"job": key, "why": plan.note})
        for action in plan.actions:
            if not await attempt(self._recorder, key, ref, action, self._perform_action(key, kind, job, action)):
                return CONFLICT_RETRY
        return plan.again_in

    async def _perform_action(
        self, key: str, kind: JobIntegration | None, job: dict[str, Any] | None, action: Action
    ) -> None:
        match action:
            case PatchJob(patch=patch) if kind and job:
                namespace, name = split_key(key.partition(":")[2])
                began = time.time()
                answer = await self._kube.patch(kind.resource, name, patch, namespace, kind=PatchKind.MERGE)
                self._jobs.note(key, job, answer)
                if tracing.is_on() and action.events:
                    about = {"stowage.job": key, "stowage.events": ", ".join(event.reason for event in action.events)}
                    tracing.record(
                        "patch the job", ObjectMeta.model_validate(job["metadata"]), began, time.time(), about
                    )
                record_events(self._recorder, ref_to(kind.resource, job), _complaints(kind, patch, answer))
            case DeleteJob() if kind and job:
                namespace, name = split_key(key.partition(":")[2])
                uid = job["metadata"].get("uid", "")
                await self._kube.delete(kind.resource, name, namespace, uid=uid, propagation="Background")
            case PatchChild(framework=framework, child=child, patch=patch):
                meta, resource = child["metadata"], self._resources[framework]
                await self._kube.patch(resource, meta["name"], patch, meta.get("namespace"), kind=PatchKind.MERGE)
            case CreateWorkload() | PatchWorkload() | SetStatus() | DeleteWorkload():
                await self._workloads.perform(key, action)


def _complaints(kind: JobIntegration, patch: Mapping[str, Any], answer: Mapping[str, Any]) -> Iterator[PlannedEvent]:
    """Yields an event if the schema of a declared kind's CRD drops what was written: the job then runs as if unmanaged."""
    if isinstance(kind, DeclaredJob) and (lost := not_kept(_of_user(patch), answer)) is not None:
        said = f"{written(lost)} was written and is not there: the CRD of {kind.resource.kind} has no such field"
        yield PlannedEvent("FieldNotKept", f"{said}, or another client resets it; see its JobKind's paths", "Warning")


def _of_user(patch: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the patch without metadata, such as the version that it was planned for."""
    return {field: value for field, value in patch.items() if field != "metadata"}
