"""Fails pods that were ungated but can never run, so that their owner creates replacements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from api.errors import NotFound
from api.kube.client import Kube, PatchKind
from api.kube.resources import PODS
from api.meta import rfc3339


class PodIdentity(Protocol):
    """The metadata of a pod that `end_pod` needs."""

    @property
    def name(self) -> str:
        """The pod's name."""

    @property
    def namespace(self) -> str:
        """The pod's namespace."""

    @property
    def uid(self) -> str:
        """The pod's UID."""

    @property
    def resource_version(self) -> str:
        """The resourceVersion that was observed."""


async def end_pod(
    kube: Kube, meta: PodIdentity, message: str, now: float, also: Sequence[tuple[str, str]] = ()
) -> bool:
    """Sets the pod's phase to Failed; returns False if the pod is gone. Raises Conflict if it changed, for example was bound.

    `also` lists (type, reason) of conditions in addition to TerminatedByKueue.
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
