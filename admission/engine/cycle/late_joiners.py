"""Late joiners of a gang: where a level is required, they go to the domain of their gang.

A late joiner is a workload of its own, so any domain of the level would satisfy its request. Before it is evaluated it gets the
path of one of the gang's pods, of its own role if possible, and must be placed in that domain. While the gang has no admission,
or its node is gone, the request stays as it is. Called by outcomes.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import PodSet, PodSetAdmission, Workload
from admission.engine.topology.assignments.assignment_parts import path_of, stale
from admission.engine.topology.tree.tree_spec import Values


def beside_its_gang(workload: Workload, ledger: Ledger) -> Workload:
    """Returns the workload with the domain of its gang as `near`; unchanged where no level is required."""
    if workload.gang is None or not workload.gang.joins:
        return workload
    gang = ledger.workload(workload.gang.joins)
    if gang is None or gang.admission is None:
        return workload
    pod_sets = tuple(_with_near(pod_set, gang, ledger) for pod_set in workload.pod_sets)
    return workload if pod_sets == workload.pod_sets else replace(workload, pod_sets=pod_sets)


def _with_near(pod_set: PodSet, gang: Workload, ledger: Ledger) -> PodSet:
    if pod_set.topology is None or pod_set.topology.required is None or gang.admission is None:
        return pod_set
    requests = {role.name: role.requests for role in gang.pod_sets}
    roles = sorted(gang.admission.pod_sets, key=lambda role: requests.get(role.name) != pod_set.requests)
    path = next((path for role in roles for path in _paths(role, ledger)), None)
    return pod_set if path is None else replace(pod_set, topology=replace(pod_set.topology, near=path))


def _paths(role: PodSetAdmission, ledger: Ledger) -> Iterator[Values]:
    """Yields the full path of a pod of the role, if it is placed."""
    if role.assignment is None or not role.assignment.domains:
        return
    for flavor in sorted(set(role.flavors.values())):
        tree = ledger.capacity.trees.get(flavor)
        if tree is not None and stale(tree, role.assignment) is None:
            yield path_of(tree, role.assignment.domains[0].values)
