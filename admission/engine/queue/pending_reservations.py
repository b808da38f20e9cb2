"""What is reserved for pending workloads: capacity until their victims have left, and starts.

A capacity reservation ends when one of its queues is requeued: the owner's queue or that of a workload that starts together
with it. Freed usage or node capacity does not end it while the owner would still be short of quota
(`CapacityReservation.hint`): a new search would choose the same victims. It ends at the latest when the last victim has left,
or when the eviction of one is cancelled. queues.py calls this and requeues the owner.

A queue that reserves starts has one start reservation, or one workload whose start is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from admission.engine.model import Workload
from admission.engine.queue.pending import CapacityReservation, PendingWorkload, Positions, StartReservation
from admission.engine.queue.queueing_hints import FreeOf


class ReservationIndex:
    """Owners by the queue that ends their reservation (`_ends`), by victim (`_waiting`), and by queue once it ended
    (`_returning`).
    """

    def __init__(self, items: Mapping[str, PendingWorkload]) -> None:
        self._items = items
        self._ends: dict[str, set[str]] = {}
        self._waiting: dict[str, set[str]] = {}
        self._returning: dict[str, set[str]] = {}

    def __bool__(self) -> bool:
        """Reports whether there is a reservation."""
        return bool(self._ends)

    def make(self, item: PendingWorkload, reservation: CapacityReservation) -> None:
        """Stores the reservation of a workload, in place of its last one: a StrictFIFO head may be evaluated with one."""
        self.forget(item)
        item.reservation, item.lapsed = reservation, False
        for name in _ending(item, reservation):
            self._ends.setdefault(name, set()).add(item.workload.key)
        for victim in reservation.victims:
            self._waiting.setdefault(victim, set()).add(item.workload.key)

    def forget(self, item: PendingWorkload) -> bool:
        """Removes the workload's reservation; True if it had one."""
        self.evaluated(item)
        if item.reservation is None:
            return False
        for name in _ending(item, item.reservation):
            _discard(self._ends, name, item.workload.key)
        for victim in item.reservation.victims:
            _discard(self._waiting, victim, item.workload.key)
        return True

    def end(self, names: Collection[str], free: FreeOf | None = None) -> Iterator[PendingWorkload]:
        """Ends the reservations of these queues; yields the owners by key.

        With `free` (usage or capacity was freed), reservations whose owner is still short of quota stay.
        """
        for key in self._ended_by(names):
            if free is None or not _still_holds(self._items[key], free):
                yield self._broken(self._items[key])

    def left(self, victim: str) -> Iterator[PendingWorkload]:
        """Ends the reservations that waited only for this victim, which has left; yields the owners by key."""
        for key in sorted(self._waiting.pop(victim, ())):
            item = self._items[key]
            if item.reservation is None:
                continue
            item.reservation = replace(item.reservation, victims=item.reservation.victims - {victim})
            if not item.reservation.victims:
                yield self._broken(item)

    def stays(self, victim: str) -> Iterator[PendingWorkload]:
        """Ends the reservations that waited for this victim, whose eviction was cancelled; yields the owners by key."""
        for key in sorted(self._waiting.get(victim, ())):
            yield self._broken(self._items[key])

    def of(self, names: Collection[str]) -> Iterator[tuple[Workload, CapacityReservation]]:
        """Owners and reservations that one of these queues can end, by key."""
        for key in self._ended_by(names):
            item = self._items[key]
            if item.reservation is not None:
                yield item.workload, item.reservation

    def _ended_by(self, names: Collection[str]) -> list[str]:
        return sorted({key for name in self._ends.keys() & names for key in self._ends[name]})

    def _broken(self, item: PendingWorkload) -> PendingWorkload:
        self.forget(item)
        item.reservation = None
        self.mark_lapsed(item)
        return item

    def mark_lapsed(self, item: PendingWorkload) -> None:
        """Marks a workload whose reservation ended and that was not evaluated since."""
        item.lapsed = True
        self._returning.setdefault(item.workload.cluster_queue, set()).add(item.workload.key)

    def evaluated(self, item: PendingWorkload) -> None:
        """Records that a workload whose reservation ended was evaluated, or has left."""
        _discard(self._returning, item.workload.cluster_queue, item.workload.key)

    def returned(self, queue: str, position: Positions) -> Workload | None:
        """Returns the first active workload of the queue whose reservation ended."""
        items = [self._items[key] for key in self._returning.get(queue, ())]
        ready = [item.workload for item in items if item.group is not None and item.group.refused is None]
        return min(ready, key=position, default=None)

    def count(self, queue: str) -> int:
        """Returns how many workloads of the queue wait for victims."""
        return sum(self._items[key].workload.cluster_queue == queue for key in self._ends.get(queue, ()))

    def all(self) -> Iterator[tuple[Workload, CapacityReservation]]:
        """Yields all owners and reservations, in no particular order."""
        for name, keys in self._ends.items():
            for key in keys:
                item = self._items[key]
                if item.reservation is not None and item.workload.cluster_queue == name:
                    yield item.workload, item.reservation


class Preemptors(dict[str, CapacityReservation]):
    """By key of the preemptor. An entry stays after its victims have left, until the preemptor starts or gives up."""

    def victim_left(self, key: str) -> list[str]:
        """Records that a workload has left. Returns the preemptors for which it was evicted."""
        evicted_for = []
        for owner, reservation in self.items():
            self[owner] = replace(reservation, victims=reservation.victims - {key})
            if key in reservation.evicted:
                evicted_for.append(owner)
        return evicted_for

    def victim_stays(self, key: str) -> None:
        """Records that the eviction of a workload was cancelled. A preemptor without any other victim is dropped."""
        for owner, reservation in [item for item in self.items() if key in item[1].evicted]:
            evicted = reservation.evicted - {key}
            if evicted:
                self[owner] = replace(reservation, evicted=evicted, victims=reservation.victims - {key})
            else:
                del self[owner]

    def renewed(self, key: str, reservation: CapacityReservation) -> CapacityReservation:
        """Returns the reservation with what the preemptor evicted before, and stores it if it evicted any workload."""
        leaving = reservation.victims & reservation.evicted
        if (before := self.get(key)) is not None:
            evicted, since = reservation.evicted | before.evicted, min(reservation.since, before.since)
            reservation, leaving = replace(reservation, evicted=evicted, since=since), leaving | before.victims
        if reservation.evicted:
            self[key] = replace(reservation, victims=leaving)
        return reservation


class StartReservations:
    """By ClusterQueue. `items`: the pending workloads by key. `version` grows with every change of a reservation."""

    def __init__(self, items: Mapping[str, PendingWorkload]) -> None:
        self._items = items
        self._held: dict[str, tuple[str, StartReservation]] = {}
        self._unknown_start: dict[str, str] = {}
        self.version = 0

    def reserve(self, key: str, reservation: StartReservation | None) -> str:
        """Stores the start reservation of the first workload of a queue that does not fit; None removes it.

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
        """Removes what is known of the queue, because it no longer reserves starts, or begins to."""
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
        start = self._held.get(queue)
        return None if start is None else (self._items[start[0]].workload, start[1])

    def start_of(self, workload: Workload) -> float | None:
        """Returns the start that is reserved for this workload (epoch seconds); None if none is."""
        start = self._held.get(workload.cluster_queue)
        return start[1].start if start is not None and start[0] == workload.key else None

    def all(self) -> Iterator[tuple[Workload, StartReservation]]:
        """Yields all workloads with a start reservation, in no particular order."""
        return ((self._items[key].workload, reservation) for key, reservation in self._held.values())


def _still_holds(item: PendingWorkload, free: FreeOf) -> bool:
    """Reports whether the workload still cannot start before its victims leave."""
    reservation, queue = item.reservation, item.workload.cluster_queue
    if reservation is None or reservation.hint is None or not reservation.victims:
        return False
    return not reservation.hint.satisfied_by(lambda fr, _: free(queue, fr, None))


def _discard(keys: dict[str, set[str]], name: str, key: str) -> None:
    if (keys_of := keys.get(name)) is not None:
        keys_of.discard(key)
        if not keys_of:
            del keys[name]


def _ending(item: PendingWorkload, reservation: CapacityReservation) -> set[str]:
    """Returns the queues that end the reservation when they are requeued."""
    return {item.workload.cluster_queue, *(admission.cluster_queue for _, admission in reservation.beside)}
