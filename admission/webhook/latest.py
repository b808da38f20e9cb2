"""Bounds on what strangers hold open: the oldest gives way. Used by server.py and handshakes.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class OldestFirstLimit:
    """At most so many that are not finished; one more ends the oldest of the address that has the most."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._ends: dict[str, dict[object, Callable[[], None]]] = {}
        self._address: dict[object, str] = {}

    def enter(self, one: object, source: str, end: Callable[[], None]) -> None:
        """It is the latest, also where it was there before."""
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
    """Of the other side."""
    peer = transport.get_extra_info("peername") if transport is not None else None
    return str(peer[0]) if peer else ""


def cut(transport: asyncio.Transport | None) -> None:
    """At once: an orderly end of TLS would wait for the other side."""
    if transport is not None:
        transport.abort()
