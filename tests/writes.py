"""A client that records its writes and lists, and that may be cut off after a number of writes."""

from __future__ import annotations

import asyncio
from collections import Counter

from api.kube.client import Kube
from api.kube.connection import Connection, connect
from api.kube.settings import ClientSettings
from api.kube.transport import ApiRequest, Transport

Writes = list[tuple[str, str]]
"""(verb, resource) of every write, in order."""


async def noting(
    settings: ClientSettings, most: int | None = None, lists: Counter[str] | None = None
) -> tuple[Kube, Writes]:
    """Returns the client and its writes; the caller closes the client.

    Writes beyond `most` are never sent, and never answered. `lists` counts the lists by resource.
    """
    wire = _Noting(await connect(settings), settings, most, lists)
    return Kube(wire), wire.writes


class _Noting(Transport):
    def __init__(
        self, connection: Connection, settings: ClientSettings, most: int | None, lists: Counter[str] | None
    ) -> None:
        super().__init__(connection, settings)
        self.writes: Writes = []
        self.lists: Counter[str] = Counter() if lists is None else lists
        self._most = most

    async def send(self, call: ApiRequest) -> bytes:
        if call.verb == "list":
            self.lists[call.resource] += 1
        if call.method != "GET":
            if self._most is not None and len(self.writes) >= self._most:
                await asyncio.Event().wait()
            self.writes.append((call.verb, call.resource))
        return await super().send(call)
