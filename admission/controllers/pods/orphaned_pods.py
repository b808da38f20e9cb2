"""The Workload of a set that is deleted without its pods (--cascade=orphan). Pure; part of `setplan`.

It keeps its quota as long as pods of it are there: only they own it then (compose.adopt), and it ends with the last one
(plan_gone). A set of the same name that is made afterwards takes the pods over, and with them the Workload: it keeps the name,
which pods that run have been told and which no other set would give. Only where a pod was already told the name that the new
set gives is that one used, and the other goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from admission.integrations.pod import QueuedPod
from admission.integrations.replica_groups import PodMembership, ReplicaGroup
from api.meta import is_true
from api.names import COMPONENT_INDEX, FINISHED
from api.workloads import Workload

ORPHANING: Final = "orphan"
"""The finalizer of an object that is deleted without what it owns."""


def leaves_its_pods(obj: Mapping[str, Any]) -> bool:
    """Whether the set goes and its pods stay."""
    meta = obj.get("metadata") or {}
    return bool(meta.get("deletionTimestamp")) and ORPHANING in (meta.get("finalizers") or ())


def is_left_behind(workload: Workload) -> bool:
    """Whether a set made it that was deleted without its pods."""
    return COMPONENT_INDEX in workload.metadata.annotations and not any(
        owner.controller for owner in workload.metadata.owner_references
    )


def kept_names(
    groups: Iterable[ReplicaGroup],
    seats: Sequence[tuple[QueuedPod, PodMembership]],
    workloads: Sequence[Workload],
    behind: Sequence[Workload],
) -> tuple[dict[str, str], list[Workload]]:
    """By the names that the set gives, the other names that Workloads of its groups have; and which are still to be taken over.

    `workloads` are the set's, `behind` those of its pods without a controller.
    """
    kept: dict[str, str] = {}
    taken: list[Workload] = []
    for group in groups:
        said = {pod.group for pod, seat in seats if seat.workload == group.workload and pod.group}
        if group.workload in said:
            continue
        mine = [workload for workload in workloads if workload.metadata.name != group.workload]
        others = [workload for workload in behind if workload.metadata.name in said]
        found = next((workload for workload in (*mine, *others) if _is_of(workload, group)), None)
        if found is not None:
            kept[group.workload] = found.metadata.name
            taken += [found] if found in others else []
    return kept, taken


def _is_of(workload: Workload, group: ReplicaGroup) -> bool:
    """Whether it is for that group, and not at its end."""
    meta = workload.metadata
    going = bool(meta.deletion_timestamp) or is_true(workload.status.conditions, FINISHED)
    return not going and meta.annotations.get(COMPONENT_INDEX) == str(group.index)
