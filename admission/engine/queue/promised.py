"""Who waits for victims to leave: the promises made to pending workloads, and who has lost one and is to be looked at first.

A promise ends when one of its queues is woken: the workload's own, or that of one that starts together with it. Others' usage
that comes free, or room on nodes, does not end one whose workload would still lack quota while some of its victims are there:
the search would only name those again who are on their way out. It ends at the latest when the last of them has left, or when
one does not leave after all. Called by queues.py, which knows when that is, and puts who has lost a promise back in line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from admission.engine.model import Workload
from admission.engine.queue.lacks import FreeOf
from admission.engine.queue.line import order_of
from admission.engine.queue.pending import Item, Promise


class Promised:
    """Keys by the queue whose waking ends the promise (`_ends`) and by victim (`_waiting`); of those that came back by queue
    (`_returning`).
    """

    def __init__(self, items: Mapping[str, Item]) -> None:
        self._items = items
        self._ends: dict[str, set[str]] = {}
        self._waiting: dict[str, set[str]] = {}
        self._returning: dict[str, set[str]] = {}

    def __bool__(self) -> bool:
        """Whether anything is promised to anybody."""
        return bool(self._ends)

    def make(self, item: Item, promise: Promise) -> None:
        """The workload waits for its victims to leave."""
        item.promise, item.lapsed = promise, False
        for name in _ending(item, promise):
            self._ends.setdefault(name, set()).add(item.workload.key)
        for victim in promise.victims:
            self._waiting.setdefault(victim, set()).add(item.workload.key)

    def forget(self, item: Item) -> bool:
        """The workload is gone; whether something was promised to it."""
        if item.promise is None:
            return False
        for name in _ending(item, item.promise):
            _discard(self._ends, name, item.workload.key)
        for victim in item.promise.victims:
            _discard(self._waiting, victim, item.workload.key)
        return True

    def end(self, names: Collection[str], free: FreeOf | None = None) -> Iterator[Item]:
        """These queues are woken: those that are promised nothing any more, by key.

        With `free`, because usage or room came free: not those that the quota does not let start before their victims leave.
        """
        for key in self._ended_by(names):
            if free is None or not _stands(self._items[key], free):
                yield self._broken(self._items[key])

    def left(self, victim: str) -> Iterator[Item]:
        """The workload has left: those that waited for nobody else are promised nothing any more, by key."""
        for key in sorted(self._waiting.pop(victim, ())):
            item = self._items[key]
            if item.promise is None:
                continue
            item.promise = replace(item.promise, victims=item.promise.victims - {victim})
            if not item.promise.victims:
                yield self._broken(item)

    def stays(self, victim: str) -> Iterator[Item]:
        """The workload does not leave after all: those that waited for it are promised nothing any more, by key."""
        for key in sorted(self._waiting.get(victim, ())):
            yield self._broken(self._items[key])

    def of(self, names: Collection[str]) -> Iterator[tuple[Workload, Promise]]:
        """What is promised to whom that one of these queues can end, by key."""
        for key in self._ended_by(names):
            item = self._items[key]
            if item.promise is not None:
                yield item.workload, item.promise

    def _ended_by(self, names: Collection[str]) -> list[str]:
        return sorted({key for name in self._ends.keys() & names for key in self._ends[name]})

    def _broken(self, item: Item) -> Item:
        self.forget(item)
        item.promise = None
        self.came_back(item)
        return item

    def came_back(self, item: Item) -> None:
        """It waited for its victims, and was not considered since."""
        item.lapsed = True
        self._returning.setdefault(item.workload.cluster_queue, set()).add(item.workload.key)

    def returned(self, queue: str) -> Workload | None:
        """The foremost of those that came back and are to be considered."""
        if not self._returning.get(queue):
            return None
        found = {
            key: item for key in self._returning[queue] if (item := self._items.get(key)) is not None and item.lapsed
        }
        self._returning[queue] = set(found)
        ready = [item.workload for item in found.values() if item.group is not None and item.group.refused is None]
        return min(ready, key=order_of, default=None)

    def count(self, queue: str) -> int:
        """How many workloads of the queue wait for victims."""
        return sum(self._items[key].workload.cluster_queue == queue for key in self._ends.get(queue, ()))

    def all(self) -> Iterator[tuple[Workload, Promise]]:
        """Who waits for victims to leave, in no particular order."""
        for name, keys in self._ends.items():
            for key in keys:
                item = self._items[key]
                if item.promise is not None and item.workload.cluster_queue == name:
                    yield item.workload, item.promise


def _stands(item: Item, free: FreeOf) -> bool:
    """Whether the workload has to wait for its victims all the same."""
    promise, queue = item.promise, item.workload.cluster_queue
    if promise is None or promise.lack is None or not promise.victims:
        return False
    return not promise.lack.eased(lambda fr, _: free(queue, fr, None))


def _discard(keys: dict[str, set[str]], name: str, key: str) -> None:
    if (found := keys.get(name)) is not None:
        found.discard(key)
        if not found:
            del keys[name]


def _ending(item: Item, promise: Promise) -> set[str]:
    """The queues whose waking ends the promise."""
    return {item.workload.cluster_queue, *(admission.cluster_queue for _, admission in promise.beside)}
