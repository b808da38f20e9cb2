"""Pods of gangs: the dialect in which a new pod names its gang is judged and written down in the one form. Pure.

A pod that names a gang is held like a pod of a queue. Without a queue name it uses the namespace's own queue (defaults.py),
or else by the queue GANG_QUEUE, which counts nothing; so a gang needs no queue to wait for all of its pods. What is wrong with
the name, the minimum, the groups or the policy is told with its place; and what contradicts the pods of the gang that are there
already, with the name of one of them. pod.py calls it.

Pods of Sakkara groups are equal; without a queue name they use the queue SAKKARA_QUEUE. The ConfigMap that describes a group
is judged here, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from admission.integrations.gang import GangReading, InvalidGangField, PodGang, faults_of_group, read, said_in
from admission.integrations.pod import role_hash
from admission.integrations.sakkara import in_words, shape_of
from admission.webhook.fields import IMMUTABLE, OMIT, Errors, FieldError, FieldPath, forbidden, invalid
from admission.webhook.gang_pods import GangPod
from admission.webhook.lookups import Lookups
from api import names
from api.meta import object_key
from api.sakkara import GIVEN, HIGHEST_PRIORITY, read_group

Pod = Mapping[str, Any]

_METADATA: Final = FieldPath("metadata")
_OURS: Final = (names.GANG, names.GANG_TERMS)


def reading(pod: Pod, namespace: str) -> GangReading:
    """What the pod says of a gang. Pods of jobs that are admitted as a whole, and of Kueue's own groups, are in none."""
    metadata = pod.get("metadata") or {}
    if names.PODSET_LABEL in (metadata.get("labels") or {}):
        return GangReading()
    return read(namespace, metadata)


def queue_of(gang: PodGang) -> str:
    """The queue of a gang that names none, where its namespace has none for it either."""
    return names.SAKKARA_QUEUE if gang.sakkara else names.GANG_QUEUE


def role_of(spec: Pod, gang: PodGang | None) -> str:
    """The part of a pod that all members of the gang have in common."""
    return shape_of(spec).role if gang is not None and gang.sakkara else role_hash(spec)


def write_down(metadata: dict[str, Any], gang: PodGang | None) -> None:
    """The one form, in place; whatever a user wrote there goes."""
    given = metadata.get("annotations") or {}
    if gang is None or names.POD_GROUP_NAME in given or names.POD_GROUP_NAME in (metadata.get("labels") or {}):
        for key in _OURS:
            given.pop(key, None)
        return
    metadata["annotations"] = {**given, names.GANG: gang.name, names.GANG_TERMS: gang.to_text()}
    metadata["labels"] = {**(metadata.get("labels") or {}), names.GANG_MEMBER: "true"}


def validate_create(pod: Pod, namespace: str, lookups: Lookups) -> Errors:
    """The errors of a new pod."""
    found = reading(pod, namespace)
    if found.gang is None:
        return [_error(fault) for fault in found.faults]
    key = object_key(namespace, found.gang.name)
    # One is enough, since all before it were asked the same; to look at all costs a gang of 10,000 half a minute.
    first = next((other for other in lookups.gang_pods(key) if not other.over), None)
    return [] if first is None else _unlike(pod, found.gang, first)


def _unlike(pod: Pod, gang: PodGang, other: GangPod) -> Errors:
    """What pods of one gang must have in common."""
    errors, peer, spec = [], f"pod {other.metadata.name} of gang {gang.name}", pod.get("spec") or {}
    if other.gang is not None:
        for field in ("minimum", "groups", "policy"):
            mine, theirs = getattr(gang, field), getattr(other.gang, field)
            if mine != theirs:
                where = _place(*said_in(pod.get("metadata") or {}, field))
                errors.append(invalid(where, _shown(mine), f"must be as in {peer}: {_shown(theirs)}"))
    number, name = spec.get("priority"), spec.get("priorityClassName") or ""
    if number is not None and other.priority is not None:
        if number != other.priority:
            errors.append(invalid("spec.priority", number, f"must be as in {peer}: {other.priority}"))
    elif name != other.priority_class:
        errors.append(invalid("spec.priorityClassName", name, f"must be as in {peer}: {other.priority_class}"))
    return errors + (_unequal(spec, other, peer) if gang.sakkara and other.role else [])


def _unequal(spec: Mapping[str, Any], other: GangPod, peer: str) -> Errors:
    """What pods of one Sakkara group must have in common besides."""
    mine = shape_of(spec)
    if mine.requests != other.requests:
        wanted = f"must ask for the same resources as {peer}: {in_words(other.requests)}"
        return [invalid("spec.containers", in_words(mine.requests), wanted)]
    if mine.role != other.role:
        wanted = f"must have the node selector, affinity, tolerations and priority of {peer}"
        return [invalid("spec", OMIT, wanted)]
    return []


def _shown(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def validate_pod_group(group: Pod, namespace: str) -> Errors:
    """The errors of a PodGroup, beyond what its schema says."""
    metadata = group.get("metadata") or {}
    faults = faults_of_group(object_key(namespace, metadata.get("name") or ""), metadata)
    return [_error(fault) for fault in faults]


def validate_sakkara_group(made: Pod, old: Pod | None, highest: int = HIGHEST_PRIORITY) -> Errors:
    """The errors of a ConfigMap that describes a group. What others write into one leaves alone what its user gave."""
    data, before = (each.get("data") or {} for each in (made, old or {}))
    if names.SAKKARA_GROUP not in _labels(made):
        return []
    if old is not None and names.SAKKARA_GROUP in _labels(old) and _given(data) == _given(before):
        return []
    faults = read_group((made.get("metadata") or {}).get("name") or "", data, highest).faults
    return [invalid(fault.field, fault.given, fault.allowed) for fault in faults]


def in_group(template: Pod) -> bool:
    """Whether the pods of this template are members of a Sakkara group."""
    return names.SAKKARA_GROUP_NAME in _labels(template)


def validate_template(at: FieldPath, template: Pod) -> Errors:
    """The errors of a pod template of a job that names a queue: a job and a group would both want to admit its pods."""
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
    """What a pod has said of its gang stays, and what was written down of it; the error names what the user wrote."""
    before, after = ((each.get("metadata") or {}).get("annotations") or {} for each in (old, new))
    mine, other = read("", new.get("metadata") or {}).gang, read("", old.get("metadata") or {}).gang
    if names.GANG_TERMS in before and other is not None and mine is not None and mine != other:
        return [
            invalid(_place(*said_in(new["metadata"], field)), _shown(getattr(mine, field)), IMMUTABLE)
            for field in ("name", "minimum", "groups", "policy")
            if getattr(mine, field) != getattr(other, field)
        ]
    return [
        invalid(_METADATA.child("annotations").key(key), after.get(key, ""), IMMUTABLE)
        for key in _OURS
        if before.get(key) != after.get(key)
    ]
