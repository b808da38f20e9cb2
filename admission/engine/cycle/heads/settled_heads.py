"""Heads whose flavors were found, filed so that only those are searched again whose answer may have changed.

While all amounts that a search asked for are free at the same borrowing level, it finds the same again. An amount is free at a
cohort or not: so each cohort has, for each flavor and resource, a heap of the amounts that it covers, the largest first, and a
change costs one step for each cohort, and one for each head that it concerns, however many heads there are. Heads that were
short of quota, that draw on a reservation or on pods of their own, or that start with others are not filed here: they are
searched again after each change. Called by head_order.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

from admission.engine.flavors.search import QuotaQueries
from admission.engine.ledger.holds import HoldKind, hold_key
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import FlavorResource, Workload
from admission.engine.quota.cohorts import QuotaNode, Sums, local_available


def independent(workload: Workload, ledger: Ledger) -> bool:
    """Reports whether its flavors depend on the quota of its queue alone."""
    alone = workload.gang is None and not workload.replaces and not workload.reservation
    held = ledger.bound.has_pods(workload.key) or hold_key(HoldKind.PLACE, workload.key) in ledger.holds
    return alone and not held


@dataclass(slots=True, eq=False)
class _Cover:
    """The amounts that a cohort has free for heads, or lacks (`below`: these borrow from further up)."""

    free: int
    heap: list[tuple[int, int, str]] = field(default_factory=list)
    below: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class SettledHeads:
    """The filed heads of one cohort tree, by queue. `_since` tells the entries of a head from those of an earlier one."""

    _covers: dict[tuple[QuotaNode, FlavorResource], _Cover] = field(default_factory=dict)
    _since: dict[str, int] = field(default_factory=dict)
    _usage: dict[str, tuple[QuotaNode, Sums]] = field(default_factory=dict)
    _serial: int = 0

    def __contains__(self, queue: str) -> bool:
        """Reports whether the head of the queue is filed."""
        return queue in self._since

    def add(self, queue: QuotaNode, queries: QuotaQueries) -> bool:
        """Files the head of a queue with what its search asked; False if it must be searched again after each change."""
        self.discard(queue.name)
        if queries.short or any(_limited(queue, fr) for fr, _ in queries.free):
            return False
        self._serial += 1
        self._since[queue.name] = self._serial
        self._usage[queue.name] = queue, dict(queue.usage)
        for fr, amount in queries.free:
            self._cover(queue, fr, amount)
        return True

    def _cover(self, queue: QuotaNode, fr: FlavorResource, amount: int) -> None:
        left = amount - local_available(queue, fr)
        borrows = queue.usage.get(fr, 0) + amount > queue.subtree.get(fr, 0)
        for cohort in queue.ancestors():
            free = _free(cohort, fr)
            cover = self._covers.setdefault((cohort, fr), _Cover(free))
            cover.free = min(cover.free, free)
            if borrows and free < left:
                cover.below[queue.name] = self._serial
                continue
            if borrows or cohort.parent is None:
                heappush(cover.heap, (-left, self._serial, queue.name))
            borrows = False  # no cohort further up makes it borrow further, but the root has what all need

    def discard(self, queue: str) -> None:
        """Removes the head of a queue."""
        self._since.pop(queue, None)
        self._usage.pop(queue, None)

    def outdated(self) -> list[str]:
        """Removes and returns the queues whose heads may find other flavors than before."""
        names = {name for name, (node, usage) in self._usage.items() if node.usage != usage}
        for (cohort, fr), cover in self._covers.items():
            names.update(self._no_longer(cohort, fr, cover))
        for name in names:
            self.discard(name)
        return sorted(names)

    def _no_longer(self, cohort: QuotaNode, fr: FlavorResource, cover: _Cover) -> Iterator[str]:
        """Yields the queues whose amounts the cohort covers no longer; all of them if it has more free than before."""
        free = _free(cohort, fr)
        if free > cover.free:
            entries = [*cover.below.items(), *((name, since) for _, since, name in cover.heap)]
            yield from (name for name, since in entries if self._since.get(name) == since)
            cover.heap, cover.below = [], {}
        cover.free = free
        heap = cover.heap
        while heap and (-heap[0][0] > free or self._since.get(heap[0][2]) != heap[0][1]):
            _, since, name = heappop(heap)
            if self._since.get(name) == since:
                yield name


def _free(cohort: QuotaNode, fr: FlavorResource) -> int:
    return cohort.subtree.get(fr, 0) - cohort.usage.get(fr, 0)


def _limited(queue: QuotaNode, fr: FlavorResource) -> bool:
    """Reports whether more than what its cohorts have free decides on the queue's quota: a limit of a cohort."""
    limits = (node.quotas[fr] for node in queue.ancestors() if fr in node.quotas)
    return (
        queue.parent is None
        or queue.usage.get(fr, 0) < 0
        or any(quota.lending_limit is not None or quota.borrowing_limit is not None for quota in limits)
    )
