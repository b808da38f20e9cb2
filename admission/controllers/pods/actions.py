"""What the controller of plain pods may do besides what that of jobs does, as values.

Each action carries the events to record once it has succeeded: about the pod, or about the Workload where it says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from admission.controllers.jobs.actions import CreateWorkload, DeleteWorkload, Event, PatchWorkload, SetStatus
from admission.integrations.pod import QueuedPod
from api.workloads import Workload


@dataclass(frozen=True, slots=True)
class StartPod:
    """Takes the admission gate away and gives the pod what its admission says; a strategic merge patch."""

    pod: QueuedPod
    patch: dict[str, Any]
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class StopPod:
    """Says in the pod's status why it must end, and deletes it: a pod cannot be suspended."""

    pod: QueuedPod
    reason: str
    message: str
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class ReleasePod:
    """Takes our finalizer off: the pod counts no more, or its unit has ended."""

    pod: QueuedPod
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Takes our finalizer off and deletes the pod."""

    pod: QueuedPod
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class AdoptWorkload:
    """A merge patch that adds owners; its events are about the Workload."""

    workload: Workload
    patch: dict[str, Any]
    events: tuple[Event, ...] = ()


PodAction = StartPod | StopPod | ReleasePod | DeletePod
Action = PodAction | AdoptWorkload | CreateWorkload | PatchWorkload | SetStatus | DeleteWorkload


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions in order; events on the first pod that no action causes; when to look again (seconds); why, for the log."""

    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    again_in: float | None = None
    note: str = ""

    def then(self, *actions: Action) -> Plan:
        """With further actions at the end."""
        return Plan((*self.actions, *actions), self.events, self.again_in, self.note)

    def followed(self, rest: Plan) -> Plan:
        """Both, one after the other."""
        again = [seconds for seconds in (self.again_in, rest.again_in) if seconds is not None]
        note = "; ".join(filter(None, (self.note, rest.note)))
        return Plan((*self.actions, *rest.actions), (*self.events, *rest.events), min(again, default=None), note)


NOTHING = Plan()
