"""Finishes Workloads, with or without their job, and reports admission check messages. Pure; part of `job_plan`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from admission.controllers.jobs.actions import NOTHING, Action, DeleteJob, JobPlan
from admission.controllers.jobs.context import JobOptions
from admission.controllers.state import conditions
from admission.controllers.state.actions import DeleteWorkload, PatchWorkload, PlannedEvent, SetStatus
from admission.integrations.base import Job, JobIntegration, JobResult
from api import names
from api.meta import find_condition, is_true, parse_time
from api.workloads import Workload


def finish(workload: Workload, reason: str, message: str, now: float, *events: PlannedEvent) -> SetStatus:
    """Returns the status update that sets the Workload's Finished condition."""
    generation = workload.metadata.generation
    return SetStatus(workload, conditions.finished(workload.status, reason, message, now, generation), events)


def declared_finished(workload: Workload) -> PlannedEvent:
    """Returns the event that reports the Workload as Finished."""
    return PlannedEvent("FinishedWorkload", f"Workload '{workload.key}' is declared finished")


def let_go(workload: Workload, *events: PlannedEvent) -> tuple[PatchWorkload, ...]:
    """Returns the patch that removes Stowage's finalizer, if present."""
    finalizers = [name for name in workload.metadata.finalizers if name != names.IN_USE_FINALIZER]
    if len(finalizers) == len(workload.metadata.finalizers):
        return ()
    return (PatchWorkload(workload, {"metadata": {"finalizers": finalizers or None}}, events),)


def check_messages(workload: Workload, *, each_pod: bool = False) -> tuple[PlannedEvent, ...]:
    """Returns one event with the messages of the admission checks of a Workload that has quota."""
    if not is_true(workload.status.conditions, names.QUOTA_RESERVED):
        return ()
    events = [f"{check.name}: {check.message}" for check in workload.status.admission_checks if check.message]
    return (PlannedEvent("UpdatedAdmissionCheck", "; ".join(events), each_pod=each_pod),) if events else ()


def plan_orphaned(workloads: Sequence[Workload], options: JobOptions, now: float) -> JobPlan:
    """Plans for Workloads whose job is gone or being deleted: Finished, which releases quota, and without finalizer."""
    return NOTHING.then(*(action for workload in workloads for action in end_orphaned(workload, options, now)))


def end_orphaned(workload: Workload, options: JobOptions, now: float) -> Iterator[SetStatus | PatchWorkload]:
    """Yields the actions that end a Workload without an owner: Finished, unless it has ended, and removal of the finalizer."""
    over = workload.metadata.deletion_timestamp or is_true(workload.status.conditions, names.FINISHED)
    if options.finish_orphaned and not over:
        message = "The workload's owner no longer exists"
        yield finish(workload, names.FinishedReason.OWNER_NOT_FOUND, message, now)
    yield from let_go(workload)


def plan_ended(workloads: Sequence[Workload], end: JobResult, now: float) -> JobPlan:
    """Plans for the Workloads of an ended job: first Finished and, once that is observed, without finalizer."""
    result = NOTHING
    for workload in workloads:
        if is_true(workload.status.conditions, names.FINISHED) or workload.metadata.deletion_timestamp:
            result = result.then(*let_go(workload))
            continue
        reason = names.FinishedReason.SUCCEEDED if end.success else names.FinishedReason.FAILED
        result = result.then(finish(workload, reason, end.message, now, declared_finished(workload)))
    return result


def dropped(workloads: Sequence[Workload], why: str = "not matching Workload") -> Iterator[Action]:
    """Yields the actions that delete the Workloads; `why` says in the event what they are."""
    for workload in workloads:
        yield from let_go(workload)
        if not workload.metadata.deletion_timestamp:
            yield DeleteWorkload(workload, (PlannedEvent("DeletedWorkload", f"Deleted {why}: {workload.key}"),))


def plan_left(job: Job, kind: JobIntegration, workloads: Sequence[Workload], now: float) -> JobPlan:
    """Plans for the Workloads of a job that names no queue any more. While the job has pods, they count."""
    if end := kind.finished(job):
        return plan_ended(workloads, end, now)
    if not workloads or not kind.is_suspended(job) or kind.is_active(job):
        return NOTHING
    return NOTHING.then(*dropped(workloads, "Workload of a job that left its queue"))


def kept_until(workload: Workload, options: JobOptions) -> float | None:
    """Returns when to delete a job whose Workload Stowage deactivated, in epoch seconds, or None for never."""
    eviction = find_condition(workload.status.conditions, names.EVICTED)
    ours = eviction is not None and eviction.reason.startswith(f"{names.EvictedReason.DEACTIVATED}DueTo")
    if eviction is None or not ours or workload.spec.active or options.deactivated_kept is None:
        return None
    return (parse_time(eviction.last_transition_time) or 0.0) + options.deactivated_kept


def stop_keeping(plan: JobPlan, left: float) -> JobPlan:
    """Adds the job's deletion to the plan, now or after `left` seconds."""
    if left > 0:
        return JobPlan(plan.actions, plan.events, left, plan.note)
    return plan.then(DeleteJob((PlannedEvent("Deleted", "Deleted job: deactivation retention period expired"),)))
