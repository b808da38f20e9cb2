"""The tree of candidates as both searches walk it, and choices of domains assembled from parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from admission.engine.topology.optimum.objective import Problem, distinct, mask
from admission.engine.topology.tree.level import Ints

Choice = tuple["Choice | int", "Choice | int"] | None
"""Domains as a tree of pairs."""


def candidates(problem: Problem, among: Ints) -> list[Ints]:
    """Per level down to the requested one what lies above these domains of the requested level."""
    found = [among]
    for level in range(problem.asked, 0, -1):
        found.insert(0, distinct(problem.parent[level][found[0]], len(problem.capacity[level - 1])))
    return found


def children(problem: Problem, level: int, parents: Ints) -> Ints:
    """Returns the domains of this level that can hold something and lie in these parents."""
    found = mask(parents, len(problem.capacity[level - 1])).take(problem.parent[level]).nonzero()[0]
    kept: Ints = found.take(problem.capacity[level].take(found).nonzero()[0])
    return kept


def families(problem: Problem, candidates: Sequence[Ints]) -> list[dict[int, list[int]]]:
    """Per level and parent's slot the children, largest first, then by name; above the widest level there is one, -1."""
    found: list[dict[int, list[int]]] = []
    for level, slots in enumerate(candidates):
        capacity, label = problem.capacity[level][slots], problem.label[level][slots]
        ordered = slots[np.lexsort((label, -capacity))]
        parents = np.full(len(slots), -1) if level == 0 else problem.parent[level][ordered]
        family: dict[int, list[int]] = {}
        for slot, parent in zip(ordered.tolist(), parents.tolist(), strict=True):
            family.setdefault(parent, []).append(slot)
        found.append(family)
    return found


def leaves(choice: Choice | int) -> list[int]:
    """Returns the domains of a choice."""
    found: list[int] = []
    stack = [choice]
    while stack:
        one = stack.pop()
        if isinstance(one, tuple):
            stack += one
        elif one is not None:
            found.append(one)
    return found
