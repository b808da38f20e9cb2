"""Evictions as values, and their effect on a Workload's status. Pure; `evictor` writes them.

`lifecycle` (stopped queues, deactivation, checks, timeouts) and the scheduler (preemption, failed nodes) create them.
"""

from __future__ import annotations

from dataclasses import dataclass

from admission.controllers.state import conditions
from api.workloads import WorkloadStatus


@dataclass(frozen=True, slots=True)
class Eviction:
    """The condition Evicted=True of a Workload."""

    reason: str
    """One of names.EvictedReason."""
    message: str
    cause: str = ""
    """For the eviction statistics."""
    preemption: str = ""
    """The reason of the Preempted condition, if another workload preempts this one."""
    event_message: str = ""
    """The text of the Preempted event, if it differs from the message."""

    @property
    def event(self) -> str:
        """The reason of the event."""
        return f"EvictedDueTo{conditions.eviction_reason(self.reason, self.cause)}"


def evicted(status: WorkloadStatus, eviction: Eviction, now: float, generation: int = 0) -> WorkloadStatus:
    """Returns the status after the eviction; admission and quota stay until the job has stopped."""
    new = conditions.evicted(status, eviction.reason, eviction.message, now, eviction.cause, generation)
    if not eviction.preemption:
        return new
    return conditions.preempted(new, eviction.preemption, eviction.message, now, generation)
