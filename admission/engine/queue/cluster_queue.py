"""The pending workloads of one ClusterQueue: their order and the next one to evaluate.

Order: higher priority, then older, then smaller UID (cycle.md 4.1). With admission fair sharing the usage of the LocalQueue
(past_usage.py) comes first, and each LocalQueue has a line of its own: usage changes with each admission, but never the order
within a LocalQueue. Workloads of equal shape (pod sets and priority) form an equivalence class, there of one LocalQueue.
Where workloads may evict others of their own queue (`withinClusterQueue`), who may evict comes first: usage orders only what
cannot evict each other. Otherwise the LocalQueue that used less would start workloads that are evicted at once.

In a BestEffortFIFO queue the refusal of one workload makes its whole class inadmissible in one step, so refusing and requeueing
cost O(classes), not O(workloads). In a StrictFIFO queue the refused head blocks the queue until the head is requeued or another
workload becomes the head.

An inadmissible class may have a queueing hint (queueing_hints.py). Freed quota or capacity then requeues it only if the hint
is satisfied. Classes that wait for quota are in one heap per flavor and resource, the smallest amount first, so a change costs
O(requeued classes · log classes).

Called by queues.py, which holds the lines of all queues and keeps blocked workloads out of them.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count

from admission.engine.model import LARGEST, FlavorResource, PodSet, Workload
from admission.engine.queue.first_lines import FirstLines
from admission.engine.queue.past_usage import PastUsage
from admission.engine.queue.positions import Line, Order, Position
from admission.engine.queue.queueing_hints import Free, QueueingHint
from admission.engine.reasons import Reason, ReasonCode

_sequence = count()

_CAPACITY_MAY_HELP = frozenset(
    (
        Reason.WAITING_FOR_QUOTA,
        Reason.TOPOLOGY_PLACEMENT_FAILED,
        Reason.WAITING_FOR_PREEMPTED,
        Reason.REPEATED_PREEMPTION,
        Reason.ADMISSION_GATED,
    )
)


def order_of(workload: Workload) -> Order:
    """Returns the sort key: priority descending, time ascending, UID ascending, key ascending.

    A member of a gang sorts by the UID of the gang, so a late joiner is next to its gang.
    """
    uid = workload.uid if workload.gang is None else workload.gang.uid
    return (-workload.priority, workload.queued, uid, workload.key)


def usage_counts(within: str) -> bool:
    """Reports whether the past usage of LocalQueues says anything: not where older workloads evict newer ones anyway."""
    return within != "LowerOrNewerEqualPriority"


def position_of(workload: Workload, within: str, used: float = 0.0) -> Position:
    """Returns the sort key of a workload whose LocalQueue has used so much.

    `within` is whom the workloads of its queue may evict in it. Only then the priority counts toward other LocalQueues.
    """
    return 0 if within == "Never" else -workload.lowest_priority, used, order_of(workload)


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
        frozenset(pod_set.exclusive),
        pod_set.volumes,
        pod_set.gathered,
        pod_set.facts,
    )


def shape_of(workload: Workload, *, timed: bool = False) -> Hashable:
    """Equal for workloads that differ only in their position in the queue.

    Where a required level is relaxed over time, workloads created at different times have different shapes. `timed`: include
    the time limit of the workload, and its guess.
    """
    relaxing = any(p.topology is not None and p.topology.relax_after is not None for p in workload.pod_sets)
    moment = workload.queued if relaxing else None
    pod_sets = tuple(_pod_set_shape(pod_set) for pod_set in workload.pod_sets)
    group = workload.gang.together if workload.gang is not None else ()
    bound_to = (workload.key, group) if group else None  # it is admitted with its group, not with its class
    limit = (workload.time_limit, workload.guess, workload.termination) if timed else None
    gated = workload.gated
    uses = (workload.key.partition("/")[0], workload.reservation) if workload.reservation else None
    compared = (workload.lowest_priority, workload.namespace if workload.gang is not None else "")
    return (
        workload.priority,
        compared,
        workload.profile,
        workload.defect,
        gated,
        moment,
        limit,
        bound_to,
        pod_sets,
        uses,
        workload.replaces,
        workload.annotations,
    )


@dataclass(slots=True, eq=False)
class EquivalenceClass:
    """The workloads of one shape."""

    shape: Hashable
    line: Line = (0, "")
    """Priority and LocalQueue of all members as far as they order the queue (`line_of`)."""
    members: dict[str, Order] = field(default_factory=dict)
    heap: list[Order] = field(default_factory=list)
    unevaluated: set[str] = field(default_factory=set)
    """The keys of members that were never evaluated."""
    refused: ReasonCode | None = None
    """The reason if the class is inadmissible."""
    again: float | None = None
    """When time alone requeues the class (epoch seconds), from the last refusal."""
    hint: QueueingHint | None = None
    """The queueing hint; None: any change may help."""
    short: tuple[ReasonCode, QueueingHint] | None = None
    """Reason and hint of the last refusal if only quota was missing."""

    def first(self) -> Order | None:
        """Returns the first member in order. Drops entries of members that left when they reach the top of the heap."""
        while self.heap and self.members.get(self.heap[0][-1]) != self.heap[0]:
            heappop(self.heap)
        return self.heap[0] if self.heap else None

    def add(self, order: Order) -> bool:
        """Adds a member; True if it is the first now."""
        self.members[order[-1]] = order
        self.unevaluated.add(order[-1])
        heappush(self.heap, order)
        return self.heap[0] == order

    def discard(self, key: str) -> bool:
        """Removes a member; True if it was the first."""
        was = self.heap[0][-1] == key if self.heap else False
        self.members.pop(key, None)
        self.unevaluated.discard(key)
        return was


@dataclass(slots=True, eq=False)
class QueueLine:
    """The pending workloads of a queue."""

    strict: bool = False
    timed: bool = False
    """Whether the time limit is part of the shape."""
    reserves_starts: bool = False
    by_guess: bool = False
    aged: bool = False
    """Whether older workloads may evict more."""
    beside_reservations: bool = False
    """Whether capacity reservations of other workloads may keep some workloads inadmissible."""
    classes: dict[Hashable, EquivalenceClass] = field(default_factory=dict)
    past: PastUsage | None = None
    """The past usage that orders the queue, if it does."""
    within: str = "Never"
    """Whom its workloads may evict in it."""
    active: dict[Line, list[tuple[Order, int, EquivalenceClass]]] = field(default_factory=dict)
    """By line (`line_of`) a heap of the first member of each active class; outdated entries are dropped when they reach the
    top. There is one heap for all unless past usage orders the queue."""
    inadmissible_head: tuple[Order, ReasonCode] | None = None
    """Order and reason of the refused head of a StrictFIFO queue."""
    inadmissible_head_hint: QueueingHint | None = None
    """The hint of that head."""
    _short: dict[tuple[FlavorResource, int | None], list[tuple[int, int, EquivalenceClass, QueueingHint]]] = field(
        default_factory=dict
    )
    _by_usage: dict[EquivalenceClass, None] = field(default_factory=dict)
    _by_capacity: dict[EquivalenceClass, None] = field(default_factory=dict)
    _lines: FirstLines = field(default_factory=FirstLines)

    def head(self) -> Order | None:
        """Returns the next workload to evaluate; None if all classes are inadmissible or the refused head blocks the queue."""
        if self.past is None:
            order = self._first_of((0, ""))
        else:
            order = self._lines.first(self.active, self._first_of, self.past, counts=usage_counts(self.within))
        if order is None or (self.inadmissible_head is not None and self.inadmissible_head[0] == order):
            return None
        return order

    def line_of(self, workload: Workload) -> Line:
        """Returns the part of the queue that the workload is in."""
        return (0, "") if self.past is None else (position_of(workload, self.within)[0], workload.queue)

    def _usage(self, local_queue: str) -> float:
        return self.past.usage(local_queue) if self.past is not None and usage_counts(self.within) else 0.0

    def position(self, workload: Workload) -> Position:
        """Returns the sort key of the workload within the queue now."""
        within = "Never" if self.past is None else self.within
        return position_of(workload, within, self._usage(workload.queue))

    def _first_of(self, line: Line) -> Order | None:
        heap = self.active.get(line, [])
        while heap:
            order, _, pending_line = heap[0]
            if pending_line.refused is None and pending_line.first() == order:
                return order
            heappop(heap)
        self.active.pop(line, None)
        return None

    def join(self, workload: Workload) -> EquivalenceClass:
        """Adds a workload that is not in the line; returns its class."""
        line = self.line_of(workload)
        shape = (line, shape_of(workload, timed=self.timed))
        group = self.classes.get(shape)
        if group is None:
            group = self.classes[shape] = EquivalenceClass(shape, line)
        if group.add(order_of(workload)):
            if self.aged and group.refused is not None:
                self._requeue(group)
            else:
                self._activate(group)
        return group

    def leave(self, key: str, group: EquivalenceClass) -> None:
        """Removes a member. If it comes back it counts as new: earlier refusals no longer apply."""
        if self.inadmissible_head is not None and self.inadmissible_head[0][-1] == key:
            self.inadmissible_head = None
        if group.discard(key):
            self._activate(group)
        if not group.members:
            self.classes.pop(group.shape, None)
            self._forget(group)

    def refuse(
        self,
        order: Order,
        group: EquivalenceClass,
        reason: ReasonCode,
        *,
        overtaken: bool = False,
        hint: QueueingHint | None = None,
    ) -> set[str]:
        """Records that the head does not fit. Returns the keys of its class that become inadmissible without an evaluation.

        `overtaken`: later workloads may be evaluated before it even in a StrictFIFO queue.
        """
        group.unevaluated.discard(order[-1])
        group.short = (reason, hint) if hint is not None and hint.quota and not hint.capacity else None
        if self.strict and not overtaken:
            self.inadmissible_head, self.inadmissible_head_hint = (order, reason), hint
            return set()
        group.refused = reason
        self._mark_inadmissible(group, hint)
        unevaluated, group.unevaluated = group.unevaluated, set()
        return unevaluated

    def hold_head(self, order: Order, group: EquivalenceClass, hint: QueueingHint | None) -> None:
        """Keeps the head of a StrictFIFO queue inadmissible while its victims leave; `hint`: what lets it start before that."""
        group.unevaluated.discard(order[-1])
        group.short = None
        self.inadmissible_head, self.inadmissible_head_hint = (order, Reason.WAITING_FOR_PREEMPTED), hint

    def refuses(self, key: str, group: EquivalenceClass) -> bool:
        """Reports whether the workload of this class was refused: its class is inadmissible, or it is the inadmissible head."""
        return group.refused is not None or (
            self.inadmissible_head is not None and self.inadmissible_head[0][-1] == key
        )

    def release_head(self, key: str) -> None:
        """Requeues the workload if it is the inadmissible head."""
        if self.inadmissible_head is not None and self.inadmissible_head[0][-1] == key:
            self.inadmissible_head = None

    def reservation_ended(self) -> bool:
        """Requeues workloads that may be inadmissible because of others' reservations. Returns True if there is one."""
        if not self.beside_reservations:
            return False
        self.beside_reservations = False
        return self._requeue_satisfied(lambda fr, priority: LARGEST, evicting=True)

    def requeue(self, capacity_only: bool, but: Collection[str] = ()) -> None:
        """Requeues all workloads; with `capacity_only` only those that more quota or capacity could help. The classes of `but`
        stay as they are.
        """
        head = self.inadmissible_head
        if head is not None and head[0][-1] not in but and (not capacity_only or head[1] in _CAPACITY_MAY_HELP):
            self.inadmissible_head = None
        requeued = []
        for group in self.classes.values():
            if but and not group.members.keys().isdisjoint(but):
                continue
            group.short = None
            if group.refused is not None and (not capacity_only or group.refused in _CAPACITY_MAY_HELP):
                requeued.append(group)
        self._requeue_many(requeued)

    def requeue_behind(self) -> bool:
        """Requeues those that were refused because they would delay another workload. Returns True if there is one."""
        waiting = [group for group in self.classes.values() if group.refused is Reason.PENDING_EVALUATION]
        for group in waiting:
            self._requeue(group)
        if self.inadmissible_head is None or self.inadmissible_head[1] is not Reason.PENDING_EVALUATION:
            return bool(waiting)
        self.inadmissible_head = None
        return True

    def quota_freed(self, free: Free) -> bool:
        """Requeues classes after usage in the cohort tree fell. Returns True if there is one.

        `free` gives the quota that is free for the queue now.
        """
        return self._requeue_satisfied(free, evicting=False)

    def quota_taken(self, free: Free) -> bool:
        """Requeues classes that may preempt, after another queue of the cohort tree borrowed. Returns True if there is one."""
        return self._requeue_satisfied(free, evicting=True)

    def _requeue_satisfied(self, free: Free, *, evicting: bool) -> bool:
        requeued = list(self._by_usage)
        for (fr, priority), heap in self._short.items():
            if not heap or (evicting and priority is None):
                continue
            enough = free(fr, priority)
            while heap and (heap[0][0] <= enough or _outdated(heap[0])):
                _, _, group, hint = heappop(heap)
                if group.hint is hint:
                    requeued.append(group)
        for group in requeued:
            self._requeue(group)
        if self.inadmissible_head is None or not (self.inadmissible_head_hint or QueueingHint()).satisfied_by(free):
            return bool(requeued)
        self.inadmissible_head = None
        return True

    @property
    def waits_for_capacity(self) -> bool:
        """Whether node capacity may help a workload that is inadmissible."""
        return bool(self._by_capacity) or self.inadmissible_head is not None

    def capacity_freed(self, flavors: Collection[str]) -> bool:
        """Requeues classes that wait for node capacity of these flavors. Returns True if there is one."""
        requeued = [group for group in self._by_capacity if _wants_capacity(group.hint, flavors)]
        for group in requeued:
            self._requeue(group)
        if self.inadmissible_head is None or not _wants_capacity(self.inadmissible_head_hint, flavors):
            return bool(requeued)
        self.inadmissible_head = None
        return True

    def requeue_class(self, group: EquivalenceClass) -> None:
        """Requeues the class because its own requests changed with time."""
        group.again = group.short = None
        if self.inadmissible_head is not None and self.inadmissible_head[0][-1] in group.members:
            self.inadmissible_head = None
        if group.refused is not None:
            self._requeue(group)

    def _mark_inadmissible(self, group: EquivalenceClass, hint: QueueingHint | None) -> None:
        self._forget(group)
        group.hint = hint = hint or QueueingHint()
        if hint.quota is None:
            self._by_usage[group] = None
        if hint.capacity is None or hint.capacity:
            self._by_capacity[group] = None
        for fr, amount in hint.quota or ():
            heap = self._short.setdefault((fr, hint.priority), [])
            if len(heap) > 2 * len(self.classes):
                heap[:] = [entry for entry in heap if not _outdated(entry)]
                heapify(heap)
            heappush(heap, (amount, next(_sequence), group, hint))

    def _requeue(self, group: EquivalenceClass) -> None:
        group.refused = None
        self._forget(group)
        self._activate(group)

    def _requeue_many(self, groups: Collection[EquivalenceClass]) -> None:
        """Requeues the classes; all classes of the queue at once cost less than one after the other."""
        if len(groups) < len(self.classes):
            for group in groups:
                self._requeue(group)
            return
        for group in groups:
            group.refused = group.hint = None
        self._by_usage.clear()
        self._by_capacity.clear()
        self._short.clear()
        self.active = {}
        self._lines.clear()
        for group in groups:
            if (first := group.first()) is not None:
                self.active.setdefault(group.line, []).append((first, next(_sequence), group))
        for heap in self.active.values():
            heapify(heap)

    def _forget(self, group: EquivalenceClass) -> None:
        group.hint = None
        self._by_usage.pop(group, None)
        self._by_capacity.pop(group, None)

    def _activate(self, group: EquivalenceClass) -> None:
        first = group.first()
        if first is not None and group.refused is None:
            heappush(self.active.setdefault(group.line, []), (first, next(_sequence), group))
            if self.past is not None:
                self._lines.change(group.line)


def _outdated(entry: tuple[int, int, EquivalenceClass, QueueingHint]) -> bool:
    """Reports whether the class was requeued or removed since this hint was stored."""
    return entry[2].hint is not entry[3]


def _wants_capacity(hint: QueueingHint | None, flavors: Collection[str]) -> bool:
    return hint is None or hint.capacity is None or not hint.capacity.isdisjoint(flavors)
