"""A server of untrusted clients: each request gets an answer or a refusal, within its bounds.

Webhook, visibility API and dashboard are such servers: each says what it answers, and how its refusals read.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping

from aiohttp import web

from admission.serving.connection_limits import ConnectionLimits
from admission.serving.connections import Connections, Listening, listening, send

log = logging.getLogger(__name__)


class Refused(Exception):
    """The request gets this status instead of an answer; `error` is a word for programs.

    `start` is the beginning of a body that is too large.
    """

    def __init__(self, status: int, error: str, message: str, start: bytes = b"") -> None:
        super().__init__(message)
        self.status, self.error, self.start = status, error, start


class BoundedServer(ABC):
    """Answers the requests of its connections."""

    headers: Mapping[str, str] = {}
    """Headers of each answer."""

    def __init__(self, name: str, limits: ConnectionLimits, sent_within: float) -> None:
        """A client has `sent_within` seconds to read an answer."""
        self.name, self._limits, self._sent_within = name, limits, sent_within

    @abstractmethod
    async def answer(self, request: web.BaseRequest, held: contextlib.AsyncExitStack) -> web.StreamResponse:
        """Returns the answer; `held` is released when it has been sent. Raises Refused."""

    @abstractmethod
    def refused(self, request: web.BaseRequest, refusal: Refused) -> web.Response:
        """Returns the response with a refusal."""

    def seconds(self, request: web.BaseRequest) -> float | None:
        """Returns how long an answer may take."""
        return None

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers any request."""
        async with contextlib.AsyncExitStack() as held:
            try:
                async with asyncio.timeout(self.seconds(request)):
                    response = await self.answer(request, held)
            except Refused as refusal:
                response = self.refused(request, refusal)
            except TimeoutError:
                response = self.refused(request, Refused(503, "Unavailable", "no answer in time"))
            except Exception:
                log.exception("a request of the %s failed", self.name)
                response = self.refused(request, Refused(500, "InternalError", "internal error"))
            if not response.prepared:
                response.headers.update(self.headers)
                await self.send(request, response)
        return response

    async def send(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Sends the response. A body that is not read by now stays unread."""
        if request.can_read_body:
            response.force_close()
        await send(request, response, self._sent_within)

    @contextlib.asynccontextmanager
    async def listening(self, context: Callable[[], ssl.SSLContext], host: str, port: int) -> AsyncIterator[Listening]:
        """Serves HTTPS while the block runs, on a free port if `port` is 0. On exit, open requests get five seconds to finish.

        `context` is called for each connection. Raises OSError if the address cannot be bound.
        """
        async with listening(Connections(self._limits), self.handle, context, host, port) as listening_at:
            log.info("%s listens", self.name, extra={"port": listening_at.port})
            yield listening_at
