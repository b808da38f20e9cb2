"""Selects domains by capacity, ignoring the tree: distinct capacities, the largest domains, the best choice by capacity."""

from __future__ import annotations

import numpy as np

from admission.engine.topology.exact.optimum.objective import Problem
from admission.engine.topology.exact.optimum.subset_sum import CapacityCounts, SubsetSum, fewest
from admission.engine.topology.tree.level import Ints

_TABLE = 1 << 16


def capacities_of(capacity: Ints) -> CapacityCounts:
    """Returns the distinct capacities above zero, descending, with the number of domains of each."""
    if len(capacity) and int(capacity.max()) < _TABLE:
        counts = np.bincount(capacity)
        counts[0] = 0
        values = counts.nonzero()[0][::-1]
        return CapacityCounts(values.tolist(), counts[values].tolist())
    values, counts = np.unique(capacity[capacity > 0], return_counts=True)
    return CapacityCounts(values[::-1].tolist(), counts[::-1].tolist())


def sum_of_largest(capacity: Ints, k: int) -> int:
    """Returns the sum of the k largest capacities, or of all if there are fewer."""
    if len(capacity) <= k:
        return int(capacity.sum())
    return int(np.partition(capacity, len(capacity) - k)[len(capacity) - k :].sum()) if k else 0


def largest(problem: Problem, level: int, among: Ints, k: int) -> Ints:
    """Returns the k largest of these domains; the first by name wins a tie."""
    capacity = problem.capacity[level][among]
    edge = np.partition(capacity, len(capacity) - k)[len(capacity) - k]
    over = among[capacity > edge]
    tied = among[capacity == edge]
    return np.concatenate((over, _firsts(problem.label[level], tied, k - len(over))))


def pick(problem: Problem, level: int, among: Ints) -> Ints:
    """Returns the fewest of these domains that hold the need, chosen by subset_sum.py (or the largest, if it gives up)."""
    capacity = problem.capacity[level][among]
    capacities = capacities_of(capacity)
    top = fewest(capacities, problem.need)
    if top is None:
        raise AssertionError("called only where there is capacity")
    solved = SubsetSum(capacities, top).solve()
    if solved is None:
        return largest(problem, level, among, top.k)
    label = problem.label[level]
    return np.concatenate([_firsts(label, among[capacity == value], count) for value, count in solved[1].items()])


def _firsts(label: Ints, slots: Ints, count: int) -> Ints:
    if count >= len(slots):
        return slots
    return slots[np.argpartition(label[slots], count - 1)[:count]]
