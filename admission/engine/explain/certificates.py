"""Computes certificates for a workload's domains by repeating its placement.

explain.py calls it. Nodes and admissions are the present ones, without the workload's own pods. If the repeated placement
differs, nothing is reported.
"""

from __future__ import annotations

from dataclasses import replace

from admission.engine.cycle.solve import place
from admission.engine.explain.apply_changes import leave
from admission.engine.explain.explanation import Proved
from admission.engine.flavors.assign import FlavorAssignment, PodSetFlavors
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Admission, Workload
from admission.engine.requests import placement_requests


def proofs(ledger: Ledger, workload: Workload, admission: Admission, now: float) -> tuple[Proved, ...]:
    """Returns the certificates by pod set, for pod sets that an exact solver placed."""
    queue = ledger.quota.spec(workload.cluster_queue)
    placed = {got.name: got for got in admission.pod_sets if got.assignment is not None}
    if queue is None or not placed:
        return ()
    pod_sets = (replace(p, count=placed[p.name].count) if p.name in placed else p for p in workload.pod_sets)
    where: list[PodSetFlavors] = []
    for name, got in placed.items():
        flavors = sorted({f for f in got.flavors.values() if f in ledger.flavors and ledger.flavors[f].levels})
        if len(flavors) != 1:
            return ()
        where.append(PodSetFlavors(name, {}, {}, topology=flavors[0]))
    reduced = replace(workload, pod_sets=tuple(pod_sets))
    with ledger.trial():
        leave(ledger, workload.key)
        requests = placement_requests(reduced, queue, FlavorAssignment(tuple(where), {}), ledger.flavors, now)
        result = place(ledger, requests)
    same = (name for name, got in placed.items() if result.assignments.get(name) == got.assignment)
    return tuple(Proved(name, result.certificates[name]) for name in same if name in result.certificates)
