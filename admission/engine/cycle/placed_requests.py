"""The placement requests of a running workload with its present places: for replacement, spare hosts and level checks."""

from __future__ import annotations

from collections.abc import Iterator

from admission.engine.flavors.search import topology_implied
from admission.engine.ledger import Ledger
from admission.engine.model import Admission, ClusterQueue, PlacementRequest, Workload
from admission.engine.requests import in_force


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
        pods = in_force(pod_set, ledger.flavors.get(flavor), waited)
        profile, facts = workload.profile or queue.profile, workload.facts_of(pod_set)
        yield PlacementRequest(pods, flavor, got.count, implicit, got.assignment, profile, facts)
