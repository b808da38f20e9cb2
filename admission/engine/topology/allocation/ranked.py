"""The admitted workloads of each ClusterQueue in the order in which they would be evicted, kept from question to question.

Searches for victims ask for them several times for each preemptor. Each question compares the workloads of the queue with
those of the question before, and only what is new is sorted in; so nothing has to be told what changed, also by a trial or its
end.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Mapping, Set
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Any, Final

from admission.engine.model import FlavorResource
from admission.engine.topology.allocation.entries import Allocation

Order = tuple[bool, int, float, str, str]
"""Evicted already (False) or not, lowest priority, seconds since 1970 at which it reserved quota (latest first), UID, key."""

Answer = list[tuple[Order, Any]]
"""Workloads in order, each with what a search made of it, which has its `key`."""

Amounts = dict[frozenset[tuple[FlavorResource, int]], dict[FlavorResource, int]]
"""Usage that several workloads of a queue have in common: most jobs ask for the same as others. It goes with its queue."""

_MOST_AMOUNTS: Final = 1000
_QUESTIONS: Final = 4
_ANSWERS: Final = 2
"""How many questions are kept for each queue, and how many answers for each, of different workloads."""

_order = attrgetter("order")


@dataclass(slots=True, eq=False)
class RankedAllocation:
    """An admitted workload: its place in the order, and what it is charged."""

    key: str
    allocation: Allocation
    order: Order
    usage: dict[FlavorResource, int]
    """Never changed."""
    covers: frozenset[FlavorResource]
    """The flavors and resources of which it has any."""
    candidate: object | None = None
    """For the search for victims, which keeps there what it made of the workload."""


def _ranked(key: str, allocation: Allocation, amounts: Amounts) -> RankedAllocation:
    workload, admission = allocation.workload, allocation.admission
    order = not workload.evicted, workload.lowest_priority, -(workload.reserved or 0.0), workload.uid, key
    covers = frozenset((flavor, resource) for got in admission.pod_sets for resource, flavor in got.flavors.items())
    usage = admission.usage()
    if len(amounts) > _MOST_AMOUNTS:
        amounts.clear()
    return RankedAllocation(key, allocation, order, amounts.setdefault(frozenset(usage.items()), usage), covers)


@dataclass(slots=True, eq=False)
class RankedQueue:
    """The workloads of one ClusterQueue in order."""

    line: list[RankedAllocation] = field(default_factory=list)
    plain: bool = True
    """False if some of them have an order of their own for each preemptor: their reservation has no time yet, or their
    priority depends on the namespace."""
    covers: set[frozenset[FlavorResource]] = field(default_factory=set)
    """The sets of flavors and resources that some of them have."""
    _by_key: dict[str, RankedAllocation] = field(default_factory=dict)
    _answers: dict[Hashable, list[tuple[Set[str], Answer]]] = field(default_factory=dict)
    _amounts: Amounts = field(default_factory=dict)

    def update(self, keys: Collection[str], by_workload: Mapping[str, Allocation]) -> None:
        """Makes `line` hold all workloads of these keys; it may hold others that are gone."""
        by_key, changed = self._by_key, list[str]()
        for key in keys:
            ranked = by_key.get(key)
            if ranked is None or ranked.allocation is not by_workload[key]:
                changed.append(key)
        if not changed and len(by_key) <= 2 * len(keys):
            return
        if len(by_key) + len(changed) > 2 * len(keys):
            by_key = self._by_key = {key: by_key[key] for key in keys if key in by_key}
        for key in changed:
            by_key[key] = _ranked(key, by_workload[key], self._amounts)
        self._answers.clear()
        self.line = [each for each in self.line if by_key.get(each.key) is each]
        self.line += [by_key[key] for key in changed]
        self.line.sort(key=_order)
        workloads = [each.allocation.workload for each in self.line]
        self.plain = all(one.reserved is not None and one.priority_elsewhere is None for one in workloads)
        self.covers = {each.covers for each in self.line}

    def answer(self, question: Hashable, keys: Set[str], find: Callable[[], Answer]) -> Answer:
        """Returns what `find` returns: some of the workloads of these keys, in order, which depend on the question alone.

        It is kept while the line stays as it is, and answers for fewer keys too: victims leave, and the others stay in order.
        """
        answers = self._answers.setdefault(question, [])
        for kept, answer in answers:
            if kept == keys:
                return answer
        wider = min((each for each in answers if keys <= each[0]), key=lambda each: len(each[0]), default=None)
        answer = find() if wider is None else [each for each in wider[1] if each[1].key in keys]
        answers.append((keys, answer))
        del answers[:-_ANSWERS]
        if len(self._answers) > _QUESTIONS:
            del self._answers[next(iter(self._answers))]
        return answer

    def below(self, priority: int) -> list[RankedAllocation]:
        """Returns those of a lower priority, in order."""
        return list(chain.from_iterable(self.line[start:end] for start, end in self._runs(None, priority)))

    def of(self, priority: int) -> list[RankedAllocation]:
        """Returns those of this priority, in order."""
        return list(chain.from_iterable(self.line[start:end] for start, end in self._runs(priority, priority + 1)))

    def _runs(self, least: int | None, end: int) -> list[tuple[int, int]]:
        line = self.line
        return [
            (
                bisect_left(line, (waits,) if least is None else (waits, least), key=_order),
                bisect_left(line, (waits, end), key=_order),
            )
            for waits in (False, True)
        ]


class RankedAllocations:
    """The workloads of all queues that were asked about."""

    def __init__(self) -> None:
        self._queues: dict[str, RankedQueue] = {}

    def of(
        self, queue: str, keys: Collection[str], by_workload: Mapping[str, Allocation], queues: Collection[str]
    ) -> RankedQueue:
        """Returns the workloads of the queue, in order: all of `keys`, and maybe more. `queues` are those with workloads."""
        ranked = self._queues.get(queue)
        if ranked is None:
            self._queues = {name: each for name, each in self._queues.items() if name in queues}
            ranked = self._queues[queue] = RankedQueue()
        ranked.update(keys, by_workload)
        return ranked
