"""Lists the custom kinds that the API server serves. Reads only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from admission.integrations.owners import is_managed_kind
from admission.integrations.unmanaged import is_custom
from api.errors import NotFound, StowageError
from api.kube.client import Kube
from api.kube.resources import Resource


async def custom_kinds(kube: Kube, verb: str) -> tuple[list[Resource], list[str]]:
    """Returns unmanaged namespaced custom kinds that have a verb, by group, in the API server's preferred version.

    The second list names the versions of groups that do not answer: the aggregated API servers of others may be down.
    """
    kinds: list[Resource] = []
    silent: list[str] = []
    groups = msgspec.json.decode(await kube.get_path("/apis")).get("groups") or ()
    for group in sorted((one for one in groups if is_custom(one["name"])), key=lambda group: str(group["name"])):
        version = group["preferredVersion"]["version"]
        try:
            listed = msgspec.json.decode(await kube.get_path(f"/apis/{group['name']}/{version}"))
        except NotFound:
            continue  # removed meanwhile
        except StowageError:
            silent.append(f"{group['name']}/{version}")
            continue
        kinds += _of_group(group["name"], version, verb, listed.get("resources") or ())
    return kinds, silent


def _of_group(group: str, version: str, verb: str, listed: Sequence[dict[str, Any]]) -> Iterator[Resource]:
    for one in listed:
        readable = one.get("namespaced") and "/" not in one["name"] and verb in (one.get("verbs") or ())
        if readable and not is_managed_kind((group, one["kind"])):
            yield Resource(group, version, one["name"], one["kind"])
