"""Finds objects that name a queue and are of a kind that Stowage does not manage. Reads only.

`stowage doctor` looks at all of them, in bounds; `stowage explain` for one name (cli/strangers.py).
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from admission.doctor.discovery import custom_kinds
from admission.doctor.view import Unmanaged
from admission.integrations.unmanaged import notice
from api.errors import StowageError
from api.kube.client import Kube
from api.kube.resources import Resource
from api.names import QUEUE_NAME_LABEL

_MOST_KINDS: Final = 500
_MOST_OBJECTS: Final = 20
_AT_ONCE: Final = 16


async def unmanaged_objects(kube: Kube) -> tuple[list[Unmanaged], int]:
    """Returns the objects, at most 20 of a kind, and the number of kinds if not all were looked at, else 0."""
    kinds = [kind async for kind in custom_kinds(kube)]
    slots = asyncio.Semaphore(_AT_ONCE)

    async def listed(kind: Resource) -> list[Unmanaged]:
        async with slots:
            return await _of_kind(kube, kind)

    found = await asyncio.gather(*(listed(kind) for kind in kinds[:_MOST_KINDS]))
    cut = len(kinds) if len(kinds) > _MOST_KINDS else 0
    return [one for some in found for one in some], cut


async def _of_kind(kube: Kube, kind: Resource) -> list[Unmanaged]:
    """Returns the objects of a kind; none if the user may not list it."""
    try:
        page = await kube.list_raw(kind, label_selector=QUEUE_NAME_LABEL, limit=_MOST_OBJECTS)
    except StowageError:
        return []
    objects: list[dict[str, Any]] = [msgspec.json.decode(raw) for raw in page.items]
    found = []
    for obj in objects:
        meta = obj.get("metadata") or {}
        if (text := notice({"apiVersion": kind.api_version, "kind": kind.kind, **obj})) is not None:
            found.append(Unmanaged(kind, str(meta.get("namespace") or ""), str(meta.get("name")), text))
    return found
