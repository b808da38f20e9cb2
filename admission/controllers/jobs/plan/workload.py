"""Composes a job's Workload, resolves its priority, and keeps it in step with the job. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from admission.controllers.jobs.context import JobContext, JobOptions
from admission.controllers.jobs.plan.elastic import first_request, marked, pod_sets_of
from admission.controllers.jobs.plan.equivalence import normal
from admission.controllers.state.actions import PatchWorkload, PlannedEvent
from admission.engine import features
from admission.integrations.base import Job, JobIntegration, as_prioritized, as_selective
from admission.integrations.exclusive import EXCLUSIVE, exclusive_annotations
from admission.integrations.names import workload_name
from api import names
from api.annotations import of_features
from api.annotations.requests import parse_int32
from api.errors import StowageError
from api.merge import merge_diff
from api.meta import ObjectMeta, OwnerReference, object_key
from api.workloads import PodSet, PriorityClassRef, Workload, WorkloadSpec

_SCHEDULING_GROUP: Final = "scheduling.k8s.io"
_COPIED_PREFIX: Final = "provreq.kueue.x-k8s.io/"
_LABEL_VALUE: Final = re.compile(r"(?=.{0,63}$)([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_COPIED: Final[tuple[str, ...]] = (
    names.ADMISSION_GATED_BY,
    names.PLACEMENT_PROFILE,
    names.RESERVATION,
    *of_features.KEYS_OF_JOBS,
)
_COPIED_ONCE: Final = (names.TRACE_CONTEXT,)
"""Only when the Workload is composed: a later change by the user has no effect."""


class PriorityClassMissing(StowageError):
    """The job names a class that does not exist; `kind` is PriorityClass or WorkloadPriorityClass."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind, self.name = kind, name
        super().__init__(f'{kind} "{name}" not found')


def labels_of(job: Job) -> Mapping[str, str]:
    """Returns the job's labels."""
    return (job.get("metadata") or {}).get("labels") or {}


def annotations_of(job: Job) -> Mapping[str, str]:
    """Returns the job's annotations."""
    return (job.get("metadata") or {}).get("annotations") or {}


def owner_reference(job: Job, kind: JobIntegration) -> OwnerReference:
    """Returns the owner reference that makes the job the controller of its Workload."""
    meta = job["metadata"]
    return OwnerReference(
        api_version=kind.resource.api_version,
        kind=kind.resource.kind,
        name=meta["name"],
        uid=meta.get("uid", ""),
        controller=True,
        block_owner_deletion=True,
    )


def is_managed(job: Job, context: JobContext) -> bool:
    """Reports whether Stowage manages the job: its namespace is managed, and it names a queue or need not do so."""
    options, namespace = context.options, (job.get("metadata") or {}).get("namespace") or ""
    named = bool(labels_of(job).get(names.QUEUE_NAME_LABEL))
    return (named or options.manage_jobs_without_queue_name) and options.namespace_managed(namespace)


def has_left(job: Job, options: JobOptions) -> bool:
    """Reports whether a job that may once have queued names no queue any more, in a namespace that is managed."""
    named = labels_of(job).get(names.QUEUE_NAME_LABEL) or options.manage_jobs_without_queue_name
    return not named and options.namespace_managed((job.get("metadata") or {}).get("namespace") or "")


def prebuilt_key(job: Job) -> str | None:
    """Returns the key of the prebuilt Workload that the job names, or None."""
    name = annotations_of(job).get(names.PREBUILT_WORKLOAD) or labels_of(job).get(names.PREBUILT_WORKLOAD)
    return object_key((job.get("metadata") or {}).get("namespace"), name) if name else None


def composed(job: Job, kind: JobIntegration, context: JobContext, extra: str = "") -> Workload:
    """Returns a new Workload for the job. Raises InvalidObject for an unreadable job, PriorityClassMissing.

    `extra` distinguishes the name from those of the job's other Workloads.
    """
    meta, options = job["metadata"], context.options
    uid = meta.get("uid", "")
    fields: dict[str, Any] = {
        "name": workload_name(kind.resource, meta["name"], uid, extra=extra, short=options.short_names),
        "namespace": meta.get("namespace"),
        "labels": {**copied_labels(labels_of(job), context), **uid_label(uid)},
        "finalizers": (names.IN_USE_FINALIZER,),
        "owner_references": (owner_reference(job, kind),),
    }
    if copied := {**copied_annotations(job, context, kind), **marked(job, kind, options)}:
        fields["annotations"] = copied
    pod_sets = first_request(job, kind, pod_sets_of(job, kind, options), options)
    return Workload(metadata=ObjectMeta(**fields), spec=wanted_spec(job, kind, pod_sets, context))


def uid_label(uid: str) -> dict[str, str]:
    """Returns the label with the owner's uid, or nothing if the uid, which a client may have written, is no label value."""
    return {names.JOB_UID_LABEL: uid} if _LABEL_VALUE.fullmatch(uid) else {}


def copied_annotations(job: Job, context: JobContext, kind: JobIntegration | None = None) -> dict[str, str]:
    """Returns the annotations of the job, and of its parts, that are copied to its Workload."""
    keys = {*_copied(), *_COPIED_ONCE, *context.options.annotation_keys_to_copy}
    own = {k: v for k, v in annotations_of(job).items() if k in keys or k.startswith(_COPIED_PREFIX)}
    return {**own, **_exclusive(job, kind)}


def _copied() -> tuple[str, ...]:
    """Returns the annotations that a Workload always has as its job has them."""
    return _COPIED + features.read_annotations()


def _exclusive(job: Job, kind: JobIntegration | None) -> dict[str, str]:
    selective = as_selective(kind) if kind is not None else None
    return exclusive_annotations(job, selective.reference(job) if selective is not None else None)


def copied_labels(labels: Mapping[str, str], context: JobContext) -> dict[str, str]:
    """Returns the labels that are copied to a Workload."""
    return {key: labels[key] for key in context.options.label_keys_to_copy if key in labels}


def wanted_spec(
    job: Job,
    kind: JobIntegration | None,
    pod_sets: tuple[PodSet, ...],
    context: JobContext,
    now: WorkloadSpec | None = None,
) -> WorkloadSpec:
    """Returns the Workload spec that the job requires; `now` is the present spec, if any. Raises PriorityClassMissing.

    For pods `kind` is None: their labels and templates state everything.
    """
    ref, priority = resolved_priority(job, kind, pod_sets, context, now)
    fields: dict[str, Any] = {"pod_sets": pod_sets}
    if priority is not None:
        fields["priority"] = priority
    if queue := labels_of(job).get(names.QUEUE_NAME_LABEL):
        fields["queue_name"] = queue
    if ref is not None:
        fields["priority_class_ref"] = ref
    if seconds := max_execution_seconds(job):
        fields["maximum_execution_time_seconds"] = seconds
    return WorkloadSpec(**fields)


def max_execution_seconds(job: Job) -> int | None:
    """Parses the job's time limit label; a value that is not positive is ignored, as validation rejects it."""
    seconds = parse_int32(labels_of(job).get(names.MAX_EXEC_TIME_LABEL, ""))
    return seconds if seconds and seconds > 0 else None


def resolved_priority(
    job: Job,
    kind: JobIntegration | None,
    pod_sets: tuple[PodSet, ...],
    context: JobContext,
    now: WorkloadSpec | None = None,
) -> tuple[PriorityClassRef | None, int | None]:
    """Resolves the WorkloadPriorityClass label, else the job's class, the first template's, the cluster's default, or 0.

    An existing Workload keeps its class and priority until the job names another class: deleting or changing a class affects
    no existing Workload. A Workload with its pods' PriorityClass keeps that class, even if a WorkloadPriorityClass is named
    later, until the pods have another one.
    """
    label = labels_of(job).get(names.PRIORITY_CLASS_LABEL)
    naming = as_prioritized(kind) if kind else None
    own = naming.priority_class(job) if naming else None
    pods = own or _template_class(pod_sets)
    name = label or pods
    ref = now.priority_class_ref if now is not None else None
    kept = ref is not None and ref.group == _SCHEDULING_GROUP and pods in ("", ref.name)
    if now is not None and (kept or name in ("", ref.name if ref else "")):
        return ref, now.priority
    if label:
        return _of_workload_class(label, context)
    return _of_pod_class(name, context)


def _of_workload_class(name: str, context: JobContext) -> tuple[PriorityClassRef, int]:
    priority_class = context.workload_priority_classes.get(name)
    if priority_class is None:
        raise PriorityClassMissing("WorkloadPriorityClass", name)
    return PriorityClassRef(group=names.GROUP, kind="WorkloadPriorityClass", name=name), priority_class.value


def _of_pod_class(name: str, context: JobContext) -> tuple[PriorityClassRef | None, int]:
    classes = context.priority_classes
    if not name:
        name = next((key for key, value in sorted(classes.items()) if value.get("globalDefault")), "")
    if not name:
        return None, 0
    if name not in classes:
        raise PriorityClassMissing("PriorityClass", name)
    ref = PriorityClassRef(group=_SCHEDULING_GROUP, kind="PriorityClass", name=name)
    return ref, int(classes[name].get("value") or 0)


def _template_class(pod_sets: tuple[PodSet, ...]) -> str:
    names = ((pod_set.template.get("spec") or {}).get("priorityClassName") for pod_set in pod_sets)
    return next((name for name in names if name), "")


def spec_patch(
    workload: Workload, job: Job, wanted: WorkloadSpec, kind: JobIntegration | None = None
) -> dict[str, Any]:
    """Returns the merge patch that updates the Workload's metadata and spec to the job's; empty if they are equal."""
    old, new = workload.spec.to_wire(), wanted.to_wire()
    # Fields that the job does not set, such as active, keep their values.
    fields = ("podSets", "queueName", "priority", "priorityClassRef", "maximumExecutionTimeSeconds")
    spec = merge_diff({key: old[key] for key in fields if key in old}, new)
    if "podSets" in spec and normal(old.get("podSets")) == normal(new["podSets"]):
        del spec["podSets"]
    patch: dict[str, Any] = {"spec": spec} if spec else {}
    exclusive = _differing(workload, _exclusive(job, kind), EXCLUSIVE)
    if changed := {**changed_annotations(workload, job, _copied()), **exclusive}:
        patch["metadata"] = {"annotations": changed}
    return patch


def changed_annotations(workload: Workload, job: Job, keys: Iterable[str]) -> dict[str, str | None]:
    """Returns the job's values of those keys that its Workload has otherwise; None for what the job no longer has."""
    return _differing(workload, annotations_of(job), keys)


def _differing(workload: Workload, wanted: Mapping[str, str], keys: Iterable[str]) -> dict[str, str | None]:
    copied = workload.metadata.annotations
    return {key: wanted.get(key) for key in keys if wanted.get(key) != copied.get(key)}


def another_owner(workload: Workload, uid: str) -> PlannedEvent | None:
    """Returns the event that names the Workload's owner, if that is another object than the one with the UID."""
    owner = workload.owner
    if owner is None or owner.uid == uid:
        return None
    text = f'prebuilt Workload "{workload.key}" belongs to the {owner.kind} {owner.name}'
    return PlannedEvent("PrebuiltWorkloadNotFound", text, "Warning")


def adopted(workload: Workload, owner: OwnerReference) -> tuple[PatchWorkload, ...]:
    """Returns the patch that makes the job, pod or set its owner, unless it already has one."""
    if workload.owner is not None:
        return ()
    references = [reference.to_wire() for reference in (*workload.metadata.owner_references, owner)]
    return (PatchWorkload(workload, {"metadata": {"ownerReferences": references, "labels": uid_label(owner.uid)}}),)
