"""Finds k domains of the requested level that hold the need, in the fewest domains of the levels above.

The nearest level above counts first, then the next. From the view of the level above, an answer is a choice of parents whose
values add up to a needed value. There are two relaxations:

- Let t be the k-th largest capacity. The number of domains smaller than t in an answer is limited (subset_sum.py), so the
  answer has at least a known number of domains of t or more. The value of a parent is the number of such domains in it.
- Let p be a price per domain (a Lagrange multiplier). What k domains hold beyond k * p is at most the sum of capacity - p
  over the domains of the opened parents with capacity > p. The value of a parent is its part of that sum. The bound is
  best at one of the capacities.

Each relaxation is the same problem one level up with other numbers: its answer is a lower bound for the levels above, and
its parents are searched first. If k is 1, nothing has to be solved, since a domain has one parent. If the parents of the
relaxations do not hold the need, parents are added in simple orders until they do. Called by solver.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from admission.engine.topology.exact.optimum.numbers import capacities_of, largest, sum_of_largest
from admission.engine.topology.exact.optimum.objective import Problem, distinct, mask
from admission.engine.topology.exact.optimum.parent_table import ParentTable, Priced
from admission.engine.topology.exact.optimum.subset_sum import CapacityCounts, Top, fewest
from admission.engine.topology.tree.level import Ints

_PRICES = 6
_NOTHING = np.zeros(0)
_MANY = 2048
"""The number of domains up to which an answer of the relaxations is also compared with answers of the simple orders."""


@dataclass(frozen=True, slots=True)
class FewestParents:
    """Domains of the requested level with the fewest opened domains above."""

    slots: Ints
    """The domains."""
    union: Ints
    """The domains that an answer can use in their parents."""
    counts: tuple[int, ...]
    """The number of opened domains at this level and at each level above, nearest first."""
    bound: tuple[int, ...]
    """The lower bounds of these numbers."""
    parent_table: ParentTable | None = None
    """The table of all domains that an answer can use; None if it was not computed."""


def fewest_parents(problem: Problem, capacities: CapacityCounts, top: Top, among: Ints) -> FewestParents:
    """Returns the best domains found, with lower bounds. `among` has the domains of the requested level to choose from."""
    if not problem.requested:
        return FewestParents(largest(problem, 0, among, top.k), among, (top.k,), (top.k,))
    bound = (top.k, *(1 for _ in range(problem.requested)))
    if top.k == 1:
        return FewestParents(largest(problem, problem.requested, among, 1), among, bound, bound)
    best: FewestParents | None = None
    parent_table = ParentTable.of(problem, among, capacities, top)
    for union, above in _unions(problem, parent_table, capacities, top):
        bound = max(bound, (top.k, *above))
        best = _better(problem, best, union, top.k)
        if best is not None and best.counts <= bound:
            return FewestParents(best.slots, best.union, best.counts, best.counts, parent_table)
    if best is None or len(among) <= _MANY:
        for union in _ordered(problem, top, parent_table):
            best = _better(problem, best, union, top.k)
    if best is None:
        slots = largest(problem, problem.requested, among, top.k)
        best = FewestParents(slots, among, counts(problem, slots), ())
    return replace(best, bound=min(bound, best.counts), parent_table=parent_table)


def _better(problem: Problem, best: FewestParents | None, union: Ints, k: int) -> FewestParents | None:
    if len(union) < k:
        return best
    slots = largest(problem, problem.requested, union, k)
    if int(problem.capacity[problem.requested][slots].sum()) < problem.need:
        return best
    opened = counts(problem, slots)
    return FewestParents(slots, union, opened, ()) if best is None or opened < best.counts else best


def counts(problem: Problem, slots: Ints) -> tuple[int, ...]:
    """Returns the number of these domains, and the number of domains that contain them at each level above, nearest first."""
    numbers = [len(slots)]
    for level in range(problem.requested, 0, -1):
        slots = distinct(problem.parent[level][slots], len(problem.capacity[level - 1]))
        numbers.append(len(slots))
    return tuple(numbers)


def _unions(
    problem: Problem, parent_table: ParentTable, capacities: CapacityCounts, top: Top
) -> Iterator[tuple[Ints, tuple[int, ...]]]:
    """Yields the domains in the parents of each relaxation's answer, and its lower bounds for the levels above."""
    requested = problem.requested
    for worth, need in _projected(parent_table, capacities, top, problem.need):
        wider = Problem([*problem.capacity[: requested - 1], worth], problem.parent, problem.label, requested - 1, need)
        union = _widest(wider) if requested == 1 else _wider(wider)
        if union is not None:
            parents, bound = union
            yield (
                parent_table.slots.take(mask(parents, parent_table.size).take(parent_table.parent).nonzero()[0]),
                bound,
            )


def _widest(problem: Problem) -> tuple[Ints, tuple[int, ...]] | None:
    """Returns the fewest domains of the widest level that hold the need, and their number; None if all of them do not."""
    worth = problem.capacity[0]
    number = int(np.sort(worth)[::-1].cumsum().searchsorted(problem.need)) + 1
    return None if number > len(worth) else (largest(problem, 0, np.arange(len(worth)), number), (number,))


def _wider(problem: Problem) -> tuple[Ints, tuple[int, ...]] | None:
    """Returns the answer for a level with levels above it, and the lower bounds for these levels; None if there is none."""
    worth = problem.capacity[problem.requested]
    capacities = capacities_of(worth)
    top = fewest(capacities, problem.need)
    if top is None:
        return None
    wider = fewest_parents(problem, capacities, top, (worth >= max(1, top.last - top.slack)).nonzero()[0])
    return wider.slots, wider.bound


def _projected(
    parent_table: ParentTable, capacities: CapacityCounts, top: Top, need: int
) -> Iterator[tuple[Ints, int]]:
    """Yields the relaxations: the values of the parents, and the value needed."""
    good = top.k - _lesser(capacities, top)
    if 2 * good > top.k:
        yield _large(parent_table, top), good
    yield from _by_price(parent_table, capacities, top, need)
    # If the answer needs few domains of t or more, this bound is weak, so it comes last.
    if 0 < 2 * good <= top.k:
        yield _large(parent_table, top), good


def _large(parent_table: ParentTable, top: Top) -> Ints:
    """Returns the number of domains of capacity t or more in each parent."""
    return np.bincount(parent_table.parent[parent_table.capacity >= top.last], minlength=parent_table.size)


def _by_price(parent_table: ParentTable, capacities: CapacityCounts, top: Top, need: int) -> Iterator[tuple[Ints, int]]:
    # Prices are in halves, since the best price may lie between two capacities, where two parents change order.
    prices = [*[2 * value for value in capacities.values if value <= top.last][:_PRICES], 0]
    best, at = Priced(_NOTHING, 0, 0), 0
    for index, priced in enumerate(parent_table.priced(prices, top.k, need)):
        if priced.parents < best.parents:
            # The bound is strong only near one price.
            break
        if priced.parents > best.parents:
            best, at = priced, index
    if not best.parents:
        return
    yield best.worth.astype(np.int64), best.need
    halves = {(prices[at] + price) // 2 for price in prices[max(0, at - 1) : at + 2]} - {*prices}
    for priced in parent_table.priced(sorted(halves), top.k, need):
        if priced.parents > best.parents:
            yield priced.worth.astype(np.int64), priced.need


def _lesser(capacities: CapacityCounts, top: Top) -> int:
    """Returns the largest number of domains smaller than t that an answer can have."""
    left, least = top.slack, 0
    for value, count in zip(capacities.values, capacities.counts, strict=True):
        if value < top.last and (deficit := top.last - value) <= left:
            some = min(count, left // deficit)
            least, left = least + some, left - some * deficit
    return least


# ---- plain orders


def _ordered(problem: Problem, top: Top, parent_table: ParentTable) -> Iterator[Ints]:
    """Yields the domains in the first parents of several orders, with as many parents as hold the need."""
    requested, parent, capacity, size = problem.requested, parent_table.parent, parent_table.capacity, parent_table.size
    for worth in _worths(capacity, top):
        score = np.bincount(parent, weights=worth, minlength=size).astype(np.int64)
        keys = [problem.label[requested - 1], -score]
        if requested > 1:
            # Among parents of equal value, those next to valuable ones come first.
            beside = np.bincount(problem.parent[requested - 1], weights=score)[problem.parent[requested - 1]]
            keys.insert(1, -beside)
        rank = np.empty(size, dtype=np.int64)
        rank[np.lexsort(keys)] = np.arange(size)
        first = _enough(rank[parent], capacity, top.k, problem.need)
        yield parent_table.slots[rank[parent] <= first]


def _worths(capacity: Ints, top: Top) -> Iterator[Ints]:
    """Yields several choices for the value that each domain contributes to its parent."""
    yield (capacity >= top.last).astype(np.int64)
    yield np.maximum(capacity - (top.last - top.slack) + 1, 0)
    yield np.maximum(capacity - top.last + 1, 0)


def _enough(rank: Ints, capacity: Ints, k: int, need: int) -> int:
    """Returns the lowest rank such that the k largest domains up to this rank hold the need (by binary search)."""
    low, high = 0, int(rank.max())
    while low < high:
        middle = (low + high) // 2
        if sum_of_largest(capacity[rank <= middle], k) >= need:
            high = middle
        else:
            low = middle + 1
    return low
