"""Accepts connections and starts at most one TLS handshake per iteration of the event loop.

A handshake takes about a millisecond of CPU, so a thousand at once would block the loop for a second. New connections wait in
the kernel's queue while requests on established connections are answered. connections.py uses it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Final

from admission.serving.connection_limits import OldestFirstLimit

log = logging.getLogger(__name__)

_WAITING_TO_BE_ACCEPTED: Final = 1024
_RECEIVE_BUFFER: Final = 64 * 1024
"""Bytes (Linux doubles them). In one iteration of the loop a connection is read until its buffer is empty: with the kernel's
default of several MiB, 64 connections that send without end would block the loop for 50 ms."""
_SHUTDOWN: Final = 1.0
"""Seconds for an orderly TLS shutdown."""
_NO_SOCKET_LEFT: Final = 0.1
"""Seconds before accepting again after the system is out of sockets."""


class Handshakes:
    """Accepts connections and passes each to a protocol from `protocol` after its TLS handshake.

    `context` is called for each connection. A handshake may take `seconds`; at most `unfinished` run at once.
    """

    def __init__(
        self,
        context: Callable[[], ssl.SSLContext],
        protocol: Callable[[], asyncio.Protocol],
        seconds: float,
        unfinished: int,
    ) -> None:
        self._context, self._made, self._seconds = context, protocol, seconds
        self._unfinished = OldestFirstLimit(unfinished)
        self._listening: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, host: str, port: int) -> list[tuple[str, int]]:
        """Starts to accept connections and returns the addresses. Raises OSError if an address cannot be bound."""
        loop = asyncio.get_running_loop()
        addresses = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, address in sorted({(family, address[:2]) for family, _, _, _, address in addresses}):
                listening = socket.create_server(address, family=family, backlog=_WAITING_TO_BE_ACCEPTED)
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
                listening.setblocking(False)
                self._listening.append(listening)
        except OSError:
            await self.close()
            raise
        for listening in self._listening:
            self._start(self._accept(listening), "accepting")
        return [listening.getsockname()[:2] for listening in self._listening]

    async def close(self) -> None:
        """Cancels unfinished handshakes and stops accepting connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for listening in self._listening:
            listening.close()

    def _start(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as failed:
                log.warning("a connection could not be accepted", extra={"error": str(failed)})
                await asyncio.sleep(_NO_SOCKET_LEFT)
                continue
            task = self._start(self._begin(accepted), "handshake")
            self._unfinished.enter(task, str(address[0]), partial(_cancel, task))
            task.add_done_callback(self._unfinished.leave)
            await asyncio.sleep(0)

    async def _begin(self, accepted: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._made,
                accepted,
                ssl=self._context(),
                ssl_handshake_timeout=self._seconds,
                ssl_shutdown_timeout=_SHUTDOWN,
            )
        except OSError:  # includes ssl.SSLError and TimeoutError
            accepted.close()
        except asyncio.CancelledError:
            accepted.close()
            raise


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
