"""The ledger as it will be when running workloads have ended, for one backfill head after the other.

`Departures` has the ends in order, with the capacity that each frees as arrays; all heads of a cycle share it. A
`ProjectedLedger` adds the reservations of earlier heads: each charges its capacity now and frees it at its own end. The
ledger stands at a position: 0 is now, n is after the first n ends. Moving to another position applies or reverts the ends in
between.

Leaving the context restores the ledger. Called by future.py.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Admission, FlavorResource
from admission.engine.quota.cohorts import QuotaNode
from admission.engine.topology.allocation.footprint import Footprint, joined

Step = tuple[float, frozenset[str]]
"""A moment (epoch seconds), and the workloads that have ended by then and had not before."""

Usage = Mapping[FlavorResource, int]
_Change = tuple[QuotaNode, Usage, int]
_end = attrgetter("end", "key")


@dataclass(frozen=True, slots=True)
class FutureReservation:
    """Capacity reserved for another head."""

    key: str
    queue: str
    tree: str
    """The cohort tree of its queue."""
    usage: Usage
    footprint: Footprint
    end: float | None
    """When it frees the capacity; None if that is unknown."""


class _CumulativeUsage:
    """What quota ends give back one after the other: each by the index of its moment, with the sums up to there."""

    def __init__(self) -> None:
        self._at: list[int] = []
        self._sums: dict[FlavorResource, list[int]] = {}

    def add(self, index: int, usage: Usage) -> None:
        """Adds the usage that the next end returns."""
        for fr in usage.keys() | self._sums.keys():
            sums = self._sums.setdefault(fr, [0] * (len(self._at) + 1))
            sums.append(sums[-1] + usage.get(fr, 0))
        self._at.append(index)

    def between(self, first: int, last: int) -> dict[FlavorResource, int]:
        """Returns the sum from the moment `first` up to, and without, `last`; empty if nothing ends between them."""
        low, high = bisect_left(self._at, first), bisect_left(self._at, last)
        return {} if low == high else {fr: sums[high] - sums[low] for fr, sums in self._sums.items()}


class Departures:
    """The ends of running workloads in order, and the capacity that each frees."""

    def __init__(self, ledger: Ledger, steps: Sequence[Step]) -> None:
        self.keys = frozenset().union(*(ended for _, ended in steps))
        self.times = [end for end, _ in steps]
        self._ledger = ledger
        self._first = [0]
        prints: list[Footprint] = []
        self._of_queue: dict[str, _CumulativeUsage] = {}
        self._of_node: dict[str, dict[QuotaNode, _CumulativeUsage]] = {}
        for index, (_, ended) in enumerate(steps):
            for key in sorted(ended):
                prints.append(ledger.footprint(key))
                self._give_back(index, key, ledger.allocations.by_workload[key].admission)
            self._first.append(len(prints))
        self._cells = {flavor: joined(prints, flavor) for flavor in ledger.capacity.trees}

    def _give_back(self, index: int, key: str, admission: Admission) -> None:
        name, usage, quota = admission.cluster_queue, self._ledger.returned(key, admission), self._ledger.quota
        self._of_queue.setdefault(name, _CumulativeUsage()).add(index, usage)
        self._of_node.setdefault(quota.tree_of(name), {}).setdefault(quota.charged_node(name), _CumulativeUsage()).add(
            index, usage
        )

    def free(self, first: int, last: int, sign: int) -> None:
        """Frees (1) or charges again (-1) the nodes of the ends from `first` to `last`, without `last`."""
        for flavor, (cells, offsets) in self._cells.items():
            part = cells.part(int(offsets[self._first[first]]), int(offsets[self._first[last]]))
            self._ledger.shift_free(flavor, part, sign)

    def usage(self, queue: str, first: int, last: int) -> Iterator[_Change]:
        """Yields the quota in the cohort tree that these ends free, as the queue counts it: node, amounts, sign."""
        quota = self._ledger.quota
        for node, given in self._of_node.get(quota.tree_of(queue), {}).items():
            yield node, given.between(first, last), 1
        own, cohort = quota.charged_node(queue, queue), quota.charged_node(queue)
        if queue in self._of_queue and own is not cohort:
            usage = self._of_queue[queue].between(first, last)
            yield own, usage, 1
            yield cohort, usage, -1


class ProjectedLedger:
    """For one head of the ClusterQueue `queue`. Use inside `opened`; positions are 0 to `len(future)`.

    `charged`: the reservations that the ledger counts already, because only the packing names their nodes. `taken`: the
    footprint of all others.
    """

    def __init__(
        self,
        ledger: Ledger,
        departures: Departures,
        held: Sequence[FutureReservation],
        queue: str,
        now: float,
        *,
        taken: Footprint,
        charged: Collection[str] = (),
    ) -> None:
        self._ledger, self._departures, self._queue = ledger, departures, queue
        tree = ledger.quota.tree_of(queue)
        self._taken = taken
        self._in_tree = [one for one in held if one.tree == tree]
        self._charged = charged
        self._ending = sorted([one for one in held if one.end is not None], key=_end)
        self._ends = [max(one.end or 0.0, now) for one in self._ending]
        after = np.searchsorted(departures.times, self._ends, side="right")
        self._places: list[int] = (after + np.arange(len(self._ends))).tolist()
        self._at = 0
        self._usage: dict[QuotaNode, dict[FlavorResource, int]] = {}

    def __len__(self) -> int:
        return len(self._departures.times) + len(self._ending)

    def time(self, position: int) -> float:
        """Returns the time of a position of at least 1, in epoch seconds."""
        index = bisect_left(self._places, position - 1)
        if index < len(self._places) and self._places[index] == position - 1:
            return self._ends[index]
        return self._departures.times[position - 1 - index]

    def position(self, moment: float) -> int:
        """Returns the number of ends up to this time."""
        return bisect_right(self._departures.times, moment) + bisect_right(self._ends, moment)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Opens a context in which the reservations of other heads are charged."""
        self._free(self._taken, -1)
        self._shift(self._usage_of([one for one in self._in_tree if one.key not in self._charged], -1))
        try:
            yield
        finally:
            departed, over = self._split(self._at)
            self._departures.free(0, departed, -1)
            self._free_ended(0, over, -1)
            self._free(self._taken, 1)
            self._shift([(node, usage, -1) for node, usage in self._usage.items()])

    def move_after(self, position: int) -> float:
        """Takes the ledger behind all ends of the position's moment, and returns that moment (epoch seconds)."""
        moment = self.time(position)
        self.move_to(self.position(moment))
        return moment

    def move_to(self, position: int) -> None:
        """Takes the ledger to a position."""
        low, high = sorted((self._at, position))
        sign = 1 if position > self._at else -1
        (first, over), (last, ended) = self._split(low), self._split(high)
        self._departures.free(first, last, sign)
        self._free_ended(over, ended, sign)
        given = [(node, usage, sign * each) for node, usage, each in self._departures.usage(self._queue, first, last)]
        tree = self._ledger.quota.tree_of(self._queue)
        ending = [one for one in self._ending[over:ended] if one.tree == tree]
        self._shift([*given, *self._usage_of(ending, sign)])
        self._at = position

    def _split(self, position: int) -> tuple[int, int]:
        """Splits a number of ends into ends of workloads and ends of reservations."""
        index = bisect_left(self._places, position)
        return position - index, index

    def _free_ended(self, first: int, last: int, sign: int) -> None:
        for one in self._ending[first:last]:
            self._free(one.footprint, sign)

    def _free(self, footprint: Footprint, sign: int) -> None:
        for flavor, cells in footprint.items():
            self._ledger.shift_free(flavor, cells, sign)

    # ---- quota

    def _usage_of(self, some: Sequence[FutureReservation], sign: int) -> Iterator[_Change]:
        quota = self._ledger.quota
        for one in some:
            yield quota.charged_node(one.queue, self._queue), one.usage, sign

    def _shift(self, changes: Iterable[_Change]) -> None:
        """Returns these amounts to the quota (sign 1), or charges them (-1)."""
        net: dict[QuotaNode, dict[FlavorResource, int]] = {}
        for node, usage, sign in changes:
            amounts = net.setdefault(node, {})
            for fr, amount in usage.items():
                amounts[fr] = amounts.get(fr, 0) + sign * amount
        for node, amounts in net.items():
            self._ledger.quota.shift(node, amounts, -1)
            total = self._usage.setdefault(node, {})
            for fr, amount in amounts.items():
                total[fr] = total.get(fr, 0) + amount
