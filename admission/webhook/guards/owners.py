"""Owners of new pods and Jobs: an object that claims to be part of a job admitted as a whole must be part of it.

A pod of a Job, and a Job of a JobSet, is not queued by itself, so its owner reference is checked. Either Kubernetes' Job
controller created the pod (its users are JOB_CONTROLLERS of review_rules.py), or the owner is read from the API server
(`Owners`, called by handlers.py): the object must be one that its controller would create (integrations/ownership.py), and the
user must be allowed to update the owner's status (rights.py). Other objects are rejected. `validate` is pure;
reviewed_jobs.py and pod.py call it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from admission.integrations.children import fault_of_part, fault_of_pod, fault_of_start
from admission.integrations.pods.gang import is_subdomain
from admission.integrations.registry import KINDS
from admission.integrations.sets.sets import BY_FRAMEWORK, SCALED, SETS
from admission.webhook.review_request import Request
from admission.webhook.rules.fields import Errors, FieldPath, forbidden
from admission.webhook.rules.review_rules import JOB, JOB_CONTROLLERS, GroupKind, ReviewRules
from api import names
from api.errors import NotFound
from api.kube.client import Kube
from api.kube.resources import DEPLOYMENTS, LEADER_WORKER_SETS, PODS, REPLICA_SETS

Obj = Mapping[str, Any]

_REFERENCES: Final = FieldPath("metadata").child("ownerReferences")
DEEPEST: Final = 8
"""Most owners above each other that are read, since references may form a cycle."""
_SETS: Final = {(kind.resource.group, kind.resource.kind): kind.resource for kind in SETS}
_BETWEEN: Final = {(each.group, each.kind): each for each in (DEPLOYMENTS, PODS, REPLICA_SETS)} | _SETS
"""Kinds that stand between a job and its pods, such as the objects in an AppWrapper, and the driver of a SparkApplication."""
_AT_ONCE: Final = 32
_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class ControllerRef:
    """An owner reference to a controller of a kind that is admitted as a whole. `pod` says whether the object is a pod."""

    index: int
    kind: GroupKind
    name: str
    uid: str
    pod: bool


def claim(obj: Obj, rules: ReviewRules, *, pod: bool) -> ControllerRef | None:
    """Returns the object's first controller reference of a managed kind, or None."""
    for index, owner in enumerate(_references(obj)):
        kind = _kind_of(owner)
        if owner.get("controller") and (rules.is_managed_owner(kind) or (pod and (kind == JOB or SCALED.get(kind)))):
            return ControllerRef(index, kind, owner.get("name", ""), owner.get("uid", ""), pod)
    return None


def set_of(pod: Obj) -> ControllerRef | None:
    """Returns the set that a new pod without a queue names as the one that queues it, or None.

    Kueue marks a StatefulSet's template and leaves the queue to the set itself.
    """
    meta = pod.get("metadata") or {}
    annotations, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    kind = BY_FRAMEWORK.get(annotations.get(names.POD_SUSPENDING_PARENT, ""))
    if kind is None or labels.get(names.QUEUE_NAME_LABEL):
        return None
    if kind.resource == LEADER_WORKER_SETS:
        name, uid = labels.get(names.LWS_NAME, ""), ""
    else:
        owners = meta.get("ownerReferences") or ()
        owner: Obj = next((one for one in owners if one.get("controller")), {})
        name, uid = owner.get("name", ""), owner.get("uid", "")
    return ControllerRef(0, (kind.resource.group, kind.resource.kind), name, uid, pod=True) if name else None


def queue_of_set(owner_ref: ControllerRef, owner: Obj | None) -> str:
    """Returns the queue of a pod's set, as read; empty if another object has its name, or if it has no queue."""
    meta = (owner or {}).get("metadata") or {}
    same = not owner_ref.uid or meta.get("uid") == owner_ref.uid
    return (meta.get("labels") or {}).get(names.QUEUE_NAME_LABEL, "") if same else ""


def controllers(obj: Obj) -> list[tuple[str, str, str]]:
    """Returns the kind, name and UID of each owner that controls the object; the API server allows one."""
    return [(o.get("kind", ""), o.get("name", ""), o.get("uid", "")) for o in _references(obj) if o.get("controller")]


def is_to_be_read(reference: ControllerRef | None, user: str) -> bool:
    """Reports whether the owner itself must confirm the reference."""
    return reference is not None and not (reference.kind == JOB and user in JOB_CONTROLLERS)


def of_request(request: Request, claimed: ControllerRef | None) -> Errors:
    """Returns the errors of the owner that the new object of the request names."""
    user, entitled = request.user_info.username, request.entitled
    return validate(request.new, claimed, request.owner, user, entitled=entitled)


def validate(
    obj: Obj, reference: ControllerRef | None, owner: Obj | None, user: str, *, entitled: bool = True
) -> Errors:
    """Returns the error of an owner reference that `owner`, the object of that name, does not confirm.

    `entitled` says whether the user has the right of the owner's controller (rights.py).
    """
    if reference is None or not is_to_be_read(reference, user):
        return []
    what = f"the {reference.kind[1]} {reference.name}"
    if owner is None:
        return [forbidden(_REFERENCES.item(reference.index).child("name"), f"{what} does not exist")]
    if (owner.get("metadata") or {}).get("uid") != reference.uid:
        return [forbidden(_REFERENCES.item(reference.index).child("uid"), f"{what} has another UID")]
    fault = _fault(obj, reference, owner)
    if not fault and not entitled:
        fault = f"is not controlled by {user}, who may not update its status"
    return [forbidden(_REFERENCES.item(reference.index), f"{what} {fault}")] if fault else []


def _fault(obj: Obj, reference: ControllerRef, owner: Obj) -> str:
    """Returns why the owner's controller would not create this object, or an empty string."""
    above = KINDS.get(reference.kind)
    if (scaled := SCALED.get(reference.kind)) is not None:
        return scaled.pod_fault(obj, owner)
    if reference.pod:
        return fault_of_pod(obj, owner, above)
    group, kind = str(obj.get("apiVersion") or "").rpartition("/")[0], obj.get("kind")
    own = KINDS.get((group, str(kind)) if kind else JOB)
    return fault_of_part(obj, own, owner, above) or fault_of_start(obj, own, owner, above)


class Owners:
    """Reads owners from the API server, at most `_AT_ONCE` at a time."""

    def __init__(self, kube: Kube) -> None:
        self._kube, self._slots = kube, asyncio.Semaphore(_AT_ONCE)

    async def read(self, reference: ControllerRef, namespace: str) -> dict[str, Any] | None:
        """Returns the object that the reference names, whatever its UID; None if absent. Raises ApiError and TimeoutError."""
        return await self._read(reference.kind, reference.name, namespace)

    async def ancestors(self, obj: Obj, namespace: str) -> tuple[dict[str, Any], ...]:
        """Returns the object's controller, that one's controller, and so on. Raises ApiError and TimeoutError.

        The list ends before an owner that does not exist, has another UID, or is of a kind that cannot be read.
        """
        above: list[dict[str, Any]] = []
        while len(above) < DEEPEST:
            reference = next((o for o in _references(above[-1] if above else obj) if o.get("controller")), None)
            if reference is None:
                break
            owner = await self._read(_kind_of(reference), str(reference.get("name") or ""), namespace)
            if owner is None or (owner.get("metadata") or {}).get("uid") != reference.get("uid"):
                break
            above.append(owner)
        return tuple(above)

    async def _read(self, kind: GroupKind, name: str, namespace: str) -> dict[str, Any] | None:
        adapter = KINDS.get(kind) or SCALED.get(kind)
        resource = adapter.resource if adapter is not None else _BETWEEN.get(kind)
        if resource is None or not is_subdomain(name):
            return None
        try:
            async with asyncio.timeout(_SECONDS), self._slots:
                return await self._kube.get(resource, name, namespace)
        except NotFound:
            return None


def _references(obj: Obj) -> Sequence[Obj]:
    return (obj.get("metadata") or {}).get("ownerReferences") or ()


def _kind_of(reference: Obj) -> GroupKind:
    return str(reference.get("apiVersion") or "").rpartition("/")[0], str(reference.get("kind") or "")
