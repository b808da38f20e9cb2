"""What no answer can beat, by numbers alone: the fewest domains, the least stranded, the fewest below. Called by solver.py."""

from __future__ import annotations

from math import gcd

import numpy as np

from admission.engine.topology.optimum.flat import Flat, Kinds, Top, fewest
from admission.engine.topology.optimum.numbers import kinds_of, sum_of_largest
from admission.engine.topology.optimum.objective import Problem, mask
from admission.engine.topology.tree.level import Ints

_PRICES = 6


def fewest_of(kinds: Kinds, need: int) -> Top:
    """The fewest domains that hold the need, which all of them do."""
    top = fewest(kinds, need)
    if top is None:
        raise AssertionError("asked only where there is room, and every level below holds as much")
    return top


def multiple(kinds: Kinds, need: int) -> int:
    """The least that can be stranded where what is held is a multiple of what all capacities are multiples of."""
    return -need % gcd(*kinds.values)


def flat(kinds: Kinds, need: int) -> tuple[int, int, dict[int, int]]:
    """Without a tree: how many domains, stranded there, and how many of each capacity."""
    top = fewest_of(kinds, need)
    solved = Flat(kinds, top).solve()
    return (top.k, 0, {}) if solved is None else (top.k, *solved)


def fewest_below(problem: Problem, among: Ints, k: int) -> list[int]:
    """How many domains of each level below k of these domains need, by what those hold beyond a price for each (few.py)."""
    found, size = [], len(problem.capacity[problem.asked])
    inside = mask(among, size)
    home = np.arange(size)
    for level in range(problem.asked + 1, problem.last + 1):
        home = home[problem.parent[level]]
        slots = np.flatnonzero(inside[home] & (problem.capacity[level] > 0))
        capacity, group = problem.capacity[level][slots], home[slots]
        fewest_here = 0
        for price in kinds_of(capacity).values[:_PRICES]:
            worth = np.bincount(group, weights=np.maximum(capacity - price, 0), minlength=size).astype(np.int64)
            left = problem.need - sum_of_largest(worth, k)
            fewest_here = max(fewest_here, -(-left // price))
        found.append(fewest_here)
    return found
