"""When moves are planned for a waiting workload: after its first wait for a place, then after pauses that double.

The controller and the simulation keep one. Times are in epoch seconds.
"""

from __future__ import annotations

from typing import Final, Protocol

from admission.engine.model import Workload
from admission.engine.queue.cluster_queue import order_of
from admission.engine.queue.queues import PendingQueues

FIRST_PAUSE: Final = 10.0
LONGEST_PAUSE: Final = 300.0


class Held(Protocol):
    """The workloads for which a place is held, by key."""

    def __contains__(self, key: str, /) -> bool: ...


class PlanTimes:
    """The time of the next plan for each workload that lacks a place, `first` seconds after it began to."""

    def __init__(self, queues: PendingQueues, first: float) -> None:
        self._queues, self._first_wait = queues, first
        self._due: dict[str, float] = {}
        self._pauses: dict[str, float] = {}

    def waits(self, key: str, now: float) -> None:
        """Notes that the workload lacks a place."""
        self._due.setdefault(key, now + self._first_wait)

    def again(self, key: str, at: float) -> None:
        """Sets the time of the next plan."""
        self._due[key] = at

    def pause(self, key: str, now: float) -> None:
        """Sets the time of the next plan after a plan at `now`: twice as long a pause as the last one."""
        pause = self._pauses.get(key, FIRST_PAUSE)
        self._pauses[key] = min(LONGEST_PAUSE, 2 * pause)
        self._due[key] = now + pause

    def first(self, now: float, held: Held) -> Workload | None:
        """Returns the first workload in the order of the queues that is due; `held` already have a place."""
        self._forget()
        due = (self._queues.workload(key) for key, at in self._due.items() if at <= now and key not in held)
        return min(filter(None, due), key=order_of, default=None)

    def next(self, held: Held) -> float | None:
        """Returns the earliest time at which a workload is due; None if none lacks a place."""
        self._forget()
        return min((at for key, at in self._due.items() if key not in held), default=None)

    def _forget(self) -> None:
        """Forgets the workloads that wait no longer."""
        for kept in (self._due, self._pauses):
            for gone in [key for key in kept if key not in self._queues]:
                kept.pop(gone)
