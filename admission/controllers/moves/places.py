"""The places that are held for waiting workloads while others leave them, and when each hold ends.

A hold ends when its workload starts or leaves the queue; when movers and victims have left and the workload has not started
within `GRACE` seconds, since something else is in its way; and after `LONGEST` seconds in any case, such as for pods that do
not end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from admission.controllers.state.moving import is_moving
from admission.controllers.watch.cluster_view import Views
from admission.engine.ledger.holds import HoldKind, hold_key
from admission.engine.ledger.ledger import Ledger
from admission.engine.queue.queues import PendingQueues

GRACE: Final = 30.0
LONGEST: Final = 900.0


@dataclass(frozen=True, slots=True)
class HeldPlace:
    """A place held since `since`; `left` is when the last mover or victim had left it (both epoch seconds), None before.

    `victims` are evicted from it, with the time of their quota reservation, by which one that has started anew is known.
    """

    movers: tuple[str, ...]
    since: float
    victims: Mapping[str, float | None] = field(default_factory=dict)
    left: float | None = None


class HeldPlaces:
    """The holds by waiting workload."""

    def __init__(self, views: Views, ledger: Ledger, queues: PendingQueues) -> None:
        self._views, self._ledger, self._queues = views, ledger, queues
        self._held: dict[str, HeldPlace] = {}

    def __bool__(self) -> bool:
        return bool(self._held)

    def __contains__(self, key: object) -> bool:
        return key in self._held

    def add(self, key: str, movers: tuple[str, ...], now: float, victims: Collection[str] = ()) -> None:
        """Notes that a place is held for the workload. `victims` are evicted from it."""
        reserved = {each: one.reserved for each in victims if (one := self._ledger.workload(each)) is not None}
        self._held[key] = HeldPlace(movers, now, reserved)

    def not_evicted(self, key: str) -> set[str]:
        """Returns the victims whose evictions are not written or on their way, and that are where they were."""
        held = self._held.get(key)
        ended = () if held is None else [each for each, since in held.victims.items() if self._ends(each, since)]
        return {each for each in ended if (one := self._ledger.workload(each)) is not None and not one.evicted}

    def drop(self, key: str) -> None:
        """Ends the hold, so that others may use the place."""
        self._held.pop(key, None)
        if self._ledger.holds.drop(hold_key(HoldKind.PLACE, key)):
            self._queues.lines.requeue(tuple(self._queues.lines.by_queue))

    def started(self) -> list[str]:
        """Ends the holds of workloads that wait no longer; returns those that have started."""
        gone = [key for key in self._held if key not in self._queues]
        started = [key for key in gone if self._ledger.admission(key) is not None]
        for key in gone:
            self.drop(key)
        return started

    def overdue(self, now: float) -> list[str]:
        """Ends the holds that have lasted too long; returns their workloads."""
        overdue = []
        for key, held in list(self._held.items()):
            if held.left is None and not self._in_use(held):
                held = self._held[key] = replace(held, left=now)
            if now - held.since > LONGEST or (held.left is not None and now - held.left > GRACE):
                overdue.append(key)
                self.drop(key)
        return overdue

    def _in_use(self, held: HeldPlace) -> bool:
        """Reports whether a mover or victim has not left the place."""
        return any(map(self._leaves, held.movers)) or any(self._ends(*victim) for victim in held.victims.items())

    def _ends(self, key: str, since: float | None) -> bool:
        """Reports whether the victim is to end there, or evicted while its pods have not all ended."""
        workload = self._ledger.workload(key)
        if workload is None or self._ledger.admission(key) is None:
            return False
        return workload.evicted or workload.reserved == since

    def _leaves(self, key: str) -> bool:
        """Reports whether the mover has pods at its old place, or its job does not rest yet.

        One that was stopped, suspended or deleted by others meanwhile is there until its last pod has ended.
        """
        workload, allocations = self._views.workloads.objects.get(key), self._ledger.allocations
        moves = workload is not None and is_moving(workload.status)
        return moves or any(pod not in allocations.slot_of for pod in allocations.pods_with_surplus(key))
