"""Pods of one gang that keep each other apart: at most one in each domain of a topology key.

Placement counts what rows hold and adds up, so the limit is put on the rows: of all rows in one domain of the key, one keeps
room for one pod and the others none. It is the tightest that holds a pod, the first by name of equals. Where all pods have to
be in one domain of a required level, each of those domains has its own rows to choose from. That loses no answer where domains
of the key lie inside domains of the level, or the other way round, as racks and zones do; where they cross it may.

`broken` looks at an answer as a whole, since pod sets that are placed together are not counted one after the other.
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
    """Returns how many pods fit into each row, if a domain of each key takes one only. `level`: one domain of it has
    all pods."""
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
    """Returns, by row, the slot of its domain of the level."""
    slots: Ints = np.arange(tree.rows.size, dtype=np.int64)
    if tree.rows is not tree.levels[-1]:
        slots = tree.rows.parent[slots]
    for depth in range(tree.depth - 1, level, -1):
        slots = tree.levels[depth].parent[slots]
    return slots


def broken(placed: PlacedPods, tree: Tree, found: Placed) -> str | None:
    """Returns the topology key of a term that the answer breaks between its own pods; None if it breaks none."""
    some = [(request.facts, assignment) for request, assignment in found if request.facts is not None]
    for (one, at), (other, there) in combinations_with_replacement(some, 2):
        for key in _keys(placed, one, other):
            if _meet(tree, key, at, None if there is at else there):
                return key
    return None


def _keys(placed: PlacedPods, one: PodFacts, other: PodFacts) -> list[str]:
    """Returns the topology keys by which pods of one keep pods of the other away, or the other way round."""
    terms = [*((term, other) for term in one.apart), *((term, one) for term in other.apart)]
    return sorted({term.key for term, facts in terms if placed.selects(term, facts)})


def _meet(tree: Tree, key: str, at: Assignment, there: Assignment | None) -> bool:
    """Reports whether a pod of each is in one domain of the key; with `there` None: two pods of the same."""
    here = Counter(dict(_counts(tree, key, at)))
    if there is None:
        return any(count > 1 for count in here.values())
    return not here.keys().isdisjoint(dict(_counts(tree, key, there)))


def _counts(tree: Tree, key: str, assignment: Assignment) -> Iterator[tuple[str, int]]:
    """Pods by value of the key, as far as the assignment says it."""
    counts: Counter[str] = Counter()
    for domain in assignment.domains:
        values = {_value(tree, row, key) for row in tree.rows_named(domain.values)}
        if len(values) == 1 and (value := values.pop()) is not None:
            counts[value] += domain.count
    yield from counts.items()


def _value(tree: Tree, row: int, key: str) -> str | None:
    node = tree.matcher.node(row)
    return None if node is None else node.labels.get(key)
