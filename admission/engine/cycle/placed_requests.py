"""The placement requests of a running workload with its present places: for replacement, level checks and held hosts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from admission.engine.flavors.search import topology_implied
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Admission, ClusterQueue, PlacementRequest, PodSet, Workload
from admission.engine.requests import in_force


def _where_it_runs(ledger: Ledger, workload: Workload, pod_set: PodSet, flavor: str) -> PodSet:
    """Returns the pod set with the holds of nodes that keep the workload, or on whose nodes it runs: it may stay there."""
    known = ledger.flavors.get(flavor)
    if known is None or not known.node_holds:
        return pod_set
    pods = (ledger.allocations.pods[key] for key in ledger.allocations.pods_of(workload.key))
    records = (ledger.capacity.nodes.get(pod.node) for pod in pods)
    nodes = [record.node for record in records if record is not None and record.node is not None]
    usable = tuple(
        one.name for one in known.node_holds if one.keeps(workload) or any(one.holds(node.labels) for node in nodes)
    )
    return replace(pod_set, node_holds=usable) if usable else pod_set


def placed_requests(ledger: Ledger, workload: Workload, admission: Admission) -> Iterator[PlacementRequest]:
    """Yields the requests of the placed pod sets of an admitted workload, with their present places."""
    pod_sets = {pod_set.name: pod_set for pod_set in workload.pod_sets}
    queue = ledger.quota.spec(admission.cluster_queue) or ClusterQueue(admission.cluster_queue)
    implied = topology_implied(queue, ledger.flavors)
    for got in admission.pod_sets:
        if got.assignment is None or (pod_set := pod_sets.get(got.name)) is None:
            continue
        implicit = implied and (pod_set.topology is None or not pod_set.topology.explicit)
        flavor = ledger.allocations.flavor_of(got)
        # a level that had given way when the workload got its place does not come back
        waited = 0.0 if workload.reserved is None else workload.reserved - workload.queued
        pods = _where_it_runs(ledger, workload, in_force(pod_set, ledger.flavors.get(flavor), waited), flavor)
        profile, facts = workload.profile or queue.profile, workload.facts_of(pod_set)
        yield PlacementRequest(pods, flavor, got.count, implicit, got.assignment, profile, facts)
