"""Why a workload is evicted, as a value, and what that does to its status. Pure; `evictor` writes and tells it.

The conditions are `conditions.evicted` (lifecycle description, 3.5). Made by `lifecycle` (stopped queues, deactivation,
checks, timeouts) and by the scheduler (preemption, failed nodes).
"""

from __future__ import annotations

from dataclasses import dataclass

from admission.controllers import conditions
from api.workloads import WorkloadStatus


@dataclass(frozen=True, slots=True)
class Eviction:
    """Reason (names.Evicting) and message of Evicted=True, and the cause that is counted with it.

    `preemption`: the reason of the Preempted condition, if another workload takes its place; `event_message`: the text of
    the Preempted event, if it differs from the message.
    """

    reason: str
    message: str
    cause: str = ""
    preemption: str = ""
    event_message: str = ""

    @property
    def event(self) -> str:
        """The reason of the event."""
        return f"EvictedDueTo{conditions.eviction_reason(self.reason, self.cause)}"


def evicted(status: WorkloadStatus, eviction: Eviction, now: float, generation: int = 0) -> WorkloadStatus:
    """The status after the eviction. Admission and quota stay until the job has stopped."""
    new = conditions.evicted(status, eviction.reason, eviction.message, now, eviction.cause, generation)
    if not eviction.preemption:
        return new
    return conditions.preempted(new, eviction.preemption, eviction.message, now, generation)
