"""What workloads use on the counting rows of one flavor, in the resources that a gang requests: a step of eviction_gains.py.

Most workloads use the same few amounts on very many rows. So the amounts are numbered, and a workload's use is a number for
each of its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import floordiv
from typing import Final

import numpy as np

from admission.engine.topology.allocation.allocations import Allocations
from admission.engine.topology.allocation.capacity import Capacity
from admission.engine.topology.allocation.entries import Allocation, by_host
from admission.engine.topology.allocation.simulated_removal import taken
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.tree.tree import Tree
from admission.engine.topology.usage import Vector, times

MOST_UNITS: Final = 1 << 40
"""More than any gang requests: sums of so many units of all rows do not overflow an int64."""

_MOST_NUMBERS: Final = 10_000
"""The number of different amounts, and of ended workloads, that are kept for the next question."""
_QUESTIONS: Final = 4
"""The number of resources and domains for which something is kept."""


class NumberedAmounts:
    """The amounts that workloads use on a row, of the resources of these columns, by number; a unit requests `unit`.

    `gains` are the bounds of the units that have more room without these amounts.
    """

    def __init__(self, columns: Sequence[int], unit: Sequence[int]) -> None:
        self.columns, self.unit = tuple(columns), tuple(unit)
        self.amounts: list[tuple[int, ...]] = []
        self.gains: list[int] = []
        self._numbers: dict[tuple[int, ...], int] = {}

    def number(self, amounts: Mapping[int, int]) -> int | None:
        """Returns the number of these amounts by column; None if there are none of the requested resources."""
        take = tuple(amounts.get(column, 0) for column in self.columns)
        number = self._numbers.get(take)
        if number is None and any(take):
            number = self._numbers[take] = len(self.amounts)
            self.amounts.append(take)
            self.gains.append(max(-(-amount // need) for amount, need in zip(take, self.unit, strict=True)))
        return number


class UnitsByRow:
    """The free amounts of the requested resources by row, and how many units have room on each row."""

    def __init__(self, tree: Tree, numbers: NumberedAmounts) -> None:
        self.numbers = numbers
        self.free_at_first = [_free(tree, column) for column in numbers.columns]
        self.fit_at_first = self.units(self.free_at_first, tree.rows.size)
        self._free: list[list[int]] = [column.tolist() for column in self.free_at_first]
        self._fit: list[int] = self.fit_at_first.tolist()

    def units(self, free: Sequence[Ints], size: int) -> Ints:
        """Returns how many units have room in so many rows with these free amounts."""
        fit: Ints = np.full(size, MOST_UNITS, dtype=np.int64)
        for column, amount in zip(free, self.numbers.unit, strict=True):
            fit = np.minimum(fit, column // amount)
        return np.maximum(fit, 0)

    def fit(self, row: int) -> int:
        """Returns how many units have room on the row now."""
        return self._fit[row]

    def shift(self, row: int, number: int, sign: int) -> int:
        """Frees the numbered amounts (1) or takes them again (-1); returns how many more units have room on the row."""
        left = []
        for free, amount in zip(self._free, self.numbers.amounts[number], strict=True):
            free[row] += sign * amount
            left.append(free[row])
        fit: int = max(0, min(map(floordiv, left, self.numbers.unit)))
        more = fit - self._fit[row]
        self._fit[row] = fit
        return more


def _free(tree: Tree, column: int) -> Ints:
    free = tree.free(column)
    return np.zeros(tree.rows.size, dtype=np.int64) if free is None else free.copy()


@dataclass(frozen=True, slots=True, eq=False)
class RowsTaken:
    """The rows that a workload uses, each with the number of its amounts there; `parts` has them by domain: its slot, the rows,
    and the bound of the units that an eviction adds.
    """

    allocation: Allocation
    rows: dict[int, int]
    parts: list[tuple[int, dict[int, int], int]]


class Takes:
    """What workloads use on the rows of one flavor, `of_key` by workload.

    `slots` has the slot of the domain of each row, -1 for a row that the gang may not use. What was counted for one question is
    there for the next one, for workloads that are charged on hosts as before.
    """

    def __init__(
        self, allocations: Allocations, capacity: Capacity, flavor: str, numbers: NumberedAmounts, slots: Ints
    ) -> None:
        self._allocations, self._capacity, self._flavor = allocations, capacity, flavor
        self.numbers, self._slots_by_row, self._slots = numbers, slots, slots.tolist()
        self._tree = capacity.trees[flavor]
        self._row_changes = self._tree.row_changes
        self._by_vector: dict[tuple[Vector, int], int | None] = {}
        self._kept: dict[str, RowsTaken] = {}
        self.of_key: dict[str, RowsTaken] = {}

    def still_hold(self, tree: Tree, slots: Ints) -> bool:
        """Reports whether all rows and domains are as before."""
        few = len(self.numbers.amounts) <= _MOST_NUMBERS and len(self._by_vector) <= _MOST_NUMBERS
        same = tree is self._tree and tree.row_changes == self._row_changes
        return few and same and np.array_equal(slots, self._slots_by_row)

    def begin(self) -> None:
        """Begins the next question."""
        if len(self._kept) > 2 * len(self.of_key) + _MOST_NUMBERS:
            self._kept.clear()
        self.of_key = {}

    def add(self, key: str) -> None:
        """Counts what the workload and its bound pods use now."""
        taken = self._kept.get(key)
        allocation = self._allocations.by_workload[key]
        surplus = self._allocations.has_surplus(key)
        if taken is None or taken.allocation is not allocation or surplus:
            rows = None if surplus else self._of_hosts(key)
            taken = RowsTaken(allocation, *self._by_domain(self._of_spots(key) if rows is None else rows))
            if rows is None:
                self._kept.pop(key, None)
            else:
                self._kept[key] = taken
        if taken.rows:
            self.of_key[key] = taken

    def _of_hosts(self, key: str) -> dict[int, int] | None:
        """Returns the rows of a workload that is charged on hosts of this flavor alone, each once; None for any other."""
        numbers, slots, flavor = self._by_vector, self._slots, self._flavor
        row_of_host, size = self._tree.row_of_host, len(slots)
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
                numbers[each] = self.numbers.number(_by_column(times(*each)))
            if (number := numbers[each]) is not None:
                rows[row] = number
        return rows

    def _of_spots(self, key: str) -> dict[int, int]:
        by_row: dict[int, dict[int, int]] = {}
        for spot, vector in taken(self._allocations, self._capacity, key):
            row = self._capacity.row(self._flavor, spot)
            if row is not None and row < len(self._slots) and self._slots[row] >= 0:
                by_row[row] = _by_column(vector, by_row.get(row))
        numbers = ((row, self.numbers.number(amounts)) for row, amounts in by_row.items())
        return {row: number for row, number in numbers if number is not None}

    def _by_domain(self, rows: dict[int, int]) -> tuple[dict[int, int], list[tuple[int, dict[int, int], int]]]:
        slots, parts, gains = self._slots, dict[int, dict[int, int]](), self.numbers.gains
        for row, number in rows.items():
            part = parts.get(slots[row])
            if part is None:
                parts[slots[row]] = {row: number}
            else:
                part[row] = number
        return rows, [(slot, part, sum(gains[each] for each in part.values())) for slot, part in parts.items()]


class KeptTakes:
    """What was counted for the last few questions about flavors that are still there."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, tuple[int, ...], tuple[int, ...]], Takes] = {}

    def of(
        self,
        allocations: Allocations,
        capacity: Capacity,
        flavor: str,
        columns: Sequence[int],
        unit: Sequence[int],
        slots: Ints,
    ) -> Takes:
        """Returns what was counted for the same resources and domains, or begins to count."""
        name = (flavor, tuple(columns), tuple(unit))
        takes = self._kept.pop(name, None)
        if takes is None or not takes.still_hold(capacity.trees[flavor], slots):
            takes = Takes(allocations, capacity, flavor, NumberedAmounts(columns, unit), slots)
        takes.begin()
        self._kept[name] = takes
        for other in [each for each in self._kept if each[0] not in capacity.trees]:
            del self._kept[other]
        if len(self._kept) > _QUESTIONS:
            del self._kept[next(iter(self._kept))]
        return takes


def _by_column(vector: Vector, sums: dict[int, int] | None = None) -> dict[int, int]:
    """Adds the vector to the sums by column."""
    sums = {} if sums is None else sums
    for column, amount in vector:
        sums[column] = sums.get(column, 0) + amount
    return sums
