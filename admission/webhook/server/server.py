"""The webhook's HTTPS server: answers admission and conversion reviews, and health checks, for untrusted clients.

A body that is not an AdmissionReview gets status 400 with the reason. An internal failure gets status 500 with the error's
type and is logged. Neither stops the process. `ServerLimits` bounds what clients can use: the length of a body and the number
of its values (checked before decoding), the duration of a request, and the number of incomplete requests and of large bodies.
Beyond a limit the server closes the oldest request of the address with the most requests, because the API server itself
sends a review within milliseconds.

Small reviews are answered on the event loop because they never block. Large bodies take turns: each iteration of the loop
reads one chunk of one body. Threads decode and answer large reviews and conversions, so they cannot delay small ones. The
serving certificate can be replaced while connections are open (`Serving.load`): new handshakes use it, existing connections
continue. `Serving` can require client certificates, for an API server that is configured with one (SECURITY.md).

`app.py` calls `serving` after it has loaded a certificate; `admission/serving/certificates.py` renews that certificate.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web

from admission.serving.bounded_server import BoundedServer, Refused
from admission.serving.connection_limits import OldestFirstLimit, address, cut
from admission.serving.connections import finished, send
from admission.serving.tls import Serving
from admission.webhook.endpoints import PATHS
from admission.webhook.server.handlers import Handlers
from admission.webhook.server.review import START, busy, count_values, too_large
from admission.webhook.server.server_limits import BYTES_OF_A_VALUE, ServerLimits
from admission.webhook.server.worker_thread import WorkerThread
from api.names import CONVERT_PATH

T = TypeVar("T")

_LINGER: Final = 1.0
"""Seconds for which the connection of a refused request stays open after the answer, so that the client can read it."""

_ONE_OBJECT: Final = 16 * 1024
"""Longest body of a conversion that is answered on the event loop: the API server converts each object that is written, one by
one, for the watchers of another version, and a thread takes longer to be asked than to convert it."""


class _WebhookServer(BoundedServer):
    """Answers requests, with its limits and worker threads."""

    def __init__(self, handlers: Handlers, limits: ServerLimits) -> None:
        super().__init__("webhook", limits, limits.whole)
        self._handlers, self.limits = handlers, limits
        self._bodies, self._sending = OldestFirstLimit(limits.large), OldestFirstLimit(limits.sending)
        self._lists, self._turn = asyncio.Semaphore(limits.lists), asyncio.Lock()
        self._reviewing, self._converting, self._listing = (
            WorkerThread(name, limits.waiting) for name in ("large-reviews", "conversions", "large-conversions")
        )
        self._gets: Mapping[str, Callable[[], web.Response]] = {
            "/healthz": handlers.healthz,
            "/readyz": handlers.readyz,
        }
        self._posts = PATHS | {CONVERT_PATH}

    def close(self) -> None:
        for thread in (self._reviewing, self._converting, self._listing):
            thread.close()

    def refused(self, request: web.BaseRequest, refusal: Refused) -> web.Response:
        """Returns a denial of the review, or a text. It ends the connection, so that the rest of a long body is not read."""
        _stop_reading(request)
        response, path = web.Response(status=refusal.status, text=f"{refusal}\n"), request.path
        if path in PATHS and (denial := too_large(refusal.start, str(refusal))) is not None:
            self._handlers.observe(path, "too large")
            response = web.Response(body=msgspec.json.encode(denial), content_type="application/json")
        response.force_close()
        return response

    async def answer(self, request: web.BaseRequest, held: contextlib.AsyncExitStack) -> web.Response:
        """Returns a page or the answer to a review."""
        page, known = self._gets.get(request.path), request.path in self._posts
        if page is None and not known:
            raise Refused(404, "NotFound", "no such path")
        if request.method != ("GET" if page else "POST"):
            raise Refused(405, "MethodNotAllowed", "GET" if page else "POST")
        if page is not None:
            return page()
        self._admit(request)
        body = await self._body(request, held)
        finished(request)
        if request.path == CONVERT_PATH:
            if len(body) <= _ONE_OBJECT:
                return await self._handlers.convert(body, _at_once)
            thread = self._listing if len(body) > self.limits.body else self._converting
            with thread.line():
                return await self._handlers.convert(body, thread.call)
        if len(body) <= self.limits.small:
            return await self._handlers.answer(request.path, body, _at_once)
        if self._reviewing.is_full and (denial := busy(body)):
            self._handlers.observe(request.path, "busy")
            return web.Response(body=msgspec.json.encode(denial), content_type="application/json")
        with self._reviewing.line():
            return await self._handlers.answer(request.path, body, self._reviewing.call)

    def _admit(self, request: web.BaseRequest) -> None:
        allowed = self._handlers.clients
        if allowed and not allowed_names(request.get_extra_info("peercert")) & set(allowed):
            raise Refused(403, "Forbidden", "the client's certificate has none of the names that may request reviews")

    async def _body(self, request: web.BaseRequest, held: contextlib.AsyncExitStack) -> bytearray:
        """Returns the request's body. `held` keeps the semaphore of a long body until it is answered.

        Raises Refused if the body is too long, has too many values or arrives too slowly.
        """
        limits, length, converts = self.limits, request.content_length, request.path == CONVERT_PATH
        most = limits.conversion if converts else limits.body
        large = length is None or length > limits.small
        if large:
            self._bodies.enter(request.protocol, address(request.transport), lambda: cut(request.transport))
        body, values, listed = bytearray(), 0, False
        try:
            async with asyncio.timeout(limits.whole) as deadline:
                async for chunk in request.content.iter_any():
                    body += chunk
                    values += count_values(chunk)
                    if max(len(body), length or 0) > most:
                        raise Refused(413, "TooLarge", f"a body has at most {most} bytes", bytes(body[:START]))
                    if values > (most_values := max(limits.values, len(body) // BYTES_OF_A_VALUE)):
                        limit = f"a body of {len(body)} bytes has at most {most_values} values"
                        raise Refused(413, "TooLarge", limit, bytes(body[:START]))
                    if len(body) > limits.body and not listed:
                        await held.enter_async_context(self._lists)
                        deadline.reschedule(asyncio.get_running_loop().time() + limits.whole)
                        listed = True
                    if large:
                        await self._pause()
        except TimeoutError:
            raise Refused(408, "RequestTimeout", f"a request is whole within {limits.whole:g} s") from None
        except (OSError, web.RequestPayloadError) as ended:
            raise Refused(400, "BadRequest", f"the body ends early: {ended}") from None
        finally:
            if large:
                self._bodies.leave(request.protocol)
        return body

    async def _pause(self) -> None:
        """Waits for this body's turn: each iteration of the loop reads one chunk of one large body."""
        async with self._turn:
            await asyncio.sleep(0)

    async def send(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Sends the response. Closes the connection if the client reads too slowly or has not sent its whole body."""
        finished(request)
        long = not (
            isinstance(response, web.Response)
            and isinstance(response.body, bytes)
            and len(response.body) <= self.limits.small
        )
        if long:
            self._sending.enter(request.protocol, address(request.transport), lambda: cut(request.transport))
        try:
            await send(request, response, self.limits.whole)
        finally:
            if long:
                self._sending.leave(request.protocol)
        if not request.content.is_eof():
            # Closing at once would reset the connection, and a client that is still writing may lose the response.
            await asyncio.sleep(min(_LINGER, self.limits.whole / 2))
            cut(request.transport)


async def _at_once(what: Callable[..., T], *arguments: Any) -> T:
    return what(*arguments)


def allowed_names(certificate: Mapping[str, Any] | None) -> set[str]:
    """Returns the common names in a client certificate as `ssl.getpeercert` decodes it; none without a certificate."""
    subject = (certificate or {}).get("subject", ())
    return {value for part in subject for key, value in part if key == "commonName"}


def _stop_reading(request: web.BaseRequest) -> None:
    """Leaves the rest of a refused body unread: reading it would cost as much as accepting it."""
    if request.content.is_eof() or request.transport is None:
        return
    request.transport.pause_reading()
    with contextlib.suppress(OSError, web.RequestPayloadError):
        request.content.read_nowait(-1)


@contextlib.asynccontextmanager
async def serving(
    handlers: Handlers, tls: Serving, host: str, port: int, limits: ServerLimits | None = None
) -> AsyncIterator[int]:
    """Serves while the block runs and yields the port (a free one if `port` is 0).

    On exit, open requests get five seconds to finish. Raises OSError if the address cannot be bound.
    """
    server = _WebhookServer(handlers, limits or ServerLimits())
    try:
        async with server.listening(lambda: tls.context, host, port) as listening_at:
            yield listening_at.port
    finally:
        server.close()
