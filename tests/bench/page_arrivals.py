"""Where the time of an event goes: when a bare watch has it, and when the dashboard's stream of events has it.

The bare watch is the floor: what the API server takes until any client is told. The stream is the floor, the dashboard's own
copy and what it makes of it; the rest until the screen is the page's.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from api.kube.client import Kube
from api.kube.resources import NODES

_LONGEST = 1 << 24
_WITHIN = 30.0


@dataclass(slots=True)
class Arrivals:
    """Milliseconds since the request: until it was answered, and until watch and stream told of it; of each event."""

    answered: list[float] = field(default_factory=list)
    watched: list[float] = field(default_factory=list)
    streamed: list[float] = field(default_factory=list)
    _lines: dict[str, asyncio.Queue[tuple[float, bytes]]] = field(
        default_factory=lambda: {"watch": asyncio.Queue(), "stream": asyncio.Queue()}
    )

    def told(self, source: str, line: bytes) -> None:
        """Notes a line that a source has sent."""
        self._lines[source].put_nowait((time.time(), line))

    async def time(
        self, request: Callable[[], Awaitable[object]], *, watched: tuple[bytes, ...], streamed: tuple[bytes, ...]
    ) -> None:
        """Makes the request, and waits for the lines that hold all of these bytes."""
        for lines in self._lines.values():
            while not lines.empty():
                lines.get_nowait()
        began = time.time()
        await request()
        self.answered.append((time.time() - began) * 1000)
        for source, wanted, into in (("watch", watched, self.watched), ("stream", streamed, self.streamed)):
            into.append((await self._at(source, wanted) - began) * 1000)

    async def _at(self, source: str, wanted: tuple[bytes, ...]) -> float:
        last = b""
        try:
            async with asyncio.timeout(_WITHIN):
                while True:
                    at, last = await self._lines[source].get()
                    if all(each in last for each in wanted):
                        return at
        except TimeoutError:
            text = f"the {source} has not told {wanted} within {_WITHIN:.0f} s; the last that it told: {last[:300]!r}"
            raise TimeoutError(text) from None


@asynccontextmanager
async def arriving(kube: Kube, url: str) -> AsyncIterator[Arrivals]:
    """Yields what arrives at a watch of nodes and at the dashboard's stream while the block runs."""
    found = Arrivals()
    version = (await kube.list_raw(NODES, limit=1)).resource_version

    async def watch() -> None:
        async for event in kube.watch(NODES, resource_version=version):
            found.told("watch", bytes(event.object))
        raise RuntimeError("the bare watch has ended")

    async def stream() -> None:
        timeout = aiohttp.ClientTimeout(total=None)
        async with (
            aiohttp.ClientSession(timeout=timeout, read_bufsize=_LONGEST) as client,
            client.get(f"{url}api/v1/events") as answer,
        ):
            answer.raise_for_status()
            async for line in answer.content:
                found.told("stream", line)
        found.told("stream", b"the stream has ended")

    tasks = [asyncio.create_task(watch()), asyncio.create_task(stream())]
    try:
        yield found
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
