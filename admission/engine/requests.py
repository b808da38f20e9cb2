"""The placement requests of a workload at present: one for each of its pod sets, on the flavor found for it.

Three things are decided here that the Workload alone does not say: how far its required levels are relaxed by now
(topology_relaxation.py), which placement profile applies (the workload's own, else its queue's, else that of the settings), and
whether the queue implies topology. Called by cycle.py, and by trials of the same question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from admission.engine.flavors.assign import FlavorAssignment
from admission.engine.flavors.eligible import wants_topology
from admission.engine.flavors.search import topology_implied
from admission.engine.model import ClusterQueue, Flavor, PlacementRequest, PodSet, Workload
from admission.engine.topology_relaxation import RelaxedRequest, relaxed_request

Flavors = Mapping[str, Flavor]


def placement_requests(
    workload: Workload, queue: ClusterQueue, assignment: FlavorAssignment, flavors: Flavors, now: float
) -> list[PlacementRequest]:
    """Returns one request for each pod set that is to be placed on a topology, in order; `now` is epoch seconds."""
    by_name = {pod_set.name: pod_set for pod_set in workload.pod_sets}
    return [
        placement_request(workload, queue, by_name[got.name], got.topology, flavors, now)
        for got in assignment.pod_sets
        if got.topology is not None
    ]


def possible_requests(workload: Workload, queue: ClusterQueue, flavors: Flavors) -> list[list[PlacementRequest]]:
    """Returns, for each pod set that topology places, the request that it could make of each flavor, at any waiting time.

    A required level that is relaxed over time is the original one, and holds of nodes keep nothing away.
    """
    placed = [name for name in queue.flavors if name in flavors and flavors[name].topology is not None]
    implied = topology_implied(queue, flavors)
    return [
        [PlacementRequest(_on_all(pod_set, flavors[flavor]), flavor, pod_set.count) for flavor in placed]
        for pod_set in workload.pod_sets
        if placed and pod_set.count and wants_topology(pod_set, implied)
    ]


def placement_request(
    workload: Workload, queue: ClusterQueue, pod_set: PodSet, flavor: str, flavors: Flavors, now: float
) -> PlacementRequest:
    """Returns the request of one pod set on the flavor; `now` is epoch seconds."""
    implied = pod_set.topology is None or not pod_set.topology.explicit
    profile = workload.profile or queue.profile
    relaxed = in_force(pod_set, flavors.get(flavor), now - workload.queued)
    relaxed = _on_usable(relaxed, workload, flavors.get(flavor), now)
    facts = workload.facts_of(pod_set)
    return PlacementRequest(relaxed, flavor, pod_set.count, implied=implied, profile=profile, facts=facts)


def _on_usable(pod_set: PodSet, workload: Workload, flavor: Flavor | None, now: float) -> PodSet:
    """Returns the pod set with the holds whose nodes its pods may use at `now`, confined to one that they draw on."""
    if flavor is None or not flavor.node_holds:
        return pod_set
    for hold in flavor.node_holds:
        if hold.confines(workload, pod_set):
            pod_set = replace(pod_set, node_selector={**pod_set.node_selector, **hold.labels})
    usable = tuple(hold.name for hold in flavor.node_holds if hold.usable_by(workload, now))
    return replace(pod_set, node_holds=usable) if usable else pod_set


def _on_all(pod_set: PodSet, flavor: Flavor) -> PodSet:
    """Returns the pod set with every hold of nodes: for bounds that are true at any moment."""
    return replace(pod_set, node_holds=None) if flavor.node_holds else pod_set


def in_force(pod_set: PodSet, flavor: Flavor | None, waited: float) -> PodSet:
    """Returns the pod set with its topology request as it is after `waited` seconds."""
    topology, levels = pod_set.topology, None if flavor is None else flavor.levels
    if topology is None or topology.relax_after is None or levels is None:
        return pod_set
    return replace(pod_set, topology=relaxed_request(topology, levels, waited).request)


def relaxes(workload: Workload) -> bool:
    """Reports whether a required level of the workload is relaxed over time."""
    return any(
        pod_set.topology is not None and pod_set.topology.relax_after is not None for pod_set in workload.pod_sets
    )


def relaxation(workload: Workload, queue: ClusterQueue, flavors: Flavors, now: float) -> str:
    """Describes which of the workload's required levels apply now and next; empty if none is relaxed.

    Read from the levels of the first flavor of the queue that has the level.
    """
    texts: dict[str, list[str]] = {}
    for pod_set, relaxation in _relaxed_requests(workload, queue, flavors, now):
        if pod_set.topology is not None and (text := relaxation.text(pod_set.topology)):
            texts.setdefault(pod_set.name, []).append(text)
    return "; ".join(f"pod set {name}: {each[0]}" for name, each in texts.items())


def relaxed(workload: Workload, queue: ClusterQueue, flavors: Flavors, assignment: FlavorAssignment, now: float) -> str:
    """Describes the levels on which the workload was placed that it did not request at first; empty if there are none."""
    placed = {got.name: got.topology for got in assignment.pod_sets}
    texts: list[str] = []
    for pod_set in workload.pod_sets:
        topology, flavor = pod_set.topology, flavors.get(placed.get(pod_set.name) or "")
        if topology is None or flavor is None or flavor.levels is None:
            continue
        at = relaxed_request(topology, flavor.levels, now - workload.queued)
        if at.steps:
            texts.append(f"pod set {pod_set.name}: {replace(at, next_at=None).text(topology)}")
    return "; ".join(texts)


def next_step(workload: Workload, queue: ClusterQueue, flavors: Flavors, now: float) -> float | None:
    """Returns when (epoch seconds) a required level is relaxed next, on any flavor of the queue; None: never."""
    steps = (relaxation.next_at for _, relaxation in _relaxed_requests(workload, queue, flavors, now))
    first = min((at for at in steps if at is not None), default=None)
    return None if first is None else workload.queued + first


def _relaxed_requests(
    workload: Workload, queue: ClusterQueue, flavors: Flavors, now: float
) -> Iterator[tuple[PodSet, RelaxedRequest]]:
    for pod_set in workload.pod_sets:
        topology = pod_set.topology
        if topology is None or topology.relax_after is None:
            continue
        for flavor in filter(None, map(flavors.get, queue.flavors)):
            if flavor.levels is not None and topology.required in flavor.levels:
                yield pod_set, relaxed_request(topology, flavor.levels, now - workload.queued)
