"""Plans for jobs that cannot have pods: on hold, or with unreadable pod sets. Pure; part of `job_plan`."""

from __future__ import annotations

from collections.abc import Sequence

from admission.controllers.jobs.actions import NOTHING, JobPlan, PatchJob
from admission.controllers.state import conditions
from admission.controllers.state.actions import PlannedEvent, SetStatus
from admission.integrations.base import Job, JobIntegration
from admission.integrations.declared.referenced import MissingReference
from api import names
from api.errors import InvalidObject
from api.meta import is_true
from api.workloads import Workload

NOT_ADMITTED = "Not admitted by cluster queue"
_HELD = "It can have no pods as it is: the quota is free"


def plan_hold(
    job: Job, kind: JobIntegration, workloads: Sequence[Workload], now: float, *, on_hold: bool
) -> JobPlan | None:
    """Returns the plan for a job that is on hold or has a Workload on hold, or None for any other job."""
    if kind.finished(job) is not None:
        return None
    if not on_hold:
        back = [
            SetStatus(workload, conditions.off_hold(workload.status, now, workload.metadata.generation))
            for workload in workloads
            if conditions.is_on_hold(workload.status)
        ]
        return JobPlan(tuple(back)) if back else None
    if not workloads:
        return None  # the Workload is created first
    return _stopped(job, kind).then(*_quota_released(job, kind, workloads, now, (PlannedEvent("OnHold", _HELD),)))


def plan_unreadable(
    job: Job, kind: JobIntegration, workloads: Sequence[Workload], error: InvalidObject, now: float
) -> JobPlan:
    """Plans for a job from which no Workload can be composed: it must stop and releases its quota.

    An admitted job that lost the object which defines its pods keeps running, since its pods are those that were admitted.
    """
    event = PlannedEvent("ErrWorkloadCompose", str(error), "Warning")
    admitted = any(is_true(workload.status.conditions, names.ADMITTED) for workload in workloads)
    if isinstance(error, MissingReference) and admitted and not kind.is_suspended(job):
        return JobPlan((), (event,), note=str(error))
    stop = _stopped(job, kind).then(*_quota_released(job, kind, workloads, now, ()))
    return JobPlan(stop.actions, (event,), note=str(error))


def _stopped(job: Job, kind: JobIntegration) -> JobPlan:
    patch = None if kind.is_suspended(job) else kind.stop(job, None)
    return JobPlan((PatchJob(patch, (PlannedEvent("Stopped", NOT_ADMITTED),)),)) if patch else NOTHING


def _quota_released(
    job: Job, kind: JobIntegration, workloads: Sequence[Workload], now: float, events: tuple[PlannedEvent, ...]
) -> tuple[SetStatus, ...]:
    """Releases the quota of a job at rest; its Workload stays on hold until the job changes."""
    if not kind.is_suspended(job) or kind.is_active(job):
        return ()
    return tuple(
        SetStatus(workload, conditions.on_hold(workload.status, now, workload.metadata.generation), events)
        for workload in workloads
        if not conditions.is_on_hold(workload.status) and not workload.metadata.deletion_timestamp
    )
