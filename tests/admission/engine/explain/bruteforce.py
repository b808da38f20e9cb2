"""Whether a workload could run at all, by trying everything: every flavor, every domain, every split over the nodes.

Shares no code with the placement. For small clusters and one resource group; knows required levels, one layer of slices,
selectors, taints with a plain toleration, and quota without cohorts' limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from admission.engine.ledger import Ledger
from admission.engine.model import BoundPod, Flavor, Node, PodSet, Workload

Room = dict[str, dict[str, int]]
"""What is free by node."""


def could_run(ledger: Ledger, workload: Workload) -> bool:
    """Whether there is any place for all its pods with no other workload admitted and all quota free."""
    queue = ledger.quota.spec(workload.cluster_queue)
    assert queue is not None
    return any(_flavor_does(ledger, workload, name) for name in queue.flavors)


def _flavor_does(ledger: Ledger, workload: Workload, name: str) -> bool:
    flavor = ledger.flavors[name]
    for resource in {resource for pod_set in workload.pod_sets for resource in pod_set.requests}:
        total = sum(pod_set.count * pod_set.requests.get(resource, 0) for pod_set in workload.pod_sets)
        if total > ledger.quota.potential(workload.cluster_queue, (name, resource)):
            return False
    nodes = [node for node in _nodes(ledger) if all(node.labels.get(k) == v for k, v in flavor.node_labels.items())]
    room = {node.name: {**node.allocatable} for node in nodes}
    for pod in ledger.bookings.pods.values():
        if pod.node in room and pod.workload not in ledger.admissions:
            _take(room, pod)
    return _all(list(workload.pod_sets), flavor, nodes, room)


def _nodes(ledger: Ledger) -> list[Node]:
    return [book.node for book in ledger.capacity.nodes.values() if book.node is not None and book.node.usable]


def _take(room: Room, pod: BoundPod) -> None:
    for resource, amount in {**pod.requests, "pods": 1}.items():
        room[pod.node][resource] = room[pod.node].get(resource, 0) - amount


def _all(pod_sets: list[PodSet], flavor: Flavor, nodes: list[Node], room: Room) -> bool:
    if not pod_sets:
        return True
    first, *rest = pod_sets
    return any(_all(rest, flavor, nodes, left) for left in _ways(first, flavor, nodes, room))


def _ways(pod_set: PodSet, flavor: Flavor, nodes: list[Node], room: Room) -> Iterator[Room]:
    """What is left after each way to place the pod set."""
    levels, ask = flavor.levels, pod_set.topology
    assert levels is not None
    assert ask is not None
    if ask.required is not None and ask.required not in levels:
        return
    depth = 0 if ask.required is None else levels.index(ask.required) + 1
    usable = [node for node in nodes if _stands(pod_set, flavor, node)]
    size = ask.slices[0].size if ask.slices else 1
    for domain in sorted({_path(node, levels[:depth]) for node in usable}):
        inside = [node for node in usable if _path(node, levels[:depth]) == domain]
        yield from _splits(pod_set.count, size, pod_set.requests, inside, room)


def _path(node: Node, levels: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(node.labels[level] for level in levels)


def _stands(pod_set: PodSet, flavor: Flavor, node: Node) -> bool:
    tolerated = {(t.key, t.effect) for t in (*pod_set.tolerations, *flavor.tolerations)}
    return all(node.labels.get(k) == v for k, v in pod_set.node_selector.items()) and all(
        (taint.key, taint.effect) in tolerated for taint in node.taints
    )


def _splits(count: int, size: int, pod: Mapping[str, int], nodes: list[Node], room: Room) -> Iterator[Room]:
    """Every split of the pods over the nodes, in whole slices of a node."""
    if count == 0:
        yield room
        return
    if not nodes:
        return
    first, *rest = nodes
    for some in range(0, count + 1, size):
        left = {name: room[first.name].get(name, 0) - some * amount for name, amount in {**pod, "pods": 1}.items()}
        if all(amount >= 0 for amount in left.values()):
            yield from _splits(count - some, size, pod, rest, {**room, first.name: {**room[first.name], **left}})
