"""Lower bounds by numbers alone: the fewest domains, the least stranded slices, the fewest domains below. Called by
solver.py.
"""

from __future__ import annotations

from math import gcd

import numpy as np

from admission.engine.topology.optimum.numbers import capacities_of, sum_of_largest
from admission.engine.topology.optimum.objective import Problem, mask
from admission.engine.topology.optimum.subset_sum import CapacityCounts, SubsetSum, Top, fewest
from admission.engine.topology.tree.level import Ints

_PRICES = 6


def fewest_of(capacities: CapacityCounts, need: int) -> Top:
    """Returns the fewest domains that hold the need. All of them together must hold it."""
    top = fewest(capacities, need)
    if top is None:
        raise AssertionError("called only where there is capacity, and every level below holds as much")
    return top


def multiple(capacities: CapacityCounts, need: int) -> int:
    """A lower bound of what is stranded: what is held is a multiple of the greatest common divisor of the capacities."""
    return -need % gcd(*capacities.values)


def by_capacity(capacities: CapacityCounts, need: int) -> tuple[int, int, dict[int, int]]:
    """Without a tree: how many domains, how many stranded slices, and how many domains of each capacity."""
    top = fewest_of(capacities, need)
    solved = SubsetSum(capacities, top).solve()
    return (top.k, 0, {}) if solved is None else (top.k, *solved)


def fewest_below(problem: Problem, among: Ints, k: int) -> list[int]:
    """Returns how many domains of each level below k of these domains need, by a Lagrangian bound (fewest_parents.py)."""
    found, size = [], len(problem.capacity[problem.asked])
    inside = mask(among, size)
    home = np.arange(size)
    for level in range(problem.asked + 1, problem.last + 1):
        home = home[problem.parent[level]]
        slots = np.flatnonzero(inside[home] & (problem.capacity[level] > 0))
        capacity, group = problem.capacity[level][slots], home[slots]
        fewest_here = 0
        for price in capacities_of(capacity).values[:_PRICES]:
            worth = np.bincount(group, weights=np.maximum(capacity - price, 0), minlength=size).astype(np.int64)
            left = problem.need - sum_of_largest(worth, k)
            fewest_here = max(fewest_here, -(-left // price))
        found.append(fewest_here)
    return found
