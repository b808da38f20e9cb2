"""The lines of all ClusterQueues, and which change requeues which of their workloads.

PendingQueues puts workloads into the lines; scheduler_state.py and cycle/ report changes of quota and of node capacity.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from admission.engine.model import Workload
from admission.engine.queue.cluster_queue import QueueLine
from admission.engine.queue.notices import EvaluationNotices
from admission.engine.queue.past_usage import PastUsage
from admission.engine.queue.pending import CapacityReservation, PendingWorkload
from admission.engine.queue.pending_reservations import Preemptors, ReservationIndex
from admission.engine.queue.queueing_hints import Free, FreeOf

Beside = Callable[[Iterable[tuple[Workload, CapacityReservation]]], FreeOf]
"""The free quota of each queue, given these capacity reservations."""

BYPASSED = "Bypassed scheduling evaluation because an equivalent workload recently failed"


class QueueLines:
    """The line of each ClusterQueue (`by_queue`), including queues that are not known (yet).

    `items`: the pending workloads by key. `ready`: the queues that may have a head. `refused`: those in which a workload was
    refused since node capacity last helped none. `preemptors`: see there.
    """

    def __init__(
        self,
        items: Mapping[str, PendingWorkload],
        reservations: ReservationIndex,
        preemptors: Preemptors,
        notices: EvaluationNotices,
    ) -> None:
        self._items, self._reservations = items, reservations
        self._preemptors, self._notices = preemptors, notices
        self._flavors = FlavorQueues()
        self._members: dict[str, set[str]] = {}
        """By queue the workloads that start together with others."""
        self.by_queue: dict[str, QueueLine] = {}
        self.ready: set[str] = set()
        self.refused: set[str] = set()

    def set_flavors(self, queue: str, flavors: frozenset[str]) -> None:
        """Records the flavors of which the queue has quota now."""
        self._flavors.put(queue, flavors)

    def drop_flavors(self, queue: str) -> None:
        """Forgets the flavors of a removed queue."""
        self._flavors.drop(queue)

    def forget_unknown(self, name: str) -> None:
        """Drops the line of a queue without pending workloads, unless the queue exists."""
        if name not in self._flavors:
            self.by_queue.pop(name, None)
            self.ready.discard(name)
            self.refused.discard(name)

    def line(self, name: str) -> QueueLine:
        """Returns the line of the queue, which is empty for an unknown queue."""
        return self.by_queue.setdefault(name, QueueLine())

    def enlist(self, item: PendingWorkload) -> None:
        """Puts the workload into its queue's line. It is inadmissible at once if its equivalence class is."""
        name = item.workload.cluster_queue
        item.group = self.line(name).join(item.workload)
        self.ready.add(name)
        if item.group.refused is not None:
            item.group.unevaluated.discard(item.workload.key)
            self._notices.add(item.workload, item.group.refused, BYPASSED)

    def rebuild(self, changed: Mapping[str, tuple[bool, PastUsage | None, str]]) -> None:
        """Rebuilds these lines with other `timed`, `past` and `within`: shapes include time limit and LocalQueue, or not."""
        enlisted = [item for item in self._items.values() if item.workload.cluster_queue in changed]
        enlisted = [item for item in enlisted if item.group is not None]
        for item in enlisted:
            if item.group is not None:
                self.line(item.workload.cluster_queue).leave(item.workload.key, item.group)
        for name, (timed, past, within) in changed.items():
            line = self.line(name)
            line.timed, line.past, line.within = timed, past, within
        for item in enlisted:
            self.enlist(item)

    def requeue(self, names: Collection[str], *, capacity_only: bool = False) -> None:
        """Requeues the workloads of these queues after a change that could help them.

        `capacity_only`: only quota or node capacity was freed or added. Workloads that no flavor matches, or that request more
        than the maximum, stay inadmissible.
        """
        for name in names:
            if (line := self.by_queue.get(name)) is not None:
                line.requeue(capacity_only)
                self.ready.add(name)
        self._end_reservations(self._reservations.end(names))
        self._requeue_groups(names)

    def enter(self, workload: Workload) -> None:
        """Records a workload that is pending now."""
        if workload.gang is not None and workload.gang.together:
            self._members.setdefault(workload.cluster_queue, set()).add(workload.key)

    def left(self, workload: Workload) -> None:
        """Records that the workload is not pending any more."""
        members = self._members.get(workload.cluster_queue, set())
        members.discard(workload.key)
        if not members:
            self._members.pop(workload.cluster_queue, None)

    def _requeue_groups(self, names: Collection[str]) -> None:
        """Requeues the groups of which members are in these queues, where capacity was freed.

        The others may be in queues to which that means nothing, while these stand behind another workload.
        """
        for name in sorted(self._members.keys() & names) if self._members else ():
            for key in sorted(self._members[name]):
                self.requeue_group(self._items[key].workload)

    def requeue_group(self, workload: Workload) -> None:
        """Requeues the workloads that start together with it: their reason to wait may have changed."""
        for key in workload.gang.together if workload.gang is not None else ():
            item = self._items.get(key)
            if key != workload.key and item is not None and item.group is not None:
                name = item.workload.cluster_queue
                if self.line(name).refuses(key, item.group):
                    self.line(name).requeue_class(item.group)
                    self.ready.add(name)

    def requeue_others(self, name: str) -> None:
        """Requeues all other queues: quota and nodes reserved in this queue are free again (nodes maybe in other flavors)."""
        self.requeue([other for other in self.by_queue if other != name])

    def refused_first(self) -> list[str]:
        """Returns the first workload of each class that was refused, by queue; of a queue that its head blocks, that head."""
        keys: list[str] = []
        for name in sorted(self.by_queue):
            line = self.by_queue[name]
            if line.inadmissible_head is not None:
                keys.append(line.inadmissible_head[0][-1])
            else:
                firsts = (group.first() for group in line.classes.values() if group.refused is not None)
                keys += sorted(first[-1] for first in firsts if first is not None)
        return keys

    def is_refused(self, key: str) -> bool:
        """Reports whether the workload was refused and waits for a change. One that waits for its victims was not."""
        item = self._items.get(key)
        if item is None or item.group is None or item.reservation is not None:
            return False
        return self.line(item.workload.cluster_queue).refuses(key, item.group)

    def requeue_refused(self, name: str, but: Collection[str]) -> None:
        """Requeues the refused workloads of the queue except those of the classes of `but`. Capacity reservations stay."""
        if (line := self.by_queue.get(name)) is None:
            return
        head = line.inadmissible_head
        if head is not None and self._items[head[0][-1]].reservation is not None:
            but = {*but, head[0][-1]}
        line.requeue(capacity_only=False, but=but)
        self.ready.add(name)

    def requeue_behind(self, names: Iterable[str]) -> None:
        """Requeues the workloads of these queues that were refused because they would delay another one."""
        for name in names:
            if (line := self.by_queue.get(name)) is not None and line.requeue_behind():
                self.ready.add(name)

    def stays(self, workload: Workload) -> None:
        """Requeues the workloads that wait for this admitted workload, or start with it: its eviction was cancelled."""
        self.requeue_group(workload)
        self._preemptors.victim_stays(workload.key)
        self._end_reservations(self._reservations.stays(workload.key))

    def quota_freed(self, names: Collection[str], beside: Beside, left: str = "") -> None:
        """Requeues workloads after usage fell in these queues of one cohort tree. `left`: key of the admitted workload that has
        left, if one has.
        """
        self._victim_left(left)
        for item in self._reservations.left(left):
            # an owner of another cohort tree waited for its nodes; requeue what was inadmissible there because of it
            (self._requeue_owners if item.workload.cluster_queue in names else self._end_reservations)((item,))
        self._requeue_owners(self._reservations.end(names, beside(())))
        self._requeue_beside(names, beside, QueueLine.quota_freed)
        self._requeue_groups(names)

    def _victim_left(self, left: str) -> None:
        """Requeues the preemptors for which this workload was evicted."""
        for key in self._preemptors.victim_left(left):
            item = self._items.get(key)
            if item is not None and item.reservation is None and item.group is not None:
                self.line(item.workload.cluster_queue).requeue_class(item.group)
                self.ready.add(item.workload.cluster_queue)

    def quota_taken(self, names: Collection[str], beside: Beside) -> bool:
        """Requeues workloads that may evict others of a queue in this cohort tree, because it borrows more than before.

        True if a workload was requeued.
        """
        self._requeue_groups(names)
        return self._requeue_beside(names, beside, QueueLine.quota_taken)

    def capacity_freed(self, flavors: Collection[str], beside: Beside) -> None:
        """Requeues workloads after the nodes of these flavors may have gained free capacity."""
        for name in tuple(self.refused):
            if not (line := self.by_queue[name]).waits_for_capacity:
                self.refused.discard(name)
            elif self._flavors.has(name, flavors) and line.capacity_freed(flavors):
                self.ready.add(name)
        if self._members:
            self._requeue_groups(self.queues_of(flavors))
        if self._reservations:
            self._end_reservations(self._reservations.end(self.queues_of(flavors), beside(())))

    def queues_of(self, flavors: Iterable[str]) -> set[str]:
        """Returns the queues with quota of any of these flavors: freed capacity of a flavor could help them."""
        return self._flavors.of(flavors)

    def sharing_flavors(self, name: str) -> set[str]:
        """Returns the queues that share a flavor with this one, itself included."""
        return self._flavors.beside(name)

    def _requeue_beside(self, names: Collection[str], beside: Beside, how: Callable[[QueueLine, Free], bool]) -> bool:
        """Calls `how` on each of these queues with the quota that is free beside the reservations.

        Returns True if a workload was requeued.
        """
        reservations, requeued = list(self._reservations.of(names)), False
        free = beside(reservations)
        for name in names:
            if (line := self.by_queue.get(name)) is not None:
                line.beside_reservations |= bool(reservations)
                if how(line, partial(free, name)):
                    self.ready.add(name)
                    requeued = True
        return requeued

    def _end_reservations(self, broken: Iterable[PendingWorkload]) -> None:
        """Requeues the owners of ended reservations, and the workloads that were inadmissible because of them."""
        if self._requeue_owners(broken):
            self.ready.update(name for name, line in self.by_queue.items() if line.reservation_ended())

    def _requeue_owners(self, broken: Iterable[PendingWorkload]) -> bool:
        """Requeues the owners of ended reservations. Returns True if there is one."""
        requeued = False
        for item in broken:
            requeued = True
            if item.group is None:
                self.enlist(item)
            else:
                self.line(item.workload.cluster_queue).release_head(item.workload.key)
                self.ready.add(item.workload.cluster_queue)
        return requeued


class FlavorQueues:
    """The queues of each flavor, and the flavors of each queue (`by_queue`): freed node capacity of a flavor may help its
    queues.
    """

    def __init__(self) -> None:
        self.by_queue: dict[str, frozenset[str]] = {}
        self._queues: dict[str, set[str]] = {}

    def __contains__(self, queue: str) -> bool:
        return queue in self.by_queue

    def put(self, queue: str, flavors: frozenset[str]) -> None:
        """Records the flavors of the queue."""
        self.drop(queue)
        for flavor in flavors:
            self._queues.setdefault(flavor, set()).add(queue)
        self.by_queue[queue] = flavors

    def has(self, queue: str, flavors: Collection[str]) -> bool:
        """Reports whether the queue has any of these flavors."""
        return not self.by_queue.get(queue, frozenset()).isdisjoint(flavors)

    def drop(self, queue: str) -> None:
        """Forgets a removed queue."""
        for flavor in self.by_queue.pop(queue, ()):
            self._queues[flavor].discard(queue)
            if not self._queues[flavor]:
                del self._queues[flavor]

    def of(self, flavors: Iterable[str]) -> set[str]:
        """Returns the queues that have any of these flavors."""
        return set().union(*(self._queues.get(flavor, ()) for flavor in flavors))

    def beside(self, queue: str) -> set[str]:
        """Returns the queues that share a flavor with this one, itself included if it has a flavor."""
        return self.of(self.by_queue.get(queue, ()))
