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


def status_of(given: ResultInput) -> StatusAndMessage:
    """Returns status and message; the message is empty if there is nothing to add."""
    workload = given.workload
    if given.fault is not None and not given.placed:
        return GroupStatus.FAILED, given.fault
    if workload is None:
        return _without_workload(given)
    if (end := ended(workload)) is not None:
        return (GroupStatus.BOUND if end.reason == FinishedReason.SUCCEEDED else GroupStatus.FAILED), end.message
    evicted = find_condition(given.conditions, names.EVICTED)
    if evicted is not None and evicted.status == "True":
        return _evicted(given, workload, evicted)
    if is_true(given.conditions, names.FINISHED):
        return _without_workload(given)
    return _of_pods(given, workload) if given.placed else _waiting(given, _why_it_waits(given))


def _without_workload(given: ResultInput) -> StatusAndMessage:
    if given.record.over and all(pod.over for pod in given.living):
        return given.data.get(STATUS) or GroupStatus.PENDING, given.data.get(MESSAGE, "")
    return _waiting(given, f"{given.found} of {given.wanted} pods exist" if given.wanted else "")


def _waiting(given: ResultInput, message: str) -> StatusAndMessage:
    """Returns Preempted for a group that waits since a preemption, else Pending."""
    if given.data.get(STATUS) == GroupStatus.PREEMPTED:
        return GroupStatus.PREEMPTED, given.data.get(MESSAGE, "")
    return GroupStatus.PENDING, message


def _why_it_waits(given: ResultInput) -> str:
    lacking = find_condition(given.conditions, names.WAITING_FOR_REPLACEMENT_PODS)
    if lacking is not None and lacking.status == "True":
        return lacking.message
    waits = find_condition(given.conditions, names.QUOTA_RESERVED)
    return waits.message if waits is not None else "about to be considered"


def _evicted(given: ResultInput, workload: Workload, evicted: Condition) -> StatusAndMessage:
    if evicted.reason == EvictedReason.PREEMPTED:
        preempted = find_condition(given.conditions, names.PREEMPTED)
        condition = preempted if preempted is not None and preempted.status == "True" else evicted
        return GroupStatus.PREEMPTED, _and_waits(given, condition.message, evicted.message)
    given_up = not workload.spec.active and evicted.reason.startswith(f"{EvictedReason.DEACTIVATED}DueTo")
    return (GroupStatus.FAILED if given_up else GroupStatus.PENDING), _and_waits(
        given, evicted.message, evicted.message
    )


def _and_waits(given: ResultInput, message: str, known: str) -> str:
    """Adds the present reason of the wait, if it differs from the eviction's message."""
    waits = find_condition(given.conditions, names.QUOTA_RESERVED)
    if waits is None or waits.status == "True" or waits.message in ("", message, known):
        return message
    return f"{message}; {waits.message}"


def _of_pods(given: ResultInput, workload: Workload) -> StatusAndMessage:
    """Returns the status of a group that has an assignment."""
    missing = given.size - len(given.living)
    failed = sorted(pod.name for pod in given.pods if pod.failed)
    if failed and missing > 0:
        named = ", ".join(failed[:_NAMED]) + (", ..." if len(failed) > _NAMED else "")
        return GroupStatus.FAILED, f"{missing} of {given.size} pods are missing; failed: {named}"
    if sum(bool(pod.node) for pod in given.living) >= given.size > 0:
        return GroupStatus.BOUND, ""
    checks = [check.name for check in workload.status.admission_checks if check.state != "Ready"]
    if checks and not is_true(given.conditions, names.ADMITTED):
        return GroupStatus.ASSIGNED, f"waits for admission checks: {', '.join(checks)}"
    return GroupStatus.ASSIGNED, ""
