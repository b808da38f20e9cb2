"""Upper bounds of what rows (hosts) can hold, which prune the search for a packing.

The remaining rows cannot hold the missing pods if the missing pods of one shape exceed the number that fits on rows
without other pods; if the missing pods of at least some shape exceed the number of pods of that shape that fit; or if
all missing pods together request more of a resource than is free. Called by packing.py and problem.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

Vec = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PackingItem:
    """Equal pods."""

    vector: Vec
    """What each requests."""
    count: int
    """The number of pods."""
    layers: tuple[tuple[int, int], ...] = ()
    """The (level, size) of slices larger than 1, outermost first."""


@dataclass(frozen=True, slots=True)
class LimitRow:
    """A row: free amounts, the slots of its domains from the widest to the lowest, and whether each item may use the row."""

    free: Vec
    path: Vec
    allowed: tuple[bool, ...]


def fit(free: Sequence[int], vector: Vec) -> int:
    """Returns how many pods that request `vector` fit into the free amounts; 0 if `vector` is all zeros."""
    most = -1
    for have, want in zip(free, vector, strict=True):
        if want and (most < 0 or have // want < most):
            most = have // want
    return max(most, 0)


class PackingLimits:
    """Tests whether missing pods exceed what the rows from a given index on can hold."""

    def __init__(self, rows: Sequence[LimitRow], fits: Sequence[Sequence[int]], items: Sequence[PackingItem]) -> None:
        """`fits` is the number of pods that fit on a row without other pods, by row and item."""
        self._items = items
        self._families = [_Family(rows, fits, members, m, items[m].vector) for members, m in _families(items)]
        self._free = _sums([row.free for row in rows], len(items[0].vector) if items else 0)

    def exceeded(self, index: int, wanted: Sequence[int]) -> bool:
        """Reports whether the rows from `index` on certainly cannot hold `wanted` pods of each item."""
        if any(family.exceeded(index, wanted) for family in self._families):
            return True
        for resource, free in enumerate(self._free[index]):
            if sum([want * item.vector[resource] for want, item in zip(wanted, self._items, strict=True)]) > free:
                return True
        return False


class _Family:
    """Items whose pods request at least `vector`, and an upper bound of how many of their pods fit from each row on."""

    def __init__(
        self, rows: Sequence[LimitRow], fits: Sequence[Sequence[int]], members: Sequence[int], m: int, vector: Vec
    ) -> None:
        self._members = members
        if len(members) == 1:
            capacity = [some[m] for some in fits]
        else:
            capacity = [
                some[m]
                if row.allowed[m]
                else fit(row.free, vector)
                if any(row.allowed[other] for other in members)
                else 0
                for row, some in zip(rows, fits, strict=True)
            ]
        self._capacity = [*accumulate(reversed(capacity), initial=0)][::-1]

    def exceeded(self, index: int, wanted: Sequence[int]) -> bool:
        """Reports whether the wanted pods of these items exceed the bound of the rows from `index` on."""
        return sum([wanted[m] for m in self._members]) > self._capacity[index]


def _families(items: Sequence[PackingItem]) -> Iterator[tuple[list[int], int]]:
    """Yields each item by itself, and again with all items that are at least as large, each with the index of the item."""
    for m, item in enumerate(items):
        yield [m], m
        larger = [
            other
            for other, one in enumerate(items)
            if all(a >= b for a, b in zip(one.vector, item.vector, strict=True))
        ]
        if len(larger) > 1:
            yield larger, m


def _sums(rows: Sequence[Vec], width: int) -> list[Vec]:
    """Returns the sums of all rows from each index on; the last of the len(rows) + 1 entries is all zeros."""
    total = (0,) * width
    sums = [total]
    for row in reversed(rows):
        total = tuple([a + b for a, b in zip(total, row, strict=True)])
        sums.append(total)
    sums.reverse()
    return sums
