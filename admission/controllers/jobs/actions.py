"""What the job controller may do besides what it does to Workloads (../actions.py), as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from admission.controllers.actions import Planned, PlannedEvent, WorkloadAction


@dataclass(frozen=True, slots=True)
class PatchJob:
    """A merge patch of the job (start, stop, restore, wake)."""

    patch: dict[str, Any]
    events: tuple[PlannedEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Deletes the job, with its pods."""

    events: tuple[PlannedEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class PatchChild:
    """A merge patch of a child job; `framework` is the child's kind."""

    framework: str
    child: Mapping[str, Any]
    patch: dict[str, Any]
    events: tuple[PlannedEvent, ...] = ()


Action = PatchJob | DeleteJob | PatchChild | WorkloadAction


@dataclass(frozen=True, slots=True)
class JobPlan(Planned[Action]):
    """What is due now."""


NOTHING: Final = JobPlan()
