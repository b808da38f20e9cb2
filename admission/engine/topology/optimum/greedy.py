"""Good answers at once: few domains of the levels above by plain orders, then the best numbers inside them.

An answer of the asked level is k domains that hold the need. Taken from the union of some wider domains it opens no others,
so few of these are looked for whose k largest domains hold the need; inside the union flat.py chooses. Going down, each level
takes the fewest children that hold the need, again by flat.py. Nothing is proved here: bounds.py says how good it can get.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from admission.engine.topology.level import Ints
from admission.engine.topology.optimum.flat import Flat, Kinds, Top, fewest
from admission.engine.topology.optimum.objective import Problem

_TABLE = 1 << 16


def kinds_of(capacity: Ints) -> Kinds:
    """The distinct capacities above zero."""
    if len(capacity) and int(capacity.max()) < _TABLE:
        counts = np.bincount(capacity)
        values = np.flatnonzero(counts[1:])[::-1] + 1
        return Kinds(values.tolist(), counts[values].tolist())
    values, counts = np.unique(capacity[capacity > 0], return_counts=True)
    return Kinds(values[::-1].tolist(), counts[::-1].tolist())


def pick(problem: Problem, level: int, among: Ints) -> Ints | None:
    """Of these domains of the level the fewest that hold the need, by flat.py, or the largest; None: all do not."""
    capacity = problem.capacity[level][among]
    kinds = kinds_of(capacity)
    top = fewest(kinds, problem.need)
    if top is None:
        return None
    solved = Flat(kinds, top).solve()
    return largest(problem, level, among, top.k) if solved is None else _named(problem, level, among, solved[1])


def largest(problem: Problem, level: int, among: Ints, k: int) -> Ints:
    """The k largest of these domains, of equal ones the first by name."""
    capacity = problem.capacity[level][among]
    edge = np.partition(capacity, len(capacity) - k)[len(capacity) - k]
    over = among[capacity > edge]
    tied = among[capacity == edge]
    return np.concatenate((over, _firsts(problem.label[level], tied, k - len(over))))


def _named(problem: Problem, level: int, among: Ints, chosen: dict[int, int]) -> Ints:
    """So many domains of each capacity, the first by name."""
    capacity = problem.capacity[level][among]
    parts = [_firsts(problem.label[level], among[capacity == value], count) for value, count in chosen.items()]
    return np.concatenate(parts)


def _firsts(label: Ints, slots: Ints, count: int) -> Ints:
    if count >= len(slots):
        return slots
    return slots[np.argpartition(label[slots], count - 1)[:count]]


def down(problem: Problem, chosen: Ints) -> Ints:
    """From domains of the asked level to domains of the last."""
    inside = np.zeros(len(problem.capacity[problem.asked]), dtype=np.bool_)
    inside[chosen] = True
    for level in range(problem.asked + 1, problem.last + 1):
        among = np.flatnonzero(inside[problem.parent[level]] & (problem.capacity[level] > 0))
        below = pick(problem, level, among)
        if below is None:
            raise AssertionError("children hold what their parents hold")
        inside = np.zeros(len(problem.capacity[level]), dtype=np.bool_)
        inside[below] = True
        chosen = below
    return chosen


def answers(problem: Problem, top: Top, among: Ints) -> Iterator[Ints]:
    """Domains of the asked level, each time k that hold the need, `among` these."""
    plain = pick(problem, problem.asked, among)
    if plain is not None:
        yield plain
    yield largest(problem, problem.asked, among, top.k)
    if problem.asked:
        for union in _unions(problem, top, among):
            inside = pick(problem, problem.asked, union)
            if inside is not None:
                yield inside


def _unions(problem: Problem, top: Top, among: Ints) -> Iterator[Ints]:
    """What lies in the fewest parents, by several orders of the parents."""
    asked = problem.asked
    parent, capacity = problem.parent[asked][among], problem.capacity[asked][among]
    size = len(problem.capacity[asked - 1])
    wider = _wider(problem, np.arange(size))
    for worth in worths(capacity, top):
        score = np.bincount(parent, weights=worth, minlength=size).astype(np.int64)
        # Of parents that are worth the same those come first that have good ones beside them.
        beside = np.bincount(wider, weights=score, minlength=int(wider.max()) + 1).astype(np.int64)[wider]
        order = np.lexsort((problem.label[asked - 1], -beside, -score))
        rank = np.empty(size, dtype=np.int64)
        rank[order] = np.arange(size)
        first = _enough(rank[parent], capacity, top.k, problem.need)
        if first is not None:
            yield among[rank[parent] <= first]


def worths(capacity: Ints, top: Top) -> Iterator[Ints]:
    """What a domain of the asked level may be worth to its parent."""
    yield (capacity >= top.last).astype(np.int64)
    yield np.maximum(capacity - (top.last - top.slack) + 1, 0)
    yield np.maximum(capacity - top.last + 1, 0)


def _wider(problem: Problem, slots: Ints) -> Ints:
    """The parents of parents; one for all at the widest level."""
    above = problem.asked - 1
    return problem.parent[above][slots] if above else np.zeros(len(slots), dtype=np.int64)


def _enough(rank: Ints, capacity: Ints, k: int, need: int) -> int | None:
    """The first rank up to which the k largest hold the need."""
    low, high = 0, int(rank.max())
    if _sum_of(capacity, k) < need:
        return None
    while low < high:
        middle = (low + high) // 2
        if _sum_of(capacity[rank <= middle], k) >= need:
            high = middle
        else:
            low = middle + 1
    return low


def _sum_of(capacity: Ints, k: int) -> int:
    if len(capacity) <= k:
        return int(capacity.sum())
    return int(np.partition(capacity, len(capacity) - k)[len(capacity) - k :].sum())
