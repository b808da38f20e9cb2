"""Whether running pods still stand as their pod sets require, after nodes have changed their labels.

A node may be moved to another rack by its labels while pods run on it. The pods stay, but the required level may no longer
hold: the pods of a group are then in several domains of it, or a slice has lost some of its pods to another domain.

Called by ledger.py. Hosts that are in no tree are left out: a failed node is repairs' subject (replace.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from admission.engine.decision import NoPlacement
from admission.engine.model import PlacementRequest
from admission.engine.topology.assignment_parts import path_of
from admission.engine.topology.constraints import Ask, Group, groups_of
from admission.engine.topology.place import Placer
from admission.engine.topology.tree.tree import Tree, Values


@dataclass(frozen=True, slots=True)
class BrokenLevel:
    """A level (label key) that no longer holds for these pod sets; `domains`: pods by path of the domains they are in.

    `slice_size`: 1 where all pods must share one domain, else the pods of a slice that is no longer in one.
    """

    pod_sets: tuple[str, ...]
    level: str
    slice_size: int
    domains: tuple[tuple[Values, int], ...]


def broken_levels(placer: Placer, requests: Sequence[PlacementRequest]) -> list[BrokenLevel]:
    """Returns what no longer holds of placed requests (`previous`), in their order; requests without a place are left
    out."""
    placed = [request for request in requests if request.previous is not None]
    return [broken for group in groups_of(placed) for broken in _of_group(placer, group)]


def _of_group(placer: Placer, group: Group) -> Iterator[BrokenLevel]:
    tree = placer.tree(group)
    if isinstance(tree, NoPlacement):
        return
    ask = placer.ask(tree, group)
    if isinstance(ask, NoPlacement):
        return
    names = tuple(member.pod_set.name for member in group.members)
    if ask.required:
        domains = _pods(tree, group.members, ask.level)
        if len(domains) > 1:
            yield BrokenLevel(names, tree.shape.levels[ask.level], 1, _sorted(domains))
    yield from _slices(tree, group.workers, ask)


def _slices(tree: Tree, workers: PlacementRequest, ask: Ask) -> Iterator[BrokenLevel]:
    for layer in ask.layers if ask.count % ask.slice_size == 0 else ():
        pods = _pods(tree, (workers,), layer.level)
        if any(count % layer.size for count in pods.values()):
            name = workers.pod_set.name
            yield BrokenLevel((name,), tree.shape.levels[layer.level], layer.size, _sorted(pods))


def _pods(tree: Tree, members: Sequence[PlacementRequest], level: int) -> Counter[Values]:
    """Pods by domain of the level."""
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
