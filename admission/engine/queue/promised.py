"""Who waits for victims to leave: the promises made to pending workloads, and who has lost one and is to be looked at first.

A promise ends when one of its queues is woken: the workload's own, or that of one that starts together with it. Called by
queues.py, which knows when a queue is woken, and puts who has lost a promise back in line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from admission.engine.model import Workload
from admission.engine.queue.line import order_of
from admission.engine.queue.pending import Item, Promise


class Promised:
    """Keys by the queue whose waking ends the promise (`_ends`); of those that came back by their own (`_returning`)."""

    def __init__(self, items: Mapping[str, Item]) -> None:
        self._items = items
        self._ends: dict[str, set[str]] = {}
        self._returning: dict[str, set[str]] = {}

    def make(self, item: Item, promise: Promise) -> None:
        """The workload waits for its victims to leave."""
        item.promise, item.lapsed = promise, False
        for name in _ending(item, promise):
            self._ends.setdefault(name, set()).add(item.workload.key)

    def forget(self, item: Item) -> bool:
        """The workload is gone; whether something was promised to it."""
        if item.promise is None:
            return False
        for name in _ending(item, item.promise):
            self._ends.get(name, set()).discard(item.workload.key)
        return True

    def end(self, name: str) -> Iterator[Item]:
        """The queue is woken: those that are promised nothing any more, by key."""
        if name not in self._ends:
            return
        for key in sorted(self._ends.pop(name)):
            item = self._items[key]
            if item.promise is None:
                continue
            for other in _ending(item, item.promise) - {name}:
                self._ends.get(other, set()).discard(key)
            item.promise = None
            self.came_back(item)
            yield item

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

    def awaited(self, queue: str) -> bool:
        """Whether the waking of this queue ends a promise."""
        return bool(self._ends.get(queue))

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


def _ending(item: Item, promise: Promise) -> set[str]:
    """The queues whose waking ends the promise."""
    return {item.workload.cluster_queue, *(admission.cluster_queue for _, admission in promise.beside)}
