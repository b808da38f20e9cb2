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
from admission.engine.topology.optimum.inside import Inside, Priced
from admission.engine.topology.optimum.numbers import kinds_of, largest, sum_of_largest
from admission.engine.topology.optimum.objective import Problem, distinct, mask
from admission.engine.topology.tree.level import Ints

_PRICES = 6
_NOTHING = np.zeros(0)
_MANY = 2048
"""With more domains an answer that the levels above gave is not compared with those of plain orders."""


@dataclass(frozen=True, slots=True)
class Few:
    """Domains of the asked level; how many at it and at each level above, nearest first; and what no answer can beat.

    `union`: domains among which lie all that an answer can have in the parents of these. `inside`: of all that it can have, if
    that was counted.
    """

    slots: Ints
    union: Ints
    counts: tuple[int, ...]
    bound: tuple[int, ...]
    inside: Inside | None = None


def few(problem: Problem, kinds: Kinds, top: Top, among: Ints) -> Few:
    """The question for this level; `among`: the domains that an answer can have."""
    if not problem.asked:
        return Few(largest(problem, 0, among, top.k), among, (top.k,), (top.k,))
    bound = (top.k, *(1 for _ in range(problem.asked)))
    if top.k == 1:
        return Few(largest(problem, problem.asked, among, 1), among, bound, bound)
    best: Few | None = None
    inside = Inside.of(problem, among, kinds, top)
    for union, above in _unions(problem, inside, kinds, top):
        bound = max(bound, (top.k, *above))
        best = _better(problem, best, union, top.k)
        if best is not None and best.counts <= bound:
            return Few(best.slots, best.union, best.counts, best.counts, inside)
    if best is None or len(among) <= _MANY:
        for union in _ordered(problem, top, inside):
            best = _better(problem, best, union, top.k)
    if best is None:
        slots = largest(problem, problem.asked, among, top.k)
        best = Few(slots, among, counts(problem, slots), ())
    return replace(best, bound=min(bound, best.counts), inside=inside)


def _better(problem: Problem, best: Few | None, union: Ints, k: int) -> Few | None:
    if len(union) < k:
        return best
    slots = largest(problem, problem.asked, union, k)
    if int(problem.capacity[problem.asked][slots].sum()) < problem.need:
        return best
    found = counts(problem, slots)
    return Few(slots, union, found, ()) if best is None or found < best.counts else best


def counts(problem: Problem, slots: Ints) -> tuple[int, ...]:
    """How many these domains of the asked level are, and how many lie above them, nearest level first."""
    found = [len(slots)]
    for level in range(problem.asked, 0, -1):
        slots = distinct(problem.parent[level][slots], len(problem.capacity[level - 1]))
        found.append(len(slots))
    return tuple(found)


def _unions(problem: Problem, inside: Inside, kinds: Kinds, top: Top) -> Iterator[tuple[Ints, tuple[int, ...]]]:
    """What lies in the parents that may be the best, and a lower bound for the levels above."""
    asked = problem.asked
    for worth, need in _projected(inside, kinds, top, problem.need):
        wider = Problem([*problem.capacity[: asked - 1], worth], problem.parent, problem.label, asked - 1, need)
        found = _widest(wider) if asked == 1 else _wider(wider)
        if found is not None:
            parents, bound = found
            yield inside.slots.take(mask(parents, inside.size).take(inside.parent).nonzero()[0]), bound


def _widest(problem: Problem) -> tuple[Ints, tuple[int, ...]] | None:
    """The fewest of the widest level, and how many; None where all are not enough."""
    worth = problem.capacity[0]
    number = int(np.sort(worth)[::-1].cumsum().searchsorted(problem.need)) + 1
    return None if number > len(worth) else (largest(problem, 0, np.arange(len(worth)), number), (number,))


def _wider(problem: Problem) -> tuple[Ints, tuple[int, ...]] | None:
    """The same of a level that has others above it, and what no answer can beat for it and for them."""
    worth = problem.capacity[problem.asked]
    kinds = kinds_of(worth)
    top = fewest(kinds, problem.need)
    if top is None:
        return None
    found = few(problem, kinds, top, (worth >= max(1, top.last - top.slack)).nonzero()[0])
    return found.slots, found.bound


def _projected(inside: Inside, kinds: Kinds, top: Top, need: int) -> Iterator[tuple[Ints, int]]:
    """The parents' worth, and how much of it is needed."""
    good = top.k - _lesser(kinds, top)
    if 2 * good > top.k:
        yield _large(inside, top), good
    yield from _by_price(inside, kinds, top, need)
    # With a small part of the domains alone this says little.
    if 0 < 2 * good <= top.k:
        yield _large(inside, top), good


def _large(inside: Inside, top: Top) -> Ints:
    """How many domains of t or more each parent has."""
    return np.bincount(inside.parent[inside.capacity >= top.last], minlength=inside.size)


def _by_price(inside: Inside, kinds: Kinds, top: Top, need: int) -> Iterator[tuple[Ints, int]]:
    # In halves: the best price may lie between two capacities, where two parents change places.
    prices = [*[2 * value for value in kinds.values if value <= top.last][:_PRICES], 0]
    best, at = Priced(_NOTHING, 0, 0), 0
    for index, priced in enumerate(inside.priced(prices, top.k, need)):
        if priced.parents < best.parents:
            # The bound is good around one price.
            break
        if priced.parents > best.parents:
            best, at = priced, index
    if not best.parents:
        return
    yield best.worth.astype(np.int64), best.need
    halves = {(prices[at] + price) // 2 for price in prices[max(0, at - 1) : at + 2]} - {*prices}
    for priced in inside.priced(sorted(halves), top.k, need):
        if priced.parents > best.parents:
            yield priced.worth.astype(np.int64), priced.need


def _lesser(kinds: Kinds, top: Top) -> int:
    """How many domains of less than t an answer can have."""
    left, found = top.slack, 0
    for value, count in zip(kinds.values, kinds.counts, strict=True):
        if value < top.last and (deficit := top.last - value) <= left:
            some = min(count, left // deficit)
            found, left = found + some, left - some * deficit
    return found


# ---- plain orders


def _ordered(problem: Problem, top: Top, inside: Inside) -> Iterator[Ints]:
    """What lies in the first parents of several orders, as many as hold the need."""
    asked, parent, capacity, size = problem.asked, inside.parent, inside.capacity, inside.size
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
        yield inside.slots[rank[parent] <= first]


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
