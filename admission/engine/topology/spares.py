"""Spare hosts: hosts that are kept free for a pod set, to take over the pods of a host that fails.

A spare host runs none of the workload's pods, is in the domain that the pod set requires, and has capacity for as many of
the pod set's pods as its fullest host runs. If the domain that the placement found has no capacity for the spare hosts,
the other domains of the level are tried, the tightest first. Called by place.py, and by ledger.py for running workloads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from admission.engine.decision import NoPlacement
from admission.engine.model import Assignment, DomainCount, PlacementRequest
from admission.engine.topology.assignment_parts import home, stale
from admission.engine.topology.constraints import Group, ResolvedRequest
from admission.engine.topology.count import Counter
from admission.engine.topology.joint.colocated import Placed
from admission.engine.topology.place_group import GroupPlacer
from admission.engine.topology.tree.level import Bools, Ints
from admission.engine.topology.tree.tree import Tree
from admission.engine.topology.tree.tree_spec import Values

_TRIES: Final = 64
"""The number of domains that are tried for pods and their spare hosts."""


@dataclass(frozen=True, slots=True)
class SpareHosts:
    """The spare hosts of each pod set, each with the number of pods that it is held for.

    `shortage` says why there are fewer hosts than requested; None if there are enough.
    """

    held: Mapping[str, Assignment]
    shortage: NoPlacement | None = None


def find(steps: GroupPlacer, placed: Placed, simulate_empty: bool) -> SpareHosts:
    """Returns the spare hosts for pods that are charged already: as many as requested, or as many as there are."""
    used = {domain.values[-1] for _, assignment in placed for domain in assignment.domains}
    held: dict[str, Assignment] = {}
    shortage: NoPlacement | None = None
    with steps.journal.trial():
        for request, assignment in placed:
            if not (wanted := request.spare_hosts):
                continue
            found = _hosts(steps, request, assignment, used, simulate_empty)
            if isinstance(found, NoPlacement):
                shortage = shortage or found
                continue
            if len(found.domains) < wanted:
                shortage = shortage or _too_few(request, found, assignment)
            if found.domains:
                held[request.pod_set.name] = found
                used.update(domain.values[-1] for domain in found.domains)
                steps.assume([(request, found)])
    return SpareHosts(held, shortage)


def elsewhere(steps: GroupPlacer, group: Group, simulate_empty: bool) -> Placed | None:
    """Returns assignments for the group in another domain of the required level that also holds its spare hosts.

    Returns None if no tried domain does, or if no level is required.
    """
    tree = steps.tree(group)
    resolved = None if isinstance(tree, NoPlacement) else steps.resolve(tree, group)
    if isinstance(tree, NoPlacement) or resolved is None or isinstance(resolved, NoPlacement) or not resolved.required:
        return None
    for path in _domains(tree, resolved, simulate_empty):
        found, _ = steps.place_group(group, simulate_empty, path)
        if isinstance(found, NoPlacement):
            continue
        with steps.journal.trial():
            steps.assume(found)
            if find(steps, found, simulate_empty).shortage is None:
                return found
    return None


def _domains(tree: Tree, resolved: ResolvedRequest, simulate_empty: bool) -> Iterator[Values]:
    level = tree.levels[resolved.level]
    pods = Counter(tree, resolved, simulate_empty=simulate_empty).levels()[resolved.level].pod
    for slot in _tightest(level.alive & (pods > resolved.count), pods, level.label)[:_TRIES]:
        yield level.paths[slot]


def _hosts(
    steps: GroupPlacer, request: PlacementRequest, assignment: Assignment, used: set[str], simulate_empty: bool
) -> Assignment | NoPlacement:
    """Returns the spare hosts of one pod set. Hosts with the least free capacity are used first, to keep large ones free."""
    group = Group(request)
    tree = steps.tree(group)
    if isinstance(tree, NoPlacement):
        return tree
    if not tree.shape.by_host:
        return NoPlacement(
            f"spare hosts of pod set {request.pod_set.name}: the lowest level of the topology is no host"
        )
    resolved = steps.resolve(tree, group)
    if isinstance(resolved, NoPlacement):
        return resolved
    each = max((domain.count for domain in assignment.domains), default=0)
    known = Assignment(assignment.levels, tuple(one for one in assignment.domains if not _is_stale(tree, one)))
    within = home(tree, known, resolved.level) if resolved.required else None
    alone = replace(resolved, count=each, leader=None, leader_wants=None, within=within or resolved.within)
    pods = Counter(tree, alone, simulate_empty=simulate_empty).levels()[-1].pod
    hosts = tree.levels[-1]
    free = [
        slot for slot in _tightest(hosts.alive & (pods >= each), pods, hosts.label) if tree.values(slot)[-1] not in used
    ]
    return Assignment(
        assignment.levels, tuple(DomainCount(tree.values(slot), each) for slot in free[: request.spare_hosts])
    )


def _is_stale(tree: Tree, domain: DomainCount) -> bool:
    return stale(tree, Assignment(tree.output_levels, (domain,))) is not None


def _tightest(good: Bools, pods: Ints, label: Ints) -> list[int]:
    slots = np.flatnonzero(good)
    order: list[int] = slots[np.lexsort((label[slots], pods[slots]))].tolist()
    return order


def _too_few(request: PlacementRequest, found: Assignment, assignment: Assignment) -> NoPlacement:
    wanted, each = request.spare_hosts, max(domain.count for domain in assignment.domains)
    topology = request.pod_set.topology
    where = (
        f"in their {topology.required}"
        if topology is not None and topology.required is not None
        else "on the nodes of their flavor"
    )
    text = (
        f"beside the pods of pod set {request.pod_set.name} there are {len(found.domains)} of {wanted} spare host(s), "
        f"each with room for {each} pod(s), {where}"
    )
    return NoPlacement(text, len(found.domains), wanted)
