"""Composes the Workload of a pod or group of pods, decides whether a Workload is theirs, and adds owners. Pure; part of
`pod_plan`.

A group's Workload has the group's name, so only its marker or its owners distinguish it from an unrelated Workload. Every
member is an owner, none the controller: the Workload is garbage collected after the last member. Of large groups only
`MAX_OWNERS` members are owners, since etcd limits the size of an object; these carry Stowage's finalizer and are released only
after other members have been added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from admission.controllers.jobs.context import JobContext
from admission.controllers.jobs.plan.workload import (
    adopted,
    copied_annotations,
    copied_labels,
    labels_of,
    uid_label,
    wanted_spec,
)
from admission.controllers.pods.actions import Action, AdoptWorkload
from admission.controllers.state.actions import PlannedEvent
from admission.integrations.names import workload_name
from admission.integrations.pods.pod import QueuedPod
from admission.integrations.pods.podgroup import PodUnit, UnlikePods
from admission.integrations.sets.sets import all_sets
from api import names
from api.kube.resources import PODS
from api.meta import ObjectMeta, OwnerReference
from api.workloads import PodSet, Workload, WorkloadSpec

MAX_OWNERS: Final = 256
DEPLOYMENT: Final = "deployment"


def composed(unit: PodUnit, owners: Sequence[QueuedPod], context: JobContext) -> Workload:
    """Returns a new Workload. Raises InvalidObject for unreadable or inconsistent pods, PriorityClassMissing."""
    meta = unit.first.metadata
    fields: dict[str, Any] = {"namespace": meta.namespace, "finalizers": (names.IN_USE_FINALIZER,)}
    annotations = _copied_annotations(unit, context)
    labels = _copied_labels(unit, context)
    if unit.group:
        annotations[names.IS_GROUP_WORKLOAD] = "true"
        fields |= {"name": unit.group, "owner_references": tuple(_member(pod) for pod in owners[:MAX_OWNERS])}
    else:
        fields["name"] = workload_name(PODS, meta.name, meta.uid, short=context.options.short_names)
        labels |= uid_label(meta.uid)
        fields["owner_references"] = (_controller(unit.first),)
        if unit.first.annotations.get(names.POD_SUSPENDING_PARENT) == DEPLOYMENT:
            annotations[names.POD_SUSPENDING_PARENT] = DEPLOYMENT  # for the words in which a wait is told
    if annotations:
        fields["annotations"] = annotations
    if labels:
        fields["labels"] = labels
    pod_sets = unit.pod_sets(topology=context.options.topology)
    return Workload(metadata=ObjectMeta(**fields), spec=spec_of(unit, pod_sets, context))


def _copied_labels(unit: PodUnit, context: JobContext) -> dict[str, str]:
    """Returns the labels that the pods pass to the Workload. Raises UnlikePods if they contradict each other."""
    return _common(unit, "label", [(pod, copied_labels(pod.labels, context)) for pod in unit.counting or unit.pods])


def _copied_annotations(unit: PodUnit, context: JobContext) -> dict[str, str]:
    """Returns the annotations that the pods pass to the Workload; Stowage's own come from the first pod."""
    keys = context.options.annotation_keys_to_copy
    values_by_pod = [
        (pod, {key: pod.annotations[key] for key in keys if key in pod.annotations})
        for pod in unit.counting or unit.pods
    ]
    return {**copied_annotations(unit.as_job(), context), **_common(unit, "annotation", values_by_pod)}


def _common(unit: PodUnit, what: str, values_by_pod: Iterable[tuple[QueuedPod, Mapping[str, str]]]) -> dict[str, str]:
    common: dict[str, str] = {}
    for pod, values in values_by_pod:
        for key, value in values.items():
            if common.setdefault(key, value) != value:
                given = f"{common[key]}, and {value} in pod {pod.metadata.name}"
                rule = f"the same in all pods that have it: pods have different {what} values"
                raise UnlikePods(f"metadata.{what}s[{key}]", given, rule, unit.group)
    return common


def spec_of(
    unit: PodUnit, pod_sets: tuple[PodSet, ...], context: JobContext, now: WorkloadSpec | None = None
) -> WorkloadSpec:
    """Returns the spec that the pods require; `now` is their Workload's spec, if any. Raises PriorityClassMissing."""
    spec = wanted_spec(unit.as_job(), None, pod_sets, context, now)
    if unit.priority is None:
        return spec
    return spec.model_copy(update={"priority": unit.priority, "priority_class_ref": None})


def priority_label(unit: PodUnit) -> str | None:
    """Returns the WorkloadPriorityClass that the pods name, or None."""
    return labels_of(unit.as_job()).get(names.PRIORITY_CLASS_LABEL)


def _member(pod: QueuedPod) -> OwnerReference:
    meta = pod.metadata
    return OwnerReference(api_version=PODS.api_version, kind=PODS.kind, name=meta.name, uid=meta.uid)


def _controller(pod: QueuedPod) -> OwnerReference:
    return _member(pod).model_copy(update={"controller": True, "block_owner_deletion": True})


def is_group_workload(workload: Workload) -> bool:
    """Reports whether a Workload with a group's name is the group's: marked so, owned by pods, or left to them by their set."""
    if workload.set_owner is not None:
        return False
    owners, annotations = workload.metadata.owner_references, workload.metadata.annotations
    left = names.COMPONENT_INDEX in annotations and not owners
    return left or names.IS_GROUP_WORKLOAD in annotations or any(_is_pod(owner) for owner in owners)


def ending_with(workload: Workload, pods: Sequence[QueuedPod]) -> tuple[QueuedPod, ...]:
    """Returns the pods that end with a Workload being deleted, its owners last.

    These are all pods, unless every pod that owned the Workload is gone: then it was garbage collected, and gated pods are
    replacements. While an owner remains to be ended, the other pods are known to belong to the Workload, also to a later
    leader that continues halfway.
    """
    owned_by_set = workload.set_owner is not None
    uids = {owner.uid for owner in workload.metadata.owner_references if _is_pod(owner) and not owned_by_set}
    owners = [pod for pod in pods if pod.metadata.uid in uids]
    others = [pod for pod in pods if pod.metadata.uid not in uids]
    if uids and all(pod.deleted for pod in owners):
        others = [pod for pod in others if not pod.gated]
    return (*others, *owners)


def _is_set(owner: OwnerReference) -> bool:
    return any((owner.api_version, owner.kind) == (k.resource.api_version, k.resource.kind) for k in all_sets())


def _is_pod(owner: OwnerReference) -> bool:
    return (owner.api_version, owner.kind) == (PODS.api_version, PODS.kind)


def adopt(unit: PodUnit, workload: Workload, members: Sequence[QueuedPod]) -> tuple[Action, ...]:
    """Returns the patch that makes the members owners of their Workload, as far as they are not and the list has room."""
    if not unit.group:
        return adopted(workload, _controller(unit.first))
    if workload.owner is not None and _is_set(workload.owner):
        return ()  # the Workload belongs to its set and stays when all pods are replaced
    known = {(owner.name, owner.uid) for owner in workload.metadata.owner_references}
    missing = [pod for pod in members if (pod.metadata.name, pod.metadata.uid) not in known]
    if not missing:
        return ()
    kept = _owners_that_stay(workload, unit, len(missing))
    added = [_member(pod) for pod in missing[: max(0, MAX_OWNERS - len(kept))]]
    if not added:
        return ()
    references = [reference.to_wire() for reference in (*kept, *added)]
    event = PlannedEvent("OwnerReferencesAdded", f"Added {len(added)} owner reference(s)")
    return (AdoptWorkload(workload, {"metadata": {"ownerReferences": references}}, (event,)),)


def _owners_that_stay(workload: Workload, unit: PodUnit, more: int) -> tuple[OwnerReference, ...]:
    """Returns all owners while the list has room, else owners that are no pods and members that exist."""
    owners = workload.metadata.owner_references
    if len(owners) + more <= MAX_OWNERS:
        return owners
    lasting = {pod.metadata.uid for pod in unit.pods if pod.lasting}
    return tuple(owner for owner in owners if not _is_pod(owner) or owner.uid in lasting)
