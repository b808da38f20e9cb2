"""What the job controller may do, as values: `plan` lists them, `jobs` performs them in that order.

Each action carries the events to record once it has succeeded; the job is what they are about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from api.workloads import Workload, WorkloadStatus


@dataclass(frozen=True, slots=True)
class Event:
    """An event on the job."""

    reason: str
    message: str
    type: str = "Normal"


@dataclass(frozen=True, slots=True)
class PatchJob:
    """A merge patch of the job (start, stop, restore)."""

    patch: dict[str, Any]
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Deletes the job, with its pods."""

    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class PatchChild:
    """A merge patch of a child job; `framework` is the child's kind."""

    framework: str
    child: Mapping[str, Any]
    patch: dict[str, Any]
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateWorkload:
    """A new Workload; that it is there already is no failure."""

    workload: Workload
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class PatchWorkload:
    """A merge patch of metadata and spec, on condition that the Workload is still as seen."""

    workload: Workload
    patch: dict[str, Any]
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class SetStatus:
    """The Workload's next status."""

    workload: Workload
    status: WorkloadStatus
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteWorkload:
    """Deletes it, and no successor of its name."""

    workload: Workload
    events: tuple[Event, ...] = ()


Action = PatchJob | DeleteJob | PatchChild | CreateWorkload | PatchWorkload | SetStatus | DeleteWorkload


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions in order; events that no action causes; when to look again at the latest (seconds); why, for the log."""

    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    again_in: float | None = None
    note: str = ""

    def then(self, *actions: Action) -> Plan:
        """With further actions at the end."""
        return Plan((*self.actions, *actions), self.events, self.again_in, self.note)


NOTHING = Plan()
