"""The ledger as it will be when running workloads have ended, for one backfill head after the other.

`Departures` has the ends in order, with the capacity that each frees as arrays; all heads of a cycle share it. A
`ProjectedLedger` adds the reservations of earlier heads: each charges its capacity now and frees it at its own end. The
ledger stands at a position: 0 is now, n is after the first n ends. Moving to another position applies or reverts the ends in
between.

Leaving the context restores the ledger. Called by backfill.py.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from admission.engine.ledger import Ledger
from admission.engine.model import FlavorResource
from admission.engine.topology.allocation.footprint import Footprint, joined

Step = tuple[float, frozenset[str]]
"""A moment (epoch seconds), and the workloads that have ended by then and had not before."""

Usage = Mapping[FlavorResource, int]


@dataclass(frozen=True, slots=True)
class FutureReservation:
    """Capacity reserved for another head.

    `charged`: the ledger counts it already, because only the packing names its nodes.

    `end` is when it frees the capacity, None if that is unknown.
    """

    key: str
    queue: str
    usage: Usage
    footprint: Footprint
    charged: bool
    end: float | None


class Departures:
    """The ends of running workloads in order, and the capacity that each frees."""

    def __init__(self, ledger: Ledger, steps: Sequence[Step]) -> None:
        self.keys = frozenset().union(*(ended for _, ended in steps))
        self.times = [end for end, _ in steps]
        self._ledger = ledger
        self._first = [0]
        prints: list[Footprint] = []
        self._usage: dict[str, list[tuple[int, str, Usage]]] = {}
        for index, (_, ended) in enumerate(steps):
            for key in sorted(ended):
                prints.append(ledger.footprint(key))
                admission = ledger.allocations.by_workload[key].admission
                tree = ledger.quota.tree_of(admission.cluster_queue)
                self._usage.setdefault(tree, []).append((index, admission.cluster_queue, admission.usage()))
            self._first.append(len(prints))
        self._cells = {flavor: joined(prints, flavor) for flavor in ledger.capacity.trees}

    def free(self, first: int, last: int, sign: int) -> None:
        """Frees (1) or charges again (-1) the nodes of the ends from `first` to `last`, without `last`."""
        for flavor, (cells, offsets) in self._cells.items():
            part = cells.part(int(offsets[self._first[first]]), int(offsets[self._first[last]]))
            self._ledger.shift_free(flavor, part, sign)

    def usage(self, tree: str, first: int, last: int) -> dict[str, dict[FlavorResource, int]]:
        """The quota in this cohort tree that these ends free, by queue."""
        given = self._usage.get(tree, [])
        low = bisect_left(given, first, key=lambda each: each[0])
        total: dict[str, dict[FlavorResource, int]] = {}
        for index in range(low, len(given)):
            at, queue, usage = given[index]
            if at >= last:
                break
            _add(total.setdefault(queue, {}), usage)
        return total


class ProjectedLedger:
    """For one head in the cohort tree `tree`. Use inside `opened`; positions are 0 to `len(future)`."""

    def __init__(
        self, ledger: Ledger, departures: Departures, holds: Sequence[FutureReservation], tree: str, now: float
    ) -> None:
        self._ledger, self._departures, self._tree = ledger, departures, tree
        self._holds = holds
        self._ending = sorted((h for h in holds if h.end is not None), key=lambda hold: (hold.end or 0.0, hold.key))
        self._ends = [max(hold.end or 0.0, now) for hold in self._ending]
        self._places = [bisect_right(departures.times, end) + index for index, end in enumerate(self._ends)]
        self._at = 0

    def __len__(self) -> int:
        return len(self._departures.times) + len(self._ending)

    def time(self, position: int) -> float:
        """The time of a position of at least 1, in epoch seconds."""
        index = bisect_left(self._places, position - 1)
        if index < len(self._places) and self._places[index] == position - 1:
            return self._ends[index]
        return self._departures.times[position - 1 - index]

    def position(self, moment: float) -> int:
        """The number of ends up to this time."""
        return bisect_right(self._departures.times, moment) + bisect_right(self._ends, moment)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """A context in which the reservations of other heads are charged."""
        with self._ledger.trial():
            mine = [hold for hold in self._holds if not hold.charged]
            self._hold(mine, -1)
            try:
                yield
            finally:
                departed, over = self._split(self._at)
                self._departures.free(0, departed, -1)
                self._free(self._ending[:over], -1)
                self._free(mine, 1)

    def go(self, position: int) -> None:
        """Moves the ledger to a position."""
        low, high = sorted((self._at, position))
        sign = 1 if position > self._at else -1
        (first, held), (last, still) = self._split(low), self._split(high)
        self._departures.free(first, last, sign)
        for queue, usage in self._departures.usage(self._tree, first, last).items():
            self._charge(queue, usage, sign)
        self._hold(self._ending[held:still], sign)
        self._at = position

    def _split(self, position: int) -> tuple[int, int]:
        """Splits a number of ends into ends of workloads and ends of reservations."""
        index = bisect_left(self._places, position)
        return position - index, index

    def _hold(self, holds: Sequence[FutureReservation], sign: int) -> None:
        """Charges (-1) or frees (1) these reservations, with their quota."""
        self._free(holds, sign)
        for hold in holds:
            if self._ledger.quota.tree_of(hold.queue) == self._tree:
                self._charge(hold.queue, hold.usage, sign)

    def _free(self, holds: Sequence[FutureReservation], sign: int) -> None:
        prints = [hold.footprint for hold in holds]
        for flavor in {flavor for each in prints for flavor in each}:
            self._ledger.shift_free(flavor, joined(prints, flavor)[0], sign)

    def _charge(self, queue: str, usage: Usage, sign: int) -> None:
        if sign > 0:
            self._ledger.quota.remove(queue, usage)
        else:
            self._ledger.quota.add(queue, usage)


def _add(total: dict[FlavorResource, int], usage: Usage) -> None:
    for fr, amount in usage.items():
        total[fr] = total.get(fr, 0) + amount
