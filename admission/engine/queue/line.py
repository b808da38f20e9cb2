"""One ClusterQueue's waiting line: the order of its workloads and which of them is worth considering next.

Order: higher priority, then older, then smaller UID (cycle.md 4.1). Workloads of equal shape (pod sets and priority) share
one fate: they form a class. When the first of a class is refused in a BestEffortFIFO line the whole class sleeps, in one
step; refusing and waking cost as many steps as there are classes, not workloads. In a StrictFIFO line the refused head
parks the line: nobody overtakes it, until it is woken or somebody else is the head.

Of a class that sleeps it may be known what it waits for (lacks.py): then quota or room that comes free wakes it only if that
is it. Those that are short of quota stand in a heap for each resource, the most modest first, so that looking costs as many
steps as wake up.

Called by queues.py, which knows the lines of all queues and who may not stand in line.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count

from admission.engine.decision import Reason
from admission.engine.model import LARGEST, FlavorResource, PodSet, Workload
from admission.engine.queue.lacks import Free, Lack

Order = tuple[int, float, str, str]
"""Sorts workloads, first to be considered first: total, since keys are unique. The last item is the key."""

_sequence = count()

_ROOM_MAY_HELP = frozenset(
    (
        Reason.WAITING_FOR_QUOTA,
        Reason.TOPOLOGY_PLACEMENT_FAILED,
        Reason.WAITING_FOR_PREEMPTED,
        Reason.REPEATED_PREEMPTION,
        Reason.ADMISSION_GATED,
    )
)


def order_of(workload: Workload) -> Order:
    """Priority descending, time ascending, UID ascending; the key settles what a missing UID leaves open.

    The UID is the gang's where there is one: a late joiner stands beside it.
    """
    uid = workload.uid if workload.gang is None else workload.gang.uid
    return (-workload.priority, workload.queued, uid, workload.key)


def _pod_set_shape(pod_set: PodSet) -> Hashable:
    return (
        pod_set.name,
        pod_set.count,
        pod_set.min_count,
        frozenset(pod_set.requests.items()),
        None if pod_set.charged is None else frozenset(pod_set.charged.items()),
        pod_set.topology,
        frozenset(pod_set.node_selector.items()),
        pod_set.affinity,
        pod_set.preferred_affinity,
        pod_set.tolerations,
    )


def shape_of(workload: Workload, *, timed: bool = False) -> Hashable:
    """Equal for workloads that the scheduler cannot tell apart, but by their place in line.

    Where a required level gives way with time, two that came at different moments do not ask for the same. `timed`: how long
    they run makes a difference.
    """
    relaxing = any(p.topology is not None and p.topology.relax_after is not None for p in workload.pod_sets)
    moment = workload.queued if relaxing else None
    pod_sets = tuple(_pod_set_shape(pod_set) for pod_set in workload.pod_sets)
    group = workload.gang.together if workload.gang is not None else ()
    bound_to = (workload.key, group) if group else None  # it shares its fate with those, not with its equals
    limit = workload.time_limit if timed else None
    gated = workload.gated
    return (workload.priority, workload.profile, workload.defect, gated, moment, limit, bound_to, pod_sets)


@dataclass(slots=True, eq=False)
class EqualClass:
    """The workloads of one shape. `refused`: asleep, and the reason. `untold`: those that never had an answer.

    `again`: when they are worth another look by themselves (epoch seconds), as was said at the last refusal; `lack`: what they
    wait for, None: anything. `short`: the last refusal, if it was for want of so much quota and nothing else.
    """

    shape: Hashable
    members: dict[str, Order] = field(default_factory=dict)
    heap: list[Order] = field(default_factory=list)
    untold: set[str] = field(default_factory=set)
    refused: Reason | None = None
    again: float | None = None
    lack: Lack | None = None
    short: tuple[Reason, Lack] | None = None

    def first(self) -> Order | None:
        """Its foremost member; members that left are dropped here, when they surface."""
        while self.heap and self.members.get(self.heap[0][-1]) != self.heap[0]:
            heappop(self.heap)
        return self.heap[0] if self.heap else None

    def add(self, order: Order) -> bool:
        """True if it is the foremost now."""
        self.members[order[-1]] = order
        self.untold.add(order[-1])
        heappush(self.heap, order)
        return self.heap[0] == order

    def discard(self, key: str) -> bool:
        """True if it was the foremost."""
        was = self.heap[0][-1] == key if self.heap else False
        self.members.pop(key, None)
        self.untold.discard(key)
        return was


@dataclass(slots=True, eq=False)
class Line:
    """The line of a queue. `awake` holds the first of each class that is awake (outdated entries drop when they surface).

    `parked`: the head that was refused in a StrictFIFO line, and why; `parked_lack`: what it waits for. `wakes` counts how
    often the line was woken. `timed`: how long workloads run makes a difference here; `aged`: who came first may evict more.
    `beside_promises`: some sleep on that might have been woken but for what was promised to others.
    """

    strict: bool = False
    timed: bool = False
    aged: bool = False
    beside_promises: bool = False
    classes: dict[Hashable, EqualClass] = field(default_factory=dict)
    awake: list[tuple[Order, int, EqualClass]] = field(default_factory=list)
    parked: tuple[Order, Reason] | None = None
    wakes: int = 0
    parked_lack: Lack | None = None
    _short: dict[tuple[FlavorResource, int | None], list[tuple[int, int, EqualClass, Lack]]] = field(
        default_factory=dict
    )
    _by_usage: dict[EqualClass, None] = field(default_factory=dict)
    _by_room: dict[EqualClass, None] = field(default_factory=dict)

    def head(self) -> Order | None:
        """Whom to consider next; None while everybody sleeps or the line is parked."""
        while self.awake:
            order, _, found = self.awake[0]
            if found.refused is None and found.first() == order:
                return None if self.parked is not None and self.parked[0] == order else order
            heappop(self.awake)
        return None

    def join(self, workload: Workload) -> EqualClass:
        """Take in a workload that is not in line; tells its class."""
        shape = shape_of(workload, timed=self.timed)
        group = self.classes.get(shape)
        if group is None:
            group = self.classes[shape] = EqualClass(shape)
        if group.add(order_of(workload)):
            if self.aged and group.refused is not None:
                self._rise(group)
            else:
                self._offer(group)
        return group

    def leave(self, key: str, group: EqualClass) -> None:
        """Let a member go. One that comes back is another one: what was said of it before no longer holds."""
        if self.parked is not None and self.parked[0][-1] == key:
            self.parked = None
        if group.discard(key):
            self._offer(group)
        if not group.members:
            self.classes.pop(group.shape, None)
            self._forget(group)

    def refuse(
        self, order: Order, group: EqualClass, reason: Reason, *, overtaken: bool = False, lack: Lack | None = None
    ) -> set[str]:
        """The head does not fit. Returns the equals that now sleep without ever having had an answer.

        `overtaken`: the others may be considered before it even here, where the line is a StrictFIFO one.
        """
        group.untold.discard(order[-1])
        group.short = (reason, lack) if lack is not None and lack.quota and not lack.rooms else None
        if self.strict and not overtaken:
            self.parked, self.parked_lack = (order, reason), lack
            return set()
        group.refused = reason
        self._lay_down(group, lack)
        untold, group.untold = group.untold, set()
        return untold

    def park(self, order: Order, group: EqualClass, lack: Lack | None) -> None:
        """The head of a StrictFIFO line waits for its victims; `lack`: unless that comes free before they leave."""
        group.untold.discard(order[-1])
        group.short = None
        self.parked, self.parked_lack = (order, Reason.WAITING_FOR_PREEMPTED), lack

    def unpark(self, key: str) -> None:
        """If that one parks the line, it is worth considering again."""
        if self.parked is not None and self.parked[0][-1] == key:
            self.parked = None

    def promise_ended(self) -> bool:
        """Requeue workloads that may be inadmissible because of others' reservations. True if there is one."""
        if not self.beside_promises:
            return False
        self.beside_promises = False
        return self._raise_eased(lambda fr, priority: LARGEST, evicting=True)

    def wake(self, room_only: bool) -> None:
        """Everybody is worth considering again; with `room_only` just those whom more room could help."""
        self.wakes += 1
        if self.parked is not None and (not room_only or self.parked[1] in _ROOM_MAY_HELP):
            self.parked = None
        for group in self.classes.values():
            group.short = None
            if group.refused is not None and (not room_only or group.refused in _ROOM_MAY_HELP):
                self._rise(group)

    def quota_freed(self, free: Free) -> bool:
        """Usage among the relatives has changed, and so much is free for the queue now. True if somebody is awake for it."""
        self.wakes += 1
        return self._raise_eased(free, evicting=False)

    def quota_taken(self, free: Free) -> bool:
        """Relatives have borrowed: there may be somebody new to evict. True if somebody is awake for it."""
        return self._raise_eased(free, evicting=True)

    def _raise_eased(self, free: Free, *, evicting: bool) -> bool:
        risen = list(self._by_usage)
        for (fr, priority), heap in self._short.items():
            if not heap or (evicting and priority is None):
                continue
            enough = free(fr, priority)
            while heap and (heap[0][0] <= enough or _outdated(heap[0])):
                _, _, group, lack = heappop(heap)
                if group.lack is lack:
                    risen.append(group)
        for group in risen:
            self._rise(group)
        if self.parked is None or not (self.parked_lack or Lack()).eased(free):
            return bool(risen)
        self.parked = None
        return True

    def room_came(self, flavors: Collection[str]) -> bool:
        """There may be more room on the nodes of these flavors. True if somebody is awake for it."""
        self.wakes += 1
        if not self._by_room and self.parked is None:
            return False
        risen = [group for group in self._by_room if _wants_room(group.lack, flavors)]
        for group in risen:
            self._rise(group)
        if self.parked is None or not _wants_room(self.parked_lack, flavors):
            return bool(risen)
        self.parked = None
        return True

    def rouse(self, group: EqualClass) -> None:
        """What these ask for has changed with time: they are worth considering again."""
        group.again = group.short = None
        if self.parked is not None and self.parked[0][-1] in group.members:
            self.parked = None
        if group.refused is not None:
            self._rise(group)

    def _lay_down(self, group: EqualClass, lack: Lack | None) -> None:
        self._forget(group)
        group.lack = lack = lack or Lack()
        if lack.quota is None:
            self._by_usage[group] = None
        if lack.rooms is None or lack.rooms:
            self._by_room[group] = None
        for fr, amount in lack.quota or ():
            heap = self._short.setdefault((fr, lack.priority), [])
            if len(heap) > 2 * len(self.classes):
                heap[:] = [entry for entry in heap if not _outdated(entry)]
                heapify(heap)
            heappush(heap, (amount, next(_sequence), group, lack))

    def _rise(self, group: EqualClass) -> None:
        group.refused = None
        self._forget(group)
        self._offer(group)

    def _forget(self, group: EqualClass) -> None:
        group.lack = None
        self._by_usage.pop(group, None)
        self._by_room.pop(group, None)

    def _offer(self, group: EqualClass) -> None:
        first = group.first()
        if first is not None and group.refused is None:
            heappush(self.awake, (first, next(_sequence), group))


def _outdated(entry: tuple[int, int, EqualClass, Lack]) -> bool:
    """Whether the class was woken, or is gone, since it was said that it lacks this."""
    return entry[2].lack is not entry[3]


def _wants_room(lack: Lack | None, flavors: Collection[str]) -> bool:
    return lack is None or lack.rooms is None or not lack.rooms.isdisjoint(flavors)
