"""What may act between the cycles of a simulation, and what the simulation lets it do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from admission.engine.decision import Preempt, Wait
from admission.engine.model import Admission, Workload
from admission.world.world import World


class Stage(Protocol):
    """What a simulation lets others do to its running workloads."""

    world: World

    def workloads(self) -> Iterable[Workload]:
        """Returns all workloads, also those that have not arrived."""

    def renew(self) -> None:
        """Tells the engine the last checkpoint of every running workload."""

    def relocate(self, key: str, place: Admission) -> None:
        """Restarts a workload at another place, for which the ledger already charges it."""

    def evict(self, key: str) -> None:
        """Stops a workload, which is queued again."""


class RoomMaker(Protocol):
    """Makes room for waiting workloads in addition to the rules of the queues."""

    def waits(self, decision: Wait) -> None:
        """Learns that a workload waits."""

    def instead(self, decision: Preempt) -> bool:
        """Makes room for the workload in another way than by these evictions; False if it does not."""

    def due(self) -> float | None:
        """Returns when it wants to look again (epoch seconds); None for never."""

    def look(self) -> bool:
        """Looks at what waits; True if it made room or ended a hold."""


MakerOf = Callable[[Stage], RoomMaker]
