"""Plain pods: what a new pod of a queue is given, what it may say, and what may change. Pure; endpoints.py calls it.

A pod that names a queue (or none where its namespace has one for such: `default`, or its elastic quota) and belongs to no job
of ours is held by the admission gate, and by the topology gate until it is known whether it has a place of its own. It is
labelled as managed and kept by a finalizer, so that a group can count those that failed; a pod of something above it that
queues its pods (a Deployment) is replaced from there and has neither. Its role is written down: everybody reads the same.

A new pod is completed and judged in one call, for pods are many; updates are judged in the validating webhook. Different
queues or total counts within a group cannot be seen here, a pod at a time: the controller tells them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from admission.integrations.gang import PodGang
from admission.webhook import gangs, gates, placement, scaled, schedulers
from admission.webhook.defaults import default_priority_class, default_queue, in_managed_namespace
from admission.webhook.deployment import FRAMEWORK as DEPLOYMENT
from admission.webhook.fields import IMMUTABLE, Errors, FieldPath, forbidden, invalid, required
from admission.webhook.formats import label_name, subdomain
from admission.webhook.jobs import annotations_of, labels_of, prebuilt_workload, queue_name
from admission.webhook.lookups import Lookups
from admission.webhook.rules import GroupKind, ReviewRules
from api import names

Pod = dict[str, Any]

JOB: Final[GroupKind] = ("batch", "Job")
REPLICA_SET: Final[GroupKind] = ("apps", "ReplicaSet")
MAX_COUNT: Final = 2**31 - 1

_SPEC: Final = FieldPath("spec")
_LABELS: Final = FieldPath("metadata").child("labels")
_ANNOTATIONS: Final = FieldPath("metadata").child("annotations")
_TOTAL: Final = _ANNOTATIONS.key(names.POD_GROUP_TOTAL_COUNT)
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_POD_SET: Final = re.compile(r"(?i)[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_INDEX: Final = re.compile(r"0*[0-9]{1,10}")
_OUR_LABELS: Final = (names.MANAGED_LABEL, names.GANG_MEMBER, names.PREBUILT_WORKLOAD, names.PODSET_LABEL)
_OUR_ANNOTATIONS: Final = (
    names.ROLE_HASH,
    names.POD_SUSPENDING_PARENT,
    names.PREBUILT_WORKLOAD,
    names.WORKLOAD_ANNOTATION,
)
_BOOLEANS: Final = (names.RETRIABLE_IN_GROUP, names.POD_GROUP_FAST_ADMISSION, names.POD_GROUP_SERVING)


# ---- a new pod


def set_defaults(pod: Pod, namespace: str, lookups: Lookups, rules: ReviewRules) -> bool:
    """Change a pod that is being created in place; False for one that is not ours, which stays as it is."""
    gang = gangs.reading(pod, namespace).gang
    if gang is None and queue_name(pod):
        scaled.adopt(pod, _controllers(pod))
    part = is_part(pod, rules) and gang is None
    if part or not in_managed_namespace(namespace, lookups, rules):
        return False
    gangs.write_down(pod.setdefault("metadata", {}), gang)
    if not queue_name(pod) and (queue := _queue_of(namespace, lookups, rules, gang)) is not None:
        _metadata(pod, "labels")[names.QUEUE_NAME_LABEL] = queue
        if gang is None and _is_replaced(pod):
            _metadata(pod, "annotations")[names.POD_SUSPENDING_PARENT] = DEPLOYMENT
    if not (queue_name(pod) or rules.manage_jobs_without_queue_name):
        return False
    if (named := default_priority_class(pod, lookups)) is not None:
        _metadata(pod, "labels")[names.PRIORITY_CLASS_LABEL] = named
    if names.POD_SUSPENDING_PARENT not in annotations_of(pod):
        _metadata(pod, "labels")[names.MANAGED_LABEL] = "true"
        kept = pod["metadata"].get("finalizers") or []
        if names.MANAGED_FINALIZER not in kept:
            pod["metadata"]["finalizers"] = [*kept, names.MANAGED_FINALIZER]
    schedulers.take_over(pod.setdefault("spec", {}), rules)
    # Copied from a pod that came open, the mark would hide this one, which does not, from the ungater.
    (pod["metadata"].get("labels") or {}).pop(names.OPENED_LABEL, None)
    _gate(pod, names.ADMISSION_GATE)
    if rules.gates.topology_aware_scheduling:
        source = annotations_of(pod).get(names.POD_GROUP_INDEX_SOURCE)
        if source is not None and source in labels_of(pod):
            _metadata(pod, "labels")[names.POD_GROUP_INDEX_LABEL] = labels_of(pod)[source]
        _gate(pod, names.TOPOLOGY_GATE)
    # The maker of the group's Workload names the roles as its pod sets; what they count is seen when the pods start.
    if gang is not None or not (group_name(pod)[1] and annotations_of(pod).get(names.ROLE_HASH)):
        _metadata(pod, "annotations")[names.ROLE_HASH] = gangs.role_of(pod.get("spec") or {}, gang)
    return True


def _queue_of(namespace: str, lookups: Lookups, rules: ReviewRules, gang: PodGang | None) -> str | None:
    """The queue of a pod that names none: its namespace's, else that of gangs, unless all have to name one."""
    queue = default_queue(namespace, lookups)
    if queue is None and gang is not None and not rules.manage_jobs_without_queue_name:
        return gangs.queue_of(gang)
    return queue


def is_part(pod: Mapping[str, Any], rules: ReviewRules) -> bool:
    """Whether the pod is of a job of a kind that is admitted as a whole."""
    return any(kind == JOB or rules.is_managed_owner(kind) for kind in _controllers(pod))


def _is_replaced(pod: Mapping[str, Any]) -> bool:
    """Whether a Deployment's ReplicaSet makes another pod in its place, so that this one need not be kept."""
    return REPLICA_SET in _controllers(pod)


def _controllers(pod: Mapping[str, Any]) -> list[GroupKind]:
    owners = (pod.get("metadata") or {}).get("ownerReferences") or ()
    return [(o.get("apiVersion", "").rpartition("/")[0], o.get("kind", "")) for o in owners if o.get("controller")]


def _metadata(pod: Pod, part: str) -> dict[str, str]:
    metadata = pod.setdefault("metadata", {})
    if not metadata.get(part):
        metadata[part] = {}
    found: dict[str, str] = metadata[part]
    return found


def _gate(pod: Pod, name: str) -> None:
    spec = pod.setdefault("spec", {})
    present = spec.get("schedulingGates") or []
    if not any(gate.get("name") == name for gate in present):
        spec["schedulingGates"] = [*present, {"name": name}]


# ---- what a pod may say


def validate_create(pod: Mapping[str, Any], rules: ReviewRules) -> Errors:
    """The errors of a new pod, as it is after its defaults."""
    errors = [*_managed(pod), *_queue(pod), *_gates(pod, rules), *_group(pod, rules), *_topology(pod, rules)]
    return errors + _binding(pod, rules)


def _binding(pod: Mapping[str, Any], rules: ReviewRules) -> Errors:
    """The errors of a pod that is held and would not be bound afterwards, or that is bound already."""
    spec = pod.get("spec") or {}
    if not is_gated(pod):
        return []
    errors = schedulers.validate(_SPEC, spec, rules)
    if spec.get("nodeName"):
        text = "a pod that queues is bound by the scheduler once it is admitted; name the node in a nodeSelector"
        errors.append(forbidden(_SPEC.child("nodeName"), text))
    return errors


def validate_update(old: Mapping[str, Any], new: Mapping[str, Any], rules: ReviewRules) -> Errors:
    """The errors of a change. What was queued stays queued, and the pod's identity stays what it was."""
    errors = [
        *_identity(old, new),
        *_managed(new),
        *_group(new, rules),
        *_topology(new, rules),
        *_group_change(old, new, rules),
    ]
    if queue_name(old) != queue_name(new) and (not is_gated(old) or not queue_name(new)):
        errors.append(invalid(_LABELS.key(names.QUEUE_NAME_LABEL), queue_name(new), IMMUTABLE))
    errors += gangs.validate_update(old, new)
    if rules.gates.admission_gated_by:
        errors += gates.validate_update(old.get("metadata") or {}, new.get("metadata") or {})
    key = names.RETRIABLE_IN_GROUP
    if annotations_of(old).get(key) == "false" and annotations_of(new).get(key) != "false":
        errors.append(forbidden(_ANNOTATIONS.key(key), "unretriable pod group can't be converted to retriable"))
    return errors


def _identity(old: Mapping[str, Any], new: Mapping[str, Any]) -> Errors:
    """What the webhook and the controller have written of the pod's role, group and parent decides what it counts for."""
    if not is_ours(old):
        return []
    tables = ((_LABELS, labels_of, _OUR_LABELS), (_ANNOTATIONS, annotations_of, _OUR_ANNOTATIONS))
    return [
        invalid(at.key(key), of(new).get(key, ""), IMMUTABLE)
        for at, of, keys in tables
        for key in keys
        if of(old).get(key) != of(new).get(key)
    ]


def warnings(pod: Mapping[str, Any], rules: ReviewRules) -> list[str]:
    """Of a pod that belongs to a job and is marked as one on its own all the same."""
    key = names.MANAGED_LABEL
    own = labels_of(pod).get(key) == "true" and names.POD_SUSPENDING_PARENT not in annotations_of(pod)
    if own and is_part(pod, rules):
        return [f"pod owner is managed by kueue, label '{key}=true' might lead to unexpected behaviour"]
    return []


def is_gated(pod: Mapping[str, Any]) -> bool:
    """Whether the admission gate holds it."""
    given = (pod.get("spec") or {}).get("schedulingGates") or ()
    return any(gate.get("name") == names.ADMISSION_GATE for gate in given)


def is_ours(pod: Mapping[str, Any]) -> bool:
    """Whether it was taken in when it was created, by itself or as a pod of something above it."""
    return names.MANAGED_LABEL in labels_of(pod) or names.POD_SUSPENDING_PARENT in annotations_of(pod)


def says_the_same(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether an update leaves all that is judged: so do most, those of kubelets and controllers."""
    return labels_of(old) == labels_of(new) and annotations_of(old) == annotations_of(new)


def _managed(pod: Mapping[str, Any]) -> Errors:
    value = labels_of(pod).get(names.MANAGED_LABEL, "true")
    return (
        []
        if value == "true"
        else [forbidden(_LABELS.key(names.MANAGED_LABEL), "managed label value can only be 'true'")]
    )


def _queue(pod: Mapping[str, Any]) -> Errors:
    name = queue_name(pod)
    return subdomain(_LABELS.key(names.QUEUE_NAME_LABEL), name) if name else []


def _gates(pod: Mapping[str, Any], rules: ReviewRules) -> Errors:
    return gates.validate(pod.get("metadata") or {}) if rules.gates.admission_gated_by else []


def group_name(pod: Mapping[str, Any]) -> tuple[FieldPath, str | None]:
    """Where the pod names its group, and that name; the annotation goes first."""
    key = names.POD_GROUP_NAME
    if annotations_of(pod).get(key):
        return _ANNOTATIONS.key(key), annotations_of(pod)[key]
    return _LABELS.key(key), labels_of(pod).get(key)


def _group(pod: Mapping[str, Any], rules: ReviewRules) -> Errors:
    at, group = group_name(pod)
    total = annotations_of(pod).get(names.POD_GROUP_TOTAL_COUNT)
    both = f"both the '{names.POD_GROUP_TOTAL_COUNT}' annotation and the '{names.POD_GROUP_NAME}' label should be set"
    errors = [*_prebuilt(pod, group, rules), *_role(pod), *_index(pod), *_booleans(pod)]
    if group is None and total is None:
        return errors
    if group is None:
        return [*errors, required(at, both)]
    errors += subdomain(at, group)
    return [*errors, required(_TOTAL, both)] if total is None else [*errors, *_total(total)]


def _total(text: str) -> Errors:
    if not _INTEGER.fullmatch(text):
        return [invalid(_TOTAL, text, f'strconv.Atoi: parsing "{text}": invalid syntax')]
    number = int(text) if len(text) <= 2 * len(str(MAX_COUNT)) else MAX_COUNT + 1
    if number <= 0:
        wrong = f"incorrect annotation value '{names.POD_GROUP_TOTAL_COUNT}={text}'"
        return [invalid(_TOTAL, text, f"{wrong}: group total count should be greater than zero")]
    return [] if number <= MAX_COUNT else [invalid(_TOTAL, text, f"must be at most {MAX_COUNT}")]


def _prebuilt(pod: Mapping[str, Any], group: str | None, rules: ReviewRules) -> Errors:
    at, workload = prebuilt_workload(dict(pod))
    if not workload:
        return []
    if group is not None and workload != group:
        return [invalid(at, workload, "prebuilt workload and pod group should be equal")]
    return subdomain(at, workload)


def _role(pod: Mapping[str, Any]) -> Errors:
    """The role is the name of a pod set."""
    role = annotations_of(pod).get(names.ROLE_HASH, "role")
    at = _ANNOTATIONS.key(names.ROLE_HASH)
    return (
        [] if _POD_SET.fullmatch(role) else [invalid(at, role, "must be the name of a pod set, which is a DNS label")]
    )


def _index(pod: Mapping[str, Any]) -> Errors:
    source = annotations_of(pod).get(names.POD_GROUP_INDEX_SOURCE)
    errors = [] if source is None else label_name(_ANNOTATIONS.key(names.POD_GROUP_INDEX_SOURCE), source)
    text = labels_of(pod).get(names.POD_GROUP_INDEX_LABEL, "0")
    # (Kueue lets it in and gives the group no Workload)
    if _INDEX.fullmatch(text) or names.POD_GROUP_INDEX_SOURCE in annotations_of(pod):
        return errors
    return [*errors, invalid(_LABELS.key(names.POD_GROUP_INDEX_LABEL), text, "must be a number, counted from 0")]


def _booleans(pod: Mapping[str, Any]) -> Errors:
    given = annotations_of(pod)
    return [
        invalid(_ANNOTATIONS.key(key), given[key], "must be 'true' or 'false'")
        for key in _BOOLEANS
        if given.get(key, "true") not in ("true", "false")
    ]


def _topology(pod: Mapping[str, Any], rules: ReviewRules) -> Errors:
    return placement.errors_of(pod, rules, shared=names.GANG in annotations_of(pod))


def _group_change(old: Mapping[str, Any], new: Mapping[str, Any], rules: ReviewRules) -> Errors:
    before, (at, after) = group_name(old)[1], group_name(new)
    return [] if before is None or before == after else [invalid(at, after or "", IMMUTABLE)]
