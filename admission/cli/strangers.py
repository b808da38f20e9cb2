"""Finds an object that names a queue but is of an unmanaged kind, for `stowage explain`.

The webhook's event on the object has the text (webhook/notices.py). If the event has expired, or the object is older than
Stowage, each custom kind of the API server is searched for the name, with the rights of the calling user. Reads only.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from admission.doctor.discovery import custom_kinds
from admission.integrations.unmanaged import REASON, notice
from api.errors import StowageError
from api.kube.client import Kube
from api.kube.resources import EVENTS, Resource

_MOST_KINDS: Final = 500
_AT_ONCE: Final = 16


async def unmanaged(kube: Kube, namespace: str, name: str) -> str | None:
    """Returns the notice on the object of that name, or None. Raises ApiError if events cannot be read."""
    return await _event(kube, namespace, name) or await _objects_named(kube, namespace, name)


async def _event(kube: Kube, namespace: str, name: str) -> str | None:
    """Returns the text of the latest event on an object of that name, or None."""
    page = await kube.list(EVENTS, namespace, field_selector=f"involvedObject.name={name},reason={REASON}")
    events = sorted(page.items, key=lambda event: str(event.get("lastTimestamp") or ""))
    return str(events[-1].get("message") or "") or None if events else None


async def _objects_named(kube: Kube, namespace: str, name: str) -> str | None:
    kinds = (await custom_kinds(kube, "get"))[0][:_MOST_KINDS]
    for start in range(0, len(kinds), _AT_ONCE):
        some = kinds[start : start + _AT_ONCE]
        objects = await asyncio.gather(*(_read(kube, kind, namespace, name) for kind in some))
        if notices := [text for obj in objects if obj is not None and (text := notice(obj))]:
            return notices[0]
    return None


async def _read(kube: Kube, kind: Resource, namespace: str, name: str) -> dict[str, Any] | None:
    """Returns the object, or None if it does not exist or the user may not read it."""
    try:
        obj = await kube.get(kind, name, namespace)
    except StowageError:
        return None
    return {"apiVersion": kind.api_version, "kind": kind.kind, **obj}
