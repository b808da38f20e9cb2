"""Writes the condition `Active` of a cluster-scoped object, if it differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from api.errors import NotFound
from api.kube.client import Kube, PatchKind
from api.kube.resources import Resource
from api.meta import Condition, ObjectMeta, find_condition, rfc3339, set_condition
from api.names import ACTIVE

_LONGEST: Final = 32_000


async def write_active(
    kube: Kube,
    resource: Resource,
    meta: ObjectMeta,
    conditions: Sequence[Condition],
    active: tuple[str, str, str],
    now: float,
) -> None:
    """Writes status, reason and message (`active`) at `now` (epoch seconds); an object that is gone is no error.

    Raises api.errors.Conflict if the object has changed since it was read.
    """
    status, reason, message = active
    message = message[:_LONGEST]
    before = find_condition(conditions, ACTIVE)
    if before is not None and (before.status, before.reason, before.message) == (status, reason, message):
        return
    condition = Condition(
        type=ACTIVE,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=rfc3339(now),
        observed_generation=meta.generation,
    )
    body = {
        "metadata": {"resourceVersion": meta.resource_version},
        "status": {"conditions": [each.to_wire() for each in set_condition(conditions, condition)]},
    }
    try:
        await kube.patch(resource, meta.name, body, kind=PatchKind.MERGE, subresource="status")
    except NotFound:
        return
