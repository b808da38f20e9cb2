"""Handles the Workload of a set that is deleted without its pods (--cascade=orphan). Pure; part of `setplan`.

The Workload keeps its quota while pods of it exist: only these own it then (compose.adopt), and it ends with the last of them
(plan_gone). A later set of the same name adopts the pods and with them the Workload, which keeps its name: running pods carry
that name, and no other set would produce it. Only if a pod already carries the name that the new set produces is that Workload
used instead, and the other deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from admission.integrations.pods.pod import QueuedPod
from admission.integrations.sets.replica_groups import PodMembership, ReplicaGroup
from api.kube.resources import STATEFUL_SETS
from api.meta import is_true
from api.names import COMPONENT_INDEX, FINISHED
from api.workloads import Workload

ORPHANING: Final = "orphan"
"""The finalizer of an object that is deleted without its dependents."""


def leaves_its_pods(obj: Mapping[str, Any]) -> bool:
    """Reports whether the set is being deleted without its pods."""
    meta = obj.get("metadata") or {}
    return bool(meta.get("deletionTimestamp")) and ORPHANING in (meta.get("finalizers") or ())


def is_left_behind(workload: Workload) -> bool:
    """Reports whether the Workload's set was deleted without its pods."""
    return COMPONENT_INDEX in workload.metadata.annotations and workload.owner is None


def kept_names(
    groups: Iterable[ReplicaGroup],
    memberships: Sequence[tuple[QueuedPod, PodMembership]],
    workloads: Sequence[Workload],
    behind: Sequence[Workload],
) -> tuple[dict[str, str], list[Workload]]:
    """Returns existing Workload names by the names that the set would give, and the Workloads to adopt.

    `workloads` are the set's; `behind` are those of its pods without a controller.
    """
    kept: dict[str, str] = {}
    taken: list[Workload] = []
    for group in groups:
        group_names = {
            pod.group for pod, membership in memberships if membership.workload == group.workload and pod.group
        }
        if group.workload in group_names:
            continue
        mine = [workload for workload in workloads if workload.metadata.name != group.workload]
        others = [workload for workload in behind if workload.metadata.name in group_names]
        leftover = next((workload for workload in (*mine, *others) if _is_of(workload, group)), None)
        if leftover is not None:
            kept[group.workload] = leftover.metadata.name
            taken += [leftover] if leftover in others else []
    return kept, taken


def _is_of(workload: Workload, group: ReplicaGroup) -> bool:
    """Reports whether the Workload is for that group and neither finished nor being deleted."""
    meta = workload.metadata
    going = bool(meta.deletion_timestamp) or is_true(workload.status.conditions, FINISHED)
    return not going and meta.annotations.get(COMPONENT_INDEX, _only_index(workload)) == str(group.index)


def _only_index(workload: Workload) -> str | None:
    """Returns the index of a StatefulSet's group, which Kueue does not write down."""
    owner = workload.set_owner
    return "0" if owner is not None and owner.kind == STATEFUL_SETS.kind else None
