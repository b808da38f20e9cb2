"""Arrangements: classes of domains with the same capacity in the same arrangement, whatever a gang asks of them.

Each arrangement is created once and remembered, so a domain that is as it was for another gang has the same one, with all that
is known of it (domain_kinds.py). Called by shaping.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from admission.engine.topology.tree.level import Ints
from admission.engine.topology.tree.tree import Tree


class Arrangement:
    """A class of equivalent domains.

    `capacity` is the number of pods that fit, in addition to the `kept` pods that stay. `children` has the arrangements of the
    children that have either, those with most capacity first, each with the number of such children; `units` is their number.
    `order` sorts the arrangements of one level. `number` identifies the arrangement in its book.
    """

    __slots__ = ("capacity", "children", "kept", "number", "order", "units")

    def __init__(
        self, number: int, capacity: int, kept: int, order: Any, children: tuple[tuple[Arrangement, int], ...] = ()
    ) -> None:
        self.number = number
        self.capacity = capacity
        self.kept = kept
        self.order = order
        self.children = children
        self.units = sum(many for _, many in children)


class ArrangementBook:
    """All arrangements that occurred, by number."""

    def __init__(self) -> None:
        self.all: list[Arrangement] = []
        self._lowest: dict[tuple[int, int], Arrangement] = {}
        self._inner: dict[bytes, int] = {}

    def lowest(self, capacity: int, kept: int) -> Arrangement:
        """Returns the arrangement of a domain of the lowest level."""
        both = capacity, kept
        known = self._lowest.get(both)
        if known is None:
            known = self._lowest[both] = self._new(capacity, kept, both)
        return known

    def inner(self, numbers: bytes) -> int:
        """Returns the number of the domains whose children have these numbers (64-bit integers, sorted)."""
        number = self._inner.get(numbers)
        if number is None:
            number = self._inner[numbers] = self._above(np.frombuffer(numbers, dtype=np.int64).tolist()).number
        return number

    def _above(self, numbers: Sequence[int]) -> Arrangement:
        some = [(self.all[number], many) for number, many in Counter(numbers).items()]
        some.sort(key=lambda child: child[0].order)
        order = tuple([child.order for child, many in some for _ in range(many)])
        children = tuple(sorted(some, key=lambda child: -child[0].capacity))
        capacity = sum(child.capacity * many for child, many in some)
        kept = sum(child.kept * many for child, many in some)
        return self._new(capacity, kept, order, children)

    def _new(self, *what: Any) -> Arrangement:
        arrangement = Arrangement(len(self.all), *what)
        self.all.append(arrangement)
        return arrangement


class Arrangements:
    """The arrangement of every domain of a tree that has capacity or kept pods; `root` is that of the whole tree.

    `most` is the largest number of pods that a domain of the lowest level can have.
    """

    def __init__(self, book: ArrangementBook, tree: Tree, capacities: Ints, kept: Mapping[int, int]) -> None:
        self._book = book
        slots, capacity, stay = _lowest(capacities, kept)
        self.most = int((capacity + stay).max(initial=0))
        span = int(stay.max(initial=0)) + 1
        pairs, place = np.unique(capacity * span + stay, return_inverse=True)
        distinct = [book.lowest(*divmod(pair, span)).number for pair in pairs.tolist()]
        numbers = np.array(distinct, dtype=np.int64)[place]
        self._levels = [(slots, numbers)]
        for level in range(tree.depth - 1, 0, -1):
            families = list(_families(tree.levels[level].parent[slots], numbers))
            slots = np.array([slot for slot, _ in families], dtype=np.int64)
            numbers = np.array([book.inner(children) for _, children in families], dtype=np.int64)
            self._levels.insert(0, (slots, numbers))
        self.root = book.all[book.inner(np.sort(numbers).tobytes())]
        self._sizes = [tree.levels[level].size for level in range(tree.depth)]
        self._numbers: dict[int, list[int]] = {}

    def among(self, level: int, slots: Iterable[int]) -> Iterator[tuple[int, Arrangement]]:
        """Yields those of these slots of the level whose domains can have pods, each with its arrangement."""
        numbers = self._numbers.get(level)
        if numbers is None:
            by_slot = np.full(self._sizes[level], -1, dtype=np.int64)
            able, known = self._levels[level]
            by_slot[able] = known
            numbers = self._numbers[level] = by_slot.tolist()
        arrangements = self._book.all
        return ((slot, arrangements[number]) for slot in slots if (number := numbers[slot]) >= 0)

    def of(self, level: int) -> Iterator[tuple[int, Arrangement]]:
        """Yields the slots of the level's domains that can have pods, each with its arrangement."""
        slots, numbers = self._levels[level]
        arrangements = self._book.all
        return ((slot, arrangements[number]) for slot, number in zip(slots.tolist(), numbers.tolist(), strict=True))


def _lowest(capacities: Ints, kept: Mapping[int, int]) -> tuple[Ints, Ints, Ints]:
    """Returns the slots of the lowest level that can have pods, their capacities, and the numbers of pods kept there."""
    if not kept:
        slots = np.flatnonzero(capacities)
        return slots, capacities[slots], np.zeros(len(slots), dtype=np.int64)
    stay = np.zeros_like(capacities)
    stay[list(kept)] = list(kept.values())
    slots = np.flatnonzero((capacities > 0) | (stay > 0))
    return slots, capacities[slots], stay[slots]


def _families(parents: Ints, numbers: Ints) -> Iterator[tuple[int, bytes]]:
    """Yields each parent with the sorted numbers of its children."""
    if not len(parents):
        return
    span = int(numbers.max()) + 1
    parent, number = np.divmod(np.sort(parents * span + numbers), span)
    starts = np.flatnonzero(np.diff(parent, prepend=-1)).tolist()
    raw = number.tobytes()
    for slot, start, end in zip(parent[starts].tolist(), starts, [*starts[1:], len(parents)], strict=True):
        yield slot, raw[8 * start : 8 * end]
