"""Validation that all kinds of jobs share.

A user may always unsuspend a job: its pods are gated if it requests a topology, and the controller suspends it again. A
child of another managed job (a JobSet's Job) is not validated: its templates carry annotations of the parent.

Pure; reviewed_jobs.py calls it, job.py and jobset.py describe the kinds, and defaults.py completes new jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from admission.integrations.declared.expressions import suspends
from admission.integrations.paths import value_at
from admission.webhook.rules import annotations as topology
from admission.webhook.rules import exclusive_topology, gangs, gates, placement_annotations, schedulers
from admission.webhook.rules.annotations import QueueLevels
from admission.webhook.rules.fields import Errors, FieldPath, forbidden, invalid, unchanged
from admission.webhook.rules.formats import subdomain
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from admission.webhook.rules.template import Template
from api import names
from api.annotations.requests import parse_int32

Job = dict[str, Any]

_METADATA: Final = FieldPath("metadata")
_LABELS: Final = _METADATA.child("labels")
_ANNOTATIONS: Final = _METADATA.child("annotations")
_QUEUE: Final = _LABELS.key(names.QUEUE_NAME_LABEL)
_MAX_TIME: Final = _LABELS.key(names.MAX_EXEC_TIME_LABEL)
_OUR_GATES: Final = set(names.UNGATER_GATES)
_PRIORITY: Final = _LABELS.key(names.PRIORITY_CLASS_LABEL)


@dataclass(frozen=True, slots=True)
class ReviewedKind:
    """How the webhook reviews one kind of job."""

    controller: str
    """The value that stands for the kind's own controller."""
    templates: Callable[[Job], list[Template]]
    create: Callable[[Job, Sequence[Template], ReviewRules], Errors]
    """Returns errors of a new job that are specific to the kind."""
    update: Callable[[Job, Job], Errors]
    """Returns errors of a changed job that are specific to the kind."""
    suspend: tuple[str, ...] = ("spec", "suspend")
    """The path of the suspending field."""
    suspended: Any = True
    """The value that suspends."""
    managed_by: tuple[str, ...] = ("spec", "managedBy")
    """The path of the managing controller's name."""
    is_skipped: Callable[[Job], bool] = lambda job: False
    """Reports that a job is not managed although it names a queue."""
    of_request: frozenset[str] = frozenset()
    """Annotations that are judged by the number of pods that the job asks for, not by that with which it runs."""

    def is_suspended(self, job: Mapping[str, Any]) -> bool:
        """Reports whether the job's spec suspends it."""
        return suspends(value_at(job, self.suspend), self.suspended)


def labels_of(job: Mapping[str, Any]) -> Mapping[str, str]:
    """Returns metadata.labels, or an empty mapping."""
    return (job.get("metadata") or {}).get("labels") or {}


def annotations_of(job: Mapping[str, Any]) -> Mapping[str, str]:
    """Returns metadata.annotations, or an empty mapping."""
    return (job.get("metadata") or {}).get("annotations") or {}


def queue_name(job: Mapping[str, Any]) -> str:
    """Returns the LocalQueue that the job names, or an empty string."""
    return labels_of(job).get(names.QUEUE_NAME_LABEL, "")


def is_part(job: Mapping[str, Any], rules: ReviewRules) -> bool:
    """Reports whether a managed job controls this job, which is then admitted as part of it."""
    owners = (job.get("metadata") or {}).get("ownerReferences") or ()
    controllers = (owner for owner in owners if owner.get("controller"))
    return any(rules.is_managed_owner((o.get("apiVersion", "").rpartition("/")[0], o.get("kind"))) for o in controllers)


def prebuilt_workload(job: Mapping[str, Any]) -> tuple[FieldPath, str]:
    """Returns the field and name of a prebuilt Workload (empty for none). The annotation takes precedence over the label."""
    annotation = annotations_of(job).get(names.PREBUILT_WORKLOAD, "")
    if annotation:
        return _ANNOTATIONS.key(names.PREBUILT_WORKLOAD), annotation
    return _LABELS.key(names.PREBUILT_WORKLOAD), labels_of(job).get(names.PREBUILT_WORKLOAD, "")


def validate_create(
    job: Job, kind: ReviewedKind, rules: ReviewRules, levels: QueueLevels | None = None, old: Job | None = None
) -> Errors:
    """Returns the errors of a new job. `levels` holds the levels of its queue's flavors, or None if not all are known.

    `old` is the previous version of a job that already named a queue; schedulers that it had are not validated again.
    """
    if is_part(job, rules) or kind.is_skipped(job):
        return []
    templates = kind.templates(job)
    errors = [*_queue(job), *_max_time(job), *_prebuilt(job, rules)]
    if rules.gates.admission_gated_by:
        errors += gates.validate(job.get("metadata") or {})
    if queue_name(job):
        errors += schedulers.validate_templates(templates, [] if old is None else kind.templates(old), rules)
        errors += [error for each in templates for error in gangs.validate_template(each.path, each.body)]
    if rules.gates.topology_aware_scheduling:
        errors += _topology(job, templates, rules, levels)
    return [*errors, *kind.create(job, templates, rules)]


def queue_levels(job: Job, namespace: str, lookups: Lookups) -> QueueLevels | None:
    """Returns the levels of the job's queue, or None if the queue or one of its flavors is unknown."""
    queue = lookups.cluster_queue_of(namespace, queue_name(job))
    levels = lookups.levels_of(queue) if queue else None
    return None if queue is None or levels is None else QueueLevels(queue.metadata.name, levels)


def with_profile(rules: ReviewRules, job: Job, namespace: str, lookups: Lookups) -> ReviewRules:
    """Returns `rules` with the job's placement profile: from its annotation, else from its queue if that is known."""
    key = names.PLACEMENT_PROFILE
    queue = lookups.cluster_queue_of(namespace, queue_name(job))
    named = annotations_of(job).get(key) or (queue.metadata.annotations.get(key) if queue else None)
    return rules if named is None else replace(rules, profile=named)


def requests_again(old: Job, new: Job, kind: ReviewedKind) -> bool:
    """Reports whether an update changes the queue or any annotation, since annotations may name levels."""
    return queue_name(old) != queue_name(new) or _topology_annotations(old, kind) != _topology_annotations(new, kind)


def _topology_annotations(job: Job, kind: ReviewedKind) -> list[Mapping[str, str]]:
    return [annotations_of(job), *(template.annotations for template in kind.templates(job))]


def _topology(job: Job, templates: Sequence[Template], rules: ReviewRules, levels: QueueLevels | None) -> Errors:
    annotations = annotations_of(job)
    errors = [
        *topology.first_forms(_METADATA, annotations, levels),
        *placement_annotations.refinements(_METADATA, annotations),
    ]
    errors += placement_annotations.profile(_METADATA, annotations)
    errors += placement_annotations.features_of_job(_METADATA, annotations)
    for template in templates:
        errors += placement_annotations.refinements(template.metadata, template.annotations)
        errors += topology.first_forms(template.metadata, template.annotations, levels)
        errors += topology.template_annotations(
            template.metadata,
            template.annotations,
            annotations,
            multi_layer=rules.placement.multi_layer,
            exact=rules.exact,
        )
    if errors:
        return errors
    errors = exclusive_topology.validate(job, templates, levels)
    errors += [e for t in templates for e in topology.slice_bound(t.metadata, t.annotations, t.count)]
    return [*errors, *placement_annotations.combinations(_METADATA, annotations, templates)]


def _queue(job: Job) -> Errors:
    name = labels_of(job).get(names.QUEUE_NAME_LABEL)
    return subdomain(_QUEUE, name) if name else []


def _prebuilt(job: Job, rules: ReviewRules) -> Errors:
    path, name = prebuilt_workload(job)
    return subdomain(path, name) if name else []


def _max_time(job: Job) -> Errors:
    text = labels_of(job).get(names.MAX_EXEC_TIME_LABEL)
    if text is None:
        return []
    seconds, errors = integer(_MAX_TIME, text)
    if seconds is not None and seconds <= 0:
        return [invalid(_MAX_TIME, seconds, "should be greater than 0")]
    return errors


def integer(field: FieldPath, text: str) -> tuple[int | None, Errors]:
    """Parses a 32-bit integer in a label or annotation. Returns None and an error if the text is not one."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if digits.isascii() and digits.isdigit():
        number = parse_int32(text)
        return number, [] if number is not None else [invalid(field, text, "must be a number of 32 bits")]
    return None, [invalid(field, text, f'strconv.Atoi: parsing "{text}": invalid syntax')]


# ---- change


def validate_update(
    old: Job, new: Job, kind: ReviewedKind, rules: ReviewRules, levels: QueueLevels | None = None
) -> Errors:
    """Returns the errors of an update; none while the job is being deleted, so that its finalizers can be removed."""
    if is_part(new, rules) or (new.get("metadata") or {}).get("deletionTimestamp"):
        return []
    errors = validate_create(new, kind, rules, levels, old if queue_name(old) else None)
    if not kind.is_suspended(new):
        judged = {
            _ANNOTATIONS.key(key)
            for key in kind.of_request
            if annotations_of(old).get(key) == annotations_of(new).get(key)
        }
        errors = [error for error in errors if error.field not in judged]
    if not kind.is_suspended(new):
        errors += unchanged(_QUEUE, queue_name(new), queue_name(old))
    if not (kind.is_suspended(old) and kind.is_suspended(new)):
        errors += _frozen_while_running(old, new, rules)
    errors += _priority_class(old, new, kind)
    errors += _left_gated(old, new, kind)
    if rules.gates.admission_gated_by:
        errors += gates.validate_update(old.get("metadata") or {}, new.get("metadata") or {})
    return [*errors, *kind.update(old, new)]


def _left_gated(old: Job, new: Job, kind: ReviewedKind) -> Errors:
    """Returns the errors of gates that a job keeps when it leaves its queue: nothing would open them."""
    if not queue_name(old) or queue_name(new):
        return []
    text = "a job that names no queue waits at it for ever: remove the gate in the same update"
    return [
        forbidden(template.path.child("spec", "schedulingGates"), f"{gate}: {text}")
        for template in kind.templates(new)
        for gate in sorted(
            _OUR_GATES & {each.get("name") for each in (template.body.get("spec") or {}).get("schedulingGates") or ()}
        )
    ]


def _frozen_while_running(old: Job, new: Job, rules: ReviewRules) -> Errors:
    path, name = prebuilt_workload(new)
    key = names.MAX_EXEC_TIME_LABEL
    return [
        *unchanged(path, name, prebuilt_workload(old)[1]),
        *unchanged(_MAX_TIME, labels_of(new).get(key, ""), labels_of(old).get(key, "")),
    ]


def _priority_class(old: Job, new: Job, kind: ReviewedKind) -> Errors:
    before, after = labels_of(old).get(names.PRIORITY_CLASS_LABEL), labels_of(new).get(names.PRIORITY_CLASS_LABEL)
    if before and not after:
        return [invalid(_PRIORITY, "", "WorkloadPriorityClass cannot be removed from a workload")]
    if after and not before and not kind.is_suspended(new):
        return [invalid(_PRIORITY, after, "WorkloadPriorityClass cannot be added to a non-suspended workload")]
    return []
