"""The end of Workloads, with their job or without it, and events about their admission checks. Pure; part of `plan`."""

from __future__ import annotations

from collections.abc import Sequence

from admission.controllers import conditions
from admission.controllers.actions import PatchWorkload, PlannedEvent, SetStatus
from admission.controllers.jobs.actions import NOTHING, DeleteJob, JobPlan
from admission.controllers.jobs.context import JobOptions
from admission.integrations.base import JobResult
from api import names
from api.meta import find_condition, is_true, parse_time
from api.workloads import Workload


def finish(workload: Workload, reason: str, message: str, now: float, *events: PlannedEvent) -> SetStatus:
    """The Workload Finished, for that reason."""
    generation = workload.metadata.generation
    return SetStatus(workload, conditions.finished(workload.status, reason, message, now, generation), events)


def declared_finished(workload: Workload) -> PlannedEvent:
    """That the Workload is Finished."""
    return PlannedEvent("FinishedWorkload", f"Workload '{workload.key}' is declared finished")


def let_go(workload: Workload, *events: PlannedEvent) -> tuple[PatchWorkload, ...]:
    """Takes our finalizer off, if it is there."""
    finalizers = [name for name in workload.metadata.finalizers if name != names.IN_USE_FINALIZER]
    if len(finalizers) == len(workload.metadata.finalizers):
        return ()
    return (PatchWorkload(workload, {"metadata": {"finalizers": finalizers or None}}, events),)


def check_messages(workload: Workload, *, each_pod: bool = False) -> tuple[PlannedEvent, ...]:
    """One event with what the checks of a Workload that has quota are waiting for."""
    if not is_true(workload.status.conditions, names.QUOTA_RESERVED):
        return ()
    events = [f"{check.name}: {check.message}" for check in workload.status.admission_checks if check.message]
    return (PlannedEvent("UpdatedAdmissionCheck", "; ".join(events), each_pod=each_pod),) if events else ()


def plan_orphaned(workloads: Sequence[Workload], options: JobOptions, now: float) -> JobPlan:
    """The plan for Workloads whose job is gone or going: finished, so that their quota returns, and free to go."""
    result = NOTHING
    for workload in workloads:
        over = workload.metadata.deletion_timestamp or is_true(workload.status.conditions, names.FINISHED)
        if options.finish_orphaned and not over:
            message = "The workload's owner no longer exists"
            result = result.then(finish(workload, names.FinishedReason.OWNER_NOT_FOUND, message, now))
        result = result.then(*let_go(workload))
    return result


def plan_ended(workloads: Sequence[Workload], end: JobResult, now: float) -> JobPlan:
    """The Workload follows its job in two steps: Finished, and when that is seen, without its finalizer."""
    result = NOTHING
    for workload in workloads:
        if is_true(workload.status.conditions, names.FINISHED) or workload.metadata.deletion_timestamp:
            result = result.then(*let_go(workload))
            continue
        reason = names.FinishedReason.SUCCEEDED if end.success else names.FinishedReason.FAILED
        result = result.then(finish(workload, reason, end.message, now, declared_finished(workload)))
    return result


def kept_until(workload: Workload, options: JobOptions) -> float | None:
    """When the job of a Workload is deleted that we deactivated (its eviction has a cause); None for never."""
    eviction = find_condition(workload.status.conditions, names.EVICTED)
    ours = eviction is not None and eviction.reason.startswith(f"{names.EvictedReason.DEACTIVATED}DueTo")
    if eviction is None or not ours or workload.spec.active or options.deactivated_kept is None:
        return None
    return (parse_time(eviction.last_transition_time) or 0.0) + options.deactivated_kept


def stop_keeping(made: JobPlan, left: float) -> JobPlan:
    """With the job's end after so many seconds."""
    if left > 0:
        return JobPlan(made.actions, made.events, left, made.note)
    return made.then(DeleteJob((PlannedEvent("Deleted", "Deleted job: deactivation retention period expired"),)))
