"""A client whose writes are noted, and which may be cut off after so many of them."""

from __future__ import annotations

import asyncio

from api.kube.client import Kube
from api.kube.connection import Connection, connect
from api.kube.settings import ClientSettings
from api.kube.transport import ApiRequest, Transport

Writes = list[tuple[str, str]]
"""(verb, resource) of every write, in order."""


async def noting(settings: ClientSettings, most: int | None = None) -> tuple[Kube, Writes]:
    """Writes beyond `most` are never sent, and never answered. The caller closes the client."""
    wire = _Noting(await connect(settings), settings, most)
    return Kube(wire), wire.writes


class _Noting(Transport):
    def __init__(self, connection: Connection, settings: ClientSettings, most: int | None) -> None:
        super().__init__(connection, settings)
        self.writes: Writes = []
        self._most = most

    async def send(self, call: ApiRequest) -> bytes:
        if call.method != "GET":
            if self._most is not None and len(self.writes) >= self._most:
                await asyncio.Event().wait()
            self.writes.append((call.verb, call.resource))
        return await super().send(call)
