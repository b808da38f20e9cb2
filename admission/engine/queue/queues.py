"""The pending workloads of all ClusterQueues.

A workload is in one of three states:

- *active*: in its queue's line; a cycle will evaluate it.
- *inadmissible*: refused together with its equivalence class, or in backoff. It becomes active again after a change that could
  help (`QueueLines.requeue`), after freed quota or capacity that satisfies its queueing hint, or when it changes itself.
- *blocked*: a cycle may not evaluate it; the workload carries the reason.

`take_notices` gives the reason of each workload that was not evaluated, once.

Called by scheduler_state.py (put, remove) and by cycle/cycle.py (heads, refuse). It holds no quota and decides no admission;
lines.py decides which change requeues which workloads, and cluster_queue.py orders the workloads of a queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from math import inf

from admission.engine.model import ClusterQueue, FlavorResource, QueueingStrategy, Workload
from admission.engine.queue.cluster_queue import (
    EquivalenceClass,
    QueueLine,
    order_of,
    position_of,
    usage_counts,
)
from admission.engine.queue.evictions import Evictions
from admission.engine.queue.lines import BYPASSED, QueueLines
from admission.engine.queue.memory import QueueMemory, refusals, remembered
from admission.engine.queue.notices import EvaluationNotices, NotEvaluated
from admission.engine.queue.past_usage import PastUsage
from admission.engine.queue.pending import (
    CapacityReservation,
    KeptRequest,
    PendingWorkload,
    Positions,
    StartReservation,
    same_place,
)
from admission.engine.queue.pending_counts import PendingCounts, pending_counts
from admission.engine.queue.pending_reservations import Preemptors, ReservationIndex, StartReservations
from admission.engine.queue.positions import Position
from admission.engine.queue.queueing_hints import Free, QueueingHint
from admission.engine.reasons import Reason, ReasonCode


class PendingQueues:
    """The pending workloads of all queues, including queues that are not known (yet)."""

    def __init__(self, past: PastUsage | None = None) -> None:
        """`past` is the past usage of the LocalQueues."""
        self.past = PastUsage() if past is None else past
        self._items: dict[str, PendingWorkload] = {}
        self._timers: list[tuple[float, str]] = []
        self._steps: list[tuple[float, int, str, EquivalenceClass]] = []
        self._sequence = count()
        self._reservations = ReservationIndex(self._items)
        self._kept: dict[str, KeptRequest] = {}
        self._notices = EvaluationNotices()
        self._counts: Counter[str] = Counter()
        self._timed = False
        self.evictions = Evictions()
        self.preemptors = Preemptors()
        self.starts = StartReservations(self._items)
        self.lines = QueueLines(self._items, self._reservations, self.preemptors, self._notices)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: str) -> bool:
        return key in self._items

    # ---- queues and workloads that come, change and go

    def set_queue(self, spec: ClusterQueue) -> None:
        """Adds or change a queue; requeues its workloads."""
        self.lines.set_flavors(spec.name, frozenset(spec.flavors))
        line = self.lines.line(spec.name)
        line.strict = spec.strategy is QueueingStrategy.STRICT_FIFO
        line.aged = spec.preemption.by_age
        if line.reserves_starts != spec.reserves_starts:
            self.starts.forget(spec.name)
            line.reserves_starts = spec.reserves_starts
        line.by_guess = spec.by_guess
        timed, past = (
            self._timed or spec.reserves_starts or spec.by_guess,
            self.past if spec.by_usage and self.past else None,
        )
        within = spec.preemption.within_cluster_queue
        if line.timed != timed or line.past is not past or (past and line.within != within):
            self.lines.rebuild({spec.name: (timed, past, within)})
        line.within = within
        self.lines.requeue((spec.name,))

    def time_shapes(self, *, timed: bool) -> None:
        """Makes the time limit of a workload part of its shape in every queue, or only in those that reserve starts."""
        self._timed = timed
        wanted = {
            name: (timed or line.reserves_starts or line.by_guess, line.past, line.within)
            for name, line in self.lines.by_queue.items()
        }
        self.lines.rebuild({name: each for name, each in wanted.items() if self.lines.line(name).timed != each[0]})

    def drop_queue(self, name: str) -> None:
        """Forgets a queue's strategy and flavors; its workloads stay until the shell moves or removes them."""
        self.lines.drop_flavors(name)
        self.lines.line(name).strict = False
        if name not in self._counts:
            self.lines.forget_unknown(name)

    def put(self, workload: Workload) -> None:
        """Adds or update a workload. One with an admission is not pending and is removed.

        An update that changes neither the order nor the shape nor the block keeps its position, so that our own writes to its
        status never requeue it.
        """
        if workload.admission is not None:
            self.remove(workload.key)
            return
        self.evictions.pending(workload.key)
        item = self._items.get(workload.key)
        line = self.lines.line(workload.cluster_queue)
        moved = item is not None and line.past is not None and item.workload.queue != workload.queue
        if item is not None and not moved and same_place(item.workload, workload, timed=line.timed):
            item.workload = workload
            return
        if item is not None and item.workload.priority != workload.priority:
            self.evictions.forget(workload.key)
        self.remove(workload.key)
        item = self._items[workload.key] = PendingWorkload(workload)
        self._counts[workload.cluster_queue] += 1
        self.lines.enter(workload)
        self.lines.line(workload.cluster_queue)  # each queue with pending workloads has one
        if workload.blocked is not None:
            self._notices.add(workload, Reason(workload.blocked[0]), workload.blocked[1])
        elif workload.not_before == inf:
            pass  # something else must happen first, and will come as an update
        elif workload.not_before:
            heappush(self._timers, (workload.not_before, workload.key))
        else:
            self.lines.enlist(item)
        self.lines.requeue_group(workload)

    def remove(self, key: str) -> None:
        """Forgets a workload (admitted, finished, deleted)."""
        item = self._items.pop(key, None)
        self._notices.drop(key)
        self.preemptors.pop(key, None)
        if item is None:
            return
        name = item.workload.cluster_queue
        self.lines.left(item.workload)
        if self._reservations.forget(item):
            self.lines.requeue(tuple(self.lines.by_queue))  # its reservation is free again, as in requeue_others
        if item.group is not None:
            self.lines.by_queue[name].leave(key, item.group)
            self.lines.ready.add(name)
        self.lines.requeue_group(item.workload)
        if self._kept.pop(key, None) is not None:
            self.lines.requeue({name} | self.lines.sharing_flavors(name))  # others may borrow it now
        held, unforeseen = self.starts.leave(name, key)
        if held:
            self.lines.requeue(
                {name} | self.lines.sharing_flavors(name)
            )  # its reservation is free, and its queue has another head
        if unforeseen:
            self.lines.requeue((name,))  # those behind it may be given a reservation now
        self._counts[name] -= 1
        if not self._counts[name]:
            del self._counts[name]
            self.lines.forget_unknown(name)

    # ---- heads, refusals and reservations of a cycle

    def due(self, now: float) -> None:
        """Activates workloads whose backoff is over, and requeue classes whose requests are relaxed by now (epoch seconds)."""
        while self._steps and self._steps[0][0] <= now:
            again, _, name, group = heappop(self._steps)
            if group.again == again:
                self.lines.line(name).requeue_class(group)
                self.lines.ready.add(name)
        while self._timers and self._timers[0][0] <= now:
            not_before, key = heappop(self._timers)
            item = self._items.get(key)
            if item is not None and item.workload.not_before == not_before and self._delayed(item):
                self.lines.enlist(item)
                self.lines.requeue_group(item.workload)

    def next_due(self) -> float | None:
        """Returns when `due` next has work (epoch seconds), possibly for a workload that has left since."""
        return min((heap[0][0] for heap in (self._timers, self._steps) if heap), default=None)

    def head(self, queue: str) -> Workload | None:
        """Returns the next workload of the queue to evaluate, None if there is none.

        In a BestEffortFIFO queue a preemptor whose reservation ended comes first, unless usage puts another one before it.
        Otherwise a workload behind it could take the freed capacity, be evicted for it again, and so on without end.
        """
        line = self.lines.by_queue.get(queue)
        if line is None:
            return None
        order = line.head()
        head = self._items[order[-1]].workload if order else None
        if not line.strict and (first := self._reservations.returned(queue, self.position)) is not None:
            return head if head is not None and self._goes_before(head, first) else first
        return head

    def goes_by_guess(self, workload: Workload) -> bool:
        """Reports whether the workload may overtake others by its guess: its queue allows that, and it has no time limit."""
        line = self.lines.by_queue.get(workload.cluster_queue)
        return line is not None and line.by_guess and workload.time_limit is None

    def orders_by_usage(self, queue: str) -> bool:
        """Reports whether the past usage of LocalQueues orders the ClusterQueue."""
        line = self.lines.by_queue.get(queue)
        return line is not None and line.past is not None

    def reordered(self, queue: str) -> bool:
        """Records that past usage in the ClusterQueue has changed. Returns True if it has a head, maybe another one."""
        if not self.orders_by_usage(queue) or self.head(queue) is None:
            return False
        self.lines.ready.add(queue)
        return True

    def _goes_before(self, workload: Workload, other: Workload) -> bool:
        """Reports whether priority or past usage puts one workload before another one of its ClusterQueue."""
        return self.position(workload)[:2] < self.position(other)[:2]

    def position(self, workload: Workload) -> Position:
        """Returns the sort key of the workload within its ClusterQueue now."""
        line = self.lines.by_queue.get(workload.cluster_queue)
        return position_of(workload, "Never") if line is None else line.position(workload)

    def positions_now(self) -> Positions:
        """Returns `position` as it is now, for another thread."""
        within = {name: line.within for name, line in self.lines.by_queue.items() if line.past is not None}
        usage = self.past.usages() if within else {}

        def position(workload: Workload) -> Position:
            policy = within.get(workload.cluster_queue)
            counts = policy is not None and usage_counts(policy)
            return position_of(workload, policy or "Never", usage.get(workload.queue, 0.0) if counts else 0.0)

        return position

    def before(self, first: Workload, second: Workload) -> bool:
        """Reports whether `first` comes before `second`, a workload of the same ClusterQueue."""
        return self.position(first) < self.position(second)

    def has_head(self) -> bool:
        """Reports whether a queue has a workload to evaluate."""
        return next(self.heads(), None) is not None

    def heads(self) -> Iterator[Workload]:
        """Yields the head of each queue that has one, by the name of the queue."""
        for name in sorted(self.lines.ready):
            if (head := self.head(name)) is not None:
                yield head
            else:
                self.lines.ready.discard(name)

    def refuse(
        self,
        key: str,
        reason: ReasonCode,
        again: float | None = None,
        *,
        overtaken: bool = False,
        hint: QueueingHint | None = None,
    ) -> bool:
        """Records that the workload, head of its queue, does not fit. Returns True if it stays the head.

        In a BestEffortFIFO queue its class becomes inadmissible. `again`: when time alone requeues it (epoch seconds), for
        example because a required level is relaxed. `overtaken`: the next workloads are evaluated even in a StrictFIFO queue.
        `hint`: its queueing hint; None: any change may help.
        """
        item = self._items[key]
        name = item.workload.cluster_queue
        line = self.lines.by_queue[name]
        if item.group is None:
            return False
        if again is not None and item.group.again != again:
            heappush(self._steps, (again, next(self._sequence), name, item.group))
        item.group.again = again
        line.beside_reservations |= bool(self._reservations)
        self.lines.refused.add(name)
        for other in line.refuse(order_of(item.workload), item.group, reason, overtaken=overtaken, hint=hint):
            self._notices.add(self._items[other].workload, reason, BYPASSED)
        return line.strict and not overtaken

    def wake(self, key: str, at: float) -> None:
        """Requeues a refused workload at this time (epoch seconds) at the latest, with its class."""
        item = self._items[key]
        if item.group is not None and (item.group.again is None or at < item.group.again):
            heappush(self._steps, (at, next(self._sequence), item.workload.cluster_queue, item.group))
            item.group.again = at

    def stays_inadmissible(self, key: str, free: Free) -> bool:
        """Reports whether a head is still short of the quota that its class was refused for, and refuses its class again if so.

        The next heads of the queue are refused likewise while they are short. A workload that was never evaluated is not
        refused.
        """
        line, stays, free = self.lines.by_queue[self._items[key].workload.cluster_queue], False, _memoized(free)
        while (order := line.head()) is not None:
            group = self._items[order[-1]].group
            if (
                group is None
                or group.short is None
                or order[-1] in group.unevaluated
                or group.short[1].satisfied_by(free)
            ):
                break
            reason, hint = group.short
            self.refuse(order[-1], reason, group.again, hint=hint)
            stays |= order[-1] == key
        return stays

    def mark_start_unknown(self, key: str) -> None:
        """Records that the start of the waiting workload is unknown: meanwhile no start is reserved in its queue.

        Removes the start reservation of a workload behind it. One per queue; it holds as long as a reservation would.
        """
        name = self._items[key].workload.cluster_queue
        if (lost := self.starts.mark_start_unknown(key)) is not None:
            self.lines.requeue({name} | self.lines.sharing_flavors(name))
            if self.lines.line(name).strict:
                self._notices.add(self._items[lost].workload, Reason.PENDING_EVALUATION, f"waits behind {key}")

    def start_moved(self, name: str, before: tuple[Workload, StartReservation] | None) -> bool:
        """Requeues the workloads that were refused because they would delay the head of this queue, if its start reservation is
        not that of `before` any more. Returns whether that is so.
        """
        if before is None or (after := self.starts.of(name)) == before:
            return False
        if after is not None and after[0].key == before[0].key and after[1].same_as(before[1]):
            return False
        self.lines.requeue_behind({name} | self.lines.sharing_flavors(name))
        return True

    def reserve_capacity(self, key: str, reservation: CapacityReservation) -> None:
        """Reserves capacity for the head of a queue until its victims leave; until the reservation ends it is not a head.

        In a StrictFIFO queue no workload overtakes it; in a BestEffortFIFO queue the next workloads are evaluated. Requeueing
        the queue of a workload that starts together with it ends the reservation too.
        """
        item = self._items[key]
        name = item.workload.cluster_queue
        line = self.lines.by_queue[name]
        if item.group is None:
            return
        if line.strict:
            self.lines.refused.add(name)
            line.hold_head(order_of(item.workload), item.group, reservation.hint)
        else:
            line.leave(key, item.group)
            item.group = None
        self.starts.reserve(key, None)
        self.keep(key, None)
        self._reservations.make(item, self.preemptors.renewed(key, reservation))

    def drop_preemptor(self, key: str) -> None:
        """Drops the reservation of a preemptor that can no longer use it."""
        self.preemptors.pop(key, None)

    def keep(self, key: str, kept: KeptRequest | None) -> None:
        """Keeps quota of the queue for a pending workload (cycle/kept_quota.py); None stops that.

        It holds until the workload leaves, which requeues others, or gets a capacity reservation.
        """
        if kept is None:
            self._kept.pop(key, None)
        else:
            self._kept[key] = kept

    def keeps(self, key: str) -> bool:
        """Reports whether the workload keeps quota."""
        return key in self._kept

    def kept(self) -> Iterator[tuple[Workload, KeptRequest]]:
        """Yields the workloads that keep quota, in no particular order."""
        return ((self._items[key].workload, kept) for key, kept in self._kept.items())

    def holds_reservation(self, key: str) -> bool:
        """Reports whether the workload waits for victims to leave."""
        item = self._items.get(key)
        return item is not None and item.reservation is not None

    def capacity_reservations(self) -> Iterator[tuple[Workload, CapacityReservation]]:
        """Yields the workloads that wait for victims to leave, in no particular order."""
        return self._reservations.all()

    def lapsed(self, key: str) -> bool:
        """Reports whether the workload's capacity reservation ended and was not renewed; True only once."""
        item = self._items[key]
        lapsed, item.lapsed = item.lapsed, False
        self._reservations.evaluated(item)
        return lapsed

    def take_notices(self) -> list[NotEvaluated]:
        """Returns the notices for workloads that were not evaluated, in order; each is returned once."""
        return self._notices.take()

    # ---- lists and counts for statuses and metrics

    def active(self, queue: str) -> list[Workload]:
        """Returns the workloads that will be evaluated, in order, including the refused head of a StrictFIFO queue."""
        return self._sorted(queue, lambda item: item.active)

    def inadmissible(self, queue: str) -> list[Workload]:
        """Returns the workloads that are inadmissible, in backoff or blocked, in order."""
        return self._sorted(queue, lambda item: not item.active)

    def pending_counts(self, queue: str) -> PendingCounts:
        """Returns the counts of its active and inadmissible workloads."""
        line = self.lines.by_queue.get(queue) or QueueLine()
        return pending_counts(
            line, self._counts[queue], self._reservations.count(queue), lambda key: self._items[key].workload
        )

    def count(self, queue: str) -> int:
        """Returns how many workloads of the queue are pending."""
        return self._counts[queue]

    # ---- snapshots

    def workloads(self) -> Iterator[Workload]:
        """Yields all that are pending, in no particular order."""
        return (item.workload for item in self._items.values())

    def workload(self, key: str) -> Workload | None:
        """Returns the pending workload of that key."""
        item = self._items.get(key)
        return item.workload if item else None

    def refusals(self) -> dict[str, tuple[ReasonCode, float | None]]:
        """Returns the inadmissible workloads by key: reason and `again` as `refuse` got them for it or its class."""
        return refusals(self._items, self.lines.by_queue)

    def memory(self) -> QueueMemory:
        """Returns the other results of earlier evaluations, for a snapshot."""
        return replace(remembered(self._items, self.lines.by_queue), unforeseen=self.starts.all_with_unknown_start())

    def restore(self, memory: QueueMemory, *, says_who_blocks: bool = True) -> None:
        """Restores the memory of a snapshot. `refuse` (with the hints) must have been called before, and `reserve_capacity`.

        `says_who_blocks`: `memory.blocking` is known.
        """
        for key, item in self._items.items():
            if item.group is not None:
                item.group.unevaluated = {one for one in item.group.members if one in memory.unevaluated}
                if key in memory.short:
                    item.group.short = memory.short[key]
            if key in memory.returning:
                self._reservations.mark_lapsed(item)
            if key in memory.unforeseen:
                self.starts.mark_start_unknown(key)
        for line in self.lines.by_queue.values():
            line.beside_reservations = True  # unknown after a restart, so assume it
            head = line.inadmissible_head
            if says_who_blocks and head is not None and head[0][-1] not in memory.blocking:
                line.inadmissible_head = None  # the owner of a reservation that is evaluated again

    def _delayed(self, item: PendingWorkload) -> bool:
        return item.group is None and item.reservation is None and item.workload.blocked is None

    def _sorted(self, queue: str, wanted: Callable[[PendingWorkload], bool]) -> list[Workload]:
        workloads = (i.workload for i in self._items.values() if i.workload.cluster_queue == queue and wanted(i))
        return sorted(workloads, key=self.position)


def _memoized(free: Free) -> Free:
    """Returns the same function with memoized results; valid while usage does not change."""
    known: dict[tuple[FlavorResource, int | None], int] = {}

    def look_up(fr: FlavorResource, priority: int | None) -> int:
        if (fr, priority) not in known:
            known[fr, priority] = free(fr, priority)
        return known[fr, priority]

    return look_up
