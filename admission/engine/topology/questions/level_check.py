"""Checks whether the required levels and slices of running pods still hold after nodes were relabelled.

A new label can move a node to another rack while pods run on the node. The pods stay, but the pods of a group may then be
in several domains of their required level, or the pods of a slice in several domains of its level.

Called by queries.py. Hosts that no tree has are ignored here; replace.py handles failed nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from admission.engine.decision import NoPlacement
from admission.engine.model import PlacementRequest
from admission.engine.topology.assignments.assignment_parts import path_of
from admission.engine.topology.constraints import Group, ResolvedRequest, groups_of
from admission.engine.topology.place_group import GroupPlacer
from admission.engine.topology.tree.tree import Tree
from admission.engine.topology.tree.tree_spec import Values


@dataclass(frozen=True, slots=True)
class BrokenLevel:
    """A level (label key) whose requirement no longer holds for these pod sets."""

    pod_sets: tuple[str, ...]
    level: str
    slice_size: int
    """1 if all pods must share one domain, else the size of the slices that are split over domains."""
    domains: tuple[tuple[Values, int], ...]
    """The pods by domain path."""


def broken_levels(steps: GroupPlacer, requests: Sequence[PlacementRequest]) -> list[BrokenLevel]:
    """Returns the broken levels of the requests' present assignments (`previous`), in the order of the requests.

    Requests without an assignment are ignored.
    """
    placed = [request for request in requests if request.previous is not None]
    return [broken for group in groups_of(placed) for broken in _of_group(steps, group)]


def _of_group(steps: GroupPlacer, group: Group) -> Iterator[BrokenLevel]:
    tree = steps.tree(group)
    if isinstance(tree, NoPlacement):
        return
    resolved = steps.resolve(tree, group)
    if isinstance(resolved, NoPlacement):
        return
    names = tuple(member.pod_set.name for member in group.members)
    if resolved.required:
        domains = _pods(tree, group.members, resolved.level)
        if len(domains) > 1:
            yield BrokenLevel(names, tree.shape.levels[resolved.level], 1, _sorted(domains))
    yield from _slices(tree, group.workers, resolved)


def _slices(tree: Tree, workers: PlacementRequest, resolved: ResolvedRequest) -> Iterator[BrokenLevel]:
    for layer in resolved.layers if resolved.count % resolved.slice_size == 0 else ():
        pods = _pods(tree, (workers,), layer.level)
        if any(count % layer.size for count in pods.values()):
            name = workers.pod_set.name
            yield BrokenLevel((name,), tree.shape.levels[layer.level], layer.size, _sorted(pods))


def _pods(tree: Tree, members: Sequence[PlacementRequest], level: int) -> Counter[Values]:
    """Returns the members' pods by path of their domain at the level."""
    pods: Counter[Values] = Counter()
    for member in members:
        if member.previous is None or not tree.names(member.previous.levels):
            continue
        for domain in member.previous.domains:
            if tree.domain_row(domain.values) is not None:
                pods[path_of(tree, domain.values)[: level + 1]] += domain.count
    return pods


def _sorted(pods: Counter[Values]) -> tuple[tuple[Values, int], ...]:
    return tuple(sorted(pods.items()))
