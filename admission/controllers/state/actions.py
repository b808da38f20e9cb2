"""Actions on Workloads that the controllers of jobs and pods share, as values, and the plan that holds actions.

A `plan` module lists actions and an executor performs them in that order. Each action carries the events to record once it has
succeeded; they are about the job or pod unless the action states otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

from api.workloads import Workload, WorkloadStatus

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class PlannedEvent:
    """An event on the plan's object; `each_pod` records it on every pod of a group instead of only the first."""

    reason: str
    message: str
    type: str = "Normal"
    each_pod: bool = False


@dataclass(frozen=True, slots=True)
class CreateWorkload:
    """Creates the Workload; an existing Workload of that name is not an error."""

    workload: Workload
    events: tuple[PlannedEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class PatchWorkload:
    """A merge patch of metadata and spec, conditional on the Workload's resourceVersion."""

    workload: Workload
    patch: dict[str, Any]
    events: tuple[PlannedEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class SetStatus:
    """Replaces the Workload's status."""

    workload: Workload
    status: WorkloadStatus
    events: tuple[PlannedEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteWorkload:
    """Deletes exactly this Workload, not a later one of the same name."""

    workload: Workload
    events: tuple[PlannedEvent, ...] = ()


WorkloadAction = CreateWorkload | PatchWorkload | SetStatus | DeleteWorkload


@dataclass(frozen=True, slots=True)
class Planned(Generic[A]):
    """Actions in order, events without an action, seconds until the next plan, and a note for the log."""

    actions: tuple[A, ...] = ()
    events: tuple[PlannedEvent, ...] = ()
    again_in: float | None = None
    note: str = ""

    def then(self, *actions: A) -> Self:
        """Returns the plan with further actions at the end."""
        return replace(self, actions=(*self.actions, *actions))

    def followed(self, rest: Self) -> Self:
        """Returns this plan followed by `rest`."""
        again = [seconds for seconds in (self.again_in, rest.again_in) if seconds is not None]
        return replace(
            self.then(*rest.actions),
            events=(*self.events, *rest.events),
            again_in=min(again, default=None),
            note="; ".join(filter(None, (self.note, rest.note))),
        )
