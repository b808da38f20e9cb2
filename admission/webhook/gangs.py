"""Pods of gangs: the dialect in which a new pod names its gang is judged and written down in the one form. Pure.

A pod that names a gang is held like a pod of a queue. Without a queue name it goes by the namespace's elastic quota, or else
by the queue GANG_QUEUE, which counts nothing; so a gang needs no queue to wait for all of its pods. What is wrong with the
name, the minimum, the groups or the policy is told with its place; and what contradicts the pods of the gang that are there
already, with the name of one of them. pod.py calls it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from admission.integrations.gang import Fault, Gang, Reading, faults_of_group, read
from admission.webhook.fields import IMMUTABLE, Errors, FieldError, Path, invalid
from admission.webhook.lookups import Lookups
from admission.webhook.members import GangPod
from api import names
from api.meta import object_key

Pod = Mapping[str, Any]

_METADATA: Final = Path("metadata")
_OURS: Final = (names.GANG, names.GANG_TERMS)


def reading(pod: Pod, namespace: str) -> Reading:
    """What the pod says of a gang. Pods of jobs that are admitted as a whole, and of the peer's own groups, are in none."""
    metadata = pod.get("metadata") or {}
    if names.PODSET_LABEL in (metadata.get("labels") or {}):
        return Reading()
    return read(namespace, metadata)


def queue_of(namespace: str, lookups: Lookups) -> str:
    """The queue of a gang that names none."""
    return names.ELASTIC_QUOTA if lookups.has_elastic_quota(namespace) else names.GANG_QUEUE


def write_down(metadata: dict[str, Any], gang: Gang | None) -> None:
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
    others = (other for other in lookups.gang_pods(key) if not other.over)
    first = min(others, key=lambda other: other.metadata.name, default=None)
    return [] if first is None else _unlike(pod, found.gang, first)


def _unlike(pod: Pod, gang: Gang, other: GangPod) -> Errors:
    """What pods of one gang must have in common."""
    errors, who, spec = [], f"pod {other.metadata.name} of gang {gang.name}", pod.get("spec") or {}
    if other.gang is not None:
        for field in ("minimum", "groups", "policy"):
            mine, theirs = getattr(gang, field), getattr(other.gang, field)
            if mine != theirs:
                where = _METADATA.child("annotations").key(names.GANG_TERMS).child(field)
                errors.append(invalid(where, _shown(mine), f"must be as in {who}: {_shown(theirs)}"))
    number, name = spec.get("priority"), spec.get("priorityClassName") or ""
    if number is not None and other.priority is not None:
        if number != other.priority:
            errors.append(invalid("spec.priority", number, f"must be as in {who}: {other.priority}"))
    elif name != other.priority_class:
        errors.append(invalid("spec.priorityClassName", name, f"must be as in {who}: {other.priority_class}"))
    return errors


def _shown(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def validate_pod_group(group: Pod, namespace: str) -> Errors:
    """The errors of a PodGroup, beyond what its schema says."""
    metadata = group.get("metadata") or {}
    faults = faults_of_group(object_key(namespace, metadata.get("name") or ""), metadata)
    return [_error(fault) for fault in faults]


def _error(fault: Fault) -> FieldError:
    return invalid(_METADATA.child(fault.part).key(fault.key), fault.given, f"must be {fault.allowed}")


def validate_update(old: Pod, new: Pod) -> Errors:
    """What was written down of a pod's gang stays."""
    before, after = ((each.get("metadata") or {}).get("annotations") or {} for each in (old, new))
    return [
        invalid(_METADATA.child("annotations").key(key), after.get(key, ""), IMMUTABLE)
        for key in _OURS
        if before.get(key) != after.get(key)
    ]
