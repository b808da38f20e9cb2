"""The places of an elastic job that has shrunk: those of the pods that its controller has left. Pure.

When a job shrinks, its own controller chooses the pods that end. Until they have ended, the ledger counts the first places of
the assignment for the pods that stay (convert_workloads.py), and charges pods on other places as foreign. Called by
controllers/decide/shrunk_jobs.py.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from admission.engine.decision import Admit
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Admission, Assignment, DomainCount, PodSetAdmission
from admission.engine.topology.assignments.assignment_parts import merged, stale
from admission.engine.topology.tree.tree_spec import Values


def shrunk_places(ledger: Ledger, key: str) -> Admit | None:
    """Returns the workload's admission at the places of its bound pods, and charges it.

    Returns None as long as not exactly the admitted pods of each pod set are bound, each in a domain of the topology. If the
    pods are where the ledger has them, the admission is the present one.
    """
    workload, admission = ledger.workload(key), ledger.admission(key)
    if workload is None or admission is None or workload.evicted or workload.one_pod:
        return None
    pod_sets_at_pods = [_at_its_pods(ledger, key, admission, got) for got in admission.pod_sets]
    pod_sets = tuple(got for got in pod_sets_at_pods if got is not None)
    if len(pod_sets) < len(pod_sets_at_pods):
        return None
    moved = replace(admission, pod_sets=pod_sets)
    if moved != admission:
        ledger.charge(workload, moved)
    return Admit(key, moved)


def _at_its_pods(ledger: Ledger, key: str, admission: Admission, pod_set: PodSetAdmission) -> PodSetAdmission | None:
    """Returns the pod set's admission with the domains of its pods; None if they are not known or not as many."""
    placed = pod_set.assignment
    if placed is None:
        return pod_set
    tree = ledger.capacity.trees.get(ledger.allocations.flavor_of(pod_set))
    bound = _bound(ledger, key, None if len(admission.pod_sets) == 1 else pod_set.name, placed.levels)
    if tree is None or None in bound or bound.total() != pod_set.count:
        return None
    if bound == Counter({domain.values: domain.count for domain in placed.domains}):
        return pod_set
    domains = tuple(DomainCount(values, count) for values, count in bound.items() if values is not None)
    there = Assignment(placed.levels, domains)
    return None if stale(tree, there) is not None else replace(pod_set, assignment=merged(tree, there))


def _bound(ledger: Ledger, key: str, pod_set: str | None, levels: tuple[str, ...]) -> Counter[Values | None]:
    """Counts the bound pods of a pod set by domain, under None those whose node has none."""
    pods = (ledger.allocations.pods[name] for name in ledger.allocations.pods_of(key))
    mine = (pod for pod in pods if pod_set is None or pod.pod_set == pod_set)
    return Counter(ledger.capacity.domain_of(pod.node, levels) for pod in mine)
