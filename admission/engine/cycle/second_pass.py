"""The second pass: nodes failed under a workload that runs; its lost pods get other places, or the workload is evicted.

All failed nodes are replaced together; flavors stay, and no other workload is evicted for it (cycle.md 4.11, where Kueue
replaces one node at a time). A workload of one plain pod keeps its place: no other pod comes for it, so another place would
stay empty. The search is topology/replace.py. Called by controllers/node_replacement.py.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import replace

from admission.engine.decision import NODE_FAILURES, Admit, Decision, Evict, Reason, Wait
from admission.engine.flavors.search import topology_implied
from admission.engine.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    Admission,
    ClusterQueue,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PlacementRequest,
    Workload,
)
from admission.engine.requests import in_force

Lost = Mapping[tuple[str, str], int]
"""How many pods of a pod set have lost their place on a host: (pod set, hostname) to number."""


def second_pass(
    ledger: Ledger, key: str, nodes: Sequence[str], fail_fast: bool, alive: Container[str] = ()
) -> list[Decision]:
    """The decision on a workload that lost these nodes (hostnames), none if it has no place on them.

    `alive`: hosts whose pods run on, though no topology has them at the moment.
    """
    workload, admission = ledger.workload(key), ledger.admission(key)
    if workload is None or admission is None or not nodes:
        return []
    if workload.one_pod:
        return [Admit(key, admission)]
    requests = list(placed_requests(ledger, workload, admission))
    found = ledger.replace(requests, nodes, alive)
    if found.fits:
        pod_sets = tuple(replace(p, assignment=found.assignments.get(p.name, p.assignment)) for p in admission.pod_sets)
        moved = replace(admission, pod_sets=pod_sets)
        ledger.charge(workload, moved)
        return [Admit(key, moved)]
    text = "; ".join(f"couldn't assign flavors to pod set {n}: {why.message}" for n, why in found.failures.items())
    if fail_fast:
        message = f"Workload was evicted as there was no replacement for unhealthy node(s): {','.join(nodes)}"
        return [Evict(key, NODE_FAILURES, message, text)]
    return [Wait(key, Reason.TOPOLOGY_PLACEMENT_FAILED, text, retry=True)]


def moved_pods(
    ledger: Ledger, key: str, lost: Lost, avoid: Collection[str], alive: Container[str] = ()
) -> list[Decision]:
    """Other places for pods of a running workload that no node took where they were sent, on none of the hosts `avoid`.

    All others keep theirs; `alive` as in `second_pass`. Where there is no place the workload is not evicted: it waits for
    one of these hosts.
    """
    workload, admission = ledger.workload(key), ledger.admission(key)
    if workload is None or admission is None or workload.one_pod:
        return []
    away = (_elsewhere(avoid),)
    requests = [
        replace(request, pod_set=replace(request.pod_set, volumes=(*request.pod_set.volumes, away)))
        for request in placed_requests(ledger, workload, admission)
    ]
    hosts = sorted({host for _, host in lost})
    found = ledger.replace(requests, hosts, alive, lost)
    if not found.fits:
        text = "; ".join(f"pod set {name}: {why.message}" for name, why in found.failures.items())
        return [Wait(key, Reason.TOPOLOGY_PLACEMENT_FAILED, f"no other place for pods that no node took: {text}")]
    pod_sets = tuple(replace(p, assignment=found.assignments.get(p.name, p.assignment)) for p in admission.pod_sets)
    moved = replace(admission, pod_sets=pod_sets)
    ledger.charge(workload, moved)
    return [Admit(key, moved)]


def _elsewhere(hosts: Collection[str]) -> NodeSelectorTerm:
    away = NodeSelectorRequirement(key=HOSTNAME_LABEL, operator="NotIn", values=tuple(sorted(hosts)))
    return NodeSelectorTerm(match_expressions=(away,))


def placed_requests(ledger: Ledger, workload: Workload, admission: Admission) -> Iterator[PlacementRequest]:
    """What the placed pod sets of an admitted workload ask for, with their places."""
    pod_sets = {pod_set.name: pod_set for pod_set in workload.pod_sets}
    queue = ledger.quota.spec(admission.cluster_queue) or ClusterQueue(admission.cluster_queue)
    implied = topology_implied(queue, ledger.flavors)
    for got in admission.pod_sets:
        if got.assignment is None or (pod_set := pod_sets.get(got.name)) is None:
            continue
        unasked = implied and (pod_set.topology is None or not pod_set.topology.explicit)
        flavor = ledger.allocations.flavor_of(got)
        # a level that had given way when the workload got its place does not come back
        waited = 0.0 if workload.reserved is None else workload.reserved - workload.queued
        asked = in_force(pod_set, ledger.flavors.get(flavor), waited)
        profile, facts = workload.profile or queue.profile, workload.facts_of(pod_set)
        yield PlacementRequest(asked, flavor, got.count, unasked, got.assignment, profile, facts)
