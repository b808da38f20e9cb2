"""Splits and merges assignments, for pods that stay in place while others are placed again.

Called for workloads that have an assignment already: by replace.py for failed nodes, by resize.py for jobs that grow or
shrink. Nothing here considers capacity.
"""

from __future__ import annotations

from collections import Counter

from admission.engine.model import Assignment, DomainCount
from admission.engine.topology.tree.tree import Tree
from admission.engine.topology.tree.tree_spec import Values


def total(assignment: Assignment) -> int:
    """Returns the number of pods in the assignment."""
    return sum(domain.count for domain in assignment.domains)


def stale(tree: Tree, assignment: Assignment) -> DomainCount | None:
    """Returns the first domain of the assignment that the tree does not have; None if it has all of them.

    If the levels of the topology have changed, every domain counts as missing.
    """
    known = tree.names(assignment.levels)
    gone = (domain for domain in assignment.domains if not known or not tree.rows_named(domain.values))
    return next(gone, None)


def path_of(tree: Tree, values: Values) -> Values:
    """Returns the values of all levels of a domain, widest first.

    `values` may name the host only, or also a host below the lowest level. Raises KeyError if the tree lacks the domain.
    """
    slot = tree.row_of_host[values[-1]] if tree.shape.by_host else tree.levels[-1].slots[values[: tree.depth]]
    return tree.levels[-1].paths[slot]


def home(tree: Tree, assignment: Assignment, level: int) -> Values | None:
    """Returns the path of the level's domain with most of the pods.

    Returns None if there are no pods, if the tree lacks a domain of the assignment, or if two domains tie. The domain has
    all of the pods unless nodes were relabelled while the pods ran.
    """
    if not assignment.domains or stale(tree, assignment) is not None:
        return None
    pods: Counter[Values] = Counter()
    for domain in assignment.domains:
        pods[path_of(tree, domain.values)[: level + 1]] += domain.count
    (most, count), *others = pods.most_common(2)
    return None if others and others[0][1] == count else most


def by_path(tree: Tree, assignment: Assignment) -> dict[Values, int]:
    """Returns the pods by path of their lowest domain. The tree must have every domain of the assignment."""
    pods: Counter[Values] = Counter()
    for domain in assignment.domains:
        pods[path_of(tree, domain.values)] += domain.count
    return dict(pods)


def first_pods(assignment: Assignment, count: int) -> Assignment:
    """Returns the assignment of the first `count` pods, in the order of its domains; of all pods if there are fewer."""
    kept: list[DomainCount] = []
    for domain in assignment.domains:
        part = min(domain.count, count)
        count -= part
        if part > 0:
            kept.append(DomainCount(domain.values, part))
    return Assignment(assignment.levels, tuple(kept))


def merged(tree: Tree, *parts: Assignment) -> Assignment:
    """Returns one assignment with the pods of all parts, ordered by full path as joined text (placement.md 5.10).

    The tree must have every domain of the parts. If only some of the parts name hosts below the lowest level, the result
    names none.
    """
    named = {part.levels for part in parts if part.domains} or {tree.output_levels}
    levels = named.pop() if len(named) == 1 else tree.output_levels
    counts: dict[Values, int] = {}
    for part in parts:
        for domain in part.domains:
            values = domain.values[: len(levels)]
            counts[values] = counts.get(values, 0) + domain.count
    order = sorted(counts, key=lambda values: ",".join((*path_of(tree, values), values[-1])))
    return Assignment(levels, tuple(DomainCount(values, counts[values]) for values in order))
