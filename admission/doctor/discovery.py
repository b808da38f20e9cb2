"""Lists the custom kinds that the API server serves. Reads only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import msgspec

from admission.integrations.owners import is_managed_kind
from admission.integrations.unmanaged import is_custom
from api.errors import StowageError
from api.kube.client import Kube
from api.kube.resources import Resource


async def custom_kinds(kube: Kube) -> AsyncIterator[Resource]:
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
