"""Admission checks of a workload: which ones apply, and what their states require. Pure.

The check's own controller, which users supply, writes its state into the Workload's status: Ready lets the workload start with
the check's podSetUpdates; Retry evicts it, to be requeued after `requeueAfterSeconds` if set; Rejected deactivates it.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from admission.controllers.state.active_conditions import flavors_of
from api.meta import parse_time, rfc3339
from api.names import GANG_CHECK, GANG_GROUP, CheckState
from api.queues import ClusterQueue
from api.workloads import Admission, AdmissionCheckState, RequeueState, Workload, WorkloadStatus


def checks_for(queue: ClusterQueue, admission: Admission | None = None) -> tuple[str, ...]:
    """Returns the checks that a workload of the queue must pass.

    With an admission, these are the checks of its flavors; without, the checks that no choice of flavors avoids.
    """
    strategy = queue.spec.admission_checks_strategy
    if strategy is None:
        return ()
    rules = strategy.admission_checks
    if admission is None:
        every = set(flavors_of(queue))
        return tuple(rule.name for rule in rules if not rule.on_flavors or every <= set(rule.on_flavors))
    used = {flavor for psa in admission.pod_set_assignments for flavor in psa.flavors.values()}
    return tuple(rule.name for rule in rules if not rule.on_flavors or used & set(rule.on_flavors))


def own_checks(workload: Workload) -> tuple[str, ...]:
    """Returns checks that no queue configures: GANG_CHECK, which waits until all gangs of a gang group have quota."""
    return (GANG_CHECK,) if GANG_GROUP in workload.metadata.annotations else ()


def in_state(status: WorkloadStatus, state: str) -> list[AdmissionCheckState]:
    """Returns the checks in that state."""
    return [check for check in status.admission_checks if check.state == state]


def retry_later(status: WorkloadStatus, now: float) -> WorkloadStatus:
    """Returns the status with a `requeueAt` that respects the delays of checks in Retry."""
    state, latest = status.requeue_state or RequeueState(), latest_retry(status)
    if latest is None or math.ceil(latest) <= max(now, parse_time(state.requeue_at) or 0.0):
        return status
    again = state.model_copy(update={"requeue_at": rfc3339(math.ceil(latest))})
    return status.model_copy(update={"requeue_state": again})


def latest_retry(status: WorkloadStatus) -> float | None:
    """Returns when the last delay of a check in Retry ends, in epoch seconds, or None if no check has one."""
    begun = [(parse_time(check.last_transition_time), check) for check in in_state(status, CheckState.RETRY)]
    moments = (
        begin + (check.requeue_after_seconds or 0) for begin, check in begun if begin and check.requeue_after_seconds
    )
    return max(moments, default=None)


def named(checks: Collection[AdmissionCheckState]) -> str:
    """Formats the checks and their messages."""
    return ", ".join(f"{check.name} ({check.message})" if check.message else check.name for check in checks)


def stated(checks: Collection[AdmissionCheckState], state: str) -> str:
    """Formats the checks in that state, which are at least one, with their messages, as Kueue does."""
    names = "; ".join(f'"{check.name}"' + (f" ({check.message})" if check.message else "") for check in checks)
    return f"AdmissionCheck{'s' if len(checks) > 1 else ''} in {state} state: {names}"
