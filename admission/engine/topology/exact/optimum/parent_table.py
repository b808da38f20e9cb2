"""Counts the domains of each capacity in each parent, so that parents are valued by capacity instead of domain by domain.

A table by capacity and parent, computed once, yields by one matrix product how much the domains of every parent hold above
any price. If there are too many capacities for a table, each price is evaluated over the domains. fewest_parents.py and
reduced_costs.py search for prices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from admission.engine.topology.exact.optimum.objective import Problem
from admission.engine.topology.exact.optimum.subset_sum import CapacityCounts, Top
from admission.engine.topology.tree.level import Ints

_CELLS = 1 << 16
_BESIDE = 4


@dataclass(frozen=True, slots=True)
class ParentTable:
    """The domains of the requested level that an answer can use, with their parents and capacities."""

    slots: Ints
    """The domains."""
    parent: Ints
    capacity: Ints
    size: int
    """The parents are slots below this."""
    values: Ints
    """The distinct capacities, descending."""
    table: npt.NDArray[np.float64] | None
    """The number of domains by capacity and parent; None if it would be too large."""

    @classmethod
    def of(cls, problem: Problem, slots: Ints, capacities: CapacityCounts, top: Top) -> ParentTable:
        """Returns the table of these slots, whose capacities must be at least `top.last - top.slack`.

        `capacities` and `top` are those of all domains of the level.
        """
        parent, capacity = problem.parent[problem.requested][slots], problem.capacity[problem.requested][slots]
        size = len(problem.capacity[problem.requested - 1])
        least = top.last - top.slack
        values = np.array([value for value in capacities.values if value >= least])
        most = int(values[0])
        if max(size * len(values), most) > _CELLS:
            return cls(slots, parent, capacity, size, values, None)
        place = np.zeros(most + 1, dtype=np.int64)
        place[values] = np.arange(0, size * len(values), size)
        cells = np.bincount(place[capacity] + parent, minlength=size * len(values))
        # A product of floats is fast, and exact below 2^53.
        return cls(slots, parent, capacity, size, values, cells.reshape(len(values), size).astype(np.float64))

    def beyond(self, prices: Ints, unit: int) -> npt.NDArray[np.float64]:
        """Returns, by price and parent, the sum of max(0, unit * capacity - price) over the parent's domains.

        Exact below 2^53.
        """
        if self.table is not None:
            return np.maximum(unit * self.values - prices.astype(np.float64)[:, None], 0) @ self.table
        weights = (np.maximum(unit * self.capacity - price, 0) for price in prices.tolist())
        return np.array([np.bincount(self.parent, weights=some, minlength=self.size) for some in weights])

    def priced(self, prices: Sequence[int], k: int, need: int) -> Iterator[Priced]:
        """Yields, for each price, the value that k domains with the need must have, and the fewest parents with that value.

        Prices and values are in halves.
        """
        if not prices:
            return
        for price, worth in zip(prices, self.beyond(np.array(prices), 2), strict=True):
            left = 2 * need - k * price
            parents = int(np.sort(worth)[::-1].cumsum().searchsorted(left)) + 1
            # Without a needed value, or if all parents together have too little, there is no bound.
            yield Priced(worth, left, parents if left > 0 and parents <= self.size else 0)

    def cheapest(self, top: Top, parents: int, near: int) -> Cheapest:
        """Returns the price with the lowest upper bound of what k domains in so many parents hold.

        The bound is convex in the price, and the search begins close to `near`. If several prices have the minimum, a price
        between them is taken, so that few domains have value 0.
        """
        prices = self.values[self.values <= top.last]
        at = int(np.count_nonzero(prices > near))
        low, high = max(0, at - _BESIDE), min(len(prices) - 1, at + _BESIDE)
        worth, held = self._held(prices[low : high + 1], top.k, parents)
        best = held.index(min(held))
        if (low and not best) or (high < len(prices) - 1 and held[-1] == held[best]):
            low, high = 0, len(prices) - 1
            while high - low > _BESIDE:
                middle = (low + high) // 2
                _, (here, after) = self._held(prices[middle : middle + 2], top.k, parents)
                low, high = (low, middle) if here <= after else (middle + 1, high)
            worth, held = self._held(prices[low : high + 2], top.k, parents)
            best = held.index(min(held))
        price = int(prices[low + best])
        if held.count(held[best]) > 1:
            price, best = (price + int(prices[low + best + 1])) // 2, 0
            worth, held = self._held(np.array([price]), top.k, parents)
        return Cheapest(price, worth[best].astype(np.int64), int(held[best]))

    def _held(self, prices: Ints, k: int, parents: int) -> tuple[npt.NDArray[np.float64], list[float]]:
        """Returns, by price, the value of each parent, and an upper bound of what k domains in so many parents hold."""
        worth = self.beyond(prices, 1)
        at = self.size - parents
        return worth, (np.partition(worth, at, axis=1)[:, at:].sum(axis=1) + k * prices).tolist()


class Priced(NamedTuple):
    """At one price: the value of each parent, the value needed, and the fewest parents that have it (0: unknown)."""

    worth: npt.NDArray[np.float64]
    need: int
    parents: int


class Cheapest(NamedTuple):
    """The best price, the value of each parent at this price, and the upper bound of what k domains hold."""

    price: int
    worth: Ints
    most: int
