"""The Workload that belongs to a job: how it is composed, which priority it gets, whether it still fits the job. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from admission.controllers.jobs_surroundings import Surroundings
from admission.integrations.base import Job, JobKind, Prioritized, merge_diff
from admission.integrations.names import workload_name
from api import names
from api.errors import StowageError
from api.meta import ObjectMeta, OwnerReference
from api.requests import parse_int32
from api.workloads import PodSet, PriorityClassRef, Workload, WorkloadSpec

_SCHEDULING_GROUP: Final = "scheduling.k8s.io"
_COPIED_PREFIX: Final = "provreq.kueue.x-k8s.io/"
_COPIED: Final = frozenset((names.ADMISSION_GATED_BY,))

# What of a template decides where its pods may run and what they take.
_SHAPE: Final = ("containers", "initContainers", "resources", "overhead", "runtimeClassName", "affinity")


class PriorityClassMissing(StowageError):
    """The job names a class that does not exist; `kind` says which of the two kinds."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind, self.name = kind, name
        super().__init__(f'{kind} "{name}" not found')


def labels_of(job: Job) -> Mapping[str, str]:
    """The job's own labels."""
    return (job.get("metadata") or {}).get("labels") or {}


def annotations_of(job: Job) -> Mapping[str, str]:
    """The job's own annotations."""
    return (job.get("metadata") or {}).get("annotations") or {}


def owner_reference(job: Job, kind: JobKind) -> OwnerReference:
    """The reference that makes the job the controller of its Workload."""
    meta = job["metadata"]
    return OwnerReference(
        api_version=kind.resource.api_version,
        kind=kind.resource.kind,
        name=meta["name"],
        uid=meta.get("uid", ""),
        controller=True,
        block_owner_deletion=True,
    )


def composed(job: Job, kind: JobKind, surroundings: Surroundings) -> Workload:
    """A new Workload for the job. Raises InvalidObject for a job that cannot be read, PriorityClassMissing."""
    meta, options = job["metadata"], surroundings.options
    uid = meta.get("uid", "")
    fields: dict[str, Any] = {
        "name": workload_name(kind.resource, meta["name"], uid, short=options.short_names),
        "namespace": meta.get("namespace"),
        "labels": {names.JOB_UID_LABEL: uid},
        "finalizers": (names.IN_USE_FINALIZER,),
        "owner_references": (owner_reference(job, kind),),
    }
    if copied := copied_annotations(job):
        fields["annotations"] = copied
    return Workload(metadata=ObjectMeta(**fields), spec=wanted_spec(job, kind, surroundings))


def copied_annotations(job: Job) -> dict[str, str]:
    """The job's annotations that its Workload carries too."""
    return {k: v for k, v in annotations_of(job).items() if k in _COPIED or k.startswith(_COPIED_PREFIX)}


def wanted_spec(job: Job, kind: JobKind, surroundings: Surroundings) -> WorkloadSpec:
    """The spec that the job asks for. Raises as `composed`."""
    pod_sets = kind.pod_sets(job, topology=surroundings.options.topology)
    ref, priority = resolved_priority(job, kind, pod_sets, surroundings)
    fields: dict[str, Any] = {"pod_sets": pod_sets, "priority": priority}
    if queue := labels_of(job).get(names.QUEUE_NAME_LABEL):
        fields["queue_name"] = queue
    if ref is not None:
        fields["priority_class_ref"] = ref
    if seconds := max_execution_seconds(job):
        fields["maximum_execution_time_seconds"] = seconds
    return WorkloadSpec(**fields)


def max_execution_seconds(job: Job) -> int | None:
    """From the job's label; what is no positive number asks for nothing (validation refuses it)."""
    seconds = parse_int32(labels_of(job).get(names.MAX_EXEC_TIME_LABEL, ""))
    return seconds if seconds and seconds > 0 else None


def resolved_priority(
    job: Job, kind: JobKind, pod_sets: tuple[PodSet, ...], surroundings: Surroundings
) -> tuple[PriorityClassRef | None, int]:
    """WorkloadPriorityClass of the label, else the job's own class, the first template's, the cluster's default, 0."""
    if name := labels_of(job).get(names.PRIORITY_CLASS_LABEL):
        found = surroundings.workload_priority_classes.get(name)
        if found is None:
            raise PriorityClassMissing("WorkloadPriorityClass", name)
        return PriorityClassRef(group=names.GROUP, kind="WorkloadPriorityClass", name=name), found.value
    name = (kind.priority_class(job) if isinstance(kind, Prioritized) else None) or _template_class(pod_sets)
    classes = surroundings.priority_classes
    if not name:
        name = next((key for key, value in sorted(classes.items()) if value.get("globalDefault")), "")
    if not name:
        return None, 0
    if name not in classes:
        raise PriorityClassMissing("PriorityClass", name)
    ref = PriorityClassRef(group=_SCHEDULING_GROUP, kind="PriorityClass", name=name)
    return ref, int(classes[name].get("value") or 0)


def _template_class(pod_sets: tuple[PodSet, ...]) -> str:
    found = ((pod_set.template.get("spec") or {}).get("priorityClassName") for pod_set in pod_sets)
    return next((name for name in found if name), "")


def spec_patch(workload: Workload, job: Job, wanted: WorkloadSpec) -> dict[str, Any]:
    """The merge patch of metadata and spec that makes the Workload the job's; empty when it is."""
    old, new = workload.spec.to_wire(), wanted.to_wire()
    # Fields that the job does not say stay: active, preemption gates.
    said = ("podSets", "queueName", "priority", "priorityClassRef", "maximumExecutionTimeSeconds")
    spec = merge_diff({key: old[key] for key in said if key in old}, new)
    if "podSets" in spec and normal(old.get("podSets")) == normal(new["podSets"]):
        del spec["podSets"]
    patch: dict[str, Any] = {"spec": spec} if spec else {}
    gates = names.ADMISSION_GATED_BY
    if (wanted_gates := annotations_of(job).get(gates)) != workload.metadata.annotations.get(gates):
        patch["metadata"] = {"annotations": {gates: wanted_gates}}
    return patch


def same_pod_sets(one: tuple[PodSet, ...], other: tuple[PodSet, ...]) -> bool:
    """Whether they ask for the same, to the last label."""
    return normal([p.to_wire() for p in one]) == normal([p.to_wire() for p in other])


def started_pod_sets(running: tuple[PodSet, ...], workload: Workload) -> bool:
    """Whether these can be the Workload's pod sets as they were started: same pods, and nothing taken away.

    What was added at the start is not held against them: flavors may have changed since.
    """
    admission = workload.status.admission
    if admission is None or [p.name for p in running] != [p.name for p in workload.spec.pod_sets]:
        return False
    counts = {psa.name: psa.count for psa in admission.pod_set_assignments}
    return all(
        now.count == _started_count(was, counts.get(was.name)) and _started_template(now.template, was.template)
        for now, was in zip(running, workload.spec.pod_sets, strict=True)
    )


def _started_count(pod_set: PodSet, admitted: int | None) -> int:
    return admitted if pod_set.min_count and admitted is not None else pod_set.count


def _started_template(now: Mapping[str, Any], was: Mapping[str, Any]) -> bool:
    spec, old = now.get("spec") or {}, was.get("spec") or {}
    if any(normal(spec.get(field)) != normal(old.get(field)) for field in _SHAPE):
        return False
    selector, tolerations = spec.get("nodeSelector") or {}, spec.get("tolerations") or []
    return all(selector.get(key) == value for key, value in (old.get("nodeSelector") or {}).items()) and all(
        toleration in tolerations for toleration in old.get("tolerations") or ()
    )


def normal(value: Any) -> Any:
    """Without nulls, empty maps and empty lists, at any depth: they mean the same as what is absent."""
    if isinstance(value, Mapping):
        items = ((key, normal(item)) for key, item in value.items())
        return {key: item for key, item in items if item is not None and item != {} and item != []}
    if isinstance(value, list | tuple):
        return [normal(item) for item in value]
    return value
