"""What lies in each parent: how many domains of which capacity, so that parents are weighed by kinds and not domain by domain.

Counted once, a table of parents by kinds gives what every parent holds beyond any price by one product; where there are
too many kinds for a table, each price goes through the domains. Called by few.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from admission.engine.topology.optimum.flat import Kinds, Top
from admission.engine.topology.tree.level import Ints

_CELLS = 1 << 16


@dataclass(frozen=True, slots=True)
class Inside:
    """Domains that an answer can have, their parents' slots (below `size`), and the table by (parent, value) if there is."""

    parent: Ints
    capacity: Ints
    size: int
    values: Ints
    table: Ints | None

    @classmethod
    def of(cls, parent: Ints, capacity: Ints, size: int, kinds: Kinds, top: Top) -> Inside:
        """`kinds` and `top`: of all domains; those here hold no less than the last of the top less the slack."""
        least = top.last - top.slack
        values = np.array([value for value in kinds.values if value >= least])
        most = int(values[0])
        if max(size * len(values), most) > _CELLS:
            return cls(parent, capacity, size, values, None)
        place = np.zeros(most + 1, dtype=np.int64)
        place[values] = np.arange(len(values))
        cells = np.bincount(parent * len(values) + place[capacity], minlength=size * len(values))
        return cls(parent, capacity, size, values, cells.reshape(size, len(values)))

    def beyond(self, prices: Ints) -> Ints:
        """By price and parent: twice what its domains hold beyond half the price each. Exact below 2^53."""
        if self.table is None:
            weights = (np.maximum(2 * self.capacity - price, 0) for price in prices.tolist())
            sums = [np.bincount(self.parent, weights=some, minlength=self.size) for some in weights]
            return np.array(sums).astype(np.int64)
        # As floats a product is quick, and exact below 2^53.
        over = np.maximum(2.0 * self.values - prices[:, None], 0)
        found: Ints = (over @ self.table.T.astype(np.float64)).astype(np.int64)
        return found

    def priced(self, prices: Sequence[int], k: int, need: int) -> Priced:
        """What k domains that hold the need take beyond each price, all in halves."""
        at = np.array(prices)
        worth, left = self.beyond(at), 2 * need - k * at
        sums = np.sort(worth, axis=1)[:, ::-1].cumsum(axis=1)
        parents = (sums < left[:, None]).sum(axis=1) + 1
        # Nothing is said where nothing is needed, or all is not enough.
        parents[(left <= 0) | (sums[:, -1] < left)] = 0
        return Priced(worth, left.tolist(), parents.tolist())


class Priced(NamedTuple):
    """By price: what each parent is worth, how much of that is needed, how many parents that takes (0: unknown)."""

    worth: Ints
    need: list[int]
    parents: list[int]
