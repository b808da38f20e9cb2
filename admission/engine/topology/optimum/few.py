"""Few domains of the levels above: k domains of the asked level that hold the need, in as few wider ones as possible.

Nearest level first, and then the next. Such an answer, seen from the level above, is a choice of parents whose worth adds up:

- the k domains have at most so many of less than t, the k-th largest capacity (flat.py), so at least so many of t or more;
  a parent is worth how many of these it has;
- for any price p of a domain, what k domains hold beyond k * p is at most what is over p in all domains of the opened
  parents; a parent is worth that (a Lagrangian bound, best at one of the capacities).

Each of these is the same question one level up, with numbers of its own, and asks no more than this one does: its answer is a
lower bound for the levels above, and its parents are where to look first; a single one lies in one of each level, and no more
is asked. Where these do not hold the need, parents are taken by plain orders until they do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from admission.engine.topology.optimum.flat import Kinds, Top, fewest
from admission.engine.topology.optimum.inside import Inside
from admission.engine.topology.optimum.numbers import kinds_of, largest, sum_of_largest
from admission.engine.topology.optimum.objective import Problem, distinct, mask
from admission.engine.topology.tree.level import Ints

_PRICES = 6
_MANY = 2048
"""With more domains an answer that the levels above gave is not compared with those of plain orders."""


@dataclass(frozen=True, slots=True)
class Few:
    """Domains of the asked level; how many at it and at each level above, nearest first; and what no answer can beat.

    `union`: domains among which lie all that an answer can have in the parents of these.
    """

    slots: Ints
    union: Ints
    counts: tuple[int, ...]
    bound: tuple[int, ...]


def few(problem: Problem, kinds: Kinds, top: Top, among: Ints) -> Few:
    """The question for this level; `among`: the domains that an answer can have."""
    if not problem.asked:
        return Few(largest(problem, 0, among, top.k), among, (top.k,), (top.k,))
    bound = (top.k, *(1 for _ in range(problem.asked)))
    if top.k == 1:
        return Few(largest(problem, problem.asked, among, 1), among, bound, bound)
    best: Few | None = None
    for union, above in _unions(problem, kinds, top, among):
        bound = max(bound, (top.k, *above))
        best = _better(problem, best, union, top.k)
        if best is not None and best.counts <= bound:
            return replace(best, bound=best.counts)
    if best is None or len(among) <= _MANY:
        for union in _ordered(problem, top, among):
            best = _better(problem, best, union, top.k)
    if best is None:
        slots = largest(problem, problem.asked, among, top.k)
        best = Few(slots, among, _counts(problem, slots), ())
    return replace(best, bound=min(bound, best.counts))


def _better(problem: Problem, best: Few | None, union: Ints, k: int) -> Few | None:
    if len(union) < k:
        return best
    slots = largest(problem, problem.asked, union, k)
    if int(problem.capacity[problem.asked][slots].sum()) < problem.need:
        return best
    counts = _counts(problem, slots)
    return Few(slots, union, counts, ()) if best is None or counts < best.counts else best


def _counts(problem: Problem, slots: Ints) -> tuple[int, ...]:
    counts = [len(slots)]
    for level in range(problem.asked, 0, -1):
        slots = distinct(problem.parent[level][slots], len(problem.capacity[level - 1]))
        counts.append(len(slots))
    return tuple(counts)


def _unions(problem: Problem, kinds: Kinds, top: Top, among: Ints) -> Iterator[tuple[Ints, tuple[int, ...]]]:
    """What lies in the parents that may be the best, and a lower bound for the levels above."""
    asked = problem.asked
    parent, capacity = problem.parent[asked][among], problem.capacity[asked][among]
    size = len(problem.capacity[asked - 1])
    for worth, need in _projected(parent, capacity, kinds, top, problem.need, size):
        wider = Problem([*problem.capacity[: asked - 1], worth], problem.parent, problem.label, asked - 1, need)
        some = kinds_of(worth)
        wider_top = fewest(some, need)
        if wider_top is None:
            continue
        sub = few(wider, some, wider_top, np.flatnonzero(worth >= max(1, wider_top.last - wider_top.slack)))
        yield among[mask(sub.slots, size)[parent]], sub.bound


def _projected(
    parent: Ints, capacity: Ints, kinds: Kinds, top: Top, need: int, size: int
) -> Iterator[tuple[Ints, int]]:
    """The parents' worth, and how much of it is needed."""
    good = top.k - _lesser(kinds, top)
    if good > 0:
        yield np.bincount(parent[capacity >= top.last], minlength=size), good
    # In halves: the best price may lie between two capacities, where two parents change places.
    prices = [*[2 * value for value in kinds.values if value <= top.last][:_PRICES], 0]
    inside = Inside.of(parent, capacity, size, kinds, top)
    priced = inside.priced(prices, top.k, need)
    parents = priced.parents
    best = 0
    for other in range(1, len(prices)):
        if parents[other] < parents[best]:
            # The bound is good around one price.
            break
        best = other if parents[other] > parents[best] else best
    if not parents[best]:
        return
    yield priced.worth[best], priced.need[best]
    halves = {(prices[best] + price) // 2 for price in prices[max(0, best - 1) : best + 2]} - {*prices}
    if halves:
        between = inside.priced(sorted(halves), top.k, need)
        for worth, left, number in zip(between.worth, between.need, between.parents, strict=True):
            if number > parents[best]:
                yield worth, left


def _lesser(kinds: Kinds, top: Top) -> int:
    """How many domains of less than t an answer can have."""
    left, found = top.slack, 0
    for value, count in zip(kinds.values, kinds.counts, strict=True):
        if value < top.last and (deficit := top.last - value) <= left:
            some = min(count, left // deficit)
            found, left = found + some, left - some * deficit
    return found


# ---- plain orders


def _ordered(problem: Problem, top: Top, among: Ints) -> Iterator[Ints]:
    """What lies in the first parents of several orders, as many as hold the need."""
    asked = problem.asked
    parent, capacity = problem.parent[asked][among], problem.capacity[asked][among]
    size = len(problem.capacity[asked - 1])
    for worth in _worths(capacity, top):
        score = np.bincount(parent, weights=worth, minlength=size).astype(np.int64)
        keys = [problem.label[asked - 1], -score]
        if asked > 1:
            # Of parents that are worth the same those come first that have good ones beside them.
            beside = np.bincount(problem.parent[asked - 1], weights=score)[problem.parent[asked - 1]]
            keys.insert(1, -beside)
        rank = np.empty(size, dtype=np.int64)
        rank[np.lexsort(keys)] = np.arange(size)
        first = _enough(rank[parent], capacity, top.k, problem.need)
        yield among[rank[parent] <= first]


def _worths(capacity: Ints, top: Top) -> Iterator[Ints]:
    """What a domain may be worth to its parent."""
    yield (capacity >= top.last).astype(np.int64)
    yield np.maximum(capacity - (top.last - top.slack) + 1, 0)
    yield np.maximum(capacity - top.last + 1, 0)


def _enough(rank: Ints, capacity: Ints, k: int, need: int) -> int:
    """The first rank up to which the k largest hold the need."""
    low, high = 0, int(rank.max())
    while low < high:
        middle = (low + high) // 2
        if sum_of_largest(capacity[rank <= middle], k) >= need:
            high = middle
        else:
            low = middle + 1
    return low
