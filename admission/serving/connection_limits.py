"""How many connections may be open and how long each step may take; beyond a limit the oldest connection is closed.

Used by connections.py and handshakes.py, and by the servers for their own limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of one server on its connections. Times are in seconds."""

    handshake: float = 5.0
    whole: float = 10.0
    """Time from a request's head to its end; the API server waits no longer. A new connection has twice as long."""
    unfinished: int = 1024
    """Connections that have not yet sent a whole request."""
    served: int = 1024
    """Connections that have sent a whole request and are kept for the next."""


class OldestFirstLimit:
    """At most `limit` entries. One more ends the oldest entry of the address that has the most entries. O(addresses)."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._ends: dict[str, dict[object, Callable[[], None]]] = {}
        self._address: dict[object, str] = {}

    def enter(self, entry: object, source: str, end: Callable[[], None]) -> None:
        """Adds `entry` as the newest entry, even if already present. `end` is called if it must make room for another."""
        self.leave(entry)
        while len(self._address) >= self._limit:
            most = max(self._ends.values(), key=len)
            oldest, end_it = next(iter(most.items()))
            self.leave(oldest)
            end_it()
        self._address[entry] = source
        self._ends.setdefault(source, {})[entry] = end

    def leave(self, entry: object) -> None:
        source = self._address.pop(entry, None)
        if source is not None:
            del self._ends[source][entry]
            if not self._ends[source]:
                del self._ends[source]


def address(transport: asyncio.BaseTransport | None) -> str:
    """Returns the client's IP address, or an empty string if the connection is closed."""
    peer = transport.get_extra_info("peername") if transport is not None else None
    return str(peer[0]) if peer else ""


def cut(transport: asyncio.Transport | None) -> None:
    """Closes the connection at once: an orderly TLS shutdown would wait for the client."""
    if transport is not None:
        transport.abort()
