"""Bounds on what clients hold open: the oldest gives way. Used by server.py and handshakes.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class OldestFirstLimit:
    """At most `limit` unfinished entries. One more ends the oldest entry of the address that has the most entries."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._ends: dict[str, dict[object, Callable[[], None]]] = {}
        self._address: dict[object, str] = {}

    def enter(self, one: object, source: str, end: Callable[[], None]) -> None:
        """Add the entry as the newest one, even if it was there before."""
        self.leave(one)
        while len(self._address) >= self._limit:
            most = max(self._ends.values(), key=len)
            oldest, end_it = next(iter(most.items()))
            self.leave(oldest)
            end_it()
        self._address[one] = source
        self._ends.setdefault(source, {})[one] = end

    def leave(self, one: object) -> None:
        source = self._address.pop(one, None)
        if source is not None:
            del self._ends[source][one]
            if not self._ends[source]:
                del self._ends[source]


def address(transport: asyncio.BaseTransport | None) -> str:
    """The address of the client."""
    peer = transport.get_extra_info("peername") if transport is not None else None
    return str(peer[0]) if peer else ""


def cut(transport: asyncio.Transport | None) -> None:
    """Close at once: an orderly end of TLS would wait for the client."""
    if transport is not None:
        transport.abort()
