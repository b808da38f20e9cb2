"""Rules that StatefulSet and LeaderWorkerSet share: marking of their pod templates, and immutable fields.

The set is not suspended; its pods are gated. If a set names a queue, the webhook marks its templates as Kueue does, so that
either may complete what the other has marked without a change that would restart all pods: an annotation says that a
controller above the pods admits them, and the templates of a LeaderWorkerSet name the queue and the priority class. The
controller names a pod's group later (controllers/pods/sets/sets.py): the Workload's name depends on the set's uid, and a
template that changed with the number of pods would restart all of them. Group names in a template (copied from another set) are
removed. Templates that name a gang of another dialect keep it and get only the queue.

The queue is immutable once a pod is ready. The requests of its pods are immutable while it has pods. Pure; statefulset.py
and leaderworkerset.py call it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from admission.integrations.pods.pod import role_hash
from admission.webhook.rules import gangs, jobs, schedulers
from admission.webhook.rules.defaults import in_managed_namespace
from admission.webhook.rules.fields import IMMUTABLE, OMIT, Errors, FieldPath, invalid, unchanged
from admission.webhook.rules.jobs import ReviewedKind, labels_of, queue_name
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from admission.webhook.rules.template import Template
from api import names

Set = dict[str, Any]

MOST: Final = 2**31 - 1
_LABELS: Final = FieldPath("metadata").child("labels")
_QUEUE: Final = _LABELS.key(names.QUEUE_NAME_LABEL)
_PRIORITY: Final = _LABELS.key(names.PRIORITY_CLASS_LABEL)
_PROPAGATED: Final = (names.QUEUE_NAME_LABEL, names.PRIORITY_CLASS_LABEL)
_WRITTEN_LATER: Final = (
    names.POD_GROUP_NAME,
    names.POD_GROUP_TOTAL_COUNT,
    names.PREBUILT_WORKLOAD,
    names.ROLE_HASH,
    names.POD_INDEX_OFFSET,
    names.SET_NAME,
)


def is_managed(obj: Mapping[str, Any], namespace: str, lookups: Lookups, rules: ReviewRules) -> bool:
    """Reports whether the set is managed: it names a queue, in a managed namespace."""
    return bool(queue_name(obj)) and in_managed_namespace(namespace, lookups, rules)


def mark(
    template: dict[str, Any],
    before: Mapping[str, Any],
    obj: Mapping[str, Any],
    annotations: Mapping[str, str],
    namespace: str,
    *,
    labels: bool = True,
) -> None:
    """Marks a pod template in place with `annotations`; `before` is the stored template, or empty.

    `labels` writes the set's queue and priority class into the template. Marks of an earlier release stay, with the set's
    values: a template that changed would restart all pods.
    """
    metadata = template["metadata"] = template.get("metadata") or {}
    own, present = labels_of(obj), metadata.get("labels") or {}
    gang = gangs.reading(template, namespace).gang is not None
    passed = [key for key in _PROPAGATED if key in own and (labels or gang or key in present)]
    if passed:
        _put(metadata, "labels", {key: own[key] for key in passed})
    if gang:
        return
    for part in ("labels", "annotations"):
        stored = (before.get("metadata") or {}).get(part) or {}
        given = metadata.get(part) or {}
        metadata[part] = {
            key: value for key, value in given.items() if key not in _WRITTEN_LATER or stored.get(key) == value
        }
    _put(metadata, "annotations", annotations)


def _put(metadata: dict[str, Any], part: str, values: Mapping[str, str]) -> None:
    metadata[part] = {**(metadata.get(part) or {}), **values}


def validate(
    old: Mapping[str, Any] | None, new: Set, kind: ReviewedKind, namespace: str, lookups: Lookups, rules: ReviewRules
) -> Errors:
    """Returns the errors of a new or updated set that both kinds share."""
    if not queue_name(new) and not (old and queue_name(old)):
        return []
    levels = jobs.queue_levels(new, namespace, lookups) if old is None or _requests_again(old, new, kind) else None
    errors = jobs.validate_create(new, kind, jobs.with_profile(rules, new, namespace, lookups), levels)
    if queue_name(new):
        errors += schedulers.validate_templates(kind.templates(new), kind.templates(dict(old)) if old else [], rules)
    return errors if old is None else [*errors, *queue_change(old, new), *_class_change(old, new)]


def _requests_again(old: Mapping[str, Any], new: Set, kind: ReviewedKind) -> bool:
    return jobs.requests_again(dict(old), new, kind)


def ready(obj: Mapping[str, Any]) -> bool:
    """Reports whether one of the set's pods (or groups) is ready."""
    return _status(obj, "readyReplicas") > 0


def is_empty(obj: Mapping[str, Any]) -> bool:
    """Reports whether the set requests no pods and has none."""
    return replicas_of(obj) == 0 and _status(obj, "replicas") == 0


def replicas_of(obj: Mapping[str, Any]) -> int:
    """Returns spec.replicas, by default 1."""
    given = (obj.get("spec") or {}).get("replicas")
    return 1 if given is None else int(given)


def _status(obj: Mapping[str, Any], name: str) -> int:
    return int((obj.get("status") or {}).get(name) or 0)


def queue_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> Errors:
    """Returns an error if the queue is removed, or changed once a pod is ready."""
    if ready(old) or not queue_name(new):
        return unchanged(_QUEUE, queue_name(new), queue_name(old))
    return []


def _class_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> Errors:
    before, after = labels_of(old).get(names.PRIORITY_CLASS_LABEL), labels_of(new).get(names.PRIORITY_CLASS_LABEL)
    if before and not after:
        return [invalid(_PRIORITY, "", "WorkloadPriorityClass cannot be removed from a workload")]
    if after and not before and ready(old):
        return [invalid(_PRIORITY, after, "WorkloadPriorityClass cannot be added to a non-suspended workload")]
    return []


def same_shapes(old: Sequence[Template], new: Sequence[Template]) -> Errors:
    """Returns an error for each template whose pod requests changed.

    Requests determine a pod's role (integrations/pods/pod.py); images and commands may change.
    """
    before = {template.path: template for template in old}
    return [
        invalid(template.path.child("spec"), OMIT, IMMUTABLE)
        for template in new
        if template.path in before and _shape(template) != _shape(before[template.path])
    ]


def _shape(template: Template) -> str:
    return role_hash(template.body.get("spec") or {})
