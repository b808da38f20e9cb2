"""The pod controller's own actions, as values; ../actions.py has those on Workloads.

Each action carries the events to record once it has succeeded; they are about the pod unless the action states otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from admission.controllers.state.actions import Planned, PlannedEvent, WorkloadAction
from admission.integrations.pods.pod import QueuedPod
from api.workloads import Workload


@dataclass(frozen=True, slots=True)
class StartPod:
    """A strategic merge patch that removes the admission gate and adds what the admission gives the pod."""

    pod: QueuedPod
    patch: dict[str, Any]
    events: tuple[PlannedEvent, ...] = ()
    cluster_queue: str = ""
    """For the metric."""
    since: float = 0.0
    """The later of admission and creation, for the metric."""
    admitted: Workload | None = None
    """The Workload, for the trace."""


@dataclass(frozen=True, slots=True)
class StopPod:
    """Sets a condition with the reason in the pod's status and deletes the pod, since a pod cannot be suspended."""

    pod: QueuedPod
    reason: str
    message: str
    events: tuple[PlannedEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class ReleasePod:
    """Removes Stowage's finalizer: the pod no longer counts, or its unit has ended."""

    pod: QueuedPod
    events: tuple[PlannedEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Removes Stowage's finalizer and deletes the pod."""

    pod: QueuedPod
    events: tuple[PlannedEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class AdoptWorkload:
    """A merge patch that adds owner references; its events are about the Workload."""

    workload: Workload
    patch: dict[str, Any]
    events: tuple[PlannedEvent, ...] = ()


PodAction = StartPod | StopPod | ReleasePod | DeletePod
Action = PodAction | AdoptWorkload | WorkloadAction


@dataclass(frozen=True, slots=True)
class PodGroupPlan(Planned[Action]):
    """The due actions for a unit. With `confirm`, the pods must first be read from the API server, since the informer may
    lag."""

    confirm: bool = False


NOTHING: Final = PodGroupPlan()
