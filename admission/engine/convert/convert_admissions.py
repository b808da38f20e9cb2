"""Converts admissions: `status.admission` of a Workload to the engine's value, and a decided admission back.

convert_workloads.py calls `from_status`; the writer of statuses (controllers) calls `to_status`.
"""

from __future__ import annotations

from collections.abc import Mapping

from admission.engine import model
from admission.engine.convert.conversion_errors import within
from admission.engine.topology.assignments.assignment_parts import first_pods
from api import assignment, topology_assignment, workloads
from api.text import quantity


def from_status(
    admission: workloads.Admission, spec: workloads.WorkloadSpec, done: Mapping[str, int]
) -> model.Admission:
    """Returns the engine's value of `status.admission`. Raises InvalidObject.

    `done` maps pod sets to reclaimable pods, which are not charged to quota.
    """
    place = "status.admission.podSetAssignments"
    counts = {pod_set.name: pod_set.count for pod_set in spec.pod_sets}
    given = enumerate(admission.pod_set_assignments)
    return model.Admission(
        admission.cluster_queue,
        tuple(
            _pod_set_admission(a, f"{place}[{i}]", counts.get(a.name, a.count or 0), done.get(a.name, 0))
            for i, a in given
        ),
    )


def _pod_set_admission(
    assignment: workloads.PodSetAssignment, field: str, requested: int, done: int
) -> model.PodSetAdmission:
    """Returns the admission of a pod set.

    Quota is charged for the pods that the pod set still requests (`requested`) minus those that are `done`. If the pod set
    shrank, pods are dropped from the end of its assignment. While some of its pods are done, the others keep all places, since
    the status does not say where they run. Once all are done, their places are free.
    """
    usage = quantity.parse_list(assignment.resource_usage, f"{field}.resourceUsage")
    count = assignment.count or 0
    left = max(0, min(count, requested) - done)
    shrunk = requested if requested < count else None
    if count and not left:
        shrunk = 0
    if count and left < count:
        usage = {resource: amount // count * left for resource, amount in usage.items()}
    return model.PodSetAdmission(
        name=assignment.name,
        flavors=assignment.flavors,
        usage={resource: amount for resource, amount in usage.items() if resource in assignment.flavors},
        count=min(count, requested),
        assignment=_assignment(assignment.topology_assignment, field, shrunk)
        if assignment.topology_assignment
        else None,
    )


def _assignment(compact: topology_assignment.TopologyAssignment, field: str, most: int | None) -> model.Assignment:
    with within(f"{field}."):
        domains = assignment.decode(compact)
    placed = model.Assignment(compact.levels, tuple(model.DomainCount(values, count) for values, count in domains))
    return placed if most is None else first_pods(placed, most)


def to_status(decided: model.Admission) -> workloads.Admission:
    """Returns the `status.admission` to write, with topology assignments in the compact form."""
    return workloads.Admission(
        cluster_queue=decided.cluster_queue,
        pod_set_assignments=tuple(_wire_pod_set(pod_set) for pod_set in decided.pod_sets),
    )


def _wire_pod_set(pod_set: model.PodSetAdmission) -> workloads.PodSetAssignment:
    placed = pod_set.assignment
    domains = [(domain.values, domain.count) for domain in placed.domains] if placed else []
    return workloads.PodSetAssignment(
        name=pod_set.name,
        flavors=dict(pod_set.flavors),
        resource_usage=dict(quantity.to_texts(pod_set.usage)),
        count=pod_set.count,
        topology_assignment=assignment.encode(placed.levels, domains) if placed else None,
    )
