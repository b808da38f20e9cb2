"""Who waits, and who is worth another look: the pending workloads of all ClusterQueues.

A workload is in one of three states: *active* (stands in its queue's line, will be considered), *inadmissible* (was refused,
with all its equals: sleeps until `wake` says that something which could help changed, or `quota_freed` and `room_came` that
what it waits for came free, or until it changes itself; or waits for its backoff to end) or *blocked* (may not be considered;
the reason comes with it). A workload that is not considered is told why, once, through `take_notices`.

Called by the shell (put, remove, wake) and by cycle/cycle.py (heads, refuse). It knows no quota and decides no admission; the
order within a queue is line.py's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from itertools import count
from math import inf

from admission.engine.decision import Reason
from admission.engine.model import ClusterQueue, FlavorResource, QueueingStrategy, Workload
from admission.engine.queue.evictions import Evictions
from admission.engine.queue.lacks import Free, FreeOf, Lack
from admission.engine.queue.line import EqualClass, Line, order_of
from admission.engine.queue.memory import Memory, refusals, remembered
from admission.engine.queue.pending import Item, Kept, Promise, Reservation, same_standing
from admission.engine.queue.promised import Promised
from admission.engine.queue.sharing import Sharing
from admission.engine.queue.standing import Standing, standing

Beside = Callable[[Iterable[tuple[Workload, Promise]]], FreeOf]
"""How much is free for whom as things stand, beside these promises."""

BYPASSED = "Bypassed scheduling evaluation because an equivalent workload recently failed"


@dataclass(frozen=True, slots=True)
class Notice:
    """A workload that is not considered, and why."""

    workload: Workload
    reason: Reason
    message: str


class PendingQueues:
    """The pending workloads of all queues. Workloads of queues that are not (yet) known are kept as well."""

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        self._lines: dict[str, Line] = {}
        self._sharing = Sharing()
        self._ready: set[str] = set()
        self._timers: list[tuple[float, str]] = []
        self._steps: list[tuple[float, int, str, EqualClass]] = []
        self._sequence = count()
        self._promised = Promised(self._items)
        self._reserved: dict[str, tuple[str, Reservation]] = {}
        self._unforeseen: dict[str, str] = {}
        self._kept: dict[str, Kept] = {}
        self._notices: dict[str, Notice] = {}
        self._counts: Counter[str] = Counter()
        self.evictions = Evictions()
        self.claims: dict[str, Promise] = {}
        """By pending workload: the promise for which it had others evicted. It stands when they have left, until `disclaim`."""

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: str) -> bool:
        return key in self._items

    # ---- what the shell tells

    def set_queue(self, spec: ClusterQueue) -> None:
        """Make or change a queue; whatever sleeps in it is worth another look."""
        self._sharing.put(spec.name, frozenset(spec.flavors))
        line = self._line(spec.name)
        line.strict = spec.strategy is QueueingStrategy.STRICT_FIFO
        line.aged = spec.preemption.by_age
        if line.timed != spec.backfill:
            self._reserved.pop(spec.name, None)
            self._unforeseen.pop(spec.name, None)
            self._line_up_anew(spec.name, timed=spec.backfill)
        self.wake((spec.name,))

    def drop_queue(self, name: str) -> None:
        """Forget a queue's strategy and flavors; its workloads stay until the shell moves or removes them."""
        self._sharing.put(name, frozenset())
        self._line(name).strict = False

    def put(self, workload: Workload) -> None:
        """Take in a workload, or what became of it. One that has an admission is not pending and leaves.

        An update that changes nothing the order, the shape or the blocking depends on leaves it where it is, so that
        our own writes to its status never wake it.
        """
        if workload.admission is not None:
            self.remove(workload.key)
            return
        self.evictions.pending(workload.key)
        item = self._items.get(workload.key)
        timed = self._line(workload.cluster_queue).timed
        if item is not None and same_standing(item.workload, workload, timed=timed):
            item.workload = workload
            return
        if item is not None and item.workload.priority != workload.priority:
            self.evictions.forget(workload.key)
        self.remove(workload.key)
        item = self._items[workload.key] = Item(workload)
        self._counts[workload.cluster_queue] += 1
        if workload.blocked is not None:
            self._tell(workload, Reason(workload.blocked[0]), workload.blocked[1])
        elif workload.not_before == inf:
            pass  # something else must happen first, and will come as an update
        elif workload.not_before:
            heappush(self._timers, (workload.not_before, workload.key))
        else:
            self._enlist(item)
        self._rouse_fellows(workload)

    def _rouse_fellows(self, workload: Workload) -> None:
        """Those that start together with it look at it again: what keeps them may be something else now."""
        for key in workload.gang.together if workload.gang is not None else ():
            item = self._items.get(key)
            if key != workload.key and item is not None and item.group is not None and item.group.refused is not None:
                self._line(item.workload.cluster_queue).rouse(item.group)
                self._ready.add(item.workload.cluster_queue)

    def remove(self, key: str) -> None:
        """Forget a workload (admitted, finished, deleted)."""
        item = self._items.pop(key, None)
        self._notices.pop(key, None)
        self.claims.pop(key, None)
        if item is None:
            return
        name = item.workload.cluster_queue
        self._counts[name] -= 1
        if self._promised.forget(item):
            self.wake(tuple(self._lines))  # what was kept for it is free again, as in wake_others
        if item.group is not None:
            self._lines[name].leave(key, item.group)
            self._ready.add(name)
        self._rouse_fellows(item.workload)
        if self._kept.pop(key, None) is not None:
            self.wake({name} | self.sharing_flavors(name))  # others may borrow it now
        if self._reserved.get(name, ("",))[0] == key:
            del self._reserved[name]
            self.wake({name} | self.sharing_flavors(name))  # what was kept is free, and its queue has another head
        if self._unforeseen.get(name) == key:
            del self._unforeseen[name]
            self.wake((name,))  # those behind it may be given a reservation now

    def wake(self, names: Collection[str], *, room_only: bool = False) -> None:
        """Something changed that could help these queues' workloads.

        `room_only`: quota or nodes became free, or nodes came; a workload that lacks more than that (no flavor suits it, it
        asks for more than there ever is) sleeps on.
        """
        for name in names:
            if (line := self._lines.get(name)) is not None:
                line.wake(room_only)
                self._ready.add(name)
        self._break(self._promised.end(names))

    def stays(self, key: str) -> None:
        """An admitted workload that was to leave does not: requeue the workloads that wait for it."""
        for owner, claim in list(self.claims.items()):
            if key in claim.evicted:
                self.claims[owner] = replace(claim, evicted=claim.evicted - {key}, victims=claim.victims - {key})
                if not self.claims[owner].evicted:
                    del self.claims[owner]
        self._break(self._promised.stays(key))

    def quota_freed(self, names: Collection[str], beside: Beside, left: str = "") -> None:
        """Usage was given back among these queues, relatives of each other. `left`: the admitted workload that is gone."""
        self._claimant_of(left)
        for item in self._promised.left(left):
            # those of another cohort tree waited for its nodes, and nobody looks there for who slept because of them
            (self._take_back if item.workload.cluster_queue in names else self._break)((item,))
        self._take_back(self._promised.end(names, beside(())))
        self._raise(names, beside, Line.quota_freed)

    def _claimant_of(self, left: str) -> None:
        """One of its victims has left: it is worth another look, were it refused meanwhile."""
        for key, claim in tuple(self.claims.items()):
            item = self._items.get(key)
            self.claims[key] = replace(claim, victims=claim.victims - {left})
            if left in claim.evicted and item is not None and item.promise is None and item.group is not None:
                self._line(item.workload.cluster_queue).rouse(item.group)
                self._ready.add(item.workload.cluster_queue)

    def quota_taken(self, names: Collection[str], beside: Beside) -> bool:
        """One of these queues, relatives of each other, borrows more than before: others might evict its workloads.

        True if there is somebody worth a look now.
        """
        return self._raise(names, beside, Line.quota_taken)

    def room_came(self, flavors: Collection[str], beside: Beside) -> None:
        """The nodes of these flavors may have more room than before."""
        names = self.queues_of(flavors)
        for name in names:
            if (line := self._lines.get(name)) is not None and line.room_came(flavors):
                self._ready.add(name)
        self._break(self._promised.end(names, beside(())))

    def wake_others(self, name: str) -> None:
        """What was kept for a workload of the queue is free again: quota and nodes, these maybe of flavors with other names."""
        self.wake([other for other in self._lines if other != name])

    def queues_of(self, flavors: Iterable[str]) -> set[str]:
        """The queues that give quota of any of these flavors: whom it could help when one of them gets room."""
        return self._sharing.of(flavors)

    def sharing_flavors(self, name: str) -> set[str]:
        """The queues that give quota of a flavor that this one has too, itself among them."""
        return self._sharing.beside(name)

    # ---- what the cycle asks

    def due(self, now: float) -> None:
        """Let in the workloads whose backoff is over, and wake those of whom it was said that time helps them."""
        while self._steps and self._steps[0][0] <= now:
            again, _, name, group = heappop(self._steps)
            if group.again == again:
                self._line(name).rouse(group)
                self._ready.add(name)
        while self._timers and self._timers[0][0] <= now:
            not_before, key = heappop(self._timers)
            item = self._items.get(key)
            if item is not None and item.workload.not_before == not_before and self._delayed(item):
                self._enlist(item)

    def next_due(self) -> float | None:
        """When `due` has something to do (epoch seconds); possibly for a workload that has left since."""
        return min((heap[0][0] for heap in (self._timers, self._steps) if heap), default=None)

    def head(self, queue: str) -> Workload | None:
        """The workload of the queue to consider next, None while there is none worth it.

        In a BestEffortFIFO queue one that others were evicted for comes first when it is looked at again: else a workload that
        it has no room beside might take what became free, be evicted for it once more, and so on for ever.
        """
        line = self._lines.get(queue)
        if line is None:
            return None
        if not line.strict and (first := self._promised.returned(queue)) is not None:
            return first
        order = line.head()
        return self._items[order[-1]].workload if order else None

    def heads(self) -> Iterator[Workload]:
        """The head of each queue that has one."""
        for name in tuple(self._ready):
            if (head := self.head(name)) is not None:
                yield head
            else:
                self._ready.discard(name)

    def refuse(
        self,
        key: str,
        reason: Reason,
        again: float | None = None,
        *,
        overtaken: bool = False,
        lack: Lack | None = None,
    ) -> bool:
        """The workload, head of its queue, does not fit. True if it stays at the head, before all others.

        In a BestEffortFIFO queue it goes to sleep with all its equals. `again` (epoch seconds): when it will ask for less
        by itself, so that it is worth another look without any change around it. `overtaken`: the next ones are considered even
        in a StrictFIFO queue. `lack`: what it waits for, None: anything that comes free.
        """
        item = self._items[key]
        name = item.workload.cluster_queue
        line = self._lines[name]
        if item.group is None:
            return False
        if again is not None and item.group.again != again:
            heappush(self._steps, (again, next(self._sequence), name, item.group))
        item.group.again = again
        line.beside_promises |= bool(self._promised)
        for other in line.refuse(order_of(item.workload), item.group, reason, overtaken=overtaken, lack=lack):
            self._tell(self._items[other].workload, reason, BYPASSED)
        return line.strict and not overtaken

    def sleeps_on(self, key: str, free: Free) -> bool:
        """True if the head of its queue still lacks the quota that its equals were refused for: they sleep on, unheard.

        So do those behind it of whom that is true as well. One that never had an answer is to be heard.
        """
        line, slept, free = self._lines[self._items[key].workload.cluster_queue], False, _looked_up(free)
        while (order := line.head()) is not None:
            group = self._items[order[-1]].group
            if group is None or group.short is None or order[-1] in group.untold or group.short[1].eased(free):
                break
            reason, lack = group.short
            self.refuse(order[-1], reason, group.again, lack=lack)
            slept |= order[-1] == key
        return slept

    def reserve(self, key: str, reservation: Reservation | None) -> None:
        """The pending workload, the first of its queue that does not fit, starts then at the latest; None: nobody can tell.

        One for each queue. It holds until the workload leaves or is promised something, or another one of the queue has one.
        """
        name = self._items[key].workload.cluster_queue
        if reservation is not None:
            self._reserved[name] = (key, reservation)
            self._unforeseen.pop(name, None)
        elif self._reserved.get(name, ("",))[0] == key:
            del self._reserved[name]
        if self._unforeseen.get(name) == key:
            del self._unforeseen[name]

    def foresee_none(self, key: str) -> None:
        """The pending workload waits for room, and nobody can tell when it starts: no start is reserved in its queue meanwhile.

        What was reserved for one behind it no longer holds. One for each queue, and as long as a reservation would hold.
        """
        name = self._items[key].workload.cluster_queue
        self._unforeseen[name] = key
        if (lost := self._reserved.pop(name, None)) is not None:
            self.wake({name} | self.sharing_flavors(name))
            if self._line(name).strict:
                self._tell(self._items[lost[0]].workload, Reason.PENDING_EVALUATION, f"waits behind {key}")

    def unforeseen(self, queue: str) -> Workload | None:
        """The workload of this queue, before all others that wait for room, of which nobody can tell when it starts."""
        key = self._unforeseen.get(queue)
        return None if key is None else self._items[key].workload

    def reservation(self, queue: str) -> tuple[Workload, Reservation] | None:
        """What is reserved for a workload of this queue."""
        found = self._reserved.get(queue)
        return None if found is None else (self._items[found[0]].workload, found[1])

    def reservations(self) -> Iterator[tuple[Workload, Reservation]]:
        """What is reserved for whom, in no particular order."""
        return ((self._items[key].workload, reservation) for key, reservation in self._reserved.values())

    def promise(self, key: str, promise: Promise) -> None:
        """The workload, head of its queue, waits for its victims to leave; until the promise ends it is no head.

        In a StrictFIFO queue nobody overtakes it; in a BestEffortFIFO queue the next ones are considered. Where others start
        together with it, their queues' waking counts as well.
        """
        item = self._items[key]
        name = item.workload.cluster_queue
        line = self._lines[name]
        if item.group is None:
            return
        if line.strict:
            line.park(order_of(item.workload), item.group, promise.lack)
        else:
            line.leave(key, item.group)
            item.group = None
        self.reserve(key, None)
        self.keep(key, None)
        leaving = promise.victims & promise.evicted
        if (before := self.claims.get(key)) is not None:
            evicted, since = promise.evicted | before.evicted, min(promise.since, before.since)
            promise, leaving = replace(promise, evicted=evicted, since=since), leaving | before.victims
        if promise.evicted:
            self.claims[key] = replace(promise, victims=leaving)
        self._promised.make(item, promise)

    def disclaim(self, key: str) -> None:
        """What it had others evicted for cannot be had any more."""
        self.claims.pop(key, None)

    def keep(self, key: str, kept: Kept | None) -> None:
        """The pending workload keeps quota of its queue while it waits (cycle/kept.py); None: it does so no more.

        It holds until the workload leaves, which wakes others, or is promised something.
        """
        if kept is None:
            self._kept.pop(key, None)
        else:
            self._kept[key] = kept

    def keeps(self, key: str) -> bool:
        """Whether the workload keeps quota."""
        return key in self._kept

    def kept(self) -> Iterator[tuple[Workload, Kept]]:
        """Who keeps what, in no particular order."""
        return ((self._items[key].workload, kept) for key, kept in self._kept.items())

    def promised(self, key: str) -> bool:
        """Whether the workload waits for victims to leave."""
        item = self._items.get(key)
        return item is not None and item.promise is not None

    def promises(self) -> Iterator[tuple[Workload, Promise]]:
        """Who waits for victims to leave, in no particular order."""
        return self._promised.all()

    def lapsed(self, key: str) -> bool:
        """Whether the workload was promised something that it was not promised again since; told once."""
        item = self._items[key]
        lapsed, item.lapsed = item.lapsed, False
        return lapsed

    def tried(self, key: str) -> Mapping[tuple[str, str], int]:
        """Where the workload's last search over flavors ended (`FlavorAssignment.tried`), unless it was woken since."""
        item = self._items.get(key)
        if item is None or item.tried is None:
            return {}
        wakes, tried = item.tried
        return tried if wakes == self._line(item.workload.cluster_queue).wakes else {}

    def remember(self, key: str, tried: Mapping[tuple[str, str], int]) -> None:
        """Keep where the workload's search ended; empty: it starts at the first flavor again."""
        item = self._items[key]
        item.tried = (self._line(item.workload.cluster_queue).wakes, tried) if tried else None

    def take_notices(self) -> list[Notice]:
        """What workloads that were not considered are to be told; each notice once, in order."""
        notices = sorted(self._notices.values(), key=lambda notice: order_of(notice.workload))
        self._notices.clear()
        return notices

    # ---- what the status shows

    def active(self, queue: str) -> list[Workload]:
        """Those that will be considered, in order; a refused head of a StrictFIFO queue is one of them."""
        return self._sorted(queue, lambda item: item.active)

    def inadmissible(self, queue: str) -> list[Workload]:
        """Those that sleep, wait for their backoff to end, or are blocked, in order."""
        return self._sorted(queue, lambda item: not item.active)

    def standing(self, queue: str) -> Standing:
        """How its pending workloads stand, in figures."""
        line = self._lines.get(queue) or Line()
        return standing(line, self._counts[queue], self._promised.count(queue), lambda key: self._items[key].workload)

    def count(self, queue: str) -> int:
        """How many workloads of the queue are pending."""
        return self._counts[queue]

    # ---- what a snapshot keeps

    def workloads(self) -> Iterator[Workload]:
        """All that are pending, in no particular order."""
        return (item.workload for item in self._items.values())

    def workload(self, key: str) -> Workload | None:
        """The pending workload of that key."""
        item = self._items.get(key)
        return item.workload if item else None

    def refusals(self) -> dict[str, tuple[Reason, float | None]]:
        """Who sleeps, or parks its line, since it was refused: by key, what `refuse` was told of it or of its equals."""
        return refusals(self._items, self._lines)

    def memory(self) -> Memory:
        """What is remembered of their answers besides."""
        return replace(remembered(self._items, self._lines), unforeseen=frozenset(self._unforeseen.values()))

    def recall(self, memory: Memory) -> None:
        """Remember this of those that were refused again already (with what they lack), and of the others."""
        for key, item in self._items.items():
            if item.group is not None:
                item.group.untold = {one for one in item.group.members if one in memory.untold}
                if key in memory.short:
                    item.group.short = memory.short[key]
            if key in memory.returning:
                self._promised.came_back(item)
            if key in memory.unforeseen:
                self._unforeseen[item.workload.cluster_queue] = key
        for line in self._lines.values():
            line.beside_promises = True  # as far as anybody knows

    # ---- within

    def _line(self, name: str) -> Line:
        return self._lines.setdefault(name, Line())

    def _line_up_anew(self, name: str, *, timed: bool) -> None:
        """How long its workloads run makes a difference from now on, or none any more."""
        line = self._line(name)
        standing = [i for i in self._items.values() if i.workload.cluster_queue == name and i.group is not None]
        for item in standing:
            if item.group is not None:
                line.leave(item.workload.key, item.group)
        line.timed = timed
        for item in standing:
            self._enlist(item)

    def _enlist(self, item: Item) -> None:
        name = item.workload.cluster_queue
        item.group = self._line(name).join(item.workload)
        self._ready.add(name)
        if item.group.refused is not None:
            item.group.untold.discard(item.workload.key)
            self._tell(item.workload, item.group.refused, BYPASSED)

    def _raise(self, names: Collection[str], beside: Beside, how: Callable[[Line, Free], bool]) -> bool:
        """Requeue workloads that fit beside the reservations, in each of these queues. True if there is one."""
        promises, risen = list(self._promised.of(names)), False
        free = beside(promises)
        for name in names:
            if (line := self._lines.get(name)) is not None:
                line.beside_promises |= bool(promises)
                if how(line, partial(free, name)):
                    self._ready.add(name)
                    risen = True
        return risen

    def _break(self, broken: Iterable[Item]) -> None:
        """As `_take_back`; and what was kept for them may be free for those who sleep because of it."""
        if self._take_back(broken):
            self._ready.update(name for name, line in self._lines.items() if line.promise_ended())

    def _take_back(self, broken: Iterable[Item]) -> bool:
        """A workload that waited for victims is a head again. True if there is one."""
        found = False
        for item in broken:
            found = True
            if item.group is None:
                self._enlist(item)
            else:
                self._line(item.workload.cluster_queue).unpark(item.workload.key)
                self._ready.add(item.workload.cluster_queue)
        return found

    def _tell(self, workload: Workload, reason: Reason, message: str) -> None:
        self._notices[workload.key] = Notice(workload, reason, message)

    def _delayed(self, item: Item) -> bool:
        return item.group is None and item.promise is None and item.workload.blocked is None

    def _sorted(self, queue: str, wanted: Callable[[Item], bool]) -> list[Workload]:
        found = (i.workload for i in self._items.values() if i.workload.cluster_queue == queue and wanted(i))
        return sorted(found, key=order_of)


def _looked_up(free: Free) -> Free:
    """The same, asked once for each while nothing changes."""
    known: dict[tuple[FlavorResource, int | None], int] = {}

    def look_up(fr: FlavorResource, priority: int | None) -> int:
        if (fr, priority) not in known:
            known[fr, priority] = free(fr, priority)
        return known[fr, priority]

    return look_up
