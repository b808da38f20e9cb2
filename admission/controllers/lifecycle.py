"""The next status of a Workload by the rules of its life, outside of the admission cycle. Pure; `workloads` acts on it.

In the order of the lifecycle description, 3.4: deactivation, stopped and restarted queues, what keeps it from queueing at
all, the list of checks, Admitted. The cycle itself (reserve, wait for room) is the scheduler's; stopping and starting jobs
is the job controllers'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from admission.controllers import conditions
from api.meta import find_condition, is_false, is_true, parse_time
from api.names import (
    ADMISSION_GATED_BY,
    EVICTED,
    FINISHED,
    QUOTA_RESERVED,
    REQUEUED,
    Evicting,
    Requeueing,
    Waiting,
)
from api.queues import ClusterQueue, LocalQueue, StopPolicy
from api.workloads import Workload, WorkloadStatus

# Reasons that only the scheduler or the job controllers write: they stay until the next cycle.
_FROM_THE_CYCLE = frozenset(
    {
        Waiting.NO_MATCHING_FLAVOR,
        Waiting.EXCEEDS_MAX_QUOTA,
        Waiting.WAITING_FOR_QUOTA,
        Waiting.TOPOLOGY_PLACEMENT_FAILED,
        Waiting.WAITING_FOR_PREEMPTED,
        Waiting.WAITING_FOR_PODS_READY,
        Waiting.PENDING_EVALUATION,
        Waiting.ON_HOLD,
    }
)


@dataclass(frozen=True, slots=True)
class Situation:
    """What a Workload's life depends on besides itself. `cluster_queue_active`: its Active condition holds."""

    local_queue: LocalQueue | None
    cluster_queue: ClusterQueue | None
    cluster_queue_active: bool
    namespace_matches: bool = True
    misfit: str | None = None
    checks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Something to tell in an event."""

    reason: str
    message: str
    type: str = "Normal"


@dataclass(frozen=True, slots=True)
class Step:
    """The status as it should be now; and in how many seconds to look again, if time alone changes something."""

    status: WorkloadStatus
    occurrences: Sequence[Occurrence] = field(default=())
    again_in: float | None = None


def blocker(workload: Workload, situation: Situation) -> tuple[str, str] | None:
    """Why the Workload may not be considered by the cycle at all: (reason, message); None when it may."""
    queue = workload.spec.queue_name
    gates = workload.metadata.annotations.get(ADMISSION_GATED_BY, "")
    if not workload.spec.active:
        return Waiting.DEACTIVATED, "The workload is deactivated"
    if gates:
        return Waiting.ADMISSION_GATED, f"Admission is gated by: {gates}"
    if situation.local_queue is None:
        return Waiting.MISCONFIGURED, f"LocalQueue {queue} doesn't exist"
    if situation.local_queue.spec.stop_policy is not StopPolicy.NONE:
        return Waiting.SUSPENDED, f"LocalQueue {queue} is stopped"
    target = situation.local_queue.spec.cluster_queue
    if situation.cluster_queue is None:
        return Waiting.MISCONFIGURED, f"ClusterQueue {target} doesn't exist"
    if situation.cluster_queue.spec.stop_policy is not StopPolicy.NONE:
        return Waiting.SUSPENDED, f"ClusterQueue {target} is stopped"
    if not situation.cluster_queue_active:
        return Waiting.MISCONFIGURED, f"ClusterQueue {target} is inactive"
    if not situation.namespace_matches:
        return Waiting.MISCONFIGURED, "workload namespace doesn't match ClusterQueue selector"
    if situation.misfit is not None:
        return Waiting.MISCONFIGURED, f"resources validation failed: {situation.misfit}"
    return None


def not_before(workload: Workload) -> float:
    """Epoch seconds before which an evicted workload must not come back; infinity while something else must happen."""
    if is_false(workload.status.conditions, REQUEUED):
        return float("inf")
    state = workload.status.requeue_state
    return parse_time(state.requeue_at) or 0.0 if state else 0.0


def step(workload: Workload, situation: Situation, now: float) -> Step:
    """The next status. The same inputs give the same answer; a status that is as it should be comes back unchanged."""
    status = workload.status
    if is_true(status.conditions, FINISHED):
        return Step(status)
    generation = workload.metadata.generation
    eviction = _eviction(workload, situation)
    if is_true(status.conditions, QUOTA_RESERVED):
        return _reserved_step(workload, situation, eviction, now)
    status = _requeue(workload, situation, now)
    blocked = blocker(workload, situation)
    if blocked is not None:
        return Step(conditions.waiting(status, *blocked, {}, now, generation))
    was = find_condition(status.conditions, QUOTA_RESERVED)
    if was is not None and was.status == "False" and was.reason not in _FROM_THE_CYCLE:
        message = "Workload is pending evaluation in the scheduling queue"
        status = conditions.waiting(status, Waiting.PENDING_EVALUATION, message, {}, now, generation)
    return Step(status)


def _reserved_step(workload: Workload, situation: Situation, eviction: tuple[str, str] | None, now: float) -> Step:
    status, generation = workload.status, workload.metadata.generation
    if eviction is not None and not is_true(status.conditions, EVICTED):
        status = conditions.evicted(status, *eviction, now, generation=generation)
        return Step(status, (Occurrence(f"EvictedDueTo{eviction[0]}", eviction[1]),))
    if is_true(status.conditions, EVICTED):
        return Step(status)
    status = conditions.with_checks(status, situation.checks, now)
    return Step(conditions.synced_admitted(status, now, generation))


def _eviction(workload: Workload, situation: Situation) -> tuple[str, str] | None:
    """Why a workload that holds quota has to go: (reason, message)."""
    if not workload.spec.active:
        return Evicting.DEACTIVATED, "The workload is deactivated"
    drain = StopPolicy.HOLD_AND_DRAIN
    if situation.cluster_queue is not None and situation.cluster_queue.spec.stop_policy is drain:
        return Evicting.CLUSTER_QUEUE_STOPPED, "The ClusterQueue is stopped"
    if situation.local_queue is not None and situation.local_queue.spec.stop_policy is drain:
        return Evicting.LOCAL_QUEUE_STOPPED, "The LocalQueue is stopped"
    return None


def _requeue(workload: Workload, situation: Situation, now: float) -> WorkloadStatus:
    """Requeued=False is turned once what caused the eviction is over."""
    status = workload.status
    held = find_condition(status.conditions, REQUEUED)
    if held is None or held.status != "False":
        return status
    restart = _restart(held.reason, workload, situation)
    if restart is None:
        return status
    return conditions.requeued(status, *restart, now, workload.metadata.generation)


def _restart(cause: str, workload: Workload, situation: Situation) -> tuple[str, str] | None:
    def runs(queue: ClusterQueue | LocalQueue | None) -> bool:
        return queue is not None and queue.spec.stop_policy is StopPolicy.NONE

    if cause.startswith(Evicting.DEACTIVATED):
        return (Requeueing.REACTIVATED, "The workload was reactivated") if workload.spec.active else None
    if cause == Evicting.CLUSTER_QUEUE_STOPPED and runs(situation.cluster_queue):
        return Requeueing.CLUSTER_QUEUE_RESTARTED, "The ClusterQueue was restarted after being stopped"
    if cause == Evicting.LOCAL_QUEUE_STOPPED and runs(situation.local_queue):
        return Requeueing.LOCAL_QUEUE_RESTARTED, "The LocalQueue was restarted after being stopped"
    return None
