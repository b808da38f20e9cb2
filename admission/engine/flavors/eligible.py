"""Tests whether a pod set may use a flavor, regardless of free capacity: topology, taints and node labels.

The message for an unsuitable flavor is that of Kueue (cycle.md 4.4, step 2); waiting does not change it. The test considers
the node labels and taints of the flavor; the placement checks those of nodes (topology/tree/match.py). Called by search.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from admission.engine.model import (
    AUTO_LEVEL,
    Flavor,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSet,
    TopologyRequest,
)
from admission.engine.topology.tree.match import int64, untolerated
from admission.engine.topology.tree.tree_spec import resolve


def wants_topology(pod_set: PodSet, implied: bool) -> bool:
    """Reports whether the pod set is placed on a topology: it requests one, or all flavors of its queue have one."""
    return implied or (pod_set.topology is not None and pod_set.topology.explicit)


def unsuitable(pod_set: PodSet, flavor: Flavor, covered: tuple[str, ...], implied: bool) -> str | None:
    """Returns why the pod set can never use the flavor, None if it can. `covered`: the resources of the flavor's group."""
    reason = _topology_mismatch(pod_set, flavor, covered, implied)
    if reason is not None:
        return reason
    if flavor.taints and (taint := untolerated(flavor.taints, (*pod_set.tolerations, *flavor.tolerations))) is not None:
        # Kueue prints the Go value of the taint
        return f"untolerated taint {{{taint.key} {taint.value} {taint.effect} <nil>}} in flavor {flavor.name}"
    if not _labels_match(pod_set, flavor.node_labels):
        return f"flavor {flavor.name} doesn't match node affinity"
    return None


def _topology_mismatch(pod_set: PodSet, flavor: Flavor, covered: tuple[str, ...], implied: bool) -> str | None:
    topology = pod_set.topology
    if topology is None or not topology.explicit:
        if implied or flavor.topology is None:
            return None
        return f'Flavor "{flavor.name}" supports only TopologyAwareScheduling'
    if flavor.topology is None:
        if not any(pod_set.requests.get(resource) for resource in covered):
            return None
        return f'Flavor "{flavor.name}" does not support TopologyAwareScheduling'
    if flavor.levels is None:
        return f'Flavor "{flavor.name}" information missing in TAS cache'
    if not _has_levels(topology, flavor.levels):
        return f'Flavor "{flavor.name}" does not contain the requested level'
    return None


def _has_levels(topology: TopologyRequest, levels: tuple[str, ...]) -> bool:
    """Reports whether the topology has every level that the request names."""
    named = topology.required or topology.preferred
    if named is None and not topology.unconstrained and not topology.slices:
        return False
    if topology.slices:
        return _named(topology) <= set(levels)
    return named is None or named == AUTO_LEVEL or named in levels


def _named(topology: TopologyRequest) -> set[str]:
    named = {topology.required or topology.preferred, *(layer.level for layer in topology.slices)}
    return {level for level in named if level is not None and level != AUTO_LEVEL}


def named_levels(pod_set: PodSet) -> list[str]:
    """Returns the level names that the pod set's request contains and a flavor's topology must have, sorted."""
    return sorted(_named(pod_set.topology)) if pod_set.topology is not None else []


def lacks_level(pod_set: PodSet, flavor: Flavor) -> bool:
    """Reports whether the flavor's topology lacks the level of a placement constraint of the pod set."""
    if pod_set.topology is None or not flavor.levels:
        return False
    return any(isinstance(resolve(each.level, flavor.levels), str) for each in pod_set.topology.constraints)


def _labels_match(pod_set: PodSet, labels: Mapping[str, str]) -> bool:
    """Reports whether node selector, required node affinity and volumes agree with the flavor's labels."""
    selector, volumes = pod_set.node_selector, pod_set.volumes
    if selector and any(key in labels and labels[key] != value for key, value in selector.items()):
        return False
    if volumes and not all(any(_term_matches(term, labels) for term in terms) for terms in volumes):
        return False
    return not pod_set.affinity or any(_term_matches(term, labels) for term in pod_set.affinity)


def _term_matches(term: NodeSelectorTerm, labels: Mapping[str, str]) -> bool:
    return all(_holds(one, labels[one.key]) for one in term.match_expressions if one.key in labels)


def _holds(requirement: NodeSelectorRequirement, value: str) -> bool:
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return True
        case "Gt" | "Lt":
            return _compares(requirement, value)
        case _:
            return False


def _compares(requirement: NodeSelectorRequirement, value: str) -> bool:
    left, right = int64(value), int64(requirement.values[0]) if len(requirement.values) == 1 else None
    if left is None or right is None:
        return False
    return left > right if requirement.operator == "Gt" else left < right
