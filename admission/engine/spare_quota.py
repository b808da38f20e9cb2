"""Places for pods and their spare hosts for which there is quota too.

A spare host counts in quota as many pods as the fullest host of its pod set runs. So the places decide what the spare hosts
cost: if quota is short for them, places are searched in which the fullest host runs fewer pods. Called by cycle/ for heads and
by preemption/ for the places after evictions. The ledger is not changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from admission.engine.decision import NoPlacement, PlacementResult
from admission.engine.flavors.assign import FlavorAssignment
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Assignment, FlavorResource, PlacementRequest, Workload

_TRIES: Final = 16
"""The number of placements that are tried for one set of spare hosts."""


def requested_hosts(workload: Workload) -> int:
    """Returns how many spare hosts the pod sets request."""
    return sum(pod_set.topology.spare_hosts for pod_set in workload.pod_sets if pod_set.topology is not None)


def spare_usage(
    workload: Workload, assignment: FlavorAssignment, places: Mapping[str, Assignment]
) -> dict[FlavorResource, int]:
    """Returns the quota that the spare hosts use beside pods at these places: as many pods each as the fullest host has."""
    pod_sets = {pod_set.name: pod_set for pod_set in workload.pod_sets}
    total: dict[FlavorResource, int] = {}
    for got in assignment.pod_sets:
        pod_set, placed = pod_sets[got.name], places.get(got.name)
        if placed is None or pod_set.topology is None or not (hosts := pod_set.topology.spare_hosts):
            continue
        pods = hosts * max((domain.count for domain in placed.domains), default=0)
        for resource, pick in got.picks.items():
            pair = (pick.flavor, resource)
            total[pair] = total.get(pair, 0) + got.requests[resource] // pod_set.count * pods
    return total


def with_spares(
    workload: Workload, assignment: FlavorAssignment, places: Mapping[str, Assignment]
) -> dict[FlavorResource, int]:
    """Returns the quota of the pods and of the spare hosts beside these places."""
    total = dict(assignment.usage)
    for pair, amount in spare_usage(workload, assignment, places).items():
        total[pair] = total.get(pair, 0) + amount
    return total


def shortage(workload: Workload) -> str:
    """Returns the message for a workload for whose spare hosts quota is short."""
    hosts = f"{requested_hosts(workload)} spare host(s)"
    return f"insufficient quota in ClusterQueue {workload.cluster_queue} for the pods and {hosts}"


def within_quota(
    ledger: Ledger,
    workload: Workload,
    assignment: FlavorAssignment,
    requests: Sequence[PlacementRequest],
    result: PlacementResult,
    *,
    empty: bool = False,
) -> PlacementResult:
    """Returns `result` if quota suffices for its spare hosts too, else other places with which it does, else the failure.

    `empty`: `result` is a placement on nodes without workloads.
    """
    if not result.fits or not any(request.asks_beside for request in requests):
        return result
    spared = [request.pod_set.name for request in requests if request.asks_beside]
    for _ in range(_TRIES):
        if ledger.quota.fits(workload.cluster_queue, with_spares(workload, assignment, result.assignments)):
            return result
        fullest = max(domain.count for name in spared for domain in result.assignments[name].domains)
        limited = [replace(one, most_per_host=fullest - 1) if one.asks_beside else one for one in requests]
        if fullest == 1 or not (result := ledger.placement.place(limited, simulate_empty=empty)).fits:
            break
    return PlacementResult({}, dict.fromkeys(spared, NoPlacement(shortage(workload), quota=True)))
