"""Finds objects that name a queue and are of a kind that Stowage does not manage. Reads only.

`stowage doctor` looks at all of them, in bounds; `stowage explain` for one name (cli/strangers.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from admission.doctor.discovery import custom_kinds
from admission.doctor.view import Unmanaged
from admission.engine.listed import listed
from admission.integrations.unmanaged import notice
from api.errors import NotFound, StowageError
from api.kube.client import Kube
from api.kube.resources import Resource
from api.names import QUEUE_NAME_LABEL

_MOST_KINDS: Final = 500
_MOST_OBJECTS: Final = 20
"""Objects of a kind that are named."""
_PAGE: Final = 100
_MOST_PAGES: Final = 50
"""Pages of a kind that are read: objects that a controller made name queues too, and are no finding."""
_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class UnmanagedObjects:
    """The objects, at most 20 of a kind, and what could not be looked at, in words; empty if all was."""

    found: list[Unmanaged]
    gap: str


async def unmanaged_objects(kube: Kube, declared: Collection[tuple[str, str]]) -> UnmanagedObjects:
    """Looks at the objects of all custom kinds, at most 500 kinds and 5,000 objects of each.

    `declared` has the groups and kinds of the cluster's JobKinds, which are left out.
    """
    listable, silent = await custom_kinds(kube, "list")
    kinds = [kind for kind in listable if (kind.group, kind.kind) not in declared]
    slots = asyncio.Semaphore(_AT_ONCE)
    refused: list[str] = []
    long: list[str] = []

    async def of_kind(kind: Resource) -> list[Unmanaged]:
        async with slots:
            try:
                objects, complete = await _of_kind(kube, kind)
            except StowageError:
                refused.append(_name(kind))
                return []
        if not complete:
            long.append(_name(kind))
        return objects

    lists = await asyncio.gather(*(of_kind(kind) for kind in kinds[:_MOST_KINDS]))
    left = [_name(kind) for kind in kinds[_MOST_KINDS:]]
    gaps = [
        f"{what}: {listed(sorted(names))}"
        for what, names in (
            ("the API server does not serve", silent),
            ("these kinds could not be listed", refused),
            ("these kinds are too many", left),
            (f"only the first {_PAGE * _MOST_PAGES} objects were looked at", long),
        )
        if names
    ]
    return UnmanagedObjects([one for some in lists for one in some], "; ".join(gaps))


def _name(kind: Resource) -> str:
    return f"{kind.plural}.{kind.group}"


async def _of_kind(kube: Kube, kind: Resource) -> tuple[list[Unmanaged], bool]:
    """Returns objects of a kind, and whether all were looked at that must be. Raises StowageError."""
    objects: list[Unmanaged] = []
    after: str | None = None
    for _ in range(_MOST_PAGES):
        try:
            page = await kube.list_raw(kind, label_selector=QUEUE_NAME_LABEL, limit=_PAGE, continue_=after)
        except NotFound:
            return objects, True  # the kind was removed
        objects += [one for raw in page.items if (one := _unmanaged(kind, msgspec.json.decode(raw))) is not None]
        if not (after := page.continue_) or len(objects) >= _MOST_OBJECTS:
            return objects[:_MOST_OBJECTS], True
    return objects, False


def _unmanaged(kind: Resource, obj: dict[str, Any]) -> Unmanaged | None:
    meta = obj.get("metadata") or {}
    text = notice({"apiVersion": kind.api_version, "kind": kind.kind, **obj})
    return None if text is None else Unmanaged(kind, str(meta.get("namespace") or ""), str(meta.get("name")), text)
