"""Says which soft placement constraints of a Workload its admission ignores, because the topology lacks their level.

The engine ignores them (engine/topology/constraints.py) and refuses hard ones. Called by admission_writer.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from admission.controllers.watch.cluster_view import ClusterView
from admission.engine.topology.tree.tree_spec import resolve
from api.topology_request import PlacementConstraint
from api.workloads import Admission, PodSet, Workload


def ignored_constraints(workload: Workload, admission: Admission, views: ClusterView) -> str:
    """Returns the ignored constraints in words; empty for none."""
    flavors = {given.name: sorted(set(given.flavors.values())) for given in admission.pod_set_assignments}
    ignored = dict.fromkeys(
        f"the placement constraint is ignored: {problem}"
        for pod_set in workload.spec.pod_sets
        for constraint in _constraints(pod_set)
        for levels in _levels(flavors.get(pod_set.name, ()), views)
        if not constraint.hard and isinstance(problem := resolve(constraint.level, levels), str)
    )
    return "; ".join(ignored)


def _constraints(pod_set: PodSet) -> tuple[PlacementConstraint, ...]:
    request = pod_set.topology_request
    return (request.constraints if request is not None else None) or ()


def _levels(flavors: list[str] | tuple[()], views: ClusterView) -> Iterator[tuple[str, ...]]:
    for name in flavors:
        flavor = views.flavors.objects.get(name)
        if flavor is None:
            continue
        topology = flavor.spec.topology or views.topology(flavor.spec.topology_name or "")
        if topology is not None and topology.levels:
            yield tuple(topology.levels)
