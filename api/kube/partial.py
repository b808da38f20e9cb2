"""A client of a user who may not list everything: it lists what the API server lets it, and the rest counts as empty.

Of a namespaced kind that may not be listed in the whole cluster, the objects of one namespace are read. What may be listed is
found out once for each kind, with its first list; a right that is granted later counts from the next start on.

For commands that show a user what there is to see, such as `stowage dashboard`. A process that decides must see all or nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final, Self

import msgspec

from api.errors import Forbidden
from api.kube.client import Kube, Page
from api.kube.resources import Resource
from api.kube.stream import BOOKMARK, WatchEvent
from api.kube.transport import Fence, Transport

_VERSION: Final = "1"
_END: Final = msgspec.Raw(
    msgspec.json.encode(
        {"metadata": {"resourceVersion": _VERSION, "annotations": {"k8s.io/initial-events-end": "true"}}}
    )
)
_Asked = tuple[Resource, str | None]


class PartialKube(Kube):
    """A client with the session of another one, which closes it. `namespace` is read where the whole cluster may not be."""

    def __init__(self, transport: Transport, fence: Fence | None = None, namespace: str = "default") -> None:
        super().__init__(transport, fence)
        self._namespace = namespace
        self._scopes: dict[_Asked, str | None] = {}
        self._settling: dict[_Asked, asyncio.Lock] = {}
        self._why: dict[Resource, str] = {}

    @classmethod
    def of(cls, kube: Kube, namespace: str) -> Self:
        """Returns a client with the session and limits of `kube`."""
        return cls(kube._transport, namespace=namespace)

    @property
    def refused(self) -> Mapping[Resource, str]:
        """The API server's refusals by kind: of the whole cluster, and of the namespace too if that was refused as well."""
        return self._why

    def scope(self, resource: Resource) -> str | None:
        """Returns the namespace of which objects are read; None for all; an empty string for none, also before it was asked."""
        return self._scopes.get((resource, None), "")

    async def list_raw(self, resource: Resource, namespace: str | None = None, **selection: Any) -> Page[msgspec.Raw]:
        """Returns one page of what may be listed. Raises ApiError other than Forbidden."""
        scope = await self._scope_of(resource, namespace)
        if scope == "":
            return Page([], _VERSION)
        return await super().list_raw(resource, scope, **selection)

    async def watch(
        self, resource: Resource, namespace: str | None = None, **options: Any
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yields the events of what may be listed; of what may not, the end of an empty list alone. Raises as Kube.watch."""
        scope = await self._scope_of(resource, namespace)
        if scope == "":
            if options.get("initial_events"):
                yield WatchEvent(BOOKMARK, _END)
            await asyncio.Event().wait()
        async with aclosing(super().watch(resource, scope, **options)) as events:
            async for event in events:
                yield event

    async def _scope_of(self, resource: Resource, namespace: str | None) -> str | None:
        asked = resource, namespace
        async with self._settling.setdefault(asked, asyncio.Lock()):
            if asked not in self._scopes:
                self._scopes[asked] = await self._found(resource, namespace)
        return self._scopes[asked]

    async def _found(self, resource: Resource, namespace: str | None) -> str | None:
        own = [self._namespace] if resource.namespaced and namespace is None else []
        for scope in (namespace, *own):
            try:
                await super().list_raw(resource, scope, limit=1)
            except Forbidden as refused:
                self._why[resource] = " ".join(refused.message.split())
            else:
                return scope
        return ""
