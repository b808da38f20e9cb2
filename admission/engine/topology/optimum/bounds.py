"""What no answer can beat: each figure of the objective on its own.

Any k domains of the asked level that hold the need have few of less than t, the k-th largest capacity (flat.py): their
deficits add up to the slack at most. So at least so many of t or more are among them, and a level above opens at least as many
domains as are needed to have so many; nor can it open fewer than hold the need by the k largest domains of each. Levels below
open no fewer than hold the need by the largest. Stranded slices and holes are no better than without a tree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from admission.engine.topology.level import Ints
from admission.engine.topology.optimum.flat import Flat, Kinds, Top, fewest
from admission.engine.topology.optimum.greedy import kinds_of
from admission.engine.topology.optimum.objective import Figures, Problem, pairs


@dataclass(frozen=True, slots=True)
class Floor:
    """`figures`: no answer's are less; `least`: by level the fewest domains that an answer opens."""

    figures: Figures
    least: tuple[int, ...]


def floor_of(problem: Problem, kinds: Kinds, top: Top, among: Ints) -> Floor:
    """The bounds; `kinds`, `top`: of the asked level, `among`: those of its domains that an answer can open."""
    asked = problem.asked
    least = [0] * len(problem.capacity)
    least[asked] = top.k
    stranded = []
    solved = Flat(kinds, top).solve()
    stranded.append(0 if solved is None else solved[0])
    good = top.k - below_last(kinds, top)
    capacity, group = problem.capacity[asked][among], among
    for level in range(asked, 0, -1):
        group = problem.parent[level][group]
        least[level - 1] = _groups(group, capacity, len(problem.capacity[level - 1]), top, problem.need, good)
    for level in range(asked + 1, problem.last + 1):
        below = kinds_of(problem.capacity[level])
        some = fewest(below, problem.need)
        if some is None:
            raise AssertionError("every level holds the need")
        least[level] = some.k
        stranded.append(0)
    holes = () if solved is None else tuple(pairs(solved[1]))
    return Floor((*(least[level] for level in problem.order), *stranded, *holes), tuple(least))


def below_last(kinds: Kinds, top: Top) -> int:
    """How many domains of less than t an answer can have."""
    left, found = top.slack, 0
    for value, count in zip(kinds.values, kinds.counts, strict=True):
        if value < top.last and (deficit := top.last - value) <= left:
            some = min(count, left // deficit)
            found, left = found + some, left - some * deficit
    return found


def _groups(group: Ints, capacity: Ints, size: int, top: Top, need: int, good: int) -> int:
    """The fewest groups that can have k domains which hold the need."""
    many = np.bincount(group[capacity >= top.last], minlength=size)
    return max(
        _first(many, good),
        _first(np.bincount(group, minlength=size), top.k),
        _first(_best(group, capacity, size, top.k), need),
    )


def _best(group: Ints, capacity: Ints, size: int, k: int) -> Ints:
    """What the k largest of each group hold."""
    order = np.lexsort((-capacity, group))
    ordered = group[order]
    rank = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    kept = order[rank < k]
    return np.bincount(group[kept], weights=capacity[kept], minlength=size).astype(np.int64)


def _first(values: Ints, need: int) -> int:
    """How many of the largest values are needed; 1 at least."""
    sums = np.cumsum(-np.sort(-values))
    return max(1, int(np.searchsorted(sums, need)) + 1)
