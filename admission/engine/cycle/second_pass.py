"""The second pass: places for the pods that a running workload has lost with failed nodes, or its eviction.

All failed nodes are replaced together, if there is room on the hosts that are held for that, else on those of its flavors.
Flavors stay, and no other workload is evicted for it (cycle.md 4.11; Kueue replaces one node at a time). A workload of one
plain pod keeps its place: no other pod is created for it, so another place would stay empty. topology/replace.py searches.
Called by controllers/nodes/node_replacement.py.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import replace

from admission.engine.cycle.placed_requests import placed_requests
from admission.engine.decision import NODE_FAILURES, Admit, Decision, Evict, Wait
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Admission
from admission.engine.reasons import Reason
from admission.engine.topology.assignments.on_hosts import on_hosts

Lost = Mapping[tuple[str, str], int]
"""How many pods of a pod set have lost their place on a host: (pod set, hostname) to number."""


def second_pass(
    ledger: Ledger, key: str, nodes: Sequence[str], fail_fast: bool, alive: Container[str] = ()
) -> list[Decision]:
    """Returns the decision on a workload that lost these nodes (hostnames); none if it has no pods on them.

    `alive`: hosts whose pods run on, though no topology has them at the moment.
    """
    workload, admission = ledger.workload(key), ledger.admission(key)
    if workload is None or admission is None or not nodes:
        return []
    if workload.one_pod:
        return [Admit(key, admission)]
    requests = list(placed_requests(ledger, workload, admission))
    placed = ledger.placement.replace(requests, nodes, alive, first=_released(ledger, key, admission))
    if placed.fits:
        pod_sets = tuple(
            replace(p, assignment=placed.assignments.get(p.name, p.assignment)) for p in admission.pod_sets
        )
        moved = replace(admission, pod_sets=pod_sets)
        ledger.charge(workload, moved)
        _hold(ledger, key)
        return [Admit(key, moved)]
    text = "; ".join(f"couldn't assign flavors to pod set {n}: {why.message}" for n, why in placed.failures.items())
    if fail_fast:
        message = f"Workload was evicted as there was no replacement for unhealthy node(s): {','.join(nodes)}"
        return [Evict(key, NODE_FAILURES, message, text)]
    return [Wait(key, Reason.TOPOLOGY_PLACEMENT_FAILED, text, retry=True)]


def moved_pods(
    ledger: Ledger, key: str, lost: Lost, avoid: Collection[str], alive: Container[str] = ()
) -> list[Decision]:
    """Returns the decision that moves pods to other places, on none of the hosts `avoid`, because no node took them where they
    were sent.

    All others keep theirs; `alive` as in `second_pass`. Where there is no place the workload is not evicted: it waits for
    one of these hosts.
    """
    workload, admission = ledger.workload(key), ledger.admission(key)
    if workload is None or admission is None or workload.one_pod:
        return []
    requests = [on_hosts(request, "NotIn", avoid) for request in placed_requests(ledger, workload, admission)]
    hosts = sorted({host for _, host in lost})
    placed = ledger.placement.replace(requests, hosts, alive, lost, _released(ledger, key, admission))
    if not placed.fits:
        _hold(ledger, key)
        text = "; ".join(f"pod set {name}: {why.message}" for name, why in placed.failures.items())
        return [Wait(key, Reason.TOPOLOGY_PLACEMENT_FAILED, f"no other place for pods that no node took: {text}")]
    pod_sets = tuple(replace(p, assignment=placed.assignments.get(p.name, p.assignment)) for p in admission.pod_sets)
    moved = replace(admission, pod_sets=pod_sets)
    ledger.charge(workload, moved)
    _hold(ledger, key)
    return [Admit(key, moved)]


def _released(ledger: Ledger, key: str, admission: Admission) -> Sequence[Collection[str]]:
    """Releases and returns the hosts that are held for the workload's lost pods."""
    keeper = ledger.holds.keeper
    return () if keeper is None else keeper.give(key, admission)


def _hold(ledger: Ledger, key: str) -> None:
    """Holds again what the workload asks for beside its pods."""
    if (keeper := ledger.holds.keeper) is not None:
        keeper.hold(key)
