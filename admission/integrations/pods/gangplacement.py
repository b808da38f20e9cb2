"""Merges the placement annotations of a gang's PodGroup with those of its pods. Pure.

All placement annotations of pod templates are allowed on a gang's pods and on its PodGroup. A pod's annotations apply to its
role (the pods with equal requests, one pod set). The PodGroup's annotations apply to every role that sets none of the same
block: the main request, slices, and each remaining annotation by itself. Roles that inherit their level from the PodGroup form
one placement group, so all of them go to one domain of that level.

Pods of one role must agree, since only one of them is read, and a slice size must divide the role's pods, since a gang starts
whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from admission.integrations.pods.pod import QueuedPod
from admission.integrations.pods.podgroup import UnlikePods
from api import names
from api.annotations.requests import REFINEMENTS
from api.errors import InvalidObject
from api.topology_request import TopologyRequest
from api.workloads import PodSet

Annotations = Mapping[str, str]

_MAIN: Final = (
    names.REQUIRED_TOPOLOGY,
    names.PREFERRED_TOPOLOGY,
    names.UNCONSTRAINED_TOPOLOGY,
    names.REQUIRE_TOPOLOGY,
    names.PREFER_TOPOLOGY,
)
_SLICES: Final = (names.SLICE_REQUIRED_TOPOLOGY, names.SLICE_SIZE, names.SLICE_CONSTRAINTS)
_EACH: Final = (names.PODSET_GROUP_NAME, names.PLACEMENT_CONSTRAINTS, *(each.key for each in REFINEMENTS))
_LEVELS: Final = tuple(key for key in _MAIN if key != names.UNCONSTRAINED_TOPOLOGY)
_BLOCKS: Final = (_MAIN, _SLICES, *((key,) for key in _EACH))
PLACEMENT: Final = frozenset(key for block in _BLOCKS for key in block)


def placement_of(annotations: Annotations) -> dict[str, str]:
    """Returns the placement annotations among these."""
    return {key: value for key, value in annotations.items() if key in PLACEMENT}


def effective(own: Annotations, group: Annotations) -> dict[str, str]:
    """Returns a pod's annotations, completed block by block with those of its PodGroup."""
    merged = dict(own)
    for block in _BLOCKS:
        if not any(key in own for key in block):
            merged.update({key: group[key] for key in block if key in group})
    return merged


def check_likeness(pods: Iterable[QueuedPod], gang: str) -> None:
    """Raises UnlikePods if gated pods of one role have different placement annotations."""
    first: dict[str, QueuedPod] = {}
    for pod in pods:
        if not pod.gated:
            continue
        other = first.setdefault(pod.role, pod)
        mine, theirs = placement_of(pod.annotations), placement_of(other.annotations)
        if mine != theirs:
            key = min(key for key in PLACEMENT if mine.get(key) != theirs.get(key))
            given = ", ".join(
                f"{values.get(key)} in pod {one.metadata.name}" for one, values in ((other, theirs), (pod, mine))
            )
            raise UnlikePods(f"metadata.annotations[{key}]", given, "the same in all pods of one role", gang)


def together(
    pod_sets: tuple[PodSet, ...], own: Mapping[str, Annotations], group: Annotations, gang: str
) -> tuple[PodSet, ...]:
    """Returns the pod sets, with those that inherit their level from the PodGroup joined into one placement group.

    `own` maps each pod set to its pods' annotations; `gang` is the gang's key. Raises InvalidObject if a slice size does not
    divide a pod set, or if a joined pod set has placement constraints.
    """
    for pod_set in pod_sets:
        _check_slices(pod_set, gang)
    mates = [
        pod_set.name
        for pod_set in pod_sets
        if not any(key in own[pod_set.name] for key in (*_MAIN, names.PODSET_GROUP_NAME))
    ]
    if not any(key in group for key in _LEVELS) or names.PODSET_GROUP_NAME in group or len(mates) < 2:
        return pod_sets
    for pod_set in pod_sets:
        if pod_set.name in mates and pod_set.topology_request is not None and pod_set.topology_request.constraints:
            where = f"metadata.annotations[{names.PLACEMENT_CONSTRAINTS}]"
            rule = f"none where the {len(mates)} roles of a gang share the level of their PodGroup"
            raise InvalidObject(where, f"constraints of role {pod_set.name}", rule, gang)
    return tuple(_joined(pod_set, gang) if pod_set.name in mates else pod_set for pod_set in pod_sets)


def alone(annotations: Annotations) -> dict[str, str]:
    """Returns the placement annotations that apply to a single late joiner: none of slices, groups or constraints."""
    shapes = (*_SLICES, names.PODSET_GROUP_NAME, names.PLACEMENT_CONSTRAINTS)
    return {key: value for key, value in annotations.items() if key not in shapes}


def _joined(pod_set: PodSet, gang: str) -> PodSet:
    topology = pod_set.topology_request
    if topology is None:
        return pod_set
    return pod_set.model_copy(update={"topology_request": topology.model_copy(update={"pod_set_group_name": gang})})


def _check_slices(pod_set: PodSet, gang: str) -> None:
    topology = pod_set.topology_request
    size = None if topology is None else _slice_size(topology)
    if size and pod_set.count % size:
        rule = f"a size that divides the {pod_set.count} pods of role {pod_set.name}"
        raise InvalidObject(f"metadata.annotations[{names.SLICE_SIZE}]", size, rule, gang)


def _slice_size(topology: TopologyRequest) -> int | None:
    layers: Any = topology.podset_slice_required_topology_constraints
    return layers[0].size if layers else topology.pod_set_slice_size
