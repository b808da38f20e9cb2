"""When moves are planned for a waiting workload: after its first wait for a place, then after pauses that double.

The next plan comes earlier if moves may have become possible: at once after a change of what may be moved, or when a budget or
a minimum run time opens; and after a quarter of the pause if capacity has become free since, which happens all the time in a
large cluster. It never comes within `FIRST_PAUSE` of the last one. Workloads whose pause has ended go before those, so that a
user who changes annotations all the time delays nobody.

The controller and the simulation each have a `PlanTimes`. Times are in epoch seconds.
"""

from __future__ import annotations

from typing import Final, Protocol

from admission.engine.model import Workload
from admission.engine.queue.cluster_queue import order_of
from admission.engine.queue.queues import PendingQueues

FIRST_PAUSE: Final = 10.0
LONGEST_PAUSE: Final = 300.0
SHARE_OF_PAUSE: Final = 0.25
"""The part of a pause that is kept when capacity becomes free."""


class Held(Protocol):
    """The workloads for which a place is held, by key."""

    def __contains__(self, key: str, /) -> bool: ...


class PlanTimes:
    """The time of the next plan for each workload that lacks a place, `first` seconds after it began to."""

    def __init__(self, queues: PendingQueues, first: float) -> None:
        self._queues, self._first_wait = queues, first
        self._due: dict[str, float] = {}
        self._planned: dict[str, float] = {}
        self._pauses: dict[str, float] = {}
        self._early: dict[str, float] = {}

    def waits(self, key: str, now: float) -> None:
        """Notes that the workload lacks a place."""
        self._due.setdefault(key, now + self._first_wait)

    def again(self, key: str, at: float) -> None:
        """Sets the time of the next plan."""
        self._due[key] = at
        self._early.pop(key, None)

    def pause(self, key: str, now: float) -> None:
        """Sets the time of the next plan after a plan at `now`: twice as long a pause as the last one."""
        pause = self._pauses.get(key, FIRST_PAUSE)
        self._pauses[key] = min(LONGEST_PAUSE, 2 * pause)
        self.again(key, now + pause)
        self._planned[key] = now

    def sooner(self, key: str, at: float) -> None:
        """Brings the next plan forward to this time, if one was made before."""
        if (planned := self._planned.get(key)) is None:
            return
        at = max(at, planned + FIRST_PAUSE)
        if at < self.time_of(key):
            self._early[key] = at

    def all_sooner(self, at: float) -> None:
        """Brings all next plans forward to this time."""
        for key in self._planned:
            self.sooner(key, at)

    def room_freed(self, now: float) -> None:
        """Brings all next plans forward, since capacity has become free."""
        for key, planned in self._planned.items():
            self.sooner(key, max(now, planned + (self._due[key] - planned) * SHARE_OF_PAUSE))

    def time_of(self, key: str) -> float:
        """Returns the time of the next plan for the workload."""
        return self._early.get(key, self._due[key])

    def first(self, now: float, held: Held) -> Workload | None:
        """Returns the first workload in the order of the queues that is due; `held` already have a place."""
        self._forget()
        for times in (self._due, self._early):
            due = (self._queues.workload(key) for key, at in times.items() if at <= now and key not in held)
            if (first := min(filter(None, due), key=order_of, default=None)) is not None:
                return first
        return None

    def next(self, held: Held) -> float | None:
        """Returns the earliest time at which a workload is due; None if none lacks a place."""
        self._forget()
        return min((self.time_of(key) for key in self._due if key not in held), default=None)

    def _forget(self) -> None:
        """Forgets the workloads that no longer wait."""
        for kept in (self._due, self._planned, self._pauses, self._early):
            for gone in [key for key in kept if key not in self._queues]:
                kept.pop(gone)
