"""An HTTPS server for untrusted clients: bounds the number of its connections and the duration of each step.

`listening` serves while its block runs. A handler calls `finished` once it has read the request whole, and `send` to answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Protocol, runtime_checkable

from aiohttp import web
from aiohttp.web_protocol import RequestHandler, _ErrInfo

from admission.serving.connection_limits import ConnectionLimits, OldestFirstLimit, address, cut
from admission.serving.handshakes import Handshakes

log = logging.getLogger(__name__)

_GRACE: Final = 5.0
# Longer than the API server keeps an idle connection (90 s), so that no request meets a connection that is being closed.
_IDLE: Final = 120.0
_READ_AHEAD: Final = 64 * 1024
"""Bytes of TLS data that a connection buffers while its reading is paused."""
_SEND_AHEAD: Final = 64 * 1024
_PIECE: Final = 128 * 1024
"""Bytes that kernel and TLS take for a client that does not read, else megabytes; and bytes that are written at once."""

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Connections:
    """The open connections of one server: those without a whole request yet, and those that are kept for the next one."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.unfinished, self.served = OldestFirstLimit(limits.unfinished), OldestFirstLimit(limits.served)


@runtime_checkable
class _BoundsReading(Protocol):
    """A TLS transport of asyncio or uvloop whose read buffer can be limited."""

    def set_read_buffer_limits(self, high: int) -> None: ...


class _Connection(RequestHandler):
    """A connection that is closed if its first request is late, or if it is the oldest of too many."""

    __slots__ = ("_open", "_overdue")

    def __init__(self, connections: Connections, server: web.Server, loop: asyncio.AbstractEventLoop) -> None:
        # Decompressing would defeat the limit on a body's length; the API server sends no compressed bodies.
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]  # as web.Server's own default for no log
            keepalive_timeout=_IDLE,
            lingering_time=0.0,
            auto_decompress=False,
        )
        self._open = connections
        self._overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if isinstance(transport, _BoundsReading):
            transport.set_read_buffer_limits(_READ_AHEAD)
        if (sock := transport.get_extra_info("socket")) is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_AHEAD)
        if isinstance(transport, asyncio.WriteTransport):
            transport.set_write_buffer_limits(_SEND_AHEAD)
        self._overdue = asyncio.get_running_loop().call_later(2 * self._open.limits.whole, self._abort)
        self._open.unfinished.enter(self, address(transport), self._abort)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._note_arrival()
        self._open.served.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Stops reading after a malformed message: nothing after it can be parsed."""
        super().data_received(data)
        for message, _ in self._messages:
            if isinstance(message, _ErrInfo):
                # The traceback's frames hold `data` and the error itself, a cycle that only the garbage collector would free.
                message.exc.__traceback__ = None
                if self.transport is not None:
                    self.transport.pause_reading()

    def finished(self) -> None:
        """Records that the connection sent a whole request and may now be kept for the next."""
        self._note_arrival()
        self._open.served.enter(self, address(self.transport), self.close)

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answers malformed HTTP without logging or echoing it: the client controls its length."""
        if status != HTTPStatus.BAD_REQUEST:
            return super().handle_error(request, status, exc, message)
        response = web.Response(status=status, text="this is not an HTTP request\n")
        response.force_close()
        return response

    def _abort(self) -> None:
        cut(self.transport)

    def _note_arrival(self) -> None:
        self._open.unfinished.leave(self)
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None


class _Server(web.Server):
    def __init__(
        self, connections: Connections, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
    ) -> None:
        # A request whose connection is closed is cancelled: it frees its body and its turn at once.
        super().__init__(handler, handler_cancellation=True)
        self._open = connections

    def __call__(self) -> RequestHandler:
        return _Connection(self._open, self, asyncio.get_running_loop())


def finished(request: web.BaseRequest) -> None:
    """Records that the request has been read whole, so that its connection may be kept."""
    if isinstance(request.protocol, _Connection):
        request.protocol.finished()


async def send(request: web.BaseRequest, response: web.StreamResponse, within: float) -> None:
    """Sends a whole response. Cuts the connection if the client has not read it within so many seconds."""
    try:
        async with asyncio.timeout(within):
            await response.prepare(request)
            if isinstance(response, web.Response) and request.method != "HEAD":
                await _in_pieces(response)
            await response.write_eof()
    except TimeoutError:
        cut(request.transport)
    except ConnectionError:
        log.debug("the client closed the connection before the response")


async def _in_pieces(response: web.Response) -> None:
    """Writes a long body as the client reads it: TLS takes one write of any length at once, and holds a copy of it."""
    body = response.body
    if isinstance(body, bytes | bytearray) and len(body) > _PIECE:
        response.body = None  # what is written; an idle connection would keep it, too
        for first in range(0, len(body), _PIECE):
            await response.write(memoryview(body)[first : first + _PIECE])


@dataclass(frozen=True, slots=True)
class Listening:
    """A server that listens on `port`."""

    port: int
    _server: web.Server

    def end_connections(self) -> None:
        """Closes each connection after its current request: the client certificates were verified by an earlier CA."""
        for each in self._server.connections:
            each.close()


@contextlib.asynccontextmanager
async def listening(
    connections: Connections, handle: Handle, context: Callable[[], ssl.SSLContext], host: str, port: int
) -> AsyncIterator[Listening]:
    """Serves while the block runs; yields the port that it listens on (a free one if `port` is 0).

    `context` is called for each connection. On exit, open requests get `_GRACE` seconds to finish. Raises OSError if the
    address cannot be bound.
    """
    limits, server = connections.limits, _Server(connections, handle)
    runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=_GRACE)
    await runner.setup()
    handshakes = Handshakes(context, runner.server, limits.handshake, limits.unfinished)  # type: ignore[arg-type]
    try:
        addresses = await handshakes.listen(host, port)
        try:
            yield Listening(addresses[0][1], server)
        finally:
            await handshakes.close()
    finally:
        await runner.cleanup()
