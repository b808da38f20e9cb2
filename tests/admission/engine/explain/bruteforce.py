"""Whether a workload could run at all, by trying everything: every flavor, every domain, every split over the nodes.

Shares no code with the placement. For small clusters and one resource group; knows required levels, slices of any layer,
groups of pod sets, hard constraints, selectors, required affinity, taints with a plain toleration, and quota.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    RESERVED_EFFECT,
    BoundPod,
    Flavor,
    LevelConstraint,
    Node,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSet,
    Workload,
)
from tests.admission.engine.topology.exact.shapes.shapes import Shares, satisfies_hard_constraints

Room = dict[str, dict[str, int]]
"""What is free by node."""


def could_run(ledger: Ledger, workload: Workload) -> bool:
    """Whether there is any place for the least pods that it starts with, no other workload admitted and all quota free."""
    least = (replace(p, count=min(p.count, p.min_count or p.count)) for p in workload.pod_sets)
    workload = replace(workload, pod_sets=tuple(least))
    queue = ledger.quota.spec(workload.cluster_queue)
    assert queue is not None
    return any(_flavor_does(ledger, workload, name) for name in queue.flavors)


def _flavor_does(ledger: Ledger, workload: Workload, name: str) -> bool:
    flavor = ledger.flavors.get(name)
    if flavor is None:
        return False
    for resource in {resource for pod_set in workload.pod_sets for resource in pod_set.requests}:
        total = sum(pod_set.count * pod_set.requests.get(resource, 0) for pod_set in workload.pod_sets)
        if total > ledger.quota.potential(workload.cluster_queue, (name, resource)):
            return False
    nodes = [node for node in _nodes(ledger) if all(node.labels.get(k) == v for k, v in flavor.node_labels.items())]
    free_capacity = {node.name: {**node.allocatable} for node in nodes}
    for pod in ledger.allocations.pods.values():
        if pod.node in free_capacity and pod.workload not in ledger.admissions:
            _take(free_capacity, pod)
    groups: dict[str, list[PodSet]] = {}
    for pod_set in workload.pod_sets:
        topology = pod_set.topology
        assert topology is not None
        groups.setdefault(f"alone-{pod_set.name}" if topology.group is None else f"group-{topology.group}", []).append(
            pod_set
        )
    return _all(list(groups.values()), flavor, nodes, free_capacity)


def _nodes(ledger: Ledger) -> list[Node]:
    return [book.node for book in ledger.capacity.nodes.values() if book.node is not None and book.node.usable]


def _take(free_capacity: Room, pod: BoundPod) -> None:
    for resource, amount in {**pod.requests, "pods": 1}.items():
        free_capacity[pod.node][resource] = free_capacity[pod.node].get(resource, 0) - amount


def _all(groups: list[list[PodSet]], flavor: Flavor, nodes: list[Node], free_capacity: Room) -> bool:
    if not groups:
        return True
    first, *rest = groups
    return any(_all(rest, flavor, nodes, left) for left in _ways(first, flavor, nodes, free_capacity))


def _ways(members: list[PodSet], flavor: Flavor, nodes: list[Node], free_capacity: Room) -> Iterator[Room]:
    """What is left after each way to place the pod sets in one domain of the level that they require."""
    levels, topology = flavor.levels, members[0].topology
    assert levels is not None
    assert topology is not None
    if topology.required is not None and topology.required not in levels:
        return
    depth = 0 if topology.required is None else levels.index(topology.required) + 1
    for domain in sorted({_path(node, levels[:depth]) for node in nodes}):
        inside = [node for node in nodes if _path(node, levels[:depth]) == domain]
        yield from _members(members, flavor, inside, free_capacity, depth)


def _members(
    members: list[PodSet], flavor: Flavor, nodes: list[Node], free_capacity: Room, depth: int
) -> Iterator[Room]:
    if not members:
        yield free_capacity
        return
    first, *rest = members
    levels, topology = flavor.levels, first.topology
    assert levels is not None
    assert topology is not None
    if any(layer.level not in levels for layer in topology.slices):
        return
    sizes = {levels.index(layer.level): layer.size for layer in topology.slices}
    if any(level < depth - 1 for level in sizes):
        return  # slices of a level wider than the required one are no request at all
    rules = {levels.index(constraint.level): constraint for constraint in topology.constraints}
    usable = [node for node in nodes if _stands(first, flavor, node)]
    for left, shares in _splits(first.count, sizes.get(len(levels) - 1, 1), first.requests, usable, free_capacity):
        if _allowed(rules, sizes, {_path(node, levels): shares[node.name] for node in usable if node.name in shares}):
            yield from _members(rest, flavor, nodes, left, depth)


def _allowed(rules: Mapping[int, LevelConstraint], sizes: Mapping[int, int], shares: Shares) -> bool:
    return not (rules or sizes) or satisfies_hard_constraints(rules, shares, sizes)


def _path(node: Node, levels: Sequence[str]) -> tuple[str, ...]:
    return tuple(node.labels[level] for level in levels)


def _stands(pod_set: PodSet, flavor: Flavor, node: Node) -> bool:
    tolerated = {(t.key, t.effect) for t in (*pod_set.tolerations, *flavor.tolerations)}
    return (
        all(node.labels.get(k) == v for k, v in pod_set.node_selector.items())
        and all((taint.key, taint.effect) in tolerated for taint in node.taints if taint.effect != RESERVED_EFFECT)
        and (pod_set.affinity is None or any(_meets(term, node) for term in pod_set.affinity))
    )


def _meets(term: NodeSelectorTerm, node: Node) -> bool:
    return not term.match_fields and all(_has(requirement, node) for requirement in term.match_expressions)


def _has(requirement: NodeSelectorRequirement, node: Node) -> bool:
    assert requirement.operator in ("In", "NotIn"), "nothing else is drawn"
    return (node.labels.get(requirement.key) in requirement.values) == (requirement.operator == "In")


def _splits(
    count: int, size: int, pod: Mapping[str, int], nodes: list[Node], free_capacity: Room
) -> Iterator[tuple[Room, dict[str, int]]]:
    """Every split of the pods over the nodes, in whole slices of a node: what is left, and the pods by node."""
    if count == 0:
        yield free_capacity, {}
        return
    if not nodes:
        return
    first, *rest = nodes
    for some in range(0, count + 1, size):
        left = {
            name: free_capacity[first.name].get(name, 0) - some * amount for name, amount in {**pod, "pods": 1}.items()
        }
        if all(amount >= 0 for amount in left.values()):
            placed = {first.name: some} if some else {}
            for final, shares in _splits(
                count - some, size, pod, rest, {**free_capacity, first.name: {**free_capacity[first.name], **left}}
            ):
                yield final, {**placed, **shares}
