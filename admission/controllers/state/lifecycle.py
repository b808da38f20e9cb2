"""Computes a Workload's next status outside the admission cycle. Pure; `workloads` acts on it.

As in Kueue, it decides in this order: retention of finished Workloads, deactivation, return after an eviction, what blocks
queueing, the list of checks and Admitted; and evictions because of checks, stopped queues, unready pods and time limits. The
scheduler reserves quota; the job controllers stop and start jobs. A workload with quota that is not admitted yet loses the
quota when its queue is stopped in any way or deleted, not only when the queue is drained. That is no eviction, since the
workload does not run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from admission.controllers.state import checks, conditions
from admission.controllers.state.actions import PlannedEvent
from admission.controllers.state.admission_context import AdmissionContext, blocker
from admission.controllers.state.evictions import Eviction, evicted
from admission.controllers.state.timeouts import PodsReadyRules, execution_deadline, pods_deadline, pods_overdue
from admission.engine.convert.convert_workloads import closed_gate
from admission.engine.features import reason_of
from admission.engine.reasons import Reason
from api.meta import find_condition, is_true, parse_time
from api.names import (
    ADMISSION_GATED_BY,
    ADMITTED,
    BLOCKED_ON_PREEMPTION_GATES,
    DEACTIVATION_TARGET,
    EVICTED,
    FINISHED,
    QUOTA_RESERVED,
    REQUEUED,
    CheckState,
    DeactivationReason,
    EvictedReason,
    LegacyQuotaReason,
    PreemptionGateReason,
    RequeuedReason,
)
from api.queues import ClusterQueue, LocalQueue, StopPolicy
from api.workloads import Workload, WorkloadStatus

_RETAINED_LEGACY = frozenset((LegacyQuotaReason.PENDING, LegacyQuotaReason.WAITING))
# Causes of evictions that end with a backoff.
_AFTER_A_WHILE = (
    EvictedReason.PODS_READY_TIMEOUT,
    EvictedReason.ADMISSION_CHECK,
    EvictedReason.PODS_NOT_CREATED,
    EvictedReason.GANG_TIMEOUT,
    EvictedReason.GANG_GROUP_INCOMPLETE,
)


@dataclass(frozen=True, slots=True)
class LifecycleRules:
    """Lifecycle settings."""

    pods_ready: PodsReadyRules | None = None
    """With None, no workload waits for its pods."""
    finished_kept: float | None = None
    """The seconds after which a finished Workload is deleted; None for never."""
    legacy_reasons: bool = False
    """The setting controller.legacyWaitReasons."""


@dataclass(frozen=True, slots=True)
class LifecycleStep:
    """A Workload's next status, and what has to be done besides."""

    status: WorkloadStatus
    events: Sequence[PlannedEvent] = field(default=())
    again_in: float | None = None
    """The seconds until time alone changes the status, or None."""
    eviction: Eviction | None = None
    """Set if the status evicts the workload."""
    deactivate: bool = False
    """Whether spec.active must become false."""
    delete: bool = False
    """Whether the Workload's retention period is over."""


def not_before(workload: Workload, context: AdmissionContext) -> float:
    """Returns the epoch seconds before which an evicted workload must not queue, or infinity while an event is missing.

    It depends on context and time instead of the written conditions: otherwise a younger workload could overtake workloads
    whose queue was just restarted.
    """
    held = find_condition(workload.status.conditions, REQUEUED)
    if held is not None and held.status == "False" and _restart(held.reason, context) is None:
        return float("inf")
    return _requeue_at(workload.status) or 0.0


def step(
    workload: Workload, context: AdmissionContext, now: float, rules: LifecycleRules | None = None
) -> LifecycleStep:
    """Returns the next status. The function is deterministic, and a correct status is returned unchanged."""
    rules = rules or LifecycleRules()
    if is_true(workload.status.conditions, FINISHED):
        return _finished(workload, now, rules)
    if not workload.spec.active:
        return _inactive(workload, context, now)
    if is_true(workload.status.conditions, DEACTIVATION_TARGET):
        return LifecycleStep(workload.status, deactivate=True)
    if rejected := checks.in_state(workload.status, CheckState.REJECTED):
        text = checks.stated(rejected, CheckState.REJECTED)
        event = PlannedEvent("AdmissionCheckRejected", f"Deactivated due to {text}", "Warning")
        if not is_true(workload.status.conditions, ADMITTED):
            synced = conditions.synced_admitted(workload.status, now, workload.metadata.generation)
            workload = workload.model_copy(update={"status": synced})
        return _deactivating(workload, DeactivationReason.ADMISSION_CHECK, text, event, now)
    lost = conditions.without_reservation(workload.status, now, workload.metadata.generation)
    if lost is not workload.status:
        return _pending(workload.model_copy(update={"status": lost}), context, now, rules)
    if is_true(workload.status.conditions, QUOTA_RESERVED):
        return _reserved(workload, context, now, rules)
    return _pending(workload, context, now, rules)


def may_let_go(workload: Workload, rules: LifecycleRules, *, owned: bool) -> bool:
    """Reports whether the Workload's finalizer must be removed, since it is being deleted.

    The job controller of a managed owner removes it too, unless the Workload was deleted because of its retention period.
    """
    retained = rules.finished_kept is not None and is_true(workload.status.conditions, FINISHED)
    return workload.metadata.deletion_timestamp is not None and (retained or not owned)


# ---- finished or deactivated


def _finished(workload: Workload, now: float, rules: LifecycleRules) -> LifecycleStep:
    end = find_condition(workload.status.conditions, FINISHED)
    if rules.finished_kept is None or end is None or workload.metadata.deletion_timestamp:
        return LifecycleStep(workload.status)
    left = (parse_time(end.last_transition_time) or 0.0) + rules.finished_kept - now
    if left > 0:
        return LifecycleStep(workload.status, again_in=left)
    events = PlannedEvent("Deleted", "Deleted finished workload due to elapsed retention")
    return LifecycleStep(workload.status, (events,), delete=True)


def _deactivating(workload: Workload, cause: str, text: str, event: PlannedEvent, now: float) -> LifecycleStep:
    """Deactivates the workload on Stowage's own account; its job is stopped as after any deactivation."""
    status = conditions.deactivating(workload.status, cause, text, now, workload.metadata.generation)
    return LifecycleStep(status, (event,), deactivate=True)


def _inactive(workload: Workload, context: AdmissionContext, now: float) -> LifecycleStep:
    status, generation, eviction = workload.status, workload.metadata.generation, None
    target, was = find_condition(status.conditions, DEACTIVATION_TARGET), find_condition(status.conditions, EVICTED)
    targeted = target is not None and target.status == "True"
    leaving = was is not None and was.status == "True"
    gone = was is not None and leaving and was.reason.startswith(EvictedReason.DEACTIVATED)
    reserved = is_true(status.conditions, QUOTA_RESERVED)
    if (reserved and not leaving) or (targeted and not gone):
        eviction = Eviction(EvictedReason.DEACTIVATED, "The workload is deactivated")
        if target is not None and targeted:
            message = f"The workload is deactivated due to {target.message}"
            eviction = Eviction(EvictedReason.DEACTIVATED, message, target.reason)
        status = evicted(status, eviction, now, generation)
    status = conditions.without(status, DEACTIVATION_TARGET)
    if status.requeue_state is not None:
        status = status.model_copy(update={"requeue_state": None})
    blocked = blocker(workload, context)
    if not reserved and blocked is not None and eviction is None:
        status = conditions.waiting(status, *blocked, {}, now, generation)
    return LifecycleStep(status, eviction=eviction)


# ---- waiting


def _pending(workload: Workload, context: AdmissionContext, now: float, rules: LifecycleRules) -> LifecycleStep:
    generation, again_in = workload.metadata.generation, None
    status = checks.retry_later(workload.status, now)
    at = _requeue_at(status)
    if at is not None and at > now:
        again_in = at - now
    elif at is not None and status.requeue_state is not None:
        state = status.requeue_state.model_copy(update={"requeue_at": None})
        status = status.model_copy(update={"requeue_state": state})
    status = _requeued(workload, status, context, now)
    status = conditions.with_preemption_gates(status, workload.spec.preemption_gates, now)
    if not closed_gate(workload):
        status = conditions.gates_opened(status, PreemptionGateReason.OPEN, now, generation)
    if context.cluster_queue is not None:
        status = conditions.with_checks(status, context.checks, now)
    was = find_condition(status.conditions, QUOTA_RESERVED)
    before = was.reason if was is not None and was.status == "False" else None
    blocked = blocker(workload, context)
    gates = workload.metadata.annotations.get(ADMISSION_GATED_BY, "") if context.gated_by else ""
    if before == Reason.ADMISSION_GATED and not gates and not workload.spec.preemption_gates:
        message = "AdmissionGatedBy cleared, waiting for quota reservation"
        status = conditions.waiting(status, Reason.PENDING_EVALUATION, message, {}, now, generation)
        event = PlannedEvent("AdmissionGateCleared", "Admission gate cleared, workload is now admissible")
        return LifecycleStep(status, (event,), again_in)
    if blocked is not None:
        event = PlannedEvent("AdmissionGated", f"Workload admission is gated by: {gates}")
        events = (event,) if blocked[0] == Reason.ADMISSION_GATED != before else ()
        return LifecycleStep(conditions.waiting(status, *blocked, {}, now, generation), events, again_in)
    if before is None:
        return LifecycleStep(status, again_in=again_in)
    code = reason_of(before)
    retained = (code is not None and code.retained) or (rules.legacy_reasons and before in _RETAINED_LEGACY)
    if retained or before == context.decided or is_true(status.conditions, BLOCKED_ON_PREEMPTION_GATES):
        return LifecycleStep(conditions.synced_admitted(status, now, generation), again_in=again_in)
    message = conditions.NOT_EVALUATED
    status = conditions.waiting(status, Reason.PENDING_EVALUATION, message, {}, now, generation)
    return LifecycleStep(status, again_in=again_in)


def _requeue_at(status: WorkloadStatus) -> float | None:
    return parse_time(status.requeue_state.requeue_at) if status.requeue_state else None


def _requeued(workload: Workload, status: WorkloadStatus, context: AdmissionContext, now: float) -> WorkloadStatus:
    """Sets Requeued=True once the cause of the eviction is over.

    The accumulated run time of a workload that a user reactivates is reset; otherwise its time limit would end it at once.
    """
    held = find_condition(status.conditions, REQUEUED)
    if held is None or held.status != "False":
        return status
    restart = _restart(held.reason, context)
    if restart is None or (_requeue_at(status) or 0.0) > now:
        return status
    if restart[0] == RequeuedReason.REACTIVATED and status.accumulated_past_execution_time_seconds is not None:
        status = status.model_copy(update={"accumulated_past_execution_time_seconds": None})
    return conditions.requeued(status, *restart, now, workload.metadata.generation)


def _restart(cause: str, context: AdmissionContext) -> tuple[str, str] | None:
    """Returns reason and message of the requeue after an eviction for `cause`, or None while a precondition is missing."""
    if cause.startswith(EvictedReason.DEACTIVATED):
        return RequeuedReason.REACTIVATED, "The workload was reactivated"
    if cause in _AFTER_A_WHILE:
        return RequeuedReason.BACKOFF_FINISHED, "The workload backoff was finished"
    if cause == EvictedReason.CLUSTER_QUEUE_STOPPED and _runs(context.cluster_queue):
        return RequeuedReason.CLUSTER_QUEUE_RESTARTED, "The ClusterQueue was restarted after being stopped"
    if cause == EvictedReason.LOCAL_QUEUE_STOPPED and _runs(context.local_queue):
        return RequeuedReason.LOCAL_QUEUE_RESTARTED, "The LocalQueue was restarted after being stopped"
    return None


# ---- with quota


def _reserved(workload: Workload, context: AdmissionContext, now: float, rules: LifecycleRules) -> LifecycleStep:
    status, generation = workload.status, workload.metadata.generation
    if is_true(status.conditions, EVICTED):
        return LifecycleStep(status)  # its job is being stopped
    status = _requeued(workload, status, context, now)
    if context.cluster_queue is not None:
        status = conditions.with_checks(status, context.checks, now)
    eviction = _retried(status)
    if eviction is None or not is_true(status.conditions, ADMITTED):
        status = conditions.synced_admitted(status, now, generation)
    if eviction is None and is_true(status.conditions, ADMITTED):
        eviction = _drained(context)
    elif eviction is None:
        closed = _closed_queue(workload, context)
        if closed is not None:
            return LifecycleStep(conditions.unreserved(status, *closed, now, generation))
    if eviction is not None:
        status = evicted(checks.retry_later(status, now), eviction, now, generation)
        return LifecycleStep(status, eviction=eviction)
    return _timed(workload.model_copy(update={"status": status}), now, rules)


def _timed(workload: Workload, now: float, rules: LifecycleRules) -> LifecycleStep:
    """Applies timeouts."""
    status = workload.status
    deadline = pods_deadline(workload, rules.pods_ready) if rules.pods_ready else None
    if rules.pods_ready is not None and deadline is not None and deadline[0] <= now:
        status, eviction = pods_overdue(workload, status, deadline[1], rules.pods_ready, now)
        return LifecycleStep(status, eviction=eviction, deactivate=eviction is None)
    end = execution_deadline(workload)
    if end is not None and end <= now:
        cause, text = DeactivationReason.EXECUTION_TIME, "exceeding the maximum execution time"
        limit = f"The maximum execution time ({workload.spec.maximum_execution_time_seconds}s) exceeded"
        return _deactivating(workload, cause, text, PlannedEvent(cause, limit, "Warning"), now)
    moments = [moment for moment in (deadline[0] if deadline else None, end) if moment is not None]
    return LifecycleStep(status, again_in=min(moments) - now if moments else None)


def _retried(status: WorkloadStatus) -> Eviction | None:
    """Returns the eviction of a workload whose checks ask for another attempt."""
    retrying = checks.in_state(status, CheckState.RETRY)
    text = checks.stated(retrying, CheckState.RETRY)
    return Eviction(EvictedReason.ADMISSION_CHECK, f"Evicted due to {text}") if retrying else None


def _drained(context: AdmissionContext) -> Eviction | None:
    """Returns the eviction of an admitted workload whose queue is drained."""
    queues: tuple[tuple[LocalQueue | ClusterQueue | None, str, str], ...] = (
        (context.local_queue, EvictedReason.LOCAL_QUEUE_STOPPED, "The LocalQueue"),
        (context.cluster_queue, EvictedReason.CLUSTER_QUEUE_STOPPED, "The ClusterQueue"),
    )
    for queue, reason, name in queues:
        if queue is None or queue.metadata.deletion_timestamp:
            continue
        if queue.spec.stop_policy is StopPolicy.HOLD_AND_DRAIN:
            return Eviction(reason, f"{name} is stopped")
    return None


def _closed_queue(workload: Workload, context: AdmissionContext) -> tuple[str, str] | None:
    """Returns why a workload with quota that does not run must not keep it, as (reason, message), or None if it may."""
    target = context.local_queue.spec.cluster_queue if context.local_queue else ""
    queues: tuple[tuple[LocalQueue | ClusterQueue | None, str], ...] = (
        (context.local_queue, f"LocalQueue {workload.spec.queue_name}"),
        (context.cluster_queue, f"ClusterQueue {target}"),
    )
    for queue, name in queues:
        if queue is not None and queue.spec.stop_policy is not StopPolicy.NONE:
            return Reason.SUSPENDED, f"{name} is stopped"
        if queue is None or queue.metadata.deletion_timestamp:
            return Reason.MISCONFIGURED, f"{name} is terminating or missing"
    return None


def _runs(queue: ClusterQueue | LocalQueue | None) -> bool:
    return queue is not None and queue.spec.stop_policy is StopPolicy.NONE
