"""A colocated group of three or more pod sets, all in one domain of the group's level.

The largest pod set represents the group. If its level is required, the algorithm tries each domain of that level that
could hold every member by itself, the tightest domain first, and places the members one after the other, the largest
first. If its level is preferred, the levels above follow, and finally the whole tree. This greedy search can miss an
answer in which members share hosts in one particular way; joint.py finds such answers. Called by place_group.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from admission.engine.decision import Certificate, NoPlacement
from admission.engine.journal import Journal
from admission.engine.model import Assignment, PlacementRequest
from admission.engine.topology import messages
from admission.engine.topology.assignments.assignment_parts import path_of, stale
from admission.engine.topology.constraints import NOTHING, Group, ResolvedRequest
from admission.engine.topology.count import Counter
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.tree.tree import Tree
from admission.engine.topology.tree.tree_spec import Values

Placed = Sequence[tuple[PlacementRequest, Assignment]]
"""The assignment of each pod set of a group."""


class PlacementSteps(Protocol):
    """The functions of place_group.py that this module calls."""

    journal: Journal

    def resolve(self, tree: Tree, group: Group) -> ResolvedRequest | NoPlacement:
        """Returns the group's request with level names resolved, or why the request is invalid."""

    def assume(self, placed: Placed) -> None:
        """Charges these assignments until the open trial ends."""

    def place_group(
        self, group: Group, simulate_empty: bool, within: Values | None = None
    ) -> tuple[Placed | NoPlacement, Certificate | None]:
        """Returns the group's assignments in the capacity that is free now, with their certificate."""

    def proved(
        self, tree: Tree, group: Group, resolved: ResolvedRequest, simulate_empty: bool
    ) -> tuple[Placed | NoPlacement, Certificate | None]:
        """Returns the assignments for a resolved request in the capacity that is free now, with their certificate."""


def single(group: Group) -> tuple[Group, ...]:
    """Returns each member as a group of one, the largest first.

    Each gets the representative's level, and keeps its own slices and placement constraints.
    """
    leading = group.workers.pod_set.topology or NOTHING
    groups = []
    for member in sorted(group.members, key=lambda member: -member.count):
        own = member.pod_set.topology or NOTHING
        topology = replace(leading, slices=own.slices, constraints=own.constraints, group=None)
        groups.append(
            Group(replace(member, pod_set=replace(member.pod_set, topology=topology), implied=group.workers.implied))
        )
    return tuple(groups)


def place(
    steps: PlacementSteps, tree: Tree, group: Group, simulate_empty: bool, within: Values | None
) -> Placed | NoPlacement:
    """Returns assignments for all members, or why a member failed in the domain that came closest.

    `within` restricts the search to the domain of this path.
    """
    members = single(group)
    requests: list[ResolvedRequest] = []
    for member in members:
        resolved = steps.resolve(tree, member)
        if isinstance(resolved, NoPlacement):
            return resolved
        requests.append(resolved)
    best: NoPlacement | None = None
    within = within or _present_domain(tree, group, requests[0])
    for path in (within,) if within is not None else _domains(tree, requests, simulate_empty):
        placed = _inside(steps, members, path, simulate_empty)
        if not isinstance(placed, NoPlacement):
            return placed
        if best is None or placed.fits > best.fits:
            best = placed
    return best or _alone(steps, tree, list(zip(members, requests, strict=True)), simulate_empty)


def _alone(
    steps: PlacementSteps, tree: Tree, members: Sequence[tuple[Group, ResolvedRequest]], simulate_empty: bool
) -> NoPlacement:
    """Returns why no domain was tried: either no domain holds one of the members, or no domain holds all of them."""
    for member, resolved in members:
        failure, _ = steps.proved(tree, member, resolved, simulate_empty)
        if isinstance(failure, NoPlacement):
            return failure
    resolved = members[0][1]
    return NoPlacement(
        messages.no_common_domain(resolved, tree.shape.levels[resolved.level], len(members)),
        wanted=sum(resolved.need for _, resolved in members),
    )


def _domains(tree: Tree, requests: Sequence[ResolvedRequest], simulate_empty: bool) -> Iterator[Values | None]:
    """Yields the domains to search, best first; None stands for the whole tree."""
    numbers = [Counter(tree, resolved, simulate_empty=simulate_empty).levels() for resolved in requests]
    leading = requests[0]
    climbs = not leading.required and not leading.unconstrained
    for level in range(leading.level, -1, -1) if climbs else [leading.level]:
        rows = [(some[level].slice, resolved.need) for some, resolved in zip(numbers, requests, strict=True)]
        yield from (tree.levels[level].paths[slot] for slot in _fitting(tree, level, rows))
    if not leading.required:
        yield None


def _fitting(tree: Tree, level: int, rows: Sequence[tuple[Ints, int]]) -> list[int]:
    """Returns the domains of the level that could hold every member by itself, the tightest first."""
    good = tree.levels[level].alive.copy()
    for slices, need in rows:
        good &= slices >= need
    slots = np.flatnonzero(good)
    order = np.lexsort((tree.levels[level].label[slots], rows[0][0][slots]))
    domains: list[int] = slots[order].tolist()
    return domains


def _inside(
    steps: PlacementSteps, members: Sequence[Group], path: Values | None, simulate_empty: bool
) -> Placed | NoPlacement:
    """Returns assignments for all members, placed one after the other inside the domain.

    A member with an older slice keeps its assignment.
    """
    placed: list[tuple[PlacementRequest, Assignment]] = []
    with steps.journal.trial():
        for member in members:
            answer, _ = steps.place_group(member, simulate_empty, path)
            if isinstance(answer, NoPlacement):
                return answer
            steps.assume(answer)
            placed.extend(answer)
    return placed


def _present_domain(tree: Tree, group: Group, leading: ResolvedRequest) -> Values | None:
    """Returns the required domain in which an older slice of a member already runs, or None."""
    for member in group.members:
        before = member.previous
        if leading.required and before is not None and before.domains and not stale(tree, before):
            return path_of(tree, before.domains[0].values)[: leading.level + 1]
    return None
