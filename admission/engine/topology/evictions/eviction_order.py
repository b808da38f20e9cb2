"""How many evictions, one after the other, a domain needs until it holds a gang: all domains at once, in arrays.

A step of eviction_gains.py. Evictions only add room. So for each row the free amounts after each eviction are sums of a
beginning, and so are the units of a domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from admission.engine.topology.count import sum_by
from admission.engine.topology.evictions.eviction_takes import Takes, UnitsByRow
from admission.engine.topology.tree.level import Ints


class EvictionOrder:
    """The domains, by slot, that would hold `want` units without all the workloads; `holds` has their units now.

    `slots` has the slot of each row, -1 for a row that the gang may not use.
    """

    def __init__(self, units: UnitsByRow, slots: Ints, takes: Takes, want: int) -> None:
        self._units, self._slots, self._want = units, slots, want
        self._index = {key: number for number, key in enumerate(takes.of_key)}
        rows = [each.rows for each in takes.of_key.values()]
        self._rows = _array(chain.from_iterable(rows), sum(map(len, rows)))
        self._key = np.repeat(np.arange(len(rows), dtype=np.int64), [len(each) for each in rows])
        numbers = _array(chain.from_iterable(each.values() for each in rows), len(self._rows))
        each_number = takes.numbers.amounts
        amounts = np.array(each_number, dtype=np.int64).reshape(len(each_number), len(takes.numbers.columns))
        self._amounts = amounts[numbers]
        self.holds = self._that_suffice()
        self._missing = np.zeros(max(self.holds, default=-1) + 1, dtype=np.int64)
        self._missing[list(self.holds)] = [want - held for held in self.holds.values()]
        inside = np.isin(slots[self._rows], list(self.holds))
        self._rows, self._key, self._amounts = self._rows[inside], self._key[inside], self._amounts[inside]

    def _that_suffice(self) -> dict[int, int]:
        usable = np.flatnonzero(self._slots >= 0)
        own, size = self._slots[usable], int(self._slots.max(initial=-1)) + 1
        holds = sum_by(own, self._units.fit_at_first[usable], size)
        free = [column.copy() for column in self._units.free_at_first]
        for column, amounts in zip(free, self._amounts.T, strict=True):
            np.add.at(column, self._rows, amounts)
        rows = np.flatnonzero(np.bincount(self._rows, minlength=1))
        more = self._units.units([column[rows] for column in free], len(rows)) - self._units.fit_at_first[rows]
        without = holds + sum_by(self._slots[rows], more, size)
        slots = np.flatnonzero(np.bincount(own, minlength=size))
        return {slot: int(holds[slot]) for slot in slots[without[slots] >= self._want].tolist()}

    def enough_after(self, keys: Sequence[str]) -> dict[int, int]:
        """Returns the slots of the domains that hold the gang after the eviction of all `keys`, each with the length of the
        shortest beginning of `keys` that is enough.
        """
        rank = np.full(len(self._index), -1, dtype=np.int64)
        for place, key in enumerate(keys, 1):
            if (index := self._index.get(key)) is not None:
                rank[index] = place
        number = rank[self._key]
        there = np.flatnonzero(number >= 0)
        by_row = there[np.lexsort((number[there], self._rows[there]))]
        more = self._more(self._rows[by_row], self._amounts[by_row])
        slot, number = self._slots[self._rows[by_row]], number[by_row]
        by_slot = np.lexsort((number, slot))
        slot, number, units = slot[by_slot], number[by_slot], _within(slot[by_slot], more[by_slot])
        after = {one: 0 for one, held in self.holds.items() if held >= self._want}
        reached = np.flatnonzero(units >= self._missing[slot])
        enough, at = np.unique(slot[reached], return_index=True)
        for one, index in zip(enough.tolist(), at.tolist(), strict=True):
            after.setdefault(one, int(number[reached[index]]))
        return after

    def _more(self, rows: Ints, amounts: Ints) -> Ints:
        """Returns the units that each eviction adds, given evictions by row and then in order."""
        free = [
            column[rows] + _within(rows, amount)
            for column, amount in zip(self._units.free_at_first, amounts.T, strict=True)
        ]
        fit = self._units.units(free, len(rows))
        before = np.empty_like(fit)
        before[1:] = fit[:-1]
        starts = _starts(rows)
        before[starts] = self._units.fit_at_first[rows[starts]]
        return fit - before


def _array(numbers: chain[int], size: int) -> Ints:
    return np.fromiter(numbers, dtype=np.int64, count=size)


def _starts(groups: Ints) -> Ints:
    """Returns where each run of equal groups begins."""
    return np.flatnonzero(np.diff(groups, prepend=groups[:1] - 1)) if len(groups) else groups


def _within(groups: Ints, amounts: Ints) -> Ints:
    """Returns the sums of the amounts up to each one, begun anew with each run of equal groups."""
    sums = np.cumsum(amounts)
    starts = _starts(groups)
    before = sums[starts] - amounts[starts]
    lengths = np.diff(np.append(starts, len(groups)))
    return sums - np.repeat(before, lengths)
