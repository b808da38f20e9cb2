"""The condition `stowage.dev/Moving`: an admitted job has another place than its pods, stops, and starts anew there. Pure."""

from __future__ import annotations

from typing import Final

from admission.controllers.state.actions import PlannedEvent
from admission.controllers.state.conditions import counted, is_running, with_condition, without
from admission.engine.features.moves.wording import gang_of
from api.meta import find_condition, is_true
from api.names import MOVING, UNSCHEDULABLE, MovingReason
from api.workloads import WorkloadStatus

HAS_LEFT: Final = PlannedEvent("Moved", "The job has left its old place")


def begun(status: WorkloadStatus, message: str, now: float, generation: int = 0) -> WorkloadStatus:
    """Sets Moving=True, together with the new places: the job stops, and starts anew there. Counts the move."""
    new = with_condition(
        without(status, UNSCHEDULABLE), MOVING, True, MovingReason.PLACE_HELD, message, now, generation
    )
    return new.model_copy(update={"scheduling_stats": counted(status, MovingReason.MOVED, "")})


def ended(status: WorkloadStatus, now: float, generation: int = 0) -> WorkloadStatus:
    """Sets Moving=False: the job has left its old place."""
    moving = find_condition(status.conditions, MOVING)
    message = "" if moving is None else f"Previously: {moving.message}"
    return with_condition(status, MOVING, False, MovingReason.MOVED, message, now, generation)


def is_moving(status: WorkloadStatus) -> bool:
    """Reports whether the admitted job has to stop, to start anew at the place that its status names."""
    return is_running(status) and is_true(status.conditions, MOVING)


def why(status: WorkloadStatus) -> str:
    """Returns why the job leaves its place, or an empty string."""
    moving = find_condition(status.conditions, MOVING)
    return moving.message if moving else ""


def for_whom(status: WorkloadStatus) -> str:
    """Returns the key of the workload for which the job leaves or has left its place, or an empty string."""
    return gang_of(why(status))
