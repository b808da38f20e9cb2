"""Transitions of a Workload's status as functions from status to status: wait, reserve, admit, evict, release, finish. Pure.

Types, reasons and messages are Kueue's (lifecycle.md 3.2); `now` is in epoch seconds. The writers in
`condition_table` call these functions and pass the result to `controllers/write`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from admission.controllers.state.condition_table import ENDED_BY, OF_ONE_ADMISSION, OF_ONE_WAIT
from admission.engine.reasons import Reason
from api.assignment import placement_text
from api.meta import Condition, find_condition, is_true, parse_time, rfc3339, set_condition
from api.names import (
    ADMITTED,
    BACKFILLED,
    BEYOND_ADMISSION,
    BLOCKED_ON_PREEMPTION_GATES,
    DEACTIVATION_TARGET,
    EVICTED,
    EXPLANATION,
    FINISHED,
    LEVELS_KEPT,
    NOT_CREATED,
    PLACEMENT,
    PREEMPTED,
    QUOTA_RESERVED,
    REQUEUED,
    UNSCHEDULABLE,
    WAITING_FOR_REPLACEMENT_PODS,
    AdmittedReason,
    CheckState,
    EvictedReason,
    PreemptionGateReason,
    WorkloadStateReason,
)
from api.text.quantity import to_texts
from api.workloads import (
    Admission,
    AdmissionCheckState,
    EvictionCount,
    PodSetRequest,
    SchedulingStats,
    WorkloadStatus,
)

MESSAGE_LIMIT = 32 * 1024
HOLD = "Job is on hold"
NAMESPACE_MISMATCH = "workload namespace doesn't match ClusterQueue selector"
INVALID_RESOURCES = "resources validation failed: "
OUTSIDE_LIMIT_RANGE = "resources didn't satisfy LimitRange constraints: "
NOT_EVALUATED = "Workload is pending evaluation in the scheduling queue"
_REQUEUED_AT_ONCE = (
    EvictedReason.PREEMPTED,
    EvictedReason.BACKFILL_ENDED,
    EvictedReason.NODE_FAILURES,
    EvictedReason.PODS_UNSCHEDULABLE,
)


def with_condition(
    status: WorkloadStatus, kind: str, value: bool, reason: str, message: str, now: float, generation: int = 0
) -> WorkloadStatus:
    """Returns the status with that condition; its transition time changes only with its value."""
    condition = Condition(
        type=kind,
        status="True" if value else "False",
        reason=reason,
        message=message[:MESSAGE_LIMIT],
        last_transition_time=rfc3339(now),
        observed_generation=generation,
    )
    return status.model_copy(update={"conditions": set_condition(status.conditions, condition)})


def waiting(
    status: WorkloadStatus,
    reason: str,
    message: str,
    requested: Mapping[str, Mapping[str, int]],
    now: float,
    generation: int = 0,
) -> WorkloadStatus:
    """Sets QuotaReserved=False with the reason for the wait, and the requests per pod set."""
    new = with_condition(status, QUOTA_RESERVED, False, reason, message, now, generation)
    new = synced_admitted(new, now, generation)
    if not requested:
        return new
    requests = tuple(PodSetRequest(name=name, resources=to_texts(amounts)) for name, amounts in requested.items())
    return new.model_copy(update={"resource_requests": requests})


def explained(status: WorkloadStatus, reason: str, message: str, now: float, generation: int = 0) -> WorkloadStatus:
    """Sets Explanation=True with its reason code; reserving quota removes the condition."""
    return with_condition(status, EXPLANATION, True, reason, message, now, generation)


def reserved(
    status: WorkloadStatus, admission: Admission, now: float, generation: int = 0, note: str = ""
) -> WorkloadStatus:
    """Reserves quota and turns off the conditions that opposed it, keeping their messages; `note` extends the message."""
    kept = tuple(each for each in status.conditions if each.type not in (*OF_ONE_WAIT, *OF_ONE_ADMISSION))
    new = status.model_copy(update={"admission": admission, "conditions": kept})
    if status.resource_requests:
        new = new.model_copy(update={"resource_requests": ()})
    for kind in ENDED_BY[QUOTA_RESERVED]:
        new = _off(new, kind, QUOTA_RESERVED, now, generation)
    message = "; ".join(filter(None, (f"Quota reserved in ClusterQueue {admission.cluster_queue}", note)))
    return with_condition(new, QUOTA_RESERVED, True, QUOTA_RESERVED, message, now, generation)


def backfilled(status: WorkloadStatus, message: str, now: float, generation: int = 0) -> WorkloadStatus:
    """Sets Backfilled=True with the message of api/backfill.py; the end of the admission removes it."""
    return with_condition(status, BACKFILLED, True, WorkloadStateReason.LEARNED_RUN_TIME, message, now, generation)


def placed(status: WorkloadStatus, now: float, generation: int = 0) -> WorkloadStatus:
    """Sets Placement=True with the admission's assignments in words; unchanged without assignments."""
    text = placement_text(status.admission)
    return (
        with_condition(status, PLACEMENT, True, WorkloadStateReason.PLACED, text, now, generation) if text else status
    )


def unschedulable(
    status: WorkloadStatus, message: str, now: float, generation: int = 0, *, moved: bool = False
) -> WorkloadStatus:
    """Sets PodsUnschedulable to `message`, or to False if it is empty; returns the same object if nothing changes.

    `moved` means that refused pods were ended and their replacements are assigned elsewhere.
    """
    none = "pods that no node took are replaced by others with another place" if moved else "all pods are bound"
    reasons = WorkloadStateReason.UNSCHEDULABLE, WorkloadStateReason.BOUND
    return _with_problem(status, UNSCHEDULABLE, (message, none), reasons, now, generation)


def not_created(
    status: WorkloadStatus, message: str, now: float, generation: int = 0, *, refused: bool = True
) -> WorkloadStatus:
    """Sets PodsNotCreated to `message`, or to False if it is empty; returns the same object if nothing changes.

    `refused` means that the API server refuses pods; otherwise nobody creates any.
    """
    bad = WorkloadStateReason.REFUSED if refused else WorkloadStateReason.NOT_REPLACED
    reasons = bad, WorkloadStateReason.CREATED
    return _with_problem(status, NOT_CREATED, (message, "no pod is refused any more"), reasons, now, generation)


def beyond_admission(status: WorkloadStatus, message: str, now: float, generation: int = 0) -> WorkloadStatus:
    """Sets PodsBeyondAdmission to `message`, or to False if it is empty; returns the same object if nothing changes."""
    reasons = WorkloadStateReason.SURPLUS, WorkloadStateReason.WITHIN_ADMISSION
    texts = message, "no more pods run than were admitted"
    return _with_problem(status, BEYOND_ADMISSION, texts, reasons, now, generation)


def levels_kept(status: WorkloadStatus, message: str, now: float, generation: int = 0) -> WorkloadStatus:
    """Sets TopologyKept=False with the violated levels, or True if `message` is empty; the same object if nothing changes."""
    texts = message, "the required topology holds again"
    reasons = WorkloadStateReason.RELABELLED, WorkloadStateReason.RESTORED
    return _with_problem(status, LEVELS_KEPT, texts, reasons, now, generation, bad=False)


def _with_problem(
    status: WorkloadStatus,
    kind: str,
    texts: tuple[str, str],
    reasons: tuple[str, str],
    now: float,
    generation: int,
    *,
    bad: bool = True,
) -> WorkloadStatus:
    """Sets the condition to `bad` with the first text and reason; to its opposite with the others if the first text is empty.

    Returns the same object if nothing changes, and if there was never a problem.
    """
    old, over = find_condition(status.conditions, kind), not texts[0]
    text, value = texts[over], bad != over
    if old is None and over:
        return status
    if old is not None and (old.status, old.message) == (str(value), text[:MESSAGE_LIMIT]):
        return status
    return with_condition(status, kind, value, reasons[over], text, now, generation)


def preemption_gated(status: WorkloadStatus, message: str, now: float, generation: int = 0) -> WorkloadStatus:
    """Sets BlockedOnPreemptionGates=True: the workload could start only by preemption, which its gates forbid."""
    return with_condition(
        status, BLOCKED_ON_PREEMPTION_GATES, True, PreemptionGateReason.GATED, message, now, generation
    )


def gates_opened(status: WorkloadStatus, reason: str, now: float, generation: int = 0) -> WorkloadStatus:
    """Turns BlockedOnPreemptionGates off, keeping its message; returns the same object if it is not on."""
    return _off(status, BLOCKED_ON_PREEMPTION_GATES, reason, now, generation)


def _off(status: WorkloadStatus, kind: str, reason: str, now: float, generation: int) -> WorkloadStatus:
    old = find_condition(status.conditions, kind)
    if old is None or old.status != "True":
        return status
    return with_condition(status, kind, False, reason, f"Previously: {old.message}", now, generation)


def is_running(status: WorkloadStatus) -> bool:
    """Reports whether the workload is admitted and neither evicted nor finished: its pods run or may start."""
    states = status.conditions
    return is_true(states, ADMITTED) and not is_true(states, EVICTED) and not is_true(states, FINISHED)


def checks_ready(status: WorkloadStatus) -> bool:
    """Reports whether all admission checks are ready and no topology request is delayed."""
    delayed = status.admission is not None and any(
        psa.delayed_topology_request == "Pending" and psa.topology_assignment is None
        for psa in status.admission.pod_set_assignments
    )
    return not delayed and all(check.state == "Ready" for check in status.admission_checks)


def synced_admitted(status: WorkloadStatus, now: float, generation: int = 0) -> WorkloadStatus:
    """Updates Admitted from reservation and checks; adds the time spent admitted to the total when Admitted ends.

    Returns the same object if nothing changes; a workload that never queued gets no Admitted.
    """
    was, reserved = find_condition(status.conditions, ADMITTED), find_condition(status.conditions, QUOTA_RESERVED)
    if reserved is not None and reserved.status == "True" and checks_ready(status):
        if was is not None and was.status == "True":
            return status
        return with_condition(
            status, ADMITTED, True, AdmittedReason.ADMITTED, "The workload is admitted", now, generation
        )
    if reserved is None and was is None:
        return status
    reason, message = _why_not_admitted(status)
    if was is not None and (was.status, was.reason, was.message) == ("False", reason, message):
        return status
    if was is not None and was.status == "True":
        spent = int(now - (parse_time(was.last_transition_time) or now))
        past = (status.accumulated_past_execution_time_seconds or 0) + max(0, spent)
        status = status.model_copy(update={"accumulated_past_execution_time_seconds": past})
    return with_condition(status, ADMITTED, False, reason, message, now, generation)


def _why_not_admitted(status: WorkloadStatus) -> tuple[str, str]:
    if not is_true(status.conditions, QUOTA_RESERVED):
        return AdmittedReason.NO_RESERVATION, "The workload has no reservation"
    if all(check.state == CheckState.READY for check in status.admission_checks):
        return AdmittedReason.PENDING_TOPOLOGY, "There are pending delayed topology requests"
    return AdmittedReason.UNSATISFIED_CHECKS, "The workload has not all checks ready"


def with_checks(status: WorkloadStatus, names: tuple[str, ...], now: float) -> WorkloadStatus:
    """Updates the list of checks to `names`: missing ones are added as Pending, others dropped, sorted by name."""
    known = {check.name: check for check in status.admission_checks}
    checks = tuple(
        known.get(name)
        or AdmissionCheckState(name=name, state="Pending", message="", last_transition_time=rfc3339(now))
        for name in sorted(names)
    )
    return status if checks == status.admission_checks else status.model_copy(update={"admission_checks": checks})


def evicted(
    status: WorkloadStatus, reason: str, message: str, now: float, cause: str = "", generation: int = 0
) -> WorkloadStatus:
    """Sets Evicted=True; admission and quota stay until the job has stopped, since its pods still occupy nodes.

    `cause` is the underlying cause of Deactivated or PodsReadyTimeout. State of this admission (checks, unhealthy nodes,
    gates, clusters) is reset.
    """
    new = with_condition(status, EVICTED, True, eviction_reason(reason, cause), message, now, generation)
    for kind in ENDED_BY[EVICTED]:
        new = _off(new, kind, EVICTED, now, generation)
    update: dict[str, object] = {"scheduling_stats": counted(status, reason, cause)}
    if status.unhealthy_nodes:
        update["unhealthy_nodes"] = ()
    if status.nominated_cluster_names:
        update["nominated_cluster_names"] = ()
    if status.cluster_name is not None:
        update["cluster_name"] = None
    if status.preemption_gates:
        update["preemption_gates"] = tuple(_closed(gate, now) for gate in status.preemption_gates)
    if status.admission_checks:
        update["admission_checks"] = tuple(_reset(check, now) for check in status.admission_checks)
    return new.model_copy(update=update)


def eviction_reason(reason: str, cause: str = "") -> str:
    """Returns the reason of Evicted=True, which includes the cause only for a deactivation."""
    return f"{EvictedReason.DEACTIVATED}DueTo{cause}" if reason == EvictedReason.DEACTIVATED and cause else reason


def with_preemption_gates(status: WorkloadStatus, gates: Sequence[Mapping[str, Any]], now: float) -> WorkloadStatus:
    """Updates the list of gates to those of the spec: missing ones are added as Closed, others dropped."""
    before = {gate.get("name"): gate for gate in status.preemption_gates}
    after = tuple(
        before.get(gate.get("name"))
        or {"name": gate.get("name"), "position": "Closed", "lastTransitionTime": rfc3339(now)}
        for gate in gates
    )
    return status if after == status.preemption_gates else status.model_copy(update={"preemption_gates": after})


def _closed(gate: Mapping[str, Any], now: float) -> dict[str, Any]:
    if gate.get("position") != "Open":
        return dict(gate)
    return {**gate, "position": "Closed", "lastTransitionTime": rfc3339(now)}


def _reset(check: AdmissionCheckState, now: float) -> AdmissionCheckState:
    if check.state == "Pending":
        return check
    return check.model_copy(
        update={
            "state": "Pending",
            "message": f"Reset to Pending after eviction. Previously: {check.state}",
            "last_transition_time": rfc3339(now),
            "retry_count": (check.retry_count or 0) + 1 if check.state == "Retry" else check.retry_count,
            "pod_set_updates": (),
        }
    )


def counted(status: WorkloadStatus, reason: str, cause: str) -> SchedulingStats:
    """Returns the counts of the status with one more for this reason and cause."""
    counts = {(c.reason, c.underlying_cause): c for c in (status.scheduling_stats or SchedulingStats()).evictions}
    old = counts.get((reason, cause)) or EvictionCount(reason=reason, underlying_cause=cause, count=0)
    counts[reason, cause] = old.model_copy(update={"count": old.count + 1})
    return SchedulingStats(evictions=tuple(counts.values()))


def released(status: WorkloadStatus, now: float, generation: int = 0) -> WorkloadStatus:
    """Releases the quota of an evicted workload whose job has stopped; the workload may queue again."""
    eviction = find_condition(status.conditions, EVICTED)
    new = without(status, *OF_ONE_ADMISSION).model_copy(update={"admission": None})
    message = eviction.message if eviction else "The workload has no reservation"
    new = with_condition(new, QUOTA_RESERVED, False, Reason.PENDING_EVALUATION, message, now, generation)
    new = synced_admitted(new, now, generation)
    if eviction is None:
        return new
    again = eviction.reason in _REQUEUED_AT_ONCE
    return with_condition(new, REQUEUED, again, eviction.reason, eviction.message, now, generation)


def unreserved(status: WorkloadStatus, reason: str, message: str, now: float, generation: int = 0) -> WorkloadStatus:
    """Takes the quota of a workload that does not run, which is no eviction."""
    new = without(status, *OF_ONE_ADMISSION).model_copy(update={"admission": None})
    new = with_condition(new, QUOTA_RESERVED, False, reason, message, now, generation)
    return synced_admitted(new, now, generation)


def without_reservation(status: WorkloadStatus, now: float, generation: int = 0) -> WorkloadStatus:
    """Repairs a status from which a client removed admission or QuotaReserved without an eviction: removes both, and Admitted.

    Returns the same object if both or neither are present, and during an eviction.
    """
    reserved, evicted = is_true(status.conditions, QUOTA_RESERVED), is_true(status.conditions, EVICTED)
    if reserved and (status.admission is not None or evicted):
        return status
    if not reserved and status.admission is None and not is_true(status.conditions, ADMITTED):
        return status
    new = without(status, *OF_ONE_ADMISSION).model_copy(update={"admission": None})
    if reserved:
        new = with_condition(new, QUOTA_RESERVED, False, Reason.PENDING_EVALUATION, NOT_EVALUATED, now, generation)
    return synced_admitted(new, now, generation)


def is_on_hold(status: WorkloadStatus) -> bool:
    """Reports whether the workload is on hold because its owner asks for no pods."""
    reserved = find_condition(status.conditions, QUOTA_RESERVED)
    return reserved is not None and reserved.status == "False" and reserved.reason == Reason.ON_HOLD


def on_hold(status: WorkloadStatus, now: float, generation: int = 0) -> WorkloadStatus:
    """Puts the workload on hold: quota is released, and no cycle considers the workload until `off_hold`."""
    new = status.model_copy(update={"admission": None, "reclaimable_pods": (), "resource_requests": ()})
    new = without(new, WAITING_FOR_REPLACEMENT_PODS, *OF_ONE_WAIT, *OF_ONE_ADMISSION)
    new = with_condition(new, QUOTA_RESERVED, False, Reason.ON_HOLD, HOLD, now, generation)
    return synced_admitted(new, now, generation)


def off_hold(status: WorkloadStatus, now: float, generation: int = 0) -> WorkloadStatus:
    """Lets a workload that was on hold queue again."""
    return with_condition(status, QUOTA_RESERVED, False, Reason.PENDING_EVALUATION, NOT_EVALUATED, now, generation)


def requeued(status: WorkloadStatus, reason: str, message: str, now: float, generation: int = 0) -> WorkloadStatus:
    """Sets Requeued=True: the evicted workload may queue again."""
    return with_condition(status, REQUEUED, True, reason, message, now, generation)


def deactivating(status: WorkloadStatus, cause: str, message: str, now: float, generation: int = 0) -> WorkloadStatus:
    """Sets DeactivationTarget=True: the Workload must be deactivated, and its eviction will have this cause."""
    return with_condition(status, DEACTIVATION_TARGET, True, cause, message, now, generation)


def without(status: WorkloadStatus, *kinds: str) -> WorkloadStatus:
    """Returns the status without these conditions."""
    kept = tuple(condition for condition in status.conditions if condition.type not in kinds)
    return status if len(kept) == len(status.conditions) else status.model_copy(update={"conditions": kept})


def preempted(status: WorkloadStatus, reason: str, message: str, now: float, generation: int = 0) -> WorkloadStatus:
    """Sets Preempted=True with the reason of the preemption, in addition to the eviction."""
    return with_condition(status, PREEMPTED, True, reason, message, now, generation)


def finished(status: WorkloadStatus, reason: str, message: str, now: float, generation: int = 0) -> WorkloadStatus:
    """Sets Finished=True, which is final."""
    return with_condition(status, FINISHED, True, reason, message, now, generation)
