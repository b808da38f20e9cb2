"""The reserved start of the first waiting workload of each backfill queue, if it is known. PendingQueues keeps it current.

A queue has one start reservation, or one workload whose start is unknown. cycle/backfill.py decides what is reserved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from admission.engine.model import Workload
from admission.engine.queue.pending import PendingWorkload, StartReservation


class StartReservations:
    """By ClusterQueue. `items`: the pending workloads by key. `version` grows with every change of a reservation."""

    def __init__(self, items: Mapping[str, PendingWorkload]) -> None:
        self._items = items
        self._held: dict[str, tuple[str, StartReservation]] = {}
        self._unknown_start: dict[str, str] = {}
        self.version = 0

    def reserve(self, key: str, reservation: StartReservation | None) -> str:
        """Stores the start reservation of the first workload of a backfill queue that does not fit; None removes it.

        Returns the name of the queue.

        A queue has one. It holds until the workload leaves or gets a capacity reservation, or another workload of the queue
        gets a start reservation.
        """
        name = self._items[key].workload.cluster_queue
        if reservation is not None:
            self._held[name] = (key, reservation)
            self._unknown_start.pop(name, None)
            self.version += 1
        elif self._held.get(name, ("",))[0] == key:
            self._drop(name)
        if self._unknown_start.get(name) == key:
            del self._unknown_start[name]
        return name

    def _drop(self, name: str) -> str | None:
        """Removes the queue's reservation. Returns the key of the workload that had it, None if there was none."""
        key, _ = self._held.pop(name, (None, None))
        self.version += key is not None
        return key

    def mark_start_unknown(self, key: str) -> str | None:
        """Records that the start of this waiting workload is unknown. Returns the key of the workload that lost its reservation
        to it.
        """
        name = self._items[key].workload.cluster_queue
        self._unknown_start[name] = key
        return self._drop(name)

    def leave(self, name: str, key: str) -> tuple[bool, bool]:
        """Removes the workload from this queue. Returns whether it had a reservation, and whether its start was unknown."""
        held, unforeseen = self._held.get(name, ("",))[0] == key, self._unknown_start.get(name) == key
        if held:
            self._drop(name)
        if unforeseen:
            del self._unknown_start[name]
        return held, unforeseen

    def forget(self, name: str) -> None:
        """Removes what is known of the queue, because it no longer backfills, or begins to."""
        self._drop(name)
        self._unknown_start.pop(name, None)

    def unforeseen(self, queue: str) -> Workload | None:
        """Returns the first waiting workload of this queue whose start is unknown."""
        key = self._unknown_start.get(queue)
        return None if key is None else self._items[key].workload

    def all_with_unknown_start(self) -> frozenset[str]:
        """Returns the keys of the workloads whose start is unknown."""
        return frozenset(self._unknown_start.values())

    def of(self, queue: str) -> tuple[Workload, StartReservation] | None:
        """Returns the workload of this queue with a start reservation, and that reservation."""
        found = self._held.get(queue)
        return None if found is None else (self._items[found[0]].workload, found[1])

    def start_of(self, workload: Workload) -> float | None:
        """Returns the start that is reserved for this workload (epoch seconds); None if none is."""
        found = self._held.get(workload.cluster_queue)
        return found[1].start if found is not None and found[0] == workload.key else None

    def all(self) -> Iterator[tuple[Workload, StartReservation]]:
        """Yields all workloads with a start reservation, in no particular order."""
        return ((self._items[key].workload, reservation) for key, reservation in self._held.values())
