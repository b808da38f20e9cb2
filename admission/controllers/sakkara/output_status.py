"""Computes the status of a Sakkara group and its message. Pure; part of `output`.

Pending     waits for pods, for quota or for capacity; the message states which
Assigned    its domains are reserved, and not all pods are bound
Bound       all pods are bound, or were when the group succeeded
Preempted   it was evicted for another group and has no new assignment yet
Failed      it cannot continue by itself: it is unreadable, lost pods that failed, ended in failure, or was deactivated
"""

from __future__ import annotations

from typing import Final

from admission.controllers.sakkara.output_record import MESSAGE, STATUS, GroupStatus, ResultInput, ended
from api import names
from api.meta import Condition, find_condition, is_true
from api.names import EvictedReason, FinishedReason
from api.workloads import Workload

_NAMED: Final = 3

StatusAndMessage = tuple[str, str]


def status_of(inputs: ResultInput) -> StatusAndMessage:
    """Returns status and message; the message is empty if there is nothing to add."""
    workload = inputs.workload
    if inputs.fault is not None and not inputs.placed:
        return GroupStatus.FAILED, inputs.fault
    if workload is None:
        return _without_workload(inputs)
    if (end := ended(workload)) is not None:
        return (GroupStatus.BOUND if end.reason == FinishedReason.SUCCEEDED else GroupStatus.FAILED), end.message
    evicted = find_condition(inputs.conditions, names.EVICTED)
    if evicted is not None and evicted.status == "True":
        return _evicted(inputs, workload, evicted)
    if is_true(inputs.conditions, names.FINISHED):
        return _without_workload(inputs)
    return _of_pods(inputs, workload) if inputs.placed else _waiting(inputs, _why_it_waits(inputs))


def _without_workload(inputs: ResultInput) -> StatusAndMessage:
    if inputs.record.over and all(pod.over for pod in inputs.living):
        return inputs.data.get(STATUS) or GroupStatus.PENDING, inputs.data.get(MESSAGE, "")
    return _waiting(inputs, f"{inputs.found} of {inputs.wanted} pods exist" if inputs.wanted else "")


def _waiting(inputs: ResultInput, message: str) -> StatusAndMessage:
    """Returns Preempted for a group that waits since a preemption, else Pending."""
    if inputs.data.get(STATUS) == GroupStatus.PREEMPTED:
        return GroupStatus.PREEMPTED, inputs.data.get(MESSAGE, "")
    return GroupStatus.PENDING, message


def _why_it_waits(inputs: ResultInput) -> str:
    lacking = find_condition(inputs.conditions, names.WAITING_FOR_REPLACEMENT_PODS)
    if lacking is not None and lacking.status == "True":
        return lacking.message
    waits = find_condition(inputs.conditions, names.QUOTA_RESERVED)
    return waits.message if waits is not None else "about to be considered"


def _evicted(inputs: ResultInput, workload: Workload, evicted: Condition) -> StatusAndMessage:
    if evicted.reason == EvictedReason.PREEMPTED:
        preempted = find_condition(inputs.conditions, names.PREEMPTED)
        condition = preempted if preempted is not None and preempted.status == "True" else evicted
        return GroupStatus.PREEMPTED, _and_waits(inputs, condition.message, evicted.message)
    given_up = not workload.spec.active and evicted.reason.startswith(f"{EvictedReason.DEACTIVATED}DueTo")
    return (GroupStatus.FAILED if given_up else GroupStatus.PENDING), _and_waits(
        inputs, evicted.message, evicted.message
    )


def _and_waits(inputs: ResultInput, message: str, eviction: str) -> str:
    """Adds the present reason of the wait, if it differs from the eviction's message."""
    waits = find_condition(inputs.conditions, names.QUOTA_RESERVED)
    if waits is None or waits.status == "True" or waits.message in ("", message, eviction):
        return message
    return f"{message}; {waits.message}"


def _of_pods(inputs: ResultInput, workload: Workload) -> StatusAndMessage:
    """Returns the status of a group that has an assignment."""
    missing = inputs.size - len(inputs.living)
    failed = sorted(pod.name for pod in inputs.pods if pod.failed)
    if failed and missing > 0:
        named = ", ".join(failed[:_NAMED]) + (", ..." if len(failed) > _NAMED else "")
        return GroupStatus.FAILED, f"{missing} of {inputs.size} pods are missing; failed: {named}"
    if sum(bool(pod.node) for pod in inputs.living) >= inputs.size > 0:
        return GroupStatus.BOUND, ""
    checks = [check.name for check in workload.status.admission_checks if check.state != "Ready"]
    if checks and not is_true(inputs.conditions, names.ADMITTED):
        return GroupStatus.ASSIGNED, f"waits for admission checks: {', '.join(checks)}"
    return GroupStatus.ASSIGNED, ""
