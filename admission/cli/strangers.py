"""Finds an object that names a queue but is of an unmanaged kind, for `stowage explain`.

The webhook's event on the object has the text (webhook/notices.py). If the event has expired, or the object is older than
Stowage, each custom kind of the API server is searched for the name, with the rights of the calling user. Reads only.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final

import msgspec

from admission.integrations.owners import is_managed_kind
from admission.integrations.unmanaged import REASON, is_custom, notice
from api.errors import StowageError
from api.kube.client import Kube
from api.kube.resources import EVENTS, Resource

_MOST_KINDS: Final = 500
_AT_ONCE: Final = 16


async def unmanaged(kube: Kube, namespace: str, name: str) -> str | None:
    """Returns the notice on the object of that name, or None. Raises ApiError if events cannot be read."""
    return await _event(kube, namespace, name) or await _asked_for(kube, namespace, name)


async def _event(kube: Kube, namespace: str, name: str) -> str | None:
    """Returns the text of the latest event on an object of that name, or None."""
    page = await kube.list(EVENTS, namespace, field_selector=f"involvedObject.name={name},reason={REASON}")
    found = sorted(page.items, key=lambda event: str(event.get("lastTimestamp") or ""))
    return str(found[-1].get("message") or "") or None if found else None


async def _asked_for(kube: Kube, namespace: str, name: str) -> str | None:
    kinds = [kind async for kind in _custom_kinds(kube)][:_MOST_KINDS]
    for start in range(0, len(kinds), _AT_ONCE):
        some = kinds[start : start + _AT_ONCE]
        found = await asyncio.gather(*(_read(kube, kind, namespace, name) for kind in some))
        if said := [text for obj in found if obj is not None and (text := notice(obj))]:
            return said[0]
    return None


async def _read(kube: Kube, kind: Resource, namespace: str, name: str) -> dict[str, Any] | None:
    """Returns the object, or None if it does not exist or the user may not read it."""
    try:
        found = await kube.get(kind, name, namespace)
    except StowageError:
        return None
    return {"apiVersion": kind.api_version, "kind": kind.kind, **found}


async def _custom_kinds(kube: Kube) -> AsyncIterator[Resource]:
    """Yields unmanaged namespaced custom kinds by group, in the API server's preferred version."""
    groups = msgspec.json.decode(await kube.get_path("/apis")).get("groups") or ()
    for group in sorted((one for one in groups if is_custom(one["name"])), key=lambda one: str(one["name"])):
        version = group["preferredVersion"]["version"]
        try:
            listed = msgspec.json.decode(await kube.get_path(f"/apis/{group['name']}/{version}"))
        except StowageError:
            continue  # an unavailable aggregated API
        for kind in _of_group(group["name"], version, listed.get("resources") or ()):
            yield kind


def _of_group(group: str, version: str, listed: Sequence[dict[str, Any]]) -> Iterator[Resource]:
    for one in listed:
        readable = one.get("namespaced") and "/" not in one["name"] and "get" in (one.get("verbs") or ())
        if readable and not is_managed_kind((group, one["kind"])):
            yield Resource(group, version, one["name"], one["kind"])
