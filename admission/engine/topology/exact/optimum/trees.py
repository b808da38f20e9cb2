"""The tree of candidate domains that labels.py and reduced_costs.py search, and choices of domains built from parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from admission.engine.topology.exact.optimum.objective import Problem, distinct, mask
from admission.engine.topology.tree.level import Ints

Choice = tuple["Choice | int", "Choice | int"] | None
"""A set of domains as a binary tree: combining two sets takes constant time."""


def candidates(problem: Problem, among: Ints) -> list[Ints]:
    """Returns, by level down to the requested one, the domains that contain these domains of the requested level."""
    by_level = [among]
    for level in range(problem.requested, 0, -1):
        by_level.insert(0, distinct(problem.parent[level][by_level[0]], len(problem.capacity[level - 1])))
    return by_level


def children(problem: Problem, level: int, parents: Ints) -> Ints:
    """Returns the domains of this level inside these parents that can hold a slice."""
    below = mask(parents, len(problem.capacity[level - 1])).take(problem.parent[level]).nonzero()[0]
    kept: Ints = below.take(problem.capacity[level].take(below).nonzero()[0])
    return kept


def families(problem: Problem, candidates: Sequence[Ints]) -> list[dict[int, list[int]]]:
    """Returns the children by level and parent's slot, the largest first, then by name. The widest level has parent -1."""
    by_level: list[dict[int, list[int]]] = []
    for level, slots in enumerate(candidates):
        capacity, label = problem.capacity[level][slots], problem.label[level][slots]
        ordered = slots[np.lexsort((label, -capacity))]
        parents = np.full(len(slots), -1) if level == 0 else problem.parent[level][ordered]
        family: dict[int, list[int]] = {}
        for slot, parent in zip(ordered.tolist(), parents.tolist(), strict=True):
            family.setdefault(parent, []).append(slot)
        by_level.append(family)
    return by_level


def leaves(choice: Choice | int) -> list[int]:
    """Returns the domains that a choice contains."""
    leaf_slots: list[int] = []
    stack = [choice]
    while stack:
        one = stack.pop()
        if isinstance(one, tuple):
            stack += one
        elif one is not None:
            leaf_slots.append(one)
    return leaf_slots
