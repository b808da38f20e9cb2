"""Lower bounds from capacities: the fewest domains, the least stranded slices, the fewest domains below.

Called by solver.py.
"""

from __future__ import annotations

from math import gcd

import numpy as np

from admission.engine.topology.exact.optimum.numbers import capacities_of, sum_of_largest
from admission.engine.topology.exact.optimum.objective import Problem, mask
from admission.engine.topology.exact.optimum.subset_sum import CapacityCounts, SubsetSum, Top, fewest
from admission.engine.topology.tree.level import Ints

_PRICES = 6


def fewest_of(capacities: CapacityCounts, need: int) -> Top:
    """Returns the fewest domains that hold the need. All domains together must hold the need."""
    top = fewest(capacities, need)
    if top is None:
        raise AssertionError("called only where there is capacity, and every level below holds as much")
    return top


def multiple(capacities: CapacityCounts, need: int) -> int:
    """Returns a lower bound of the stranded slices: the gcd of the capacities divides the total capacity of any choice."""
    return -need % gcd(*capacities.values)


def by_capacity(capacities: CapacityCounts, need: int) -> tuple[int, int, dict[int, int]]:
    """Returns, ignoring the tree, the fewest domains, their least stranded slices, and the number of domains by capacity.

    If the subset-sum tables would be too large, the last two are 0 and empty.
    """
    top = fewest_of(capacities, need)
    solved = SubsetSum(capacities, top).solve()
    return (top.k, 0, {}) if solved is None else (top.k, *solved)


def fewest_below(problem: Problem, among: Ints, k: int) -> list[int]:
    """Returns, for each level below, a lower bound of the domains that an answer with `k` of these domains opens.

    The bound is the Lagrangian bound of fewest_parents.py.
    """
    fewest, size = [], len(problem.capacity[problem.requested])
    inside = mask(among, size)
    home = np.arange(size)
    for level in range(problem.requested + 1, problem.last + 1):
        home = home[problem.parent[level]]
        slots = np.flatnonzero(inside[home] & (problem.capacity[level] > 0))
        capacity, group = problem.capacity[level][slots], home[slots]
        fewest_here = 0
        for price in capacities_of(capacity).values[:_PRICES]:
            worth = np.bincount(group, weights=np.maximum(capacity - price, 0), minlength=size).astype(np.int64)
            left = problem.need - sum_of_largest(worth, k)
            fewest_here = max(fewest_here, -(-left // price))
        fewest.append(fewest_here)
    return fewest
