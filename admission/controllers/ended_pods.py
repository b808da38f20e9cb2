"""Ends pods that were let through and can never run: their owner makes others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from api.errors import NotFound
from api.kube.client import Kube, PatchKind
from api.kube.resources import PODS
from api.meta import rfc3339


class PodIdentity(Protocol):
    """What is needed of a pod's metadata."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def namespace(self) -> str:
        """Its namespace."""

    @property
    def uid(self) -> str:
        """Its UID."""

    @property
    def resource_version(self) -> str:
        """The version that was seen."""


async def end_pod(
    kube: Kube, meta: PodIdentity, message: str, now: float, also: Sequence[tuple[str, str]] = ()
) -> bool:
    """Sets the pod Failed; False where it is gone. Raises Conflict where it has changed: one that is bound by now runs.

    `also`: (type, reason) of more conditions than the one that says who ended it.
    """
    conditions = [
        {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": rfc3339(now)}
        for kind, reason in (("TerminatedByKueue", "UnschedulableOnAssignedNode"), *also)
    ]
    precondition = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    body = {"metadata": precondition, "status": {"phase": "Failed", "conditions": conditions}}
    try:
        await kube.patch(PODS, meta.name, body, meta.namespace, kind=PatchKind.STRATEGIC, subresource="status")
    except NotFound:
        return False
    return True
