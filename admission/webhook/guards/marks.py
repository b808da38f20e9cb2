"""Gates and marks that only Stowage writes: on pods, and on the templates of jobs that it starts. Pure.

A pod's annotations name its Workload, and the label `podset` names its pod set. By these marks the ledger charges the pod to
the Workload, and the ungater gives the pod its place. A user can write them too: into a pod, or into the template of an object
that nobody admitted. So a new pod has marks only if its owners lead to a queued job, also where it waits at a gate: the ungater
would give it the place of another pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from admission.integrations.children import fault_of_descendant
from admission.integrations.registry import KINDS
from admission.integrations.sets.sets import SCALED
from admission.webhook.guards import owners
from admission.webhook.rules.fields import Errors, FieldPath, forbidden
from admission.webhook.rules.jobs import annotations_of, is_part, labels_of, queue_name
from admission.webhook.rules.review_rules import JOB_CONTROLLERS, GroupKind, ReviewRules
from admission.webhook.rules.template import Template
from api import names

Obj = Mapping[str, Any]

GATES: Final = (names.ADMISSION_GATE, *names.UNGATER_GATES)
IDENTITY: Final = (names.WORKLOAD_ANNOTATION, names.WORKLOAD_SLICE_NAME, names.TOPOLOGY_WORKLOAD, names.TOPOLOGY_PODSET)
"""Annotations that say to which Workload and pod set a pod belongs, beside the label `podset`."""

_METADATA: Final = FieldPath("metadata")
_ANNOTATIONS: Final = _METADATA.child("annotations")
_LABELS: Final = _METADATA.child("labels")


def marks_of(obj: Obj) -> dict[str, str]:
    """Returns the identity that the labels and annotations of a pod or template state."""
    marks = {key: value for key, value in annotations_of(obj).items() if key in IDENTITY}
    if names.PODSET_LABEL in labels_of(obj):
        marks[names.PODSET_LABEL] = labels_of(obj)[names.PODSET_LABEL]
    return marks


def is_marked(obj: Obj) -> bool:
    """Reports whether a pod or template states a part of an identity."""
    return bool(marks_of(obj))


def closed_gates(pod: Obj) -> frozenset[str]:
    """Returns the names of Stowage's gates that the pod or template has."""
    given = (pod.get("spec") or {}).get("schedulingGates") or ()
    return frozenset(gate.get("name") for gate in given) & frozenset(GATES)


def remove(obj: dict[str, Any]) -> None:
    """Removes the marks in place, from an object that is admitted by itself or not at all."""
    metadata = obj.get("metadata") or {}
    for key in IDENTITY:
        (metadata.get("annotations") or {}).pop(key, None)
    (metadata.get("labels") or {}).pop(names.PODSET_LABEL, None)


def complete(pod: dict[str, Any]) -> None:
    """Adds in place the label `podset` that a pod's annotations imply: updates are reviewed by that label."""
    pod_set = annotations_of(pod).get(names.TOPOLOGY_PODSET)
    if pod_set and names.PODSET_LABEL not in labels_of(pod):
        pod["metadata"]["labels"] = {**labels_of(pod), names.PODSET_LABEL: pod_set}


def is_claimed(obj: Obj) -> bool:
    """Reports whether a pod or template names a Workload."""
    return any(key in annotations_of(obj) for key in IDENTITY if key != names.TOPOLOGY_PODSET)


def owners_decide(pod: Obj, user: str, rules: ReviewRules) -> bool:
    """Reports whether the owners of a new pod decide about its marks: it names a Workload.

    Kubernetes' Job controller makes pods from a Job's template, which was reviewed itself. A pod that waits at a gate and whose
    controller is a job of a managed kind is compared with that job (owners.py).
    """
    if not is_claimed(pod) or user in JOB_CONTROLLERS:
        return False
    return not closed_gates(pod) or owners.claim(pod, rules, pod=True) is None


def validate_new(pod: Obj, ancestors: Sequence[Obj], user: str, rules: ReviewRules) -> Errors:
    """Returns the errors of a new pod's marks. `ancestors` are its controller, that one's controller, and so on, as read."""
    if is_claimed(pod) and names.PODSET_LABEL not in labels_of(pod):
        return [forbidden(_LABELS.key(names.PODSET_LABEL), "a pod that names a Workload names its pod set")]
    if not owners_decide(pod, user, rules):
        return []
    if is_of_queued_job(ancestors, rules):
        return _excess(pod, ancestors)
    return [
        forbidden(_ANNOTATIONS.key(key), "Stowage writes this on pods of queued jobs; no owner of this pod is one")
        for key in IDENTITY
        if key in annotations_of(pod)
    ]


def _excess(pod: Obj, ancestors: Sequence[Obj]) -> Errors:
    """Returns the error of a pod with which a set inside a job has more or larger pods than were admitted with the job."""
    top = ancestors[-1]
    kind = _kind_of(top)
    fault = fault_of_descendant(pod, ancestors[:-1], top, KINDS.get(kind))
    name = (top.get("metadata") or {}).get("name")
    return [forbidden(_METADATA.child("ownerReferences"), f"the {kind[1]} {name} {fault}")] if fault else []


def _kind_of(obj: Obj) -> GroupKind:
    return str(obj.get("apiVersion") or "").rpartition("/")[0], str(obj.get("kind") or "")


def validate_part(job: Obj, templates: Sequence[Template], ancestors: Sequence[Obj], rules: ReviewRules) -> Errors:
    """Returns the errors of the marks in the templates of a part of a job that is new or changes. `ancestors` as for a pod.

    Its owner's controller copies them from the owner's templates, which a user may have marked.
    """
    if not is_part(job, rules) or is_of_queued_job(ancestors, rules):
        return []
    return [
        forbidden(each.path.child("metadata", "annotations"), "Stowage writes marks for queued jobs; no owner is one")
        for each in templates
        if is_claimed(each.body)
    ]


def may_mark(job: Obj, rules: ReviewRules) -> bool:
    """Reports whether the job's templates may carry marks: it queues, or belongs to a job that is admitted as a whole."""
    return bool(queue_name(job)) or rules.manage_jobs_without_queue_name or is_part(job, rules)


def is_of_queued_job(ancestors: Sequence[Obj], rules: ReviewRules) -> bool:
    """Reports whether the topmost owner is a job of a managed kind that names a queue."""
    if not ancestors:
        return False
    top = ancestors[-1]
    kind = _kind_of(top)
    managed = KINDS.get(kind) is not None or SCALED.get(kind) is not None
    return managed and (bool(queue_name(top)) or rules.manage_jobs_without_queue_name)
