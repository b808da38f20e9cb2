"""Pods of gangs: validates the gang's dialect on a new pod and records it in one normalized annotation. Pure.

A pod that names a gang is held like a pod with a queue. Without a queue name it uses its namespace's default queue
(defaults.py), else the queue GANG_QUEUE, which counts no quota, so a gang needs no queue to start as a whole. Errors in the
gang's name, minimum, groups or policy name their field; a contradiction of the gang's existing pods names one of those pods.
pod.py calls it.

The pods of a Sakkara group are equal; without a queue name they use the queue SAKKARA_QUEUE. This module also validates the
ConfigMap that describes a Sakkara group.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from admission.integrations.pods.gang import (
    GangReading,
    InvalidGangField,
    PodGang,
    changed_fields,
    faults_of_group,
    field_of,
    names_gang,
    read,
)
from admission.integrations.pods.pod import keys_of_terms, role_hash
from admission.integrations.pods.sakkara import in_words, shape_of
from admission.webhook.rules.fields import IMMUTABLE, OMIT, Errors, FieldError, FieldPath, forbidden, invalid
from admission.webhook.rules.gang_pods import GangPod
from admission.webhook.rules.lookups import Lookups
from api import names
from api.meta import object_key
from api.sakkara import GIVEN, HIGHEST_PRIORITY, read_group

Pod = Mapping[str, Any]

_METADATA: Final = FieldPath("metadata")
_OURS: Final = (names.GANG, names.GANG_TERMS)


def reading(pod: Pod, namespace: str) -> GangReading:
    """Returns the gang that the pod names. Pods of jobs admitted as a whole, and of Kueue's pod groups, have none."""
    metadata = pod.get("metadata") or {}
    if names.PODSET_LABEL in (metadata.get("labels") or {}):
        return GangReading()
    return read(namespace, metadata)


def queue_of(gang: PodGang, namespace: str, lookups: Lookups) -> str:
    """Returns the queue of a gang that names none, if its namespace has no default queue.

    Members from before its ElasticQuota was deleted name that quota's queue, and all members must name the same.
    """
    first = _first_member(gang, namespace, lookups)
    if first is not None and first.queue == names.ELASTIC_QUOTA:
        return names.ELASTIC_QUOTA
    return names.SAKKARA_QUEUE if gang.sakkara else names.GANG_QUEUE


def role_of(spec: Pod, labels: Mapping[str, str], gang: PodGang | None) -> str:
    """Returns the pod's role, a hash of what all pods of one pod set have in common.

    Pods of a gang with different labels have different roles if their own terms select by these labels: a server that wants
    no worker beside it. The role of Kueue's groups is Kueue's.
    """
    if gang is None:
        return role_hash(spec)
    if gang.sakkara:
        return shape_of(spec).role
    named = {key: labels[key] for key in keys_of_terms(spec) & labels.keys()}
    return role_hash(spec, named)


def write_down(metadata: dict[str, Any], gang: PodGang | None) -> None:
    """Writes the gang's normalized annotations in place, and removes those that a user wrote."""
    given = metadata.get("annotations") or {}
    if gang is None or names.POD_GROUP_NAME in given or names.POD_GROUP_NAME in (metadata.get("labels") or {}):
        for key in _OURS:
            given.pop(key, None)
        return
    metadata["annotations"] = {**given, names.GANG: gang.name, names.GANG_TERMS: gang.to_text()}
    metadata["labels"] = {**(metadata.get("labels") or {}), names.GANG_MEMBER: "true"}


def validate_create(pod: Pod, namespace: str, lookups: Lookups) -> Errors:
    """Returns the errors of a new pod's gang, including differences to one existing pod of the gang."""
    read = reading(pod, namespace)
    if read.gang is None:
        return [_error(fault) for fault in read.faults]
    # One pod is enough: each existing pod passed the same check. Checking all would take a gang of 10,000 half a minute.
    first = _first_member(read.gang, namespace, lookups)
    return [] if first is None else _gang_differences(pod, read.gang, first)


def _first_member(gang: PodGang, namespace: str, lookups: Lookups) -> GangPod | None:
    members = lookups.gang_pods(object_key(namespace, gang.name))
    return next((member for member in members if not member.over), None)


def _gang_differences(pod: Pod, gang: PodGang, other: GangPod) -> Errors:
    """Returns errors for fields in which the pods of a gang must agree."""
    errors, peer, spec = [], f"pod {other.metadata.name} of gang {gang.name}", pod.get("spec") or {}
    if other.gang is not None:
        for field in ("minimum", "groups", "policy"):
            mine, theirs = getattr(gang, field), getattr(other.gang, field)
            if mine != theirs:
                where = _place(*field_of(pod.get("metadata") or {}, field))
                errors.append(invalid(where, _shown(mine), f"must be as in {peer}: {_shown(theirs)}"))
    number, name = spec.get("priority"), spec.get("priorityClassName") or ""
    if number is not None and other.priority is not None:
        if number != other.priority:
            errors.append(invalid("spec.priority", number, f"must be as in {peer}: {other.priority}"))
    elif name != other.priority_class:
        errors.append(invalid("spec.priorityClassName", name, f"must be as in {peer}: {other.priority_class}"))
    return errors + (_group_differences(spec, other, peer) if gang.sakkara and other.role else [])


def _group_differences(spec: Mapping[str, Any], other: GangPod, peer: str) -> Errors:
    """Returns errors for the further fields in which the pods of a Sakkara group must agree."""
    mine = shape_of(spec)
    if mine.requests != other.requests:
        wanted = f"must ask for the same resources as {peer}: {in_words(other.requests)}"
        return [invalid("spec.containers", in_words(mine.requests), wanted)]
    if mine.role != other.role:
        wanted = f"must have the node selector, affinity, tolerations and priority of {peer}"
        return [invalid("spec", OMIT, wanted)]
    return []


def _shown(value: Any) -> Any:
    """Returns the value as a user writes it."""
    if value is None or value == ():
        return "not set"
    return json.dumps(value, separators=(",", ":")) if isinstance(value, tuple) else value


def validate_pod_group(group: Pod, namespace: str) -> Errors:
    """Returns the errors of a PodGroup, beyond what its schema says."""
    metadata = group.get("metadata") or {}
    faults = faults_of_group(object_key(namespace, metadata.get("name") or ""), metadata)
    return [_error(fault) for fault in faults]


def validate_sakkara_group(new: Pod, old: Pod | None, highest: int = HIGHEST_PRIORITY) -> Errors:
    """Returns the errors of a ConfigMap that describes a group; none for an update that leaves the user's keys unchanged."""
    data, before = (each.get("data") or {} for each in (new, old or {}))
    if names.SAKKARA_GROUP not in _labels(new):
        return []
    if old is not None and names.SAKKARA_GROUP in _labels(old) and _given(data) == _given(before):
        return []
    faults = read_group((new.get("metadata") or {}).get("name") or "", data, highest).faults
    return [invalid(fault.field, fault.given, fault.allowed) for fault in faults]


def in_group(template: Pod) -> bool:
    """Reports whether the pods of this template are members of a Sakkara group."""
    return names.SAKKARA_GROUP_NAME in _labels(template)


def has_queued_gang(template: Pod) -> bool:
    """Reports whether the pods of this template name a gang, and a queue for it."""
    return names_gang(template.get("metadata") or {}) and bool(_labels(template).get(names.QUEUE_NAME_LABEL))


def validate_template(at: FieldPath, template: Pod) -> Errors:
    """Returns an error if a queue-named job has pods of a Sakkara group: both would admit the pods."""
    if not in_group(template):
        return []
    where = at.child("metadata").child("labels").key(names.SAKKARA_GROUP_NAME)
    return [
        forbidden(where, "a group is admitted by its pods: the queue's name belongs on their template, not on the job")
    ]


def _labels(obj: Pod) -> Mapping[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}


def _given(data: Mapping[str, str]) -> dict[str, str]:
    return {key: data[key] for key in GIVEN if key in data}


def _error(fault: InvalidGangField) -> FieldError:
    return invalid(_place(fault.part, fault.key), fault.given, f"must be {fault.allowed}")


def _place(part: str, key: str) -> FieldPath:
    return _METADATA.child(part).key(key)


def validate_update(old: Pod, new: Pod) -> Errors:
    """Returns errors for a changed gang: it is immutable, as are its normalized annotations. Errors name the user's field.

    A removed name counts as a change: the pod would stay in its gang, and nothing would say so.
    """
    was, now = (each.get("metadata") or {} for each in (old, new))
    before, after = (each.get("annotations") or {} for each in (was, now))
    if names.GANG_TERMS in before and read("", was) != read("", now):
        return [invalid(_place(part, key), given, IMMUTABLE) for part, key, given in changed_fields(was, now)]
    return [
        invalid(_METADATA.child("annotations").key(key), after.get(key, ""), IMMUTABLE)
        for key in _OURS
        if before.get(key) != after.get(key)
    ]
