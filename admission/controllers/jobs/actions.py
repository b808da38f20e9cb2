"""The job controller's own actions, as values; ../actions.py has those on Workloads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from admission.controllers.state.actions import Planned, PlannedEvent, WorkloadAction


@dataclass(frozen=True, slots=True)
class PatchJob:
    """A merge patch of the job, to start, stop, restore or wake it. `starts` is the key of the Workload that it starts."""

    patch: dict[str, Any]
    events: tuple[PlannedEvent, ...] = ()
    starts: str = ""


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Deletes the job and its pods."""

    events: tuple[PlannedEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class PatchChild:
    """A merge patch of a child job; `framework` names the child's kind."""

    framework: str
    child: Mapping[str, Any]
    patch: dict[str, Any]
    events: tuple[PlannedEvent, ...] = ()


Action = PatchJob | DeleteJob | PatchChild | WorkloadAction


@dataclass(frozen=True, slots=True)
class JobPlan(Planned[Action]):
    """The actions that are due for one job."""


NOTHING: Final = JobPlan()
