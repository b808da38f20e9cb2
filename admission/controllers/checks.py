"""Admission checks of a workload: which apply, and what their answers ask for. Pure.

The controller that answers a check (a user's own) writes its state into the Workload's status: Ready lets it start, with
what its podSetUpdates add; Retry gives the quota back and asks to come again, after `requeueAfterSeconds` if it says so;
Rejected deactivates the workload. Lifecycle description, 3.4.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from admission.controllers.active_conditions import flavors_of
from api.meta import parse_time, rfc3339
from api.names import GANG_CHECK, GANG_GROUP, CheckState
from api.queues import ClusterQueue
from api.workloads import Admission, AdmissionCheckState, RequeueState, Workload, WorkloadStatus


def checks_for(queue: ClusterQueue, admission: Admission | None = None) -> tuple[str, ...]:
    """The checks that a workload of the queue has to pass.

    Once it has flavors, those for any of them; before, those that no choice of flavors avoids.
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
    """The checks that no queue names: of a gang that starts together with others, that all of them have quota (ours)."""
    return (GANG_CHECK,) if GANG_GROUP in workload.metadata.annotations else ()


def in_state(status: WorkloadStatus, state: str) -> list[AdmissionCheckState]:
    """The checks in that state."""
    return [check for check in status.admission_checks if check.state == state]


def retry_later(status: WorkloadStatus, now: float) -> WorkloadStatus:
    """The status with the moment before which the checks in Retry do not want the workload back, if it is to come."""
    moments = [
        (parse_time(check.last_transition_time) or 0.0) + check.requeue_after_seconds
        for check in in_state(status, CheckState.RETRY)
        if check.requeue_after_seconds is not None
    ]
    state = status.requeue_state or RequeueState()
    if not moments or math.ceil(max(moments)) <= max(now, parse_time(state.requeue_at) or 0.0):
        return status
    again = state.model_copy(update={"requeue_at": rfc3339(math.ceil(max(moments)))})
    return status.model_copy(update={"requeue_state": again})


def named(checks: Collection[AdmissionCheckState]) -> str:
    """The checks with what they say, for a message."""
    return ", ".join(f"{check.name} ({check.message})" if check.message else check.name for check in checks)
