"""Owner references, labels and annotations of sets' Workloads, as Kueue writes and reads them. Pure; part of `setplan`.

Kueue and Stowage take over each other's Workloads without touching a pod only if both write the same: a StatefulSet or a
LeaderWorkerSet owns its Workload without being its controller, since its pods become owners too, and the Workload is marked
as that of a group of pods. Workloads of earlier releases are corrected. Kueue knows no set that a JobKind declares by its
scale: such a set is the controller of its Workloads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admission.controllers.jobs.plan.workload import uid_label
from admission.controllers.state.actions import PatchWorkload
from admission.integrations.sets.sets import SetKind
from api import names
from api.kube.resources import Resource
from api.meta import OwnerReference
from api.workloads import Workload, is_set


def owner_reference(kind: SetKind, obj: Mapping[str, Any]) -> OwnerReference:
    """Returns the set's owner reference."""
    meta, resource = obj["metadata"], kind.resource
    owner = OwnerReference(
        api_version=resource.api_version, kind=resource.kind, name=meta["name"], uid=meta.get("uid", "")
    )
    return owner if is_set(owner) else owner.model_copy(update={"controller": True, "block_owner_deletion": True})


def annotations_of_set(kind: SetKind, obj: Mapping[str, Any], index: int) -> dict[str, str]:
    """Returns the annotations of the Workload of the set's group with this index."""
    own = {names.COMPONENT_INDEX: str(index)}
    if not is_set(owner_reference(kind, obj)):
        return own
    return {
        names.IS_GROUP_WORKLOAD: "true",
        names.JOB_OWNER_GVK: _gvk(kind.resource),
        names.JOB_OWNER_NAME: obj["metadata"]["name"],
        **own,
    }


def _gvk(resource: Resource) -> str:
    """Returns the kind as Go prints a GroupVersionKind."""
    return f"{resource.api_version}, Kind={resource.kind}"


def corrected(kind: SetKind, obj: Mapping[str, Any], index: int, workload: Workload) -> tuple[PatchWorkload, ...]:
    """Returns the patch of an existing Workload whose owner references, labels or annotations are otherwise."""
    own, meta = owner_reference(kind, obj), workload.metadata
    patch: dict[str, Any] = {}
    owners = tuple(own if owner.uid == own.uid else owner for owner in meta.owner_references)
    if owners != meta.owner_references:
        patch["ownerReferences"] = [owner.to_wire() for owner in owners]
    for part, present, wanted in (
        ("labels", meta.labels, uid_label(own.uid)),
        ("annotations", meta.annotations, annotations_of_set(kind, obj, index)),
    ):
        if missing := {key: value for key, value in wanted.items() if present.get(key) != value}:
            patch[part] = missing
    return (PatchWorkload(workload, {"metadata": patch}),) if patch else ()
