"""What workloads use on the counting rows of one flavor, in the resources that a gang requests: a step of eviction_gains.py.

Most workloads use the same few amounts on very many rows. So the amounts are numbered, and a workload's use is a number for
each of its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import floordiv
from typing import Final

import numpy as np

from admission.engine.topology.allocation.allocations import Allocations
from admission.engine.topology.allocation.capacity import Capacity
from admission.engine.topology.allocation.entries import by_host
from admission.engine.topology.allocation.simulated_removal import taken
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.tree.tree import Tree
from admission.engine.topology.usage import Vector, times

MOST_UNITS: Final = 1 << 40
"""More than any gang requests: sums of so many units of all rows do not overflow an int64."""


class UnitsByRow:
    """The free amounts of the requested resources by row, and `fit`, the units that have room on each row.

    A unit requests the amounts `unit`. `columns` are the columns of these resources. `amounts` are the numbered amounts that
    workloads use on a row, and `gains` the bounds of the units that have more room without them.
    """

    def __init__(self, columns: Sequence[int], unit: Sequence[int], free: Sequence[Ints]) -> None:
        self.columns, self.unit = tuple(columns), tuple(unit)
        self.free_at_first = tuple(free)
        self.fit_at_first = self.units(self.free_at_first, len(free[0]) if free else 0)
        self._free: list[list[int]] = [column.tolist() for column in free]
        self._fit: list[int] = self.fit_at_first.tolist()
        self.amounts: list[tuple[int, ...]] = []
        self.gains: list[int] = []
        self._numbers: dict[tuple[int, ...], int] = {}

    @classmethod
    def of(cls, tree: Tree, columns: Sequence[int], unit: Sequence[int]) -> UnitsByRow:
        """Counts what is free in the tree."""
        return cls(columns, unit, [_free(tree, column) for column in columns])

    def units(self, free: Sequence[Ints], size: int) -> Ints:
        """Returns how many units have room in so many rows with these free amounts."""
        fit: Ints = np.full(size, MOST_UNITS, dtype=np.int64)
        for column, amount in zip(free, self.unit, strict=True):
            fit = np.minimum(fit, column // amount)
        return np.maximum(fit, 0)

    def fit(self, row: int) -> int:
        """Returns how many units have room on the row now."""
        return self._fit[row]

    def number(self, amounts: Mapping[int, int]) -> int | None:
        """Returns the number of these amounts by column; None if there are none of the requested resources."""
        take = tuple(amounts.get(column, 0) for column in self.columns)
        number = self._numbers.get(take)
        if number is None and any(take):
            number = self._numbers[take] = len(self.amounts)
            self.amounts.append(take)
            self.gains.append(max(-(-amount // need) for amount, need in zip(take, self.unit, strict=True)))
        return number

    def shift(self, row: int, number: int, sign: int) -> int:
        """Frees the numbered amounts (1) or takes them again (-1); returns how many more units have room on the row."""
        left = []
        for free, amount in zip(self._free, self.amounts[number], strict=True):
            free[row] += sign * amount
            left.append(free[row])
        fit: int = max(0, min(map(floordiv, left, self.unit)))
        more = fit - self._fit[row]
        self._fit[row] = fit
        return more


def _free(tree: Tree, column: int) -> Ints:
    free = tree.free(column)
    return np.zeros(tree.rows.size, dtype=np.int64) if free is None else free.copy()


class Takes:
    """The rows that each workload uses, with the number of the amounts that it uses there (`of_key`).

    `slots` has the slot of the domain of each row, -1 for a row that the gang may not use.
    """

    def __init__(
        self, allocations: Allocations, capacity: Capacity, flavor: str, units: UnitsByRow, slots: Sequence[int]
    ) -> None:
        self._allocations, self._capacity, self._flavor = allocations, capacity, flavor
        self._units, self._slots = units, slots
        self._numbers: dict[tuple[Vector, int], int | None] = {}
        self.of_key: dict[str, dict[int, int]] = {}

    def add(self, key: str) -> None:
        """Counts what the workload and its bound pods use now."""
        rows = self._of_hosts(key)
        if rows is None:
            rows = self._of_spots(key)
        if rows:
            self.of_key[key] = rows

    def _of_hosts(self, key: str) -> dict[int, int] | None:
        """Returns the rows of a workload that is charged on hosts of this flavor alone, each once; None for any other."""
        if self._allocations.pods_with_surplus(key):
            return None
        numbers, slots, flavor = self._numbers, self._slots, self._flavor
        row_of_host, size = self._capacity.trees[flavor].row_of_host, len(slots)
        rows: dict[int, int] = {}
        for entry in self._allocations.by_workload[key].entries.values():
            if entry.by_node or entry.flavor != flavor or not by_host(entry.levels):
                return None
            row = row_of_host.get(entry.slot[2][-1])
            if row is None or row >= size or slots[row] < 0:
                continue
            if row in rows:
                return None
            each = entry.vector, entry.count
            if each not in numbers:
                numbers[each] = self._units.number(_by_column(times(*each)))
            if (number := numbers[each]) is not None:
                rows[row] = number
        return rows

    def _of_spots(self, key: str) -> dict[int, int]:
        by_row: dict[int, dict[int, int]] = {}
        for spot, vector in taken(self._allocations, self._capacity, key):
            row = self._capacity.row(self._flavor, spot)
            if row is not None and row < len(self._slots) and self._slots[row] >= 0:
                by_row[row] = _by_column(vector, by_row.get(row))
        numbers = ((row, self._units.number(amounts)) for row, amounts in by_row.items())
        return {row: number for row, number in numbers if number is not None}

    def by_slot(self, rows: dict[int, int]) -> dict[int, dict[int, int]]:
        """Returns these rows with their numbers, by the slot of their domain."""
        slots, parts = self._slots, dict[int, dict[int, int]]()
        for row, number in rows.items():
            part = parts.get(slots[row])
            if part is None:
                parts[slots[row]] = {row: number}
            else:
                part[row] = number
        return parts


def _by_column(vector: Vector, sums: dict[int, int] | None = None) -> dict[int, int]:
    """Adds the vector to the sums by column."""
    sums = {} if sums is None else sums
    for column, amount in vector:
        sums[column] = sums.get(column, 0) + amount
    return sums
