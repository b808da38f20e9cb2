"""What a gang loses by waiting for its start instead of moves. Used by the controller, its explanations and the simulation."""

from __future__ import annotations

from collections.abc import Callable

from admission.engine.model import Workload
from admission.engine.queue.queues import PendingQueues

LatestStart = Callable[[str], float | None]
"""The latest start that a feature expects of a waiting workload (epoch seconds); None if unknown."""


def latest_start(queues: PendingQueues, gang: Workload, expected: LatestStart | None = None) -> float | None:
    """Returns when the gang starts at the latest without moves: as reserved for it, or as expected."""
    if (reserved := queues.starts.start_of(gang)) is not None:
        return reserved
    return None if expected is None else expected(gang.key)


def lost_by_waiting(gang: Workload, seconds: float) -> int:
    """Returns the device-seconds that the gang loses in that time."""
    return int(max(0.0, seconds)) * gang.devices
