"""The objective of the exact algorithm: figures that are compared lexicographically.

Levels count from 0, the widest, to `last`, where slices are counted; `requested` is the requested level. The figures of an
answer:

    domains opened at `requested`, at requested - 1, ... 0;
    stranded slices at `requested`: the capacity of the opened domains of the level, minus the need;
    domains opened at requested + 1, ... last; stranded slices at requested + 1, ... last;
    the opened domains of `requested`, as pairs: largest capacity, how many have it, next capacity, how many, ...

Stranded slices at the requested level come before the counts below it: one more host costs a gang almost nothing, while a
rack that is opened for a few pods is lost to the next gang that needs a whole rack.

The pairs describe the domains that stay free: of two answers with equally many domains at `requested` and equally many
stranded slices, the one with smaller sorted capacities leaves the larger domains whole. Ties break by name: the solvers
visit domains by capacity, then by name, and keep the first answer. All figures are sums over the opened domains, so the
cost of an answer is one integer with a digit for each figure (`FigureScale`), and parts of answers compare like whole answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from admission.engine.topology.tree.level import Bools, Ints

Figures = tuple[int, ...]
Figure = tuple[str, int]
"""(`count` or `stranded`, level) of a figure; a digit of `FigureScale` may also be (`unused`, capacity) for the pairs."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One homogeneous gang to place."""

    capacity: Sequence[Ints]
    """Slices that fit, by level and slot."""
    parent: Sequence[Ints]
    """The slot at the level above, by level and slot."""
    label: Sequence[Ints]
    """Sorts like the names, by level and slot."""
    requested: int
    """The requested level."""
    need: int
    """The slices to place."""

    @property
    def last(self) -> int:
        """The level where slices are counted."""
        return len(self.capacity) - 1

    @property
    def order(self) -> tuple[Figure, ...]:
        """The figures before the pairs, in order. The counts of the requested level and above come first."""
        return _order(self.requested, len(self.capacity))

    def opened(self, slots: Ints) -> list[Ints]:
        """Returns, by level, the domains that are open if these domains of the last level are."""
        return self.above(self.last, [slots])

    def above(self, level: int, opened: Sequence[Ints]) -> list[Ints]:
        """Returns, by level, the opened domains, given those of `level` and the levels below."""
        by_level = list(opened)
        for at in range(level, 0, -1):
            by_level.insert(0, distinct(self.parent[at][by_level[0]], len(self.capacity[at - 1])))
        return by_level

    def figures(self, slots: Ints) -> Figures:
        """Returns the figures of the answer that uses these domains of the last level."""
        return self.measured(self.opened(slots))

    def measured(self, opened: Sequence[Ints]) -> Figures:
        """Returns the figures of the answer that opens these domains of each level."""
        held = {level: self.capacity[level][opened[level]] for level in range(self.requested, len(opened))}
        first = (
            len(opened[level]) if name == "count" else int(held[level].sum()) - self.need for name, level in self.order
        )
        return (*first, *pairs(Counter(held[self.requested].tolist())))


@cache
def _order(requested: int, levels: int) -> tuple[Figure, ...]:
    above, below = range(requested, -1, -1), range(requested + 1, levels)
    here = (*(("count", level) for level in above), ("stranded", requested))
    return (*here, *(("count", level) for level in below), *(("stranded", level) for level in below))


def pairs(counts: Counter[int] | dict[int, int]) -> Iterable[int]:
    """Yields the pairs of the objective: the largest capacity, the number of domains with it, the next capacity, and so on."""
    for value in sorted(counts, reverse=True):
        yield from (value, counts[value])


class FigureScale:
    """Packs figures as digits of one integer; the pairs have one digit for each capacity at `requested`."""

    def __init__(self, problem: Problem, values: Iterable[int]) -> None:
        """`values` are the distinct capacities at `requested`."""
        # No figure exceeds the total capacity or the number of domains.
        digit = max(int(problem.capacity[0].sum()), len(problem.capacity[-1])).bit_length() + 2
        names = [*(("unused", value) for value in sorted(values)), *reversed(problem.order)]
        self._unit = {name: 1 << digit * at for at, name in enumerate(names)}
        self._requested = problem.requested

    def count(self, level: int) -> int:
        """Returns the cost of one more domain at the level."""
        return self._unit["count", level]

    def stranded(self, level: int) -> int:
        """Returns the cost of one more slice in an opened domain of the level; 0 above `requested`."""
        return self._unit.get(("stranded", level), 0)

    def domain(self, level: int, capacity: int) -> int:
        """Returns the cost of opening a domain of this capacity at the level."""
        unused = self._unit["unused", capacity] if level == self._requested else 0
        return self.count(level) + capacity * self.stranded(level) + unused

    def of(self, problem: Problem, figures: Figures, last: int) -> int:
        """Returns the cost of an answer with these figures, counting the levels down to `last`."""
        cost = 0
        for (name, level), figure in zip(problem.order, figures, strict=False):
            if level <= last:
                cost += (
                    figure * self.count(level) if name == "count" else (figure + problem.need) * self.stranded(level)
                )
        unused_pairs = figures[len(problem.order) :]
        for capacity, number in zip(unused_pairs[::2], unused_pairs[1::2], strict=True):
            cost += number * self._unit["unused", capacity]
        return cost


def distinct(slots: Ints, size: int) -> Ints:
    """Returns the distinct slots, ascending; all are below `size`."""
    numbers: Ints = mask(slots, size).nonzero()[0]
    return numbers


def mask(slots: Ints, size: int) -> Bools:
    """Returns an array of `size` flags that is True at these slots."""
    mask_of_slots = np.zeros(size, dtype=np.bool_)
    mask_of_slots[slots] = True
    return mask_of_slots
