"""What the controllers of jobs and of pods may do to Workloads, as values, and the plan that holds such values.

A `plan` module lists actions, an executor performs them in that order. Each action carries the events to record once it
has succeeded; they are about the job, the pod, or what the action says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

from api.workloads import Workload, WorkloadStatus

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class PlannedEvent:
    """An event on the object that the plan is about; `each_pod`: on every pod of a group, not on its first alone."""

    reason: str
    message: str
    type: str = "Normal"
    each_pod: bool = False


@dataclass(frozen=True, slots=True)
class CreateWorkload:
    """A new Workload; that it is there already is no failure."""

    workload: Workload
    events: tuple[PlannedEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class PatchWorkload:
    """A merge patch of metadata and spec, on condition that the Workload is still as seen."""

    workload: Workload
    patch: dict[str, Any]
    events: tuple[PlannedEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class SetStatus:
    """The Workload's next status."""

    workload: Workload
    status: WorkloadStatus
    events: tuple[PlannedEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteWorkload:
    """Deletes it, and no successor of its name."""

    workload: Workload
    events: tuple[PlannedEvent, ...] = ()


WorkloadAction = CreateWorkload | PatchWorkload | SetStatus | DeleteWorkload


@dataclass(frozen=True, slots=True)
class Planned(Generic[A]):
    """Actions in order; events that no action causes; when to look again at the latest (seconds); why, for the log."""

    actions: tuple[A, ...] = ()
    events: tuple[PlannedEvent, ...] = ()
    again_in: float | None = None
    note: str = ""

    def then(self, *actions: A) -> Self:
        """With further actions at the end."""
        return replace(self, actions=(*self.actions, *actions))

    def followed(self, rest: Self) -> Self:
        """Both, one after the other."""
        again = [seconds for seconds in (self.again_in, rest.again_in) if seconds is not None]
        return replace(
            self.then(*rest.actions),
            events=(*self.events, *rest.events),
            again_in=min(again, default=None),
            note="; ".join(filter(None, (self.note, rest.note))),
        )
