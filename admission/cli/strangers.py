"""What `stowage explain` says of an object that names a queue and is of a kind that is not managed.

The event that the webhook wrote says it (webhook/notices.py). For an object that is older than its event, or than Stowage, each
custom kind that the API server serves is asked for the name, with the rights of the user who runs the command. Reads only.
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
    """What is to be said of the object of that name; None where there is none. Raises ApiErrors for the events alone."""
    return await _event(kube, namespace, name) or await _asked_for(kube, namespace, name)


async def _event(kube: Kube, namespace: str, name: str) -> str | None:
    """The latest event's text."""
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
    """The object; None where there is none, or the user may not know."""
    try:
        found = await kube.get(kind, name, namespace)
    except StowageError:
        return None
    return {"apiVersion": kind.api_version, "kind": kind.kind, **found}


async def _custom_kinds(kube: Kube) -> AsyncIterator[Resource]:
    """Namespaced kinds that may have pods and that nobody manages, by group, in the version that the API server prefers."""
    groups = msgspec.json.decode(await kube.get_path("/apis")).get("groups") or ()
    for group in sorted((one for one in groups if is_custom(one["name"])), key=lambda one: str(one["name"])):
        version = group["preferredVersion"]["version"]
        try:
            listed = msgspec.json.decode(await kube.get_path(f"/apis/{group['name']}/{version}"))
        except StowageError:
            continue  # an aggregated API that is down
        for kind in _of_group(group["name"], version, listed.get("resources") or ()):
            yield kind


def _of_group(group: str, version: str, listed: Sequence[dict[str, Any]]) -> Iterator[Resource]:
    for one in listed:
        readable = one.get("namespaced") and "/" not in one["name"] and "get" in (one.get("verbs") or ())
        if readable and not is_managed_kind((group, one["kind"])):
            yield Resource(group, version, one["name"], one["kind"])
