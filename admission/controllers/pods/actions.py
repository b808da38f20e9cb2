"""What the controller of plain pods may do besides what it does to Workloads (../actions.py), as values.

Each action carries the events to record once it has succeeded: about the pod, or about the Workload where it says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from admission.controllers.actions import Planned, PlannedEvent, WorkloadAction
from admission.integrations.pod import QueuedPod
from api.workloads import Workload


@dataclass(frozen=True, slots=True)
class StartPod:
    """Takes the admission gate away and gives the pod what its admission says; a strategic merge patch.

    `since`: the later of admission and creation. It and the ClusterQueue are for the metric.
    """

    pod: QueuedPod
    patch: dict[str, Any]
    events: tuple[PlannedEvent, ...] = ()
    cluster_queue: str = ""
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class StopPod:
    """Says in the pod's status why it must end, and deletes it: a pod cannot be suspended."""

    pod: QueuedPod
    reason: str
    message: str
    events: tuple[PlannedEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class ReleasePod:
    """Takes our finalizer off: the pod counts no more, or its unit has ended."""

    pod: QueuedPod
    events: tuple[PlannedEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Takes our finalizer off and deletes the pod."""

    pod: QueuedPod
    events: tuple[PlannedEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class AdoptWorkload:
    """A merge patch that adds owners; its events are about the Workload."""

    workload: Workload
    patch: dict[str, Any]
    events: tuple[PlannedEvent, ...] = ()


PodAction = StartPod | StopPod | ReleasePod | DeletePod
Action = PodAction | AdoptWorkload | WorkloadAction


@dataclass(frozen=True, slots=True)
class PodGroupPlan(Planned[Action]):
    """What is due now. `confirm`: only if the API server shows the pods as the copy does, which may be old."""

    confirm: bool = False


NOTHING: Final = PodGroupPlan()
