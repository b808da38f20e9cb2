"""Anti-affinity among the pods of one gang: at most one pod in each domain of a topology key.

Placement adds up the pods that fit on rows, so the limit is applied to rows: of all rows in one domain of the key, one keeps
capacity for one pod and the others keep none. The row kept is the tightest that holds a pod; ties break by name. If all pods
must be in one domain of a required level, one row is kept for each pair of such a domain and a domain of the key. That loses
no answer if domains of the key nest with domains of the level, as racks and zones do; if they overlap, it may.

`broken` checks a whole answer, since pod sets that are placed jointly do not see each other's pods. Called by count.py and
place_group.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations_with_replacement

import numpy as np

from admission.engine.model import Assignment, PlacementRequest, PodFacts
from admission.engine.topology.neighbours.placed import PlacedPods
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.tree.tree import Tree

Placed = Sequence[tuple[PlacementRequest, Assignment]]


def one_each(tree: Tree, fit: Ints, keys: Iterable[str], level: int | None) -> Ints:
    """Returns how many pods fit into each row if each domain of each key may have only one of them.

    `level` is the level of which one domain must hold all pods; None if there is none.
    """
    for key in keys:
        ids = tree.matcher.label_ids(key, tree.rows.size)
        rows = np.flatnonzero((fit > 0) & (ids >= 0))
        around = np.zeros(len(rows), dtype=np.int64) if level is None else domains_of(tree, level)[rows]
        order = np.lexsort((tree.rows.label[rows], fit[rows], ids[rows], around))
        ordered = rows[order]
        first = np.ones(len(ordered), dtype=np.bool_)
        first[1:] = (np.diff(ids[ordered]) != 0) | (np.diff(around[order]) != 0)
        fit = fit.copy()
        fit[rows] = 0
        fit[ordered[first]] = 1
    return fit


def domains_of(tree: Tree, level: int) -> Ints:
    """Returns the slot of each row's domain at the level, by row."""
    slots: Ints = np.arange(tree.rows.size, dtype=np.int64)
    if tree.rows is not tree.levels[-1]:
        slots = tree.rows.parent[slots]
    for depth in range(tree.depth - 1, level, -1):
        slots = tree.levels[depth].parent[slots]
    return slots


def broken(placed: PlacedPods, tree: Tree, assignments: Placed) -> str | None:
    """Returns the topology key of an anti-affinity term that the answer violates between its own pods, or None."""
    some = [(request.facts, assignment) for request, assignment in assignments if request.facts is not None]
    for (one, at), (other, there) in combinations_with_replacement(some, 2):
        for key in _keys(placed, one, other):
            if _meet(tree, key, at, None if there is at else there):
                return key
    return None


def _keys(placed: PlacedPods, first: PodFacts, second: PodFacts) -> list[str]:
    """Returns the topology keys by which anti-affinity of either pod separates the two pods, sorted."""
    terms = [*((term, second) for term in first.apart), *((term, first) for term in second.apart)]
    return sorted({term.key for term, facts in terms if placed.selects(term, facts)})


def _meet(tree: Tree, key: str, at: Assignment, there: Assignment | None) -> bool:
    """Reports whether pods of both assignments (two pods of `at` if `there` is None) share a domain of the key."""
    here = Counter(dict(_counts(tree, key, at)))
    if there is None:
        return any(count > 1 for count in here.values())
    return not here.keys().isdisjoint(dict(_counts(tree, key, there)))


def _counts(tree: Tree, key: str, assignment: Assignment) -> Iterator[tuple[str, int]]:
    """Yields (value of the key, pods) for the domains of the assignment whose nodes all have the same value."""
    counts: Counter[str] = Counter()
    for domain in assignment.domains:
        values = {_value(tree, row, key) for row in tree.rows_named(domain.values)}
        if len(values) == 1 and (value := values.pop()) is not None:
            counts[value] += domain.count
    yield from counts.items()


def _value(tree: Tree, row: int, key: str) -> str | None:
    node = tree.matcher.node(row)
    return None if node is None else node.labels.get(key)
