"""Bounds on a packing without trying it: rows, items, and when the remaining rows cannot hold what is missing.

The remaining rows cannot hold it if the missing pods of a shape exceed what the rows would hold of that shape alone; if
the missing pods at least as large as a shape exceed the pods of that shape that the rows would hold; or if all together
request more of a resource than is free. Called by packing.py and problem.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

Vec = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PackingItem:
    """`count` pods that use `vector` each. `layers`: (level, size) of slices, outermost first, sizes above 1."""

    vector: Vec
    count: int
    layers: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class LimitRow:
    """Free amounts, the slots of its domains from the widest, and for each item whether it may use the row."""

    free: Vec
    path: Vec
    allowed: tuple[bool, ...]


def fit(free: Sequence[int], vector: Vec) -> int:
    """Pods of this size that the row holds."""
    most = -1
    for have, want in zip(free, vector, strict=True):
        if want and (most < 0 or have // want < most):
            most = have // want
    return max(most, 0)


class PackingLimits:
    """The three tests, for the rows from any index on."""

    def __init__(self, rows: Sequence[LimitRow], fits: Sequence[Sequence[int]], items: Sequence[PackingItem]) -> None:
        """`fits`: by row and item, how many pods fit while nothing else is there."""
        self._items = items
        self._families = [_Family(rows, fits, members, m, items[m].vector) for members, m in _families(items)]
        self._free = _sums([row.free for row in rows], len(items[0].vector) if items else 0)

    def exceeded(self, index: int, wanted: Sequence[int]) -> bool:
        """Reports whether these pods of each item are too many for the rows from the index on."""
        if any(family.exceeded(index, wanted) for family in self._families):
            return True
        for resource, free in enumerate(self._free[index]):
            if sum([want * item.vector[resource] for want, item in zip(wanted, self._items, strict=True)]) > free:
                return True
        return False


class _Family:
    """An upper bound of how many pods of a family (all at least as large as `vector`) fit into the rows from an index
    on.
    """

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
        """Reports whether more is wanted."""
        return sum([wanted[m] for m in self._members]) > self._capacity[index]


def _families(items: Sequence[PackingItem]) -> Iterator[tuple[list[int], int]]:
    """Yields each item alone, and with all items that are at least as large; and the index of the item."""
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
    """Returns, by index, the sums of the rows from there on; one more entry, zeros, at the end."""
    total = (0,) * width
    sums = [total]
    for row in reversed(rows):
        total = tuple([a + b for a, b in zip(total, row, strict=True)])
        sums.append(total)
    sums.reverse()
    return sums
