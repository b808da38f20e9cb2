"""Domains by capacity, without a tree: kinds, the largest, the best few."""

from __future__ import annotations

import numpy as np

from admission.engine.topology.optimum.flat import Flat, Kinds, fewest
from admission.engine.topology.optimum.objective import Problem
from admission.engine.topology.tree.level import Ints

_TABLE = 1 << 16


def kinds_of(capacity: Ints) -> Kinds:
    """The distinct capacities above zero."""
    if len(capacity) and int(capacity.max()) < _TABLE:
        counts = np.bincount(capacity)
        counts[0] = 0
        values = counts.nonzero()[0][::-1]
        return Kinds(values.tolist(), counts[values].tolist())
    values, counts = np.unique(capacity[capacity > 0], return_counts=True)
    return Kinds(values[::-1].tolist(), counts[::-1].tolist())


def sum_of_largest(capacity: Ints, k: int) -> int:
    """What the k largest hold, or all if there are fewer."""
    if len(capacity) <= k:
        return int(capacity.sum())
    return int(np.partition(capacity, len(capacity) - k)[len(capacity) - k :].sum()) if k else 0


def largest(problem: Problem, level: int, among: Ints, k: int) -> Ints:
    """The k largest of these domains, of equal ones the first by name."""
    capacity = problem.capacity[level][among]
    edge = np.partition(capacity, len(capacity) - k)[len(capacity) - k]
    over = among[capacity > edge]
    tied = among[capacity == edge]
    return np.concatenate((over, _firsts(problem.label[level], tied, k - len(over))))


def pick(problem: Problem, level: int, among: Ints) -> Ints:
    """Of these domains the fewest that hold the need, chosen by flat.py (the largest where that gives up)."""
    capacity = problem.capacity[level][among]
    kinds = kinds_of(capacity)
    top = fewest(kinds, problem.need)
    if top is None:
        raise AssertionError("asked only where there is room")
    solved = Flat(kinds, top).solve()
    if solved is None:
        return largest(problem, level, among, top.k)
    label = problem.label[level]
    return np.concatenate([_firsts(label, among[capacity == value], count) for value, count in solved[1].items()])


def _firsts(label: Ints, slots: Ints, count: int) -> Ints:
    if count >= len(slots):
        return slots
    return slots[np.argpartition(label[slots], count - 1)[:count]]
