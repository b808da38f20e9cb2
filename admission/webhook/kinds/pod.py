"""Defaults and validation for plain pods. Pure; endpoints.py calls it.

A pod is queued if it names a queue, or if its namespace has a default (the LocalQueue `default`, or an elastic quota), and
it belongs to no managed job. Such a pod gets the admission gate, and the topology gate until it is known whether it has a
domain. It gets the managed label and a finalizer, so that its group can count failed pods. A pod whose Deployment replaces
it needs neither. The pod's role is recorded as an annotation, so that webhook and controller read the same role.

A new pod is completed and validated in one call because pods are many; the validating webhook handles updates. The webhook
sees one pod at a time, so the controller reports a group whose pods name different queues or total counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from admission.integrations.pods.gang import PodGang
from admission.integrations.sets.sets import SCALED
from admission.webhook.guards import marked_pods, marks, owners, reserved_queues
from admission.webhook.kind_rules import KindRules
from admission.webhook.kinds import scaled
from admission.webhook.kinds.deployment import FRAMEWORK as DEPLOYMENT
from admission.webhook.review_request import CREATE, Request
from admission.webhook.rules import gangs, gates, placement, schedulers
from admission.webhook.rules.defaults import default_priority_class, default_queue, in_managed_namespace, is_opted_out
from admission.webhook.rules.fields import IMMUTABLE, Errors, FieldPath, forbidden, invalid, required
from admission.webhook.rules.formats import label_name, subdomain
from admission.webhook.rules.jobs import annotations_of, labels_of, prebuilt_workload, queue_name
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import GroupKind, ReviewRules
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


def set_defaults(pod: Pod, namespace: str, lookups: Lookups, rules: ReviewRules, queue_of_set: str = "") -> bool:
    """Completes a new pod in place. Returns False, and changes nothing, if the pod is not queued.

    `queue_of_set` is the queue of the set that the pod names as the one that queues it.
    """
    gang = gangs.reading(pod, namespace).gang
    if gang is None and queue_name(pod):
        scaled.adopt(pod, _controllers(pod))
    part = is_part(pod, rules) and gang is None
    if part or not in_managed_namespace(namespace, lookups, rules):
        return False
    if gang is None and queue_of_set:
        _metadata(pod, "labels")[names.QUEUE_NAME_LABEL] = queue_of_set
    if gang is None and not queue_name(pod) and is_opted_out(namespace, lookups):
        return False
    gangs.write_down(pod.setdefault("metadata", {}), gang)
    if not queue_name(pod) and (queue := _queue_of(namespace, lookups, rules, gang)) is not None:
        _metadata(pod, "labels")[names.QUEUE_NAME_LABEL] = queue
        if gang is None and _is_replaced(pod):
            _metadata(pod, "annotations")[names.POD_SUSPENDING_PARENT] = DEPLOYMENT
    if not (queue_name(pod) or rules.manage_jobs_without_queue_name):
        return False
    marks.remove(pod)
    if (named := default_priority_class(pod, lookups)) is not None:
        _metadata(pod, "labels")[names.PRIORITY_CLASS_LABEL] = named
    parent = annotations_of(pod).get(names.POD_SUSPENDING_PARENT)
    if parent in (None, DEPLOYMENT):  # pods of sets get it with their group
        _metadata(pod, "labels")[names.MANAGED_LABEL] = "true"
    if parent is None:
        kept = pod["metadata"].get("finalizers") or []
        if names.MANAGED_FINALIZER not in kept:
            pod["metadata"]["finalizers"] = [*kept, names.MANAGED_FINALIZER]
    schedulers.take_over(pod.setdefault("spec", {}), rules)
    # A pod copied from an opened pod may bring this label, which would hide its gate from the ungater.
    (pod["metadata"].get("labels") or {}).pop(names.OPENED_LABEL, None)
    _gate(pod, names.ADMISSION_GATE)
    if rules.gates.topology_aware_scheduling:
        source = annotations_of(pod).get(names.POD_GROUP_INDEX_SOURCE)
        if source is not None and source in labels_of(pod):
            _metadata(pod, "labels")[names.POD_GROUP_INDEX_LABEL] = labels_of(pod)[source]
        _gate(pod, names.TOPOLOGY_GATE)
    # The creator of a group's Workload names its pod sets in this annotation; the controller checks their counts later.
    if gang is not None or not (group_name(pod)[1] and annotations_of(pod).get(names.ROLE_HASH)):
        _metadata(pod, "annotations")[names.ROLE_HASH] = gangs.role_of(pod.get("spec") or {}, labels_of(pod), gang)
    return True


def _queue_of(namespace: str, lookups: Lookups, rules: ReviewRules, gang: PodGang | None) -> str | None:
    """Returns the queue of a pod that names none: the namespace's default, else the default queue for gangs."""
    queue = default_queue(namespace, lookups)
    if queue is None and gang is not None and not rules.manage_jobs_without_queue_name:
        return gangs.queue_of(gang, namespace, lookups)
    return queue


def is_part(pod: Mapping[str, Any], rules: ReviewRules) -> bool:
    """Reports whether the pod belongs to a job that is admitted as a whole."""
    return any(kind == JOB or rules.is_managed_owner(kind) for kind in _controllers(pod))


def _is_replaced(pod: Mapping[str, Any]) -> bool:
    """Reports whether a ReplicaSet replaces the pod, which then needs no finalizer."""
    return REPLICA_SET in _controllers(pod)


def _controllers(pod: Mapping[str, Any]) -> list[GroupKind]:
    owners = (pod.get("metadata") or {}).get("ownerReferences") or ()
    return [(o.get("apiVersion", "").rpartition("/")[0], o.get("kind", "")) for o in owners if o.get("controller")]


def _metadata(pod: Pod, part: str) -> dict[str, str]:
    metadata = pod.setdefault("metadata", {})
    if not metadata.get(part):
        metadata[part] = {}
    mapping: dict[str, str] = metadata[part]
    return mapping


def _gate(pod: Pod, name: str) -> None:
    spec = pod.setdefault("spec", {})
    present = spec.get("schedulingGates") or []
    if not any(gate.get("name") == name for gate in present):
        spec["schedulingGates"] = [*present, {"name": name}]


# ---- validation


def validate_create(pod: Mapping[str, Any], rules: ReviewRules) -> Errors:
    """Returns the errors of a new pod, after defaulting."""
    errors = [*_managed(pod), *_queue(pod), *_gates(pod, rules), *_group(pod, rules), *_topology(pod, rules)]
    return errors + _binding(pod, rules)


def _binding(pod: Mapping[str, Any], rules: ReviewRules) -> Errors:
    """Returns the errors of a gated pod that the scheduler would never bind, or that names its node itself."""
    spec = pod.get("spec") or {}
    if not is_gated(pod):
        return []
    errors = schedulers.validate(_SPEC, spec, rules)
    if spec.get("nodeName"):
        text = "a pod that queues is bound by the scheduler once it is admitted; name the node in a nodeSelector"
        errors.append(forbidden(_SPEC.child("nodeName"), text))
    return errors


def validate_update(old: Mapping[str, Any], new: Mapping[str, Any], rules: ReviewRules) -> Errors:
    """Returns the errors of an update: a queued pod stays queued, and its role, group and parent are immutable."""
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
    """Returns errors for changed labels and annotations that determine the pod's role, group and parent."""
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
    """Warns of a managed label on a pod that belongs to a managed job, as Kueue does."""
    key = names.MANAGED_LABEL
    own = labels_of(pod).get(key) == "true" and names.POD_SUSPENDING_PARENT not in annotations_of(pod)
    if own and is_part(pod, rules):
        return [f"pod owner is managed by kueue, label '{key}=true' might lead to unexpected behaviour"]
    return []


def is_gated(pod: Mapping[str, Any]) -> bool:
    """Reports whether the pod has the admission gate."""
    given = (pod.get("spec") or {}).get("schedulingGates") or ()
    return any(gate.get("name") == names.ADMISSION_GATE for gate in given)


def is_ours(pod: Mapping[str, Any]) -> bool:
    """Reports whether the webhook queued the pod at creation, alone or as a pod of a Deployment or set."""
    return names.MANAGED_LABEL in labels_of(pod) or names.POD_SUSPENDING_PARENT in annotations_of(pod)


def keeps_metadata(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Reports whether an update changes neither labels nor annotations, as most updates of kubelets do not."""
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
    """Returns the field that names the pod's group, and the name or None. The annotation takes precedence over the label."""
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
    """Returns the error of a role that cannot be the name of a pod set."""
    role = annotations_of(pod).get(names.ROLE_HASH, "role")
    at = _ANNOTATIONS.key(names.ROLE_HASH)
    return (
        [] if _POD_SET.fullmatch(role) else [invalid(at, role, "must be the name of a pod set, which is a DNS label")]
    )


def _index(pod: Mapping[str, Any]) -> Errors:
    source = annotations_of(pod).get(names.POD_GROUP_INDEX_SOURCE)
    errors = [] if source is None else label_name(_ANNOTATIONS.key(names.POD_GROUP_INDEX_SOURCE), source)
    text = labels_of(pod).get(names.POD_GROUP_INDEX_LABEL, "0")
    # Kueue accepts such an index, but then never creates the group's Workload.
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


class PodRules(KindRules):
    """The rules of pods."""

    completes = at_once = True

    def mutate(self, obj: Pod, request: Request, lookups: Lookups, rules: ReviewRules) -> None:
        """See set_defaults; a pod of a job that was queued as a whole gets its marks."""
        if not queue_name(obj) and marks.is_of_queued_job(request.ancestors, rules):
            marks.complete(obj)  # it was admitted with its topmost owner, and takes no queue of its own
            return
        claimed = owners.set_of(obj)
        queue = owners.queue_of_set(claimed, request.owner) if claimed else ""
        if not set_defaults(obj, request.namespace, lookups, rules, queue):
            marks.complete(obj)

    def validate(self, request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
        """See validate_create and validate_update."""
        if request.operation == CREATE:
            errors = validate_create(request.new, rules) if is_gated(request.new) else []
            errors += marks.validate_new(request.new, request.ancestors, request.user_info.username, rules)
            scaled_owner = False
            if (claimed := owners.claim(request.new, rules, pod=True)) is not None:
                scaled_owner = SCALED.get(claimed.kind) is not None
                if scaled_owner or not is_gated(request.new):
                    errors += owners.of_request(request, claimed)
            if claimed is None or scaled_owner:
                gang = gangs.reading(request.new, request.namespace).gang is not None
                errors += reserved_queues.of_request(request, lookups, rules, gang=gang)
            return errors + gangs.validate_create(request.new, request.namespace, lookups)
        ours = is_ours(request.old) or is_ours(request.new)
        # review.py asks about the stored pod itself, to know what was wrong before
        if not ours or (request.new is not request.old and keeps_metadata(request.old, request.new)):
            return []
        return validate_update(request.old, request.new, rules) + reserved_queues.of_request(request, lookups, rules)

    def restricted(self, request: Request, lookups: Lookups, rules: ReviewRules) -> Errors:
        """See marked_pods.changed_by_hand."""
        return marked_pods.changed_by_hand(request.old, request.new, request.user_info.username, lookups, rules)

    def warn(self, obj: Pod, rules: ReviewRules) -> list[str]:
        """See warnings."""
        return warnings(obj, rules)
