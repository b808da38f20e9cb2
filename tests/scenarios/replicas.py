"""A Service in front of several replicas of the webhook, as kube-proxy has it: each connection goes to one that is ready."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Sequence
from typing import Final

import aiohttp

from admission.cli.local_cluster.ports import free_port
from admission.cli.local_cluster.processes import ChildProcess

_PROBE: Final = 0.5
"""Seconds between two probes of a replica, and that it may take to answer one."""


class Replicas:
    """Forwards connections of `url` to the ready ones in turn; `backends` may change at any time."""

    def __init__(self, backends: Sequence[tuple[ChildProcess, int]]) -> None:
        self.backends = list(backends)
        self._port, self._ready = free_port(), {port for _, port in backends}
        self._turn = itertools.count()

    @property
    def url(self) -> str:
        """Where the API server finds the webhooks."""
        return f"https://127.0.0.1:{self._port}"

    @property
    def ready(self) -> frozenset[int]:
        """The ports of those that have answered their last probe."""
        return frozenset(self._ready)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Until the block ends."""
        server = await asyncio.start_server(self._forward, "127.0.0.1", self._port)
        probes = asyncio.create_task(self._probe(), name="readiness probes")
        try:
            yield
        finally:
            probes.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await probes
            server.close()

    async def _probe(self) -> None:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_PROBE)) as session:
            while True:
                backends = list(self.backends)
                found = await asyncio.gather(*(_answers(session, child) for child, _ in backends))
                self._ready = {port for (_, port), ready in zip(backends, found, strict=True) if ready}
                await asyncio.sleep(_PROBE)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ready = [port for _, port in self.backends if port in self._ready]
        with contextlib.suppress(OSError), contextlib.closing(writer):
            if not ready:
                return
            there, back = await asyncio.open_connection("127.0.0.1", ready[next(self._turn) % len(ready)])
            with contextlib.closing(back):
                await asyncio.gather(_copy(reader, back), _copy(there, writer))


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    target.close()


async def _answers(session: aiohttp.ClientSession, child: ChildProcess) -> bool:
    try:
        async with session.get(f"http://127.0.0.1:{child.health_port}/readyz") as answer:
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False
