"""The HTTP server of the dashboard: it authenticates, routes and answers. The answers come from dashboard.py.

Every request is bounded: its body, its time, and (by admission.serving) its connection. On localhost there are no
tokens: a request must name this machine as its host, so that no other name can be rebound to it, and no page of another origin
may send one.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from admission.dashboard.dashboard import Dashboard
from admission.dashboard.serve.encoding import encoded
from admission.dashboard.serve.openapi import document
from admission.dashboard.serve.routes import EVENTS, PREFIX, Asked, Route, check_query, checked, matched
from admission.dashboard.serve.static_files import StaticFile, load
from admission.dashboard.serve.unread import Unread
from admission.dashboard.stream import MOST_OF_ONE, Batch, TooManyClients, TooManyOfOne, event
from admission.dashboard.viewer import LocalUser, Permissions, Viewer, share_of
from admission.serving.bounded_server import BoundedServer, Refused
from admission.serving.connection_limits import ConnectionLimits, cut
from admission.serving.connections import finished
from api.errors import StowageError
from api.process.identities import TooManyTokens

LONGEST_BODY: Final = 512 * 1024
LONGEST_PATH: Final = 2048
_READ_WITHIN, _ANSWERED_WITHIN, _SENT_WITHIN = 10.0, 60.0, 60.0
_HEARTBEAT: Final = 10.0
_BLOCK: Final = 1 << 16
_PACKED_FROM, _QUICKLY, _LONGEST_LIST = 1 << 13, 1, 256
"""Bytes of an answer that is compressed, the level, and characters of a header that are read."""
_HERE: Final = b": still here\n\n"
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
LIMITS: Final = ConnectionLimits(whole=15.0, unfinished=256, served=1024)
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
Authenticate = Callable[[str, str], Awaitable[Viewer | None]]
"""Returns the viewer of a token that a client of an address sent, None if it is not accepted."""
Extra = Callable[[web.BaseRequest, Viewer, bytes], Awaitable[web.StreamResponse]]
"""Answers a request of another protocol, whose viewer is known."""


class DashboardServer(BoundedServer):
    """Answers requests. Without `authenticate` the only client is this machine's user, `local`. `extra` has further paths."""

    headers = HEADERS

    def __init__(
        self,
        dashboard: Dashboard,
        authenticate: Authenticate | None = None,
        extra: Mapping[str, Extra] | None = None,
        local: LocalUser | None = None,
    ) -> None:
        super().__init__("dashboard", LIMITS, _SENT_WITHIN)
        self._dashboard, self._authenticate, self._extra = dashboard, authenticate, extra or {}
        self._local = local or LocalUser()
        self._unread = Unread()
        self._files: dict[str, StaticFile] = load()
        self._openapi = msgspec.json.encode(document(dashboard.facts.version))

    def seconds(self, request: web.BaseRequest) -> float | None:
        """Returns the time of an answer; changes are followed for as long as the client likes."""
        return None if request.path == EVENTS else _READ_WITHIN + _ANSWERED_WITHIN

    async def answer(self, request: web.BaseRequest, held: contextlib.AsyncExitStack) -> web.StreamResponse:
        """Returns a file, an answer of the dashboard, or the stream of changes after its end."""
        held.callback(self._unread.leave, id(request))
        self._check_origin(request)
        path = request.rel_url.raw_path
        if len(path) > LONGEST_PATH:
            raise Refused(414, "URITooLong", "the path is too long")
        api = path.startswith(PREFIX)
        if not api and path not in self._extra:
            finished(request)
            return self._file(request, path)
        viewer = await self._viewer(request)
        if path in self._extra:
            response = await self._extra[path](request, viewer, await _body(request))
            self._unread.enter(id(request), share_of(viewer.name), response.content_length or 0)
            return response
        if path == EVENTS and request.method == "GET":
            finished(request)
            return await self._events(request, viewer)
        route, names = self._route(request, path)
        check_query(route, request.query)
        asked = await _question(request, route) if route.body is not None else {}
        finished(request)
        answer = await route.call(self._dashboard, viewer, Asked(names, request.query, asked))
        body = answer if isinstance(answer, bytes) else await encoded(answer)
        self._unread.enter(id(request), share_of(viewer.name), len(body))
        headers = {"Cache-Control": "no-store"}
        if self._packs(request) and len(body) >= _PACKED_FROM:
            body = await asyncio.to_thread(gzip.compress, body, _QUICKLY)
            headers["Content-Encoding"] = "gzip"
        return web.Response(body=body, content_type="application/json", headers=headers)

    def refused(self, request: web.BaseRequest, refusal: Refused) -> web.Response:
        """Returns a JSON object with the error and its message."""
        headers = {"Cache-Control": "no-store"}
        if refusal.status == HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = "Bearer"
        if refusal.status == HTTPStatus.TOO_MANY_REQUESTS:
            headers["Retry-After"] = "2"
        body = msgspec.json.encode({"error": refusal.error, "message": str(refusal)})
        return web.Response(status=refusal.status, body=body, content_type="application/json", headers=headers)

    def _packs(self, request: web.BaseRequest) -> bool:
        """Reports whether an answer is compressed: on localhost that takes longer than sending it."""
        return self._authenticate is not None and _takes_gzip(request)

    def _route(self, request: web.BaseRequest, path: str) -> tuple[Route, dict[str, str]]:
        routes, names = matched(path)
        for route in routes:
            if route.method == request.method:
                return route, names
        if routes or path == EVENTS:
            raise Refused(405, "MethodNotAllowed", f"{request.method[:16]} is not allowed here")
        raise Refused(404, "NotFound", "there is no such route; /openapi.json lists them")

    # ---- authentication

    def _check_origin(self, request: web.BaseRequest) -> None:
        host = _host(f"//{request.headers.get('Host', '')}")
        if self._authenticate is None and host not in _LOOPBACK:
            raise Refused(403, "Forbidden", "this dashboard answers requests to localhost only")
        origin = request.headers.get("Origin")
        foreign = origin is not None and _netloc(origin) != request.headers.get("Host", "").lower()
        if foreign or request.headers.get("Sec-Fetch-Site") == "cross-site":
            # A link to the page comes from another site; what a script of one sends does not.
            navigates = request.headers.get("Sec-Fetch-Mode") == "navigate" and request.method == "GET"
            if foreign or not navigates:
                raise Refused(403, "Forbidden", "requests of other origins are not answered")

    async def _viewer(self, request: web.BaseRequest) -> Viewer:
        if self._authenticate is None:
            return self._local
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            raise Refused(401, "Unauthorized", "This cluster asks for a token.")
        viewer = await self._of_token(token.strip(), request.remote or "")
        if viewer is None:
            raise Refused(401, "Unauthorized", "The cluster does not accept this token.")
        return viewer

    async def _of_token(self, token: str, source: str) -> Viewer | None:
        if self._authenticate is None:
            return self._local
        try:
            return await self._authenticate(token, source)
        except TooManyTokens as refusal:
            raise Refused(429, "TooManyRequests", str(refusal)) from None
        except (StowageError, TimeoutError):
            raise Refused(503, "Unavailable", "the API server does not say whose token this is") from None

    # ---- files

    def _file(self, request: web.BaseRequest, path: str) -> web.Response:
        if request.method not in ("GET", "HEAD"):
            raise Refused(405, "MethodNotAllowed", f"{request.method[:16]} is not allowed here")
        if path == "/openapi.json":
            return web.Response(body=self._openapi, content_type="application/json")
        if path == "/healthz":
            return web.Response(text="ok\n")
        file = self._files.get(path)
        if file is None:
            raise Refused(404, "NotFound", "there is no such file")
        packed = _takes_gzip(request)
        tag = f'"{file.tag}{".gz" if packed else ""}"'
        headers = {"ETag": tag, "Cache-Control": file.caching, "Vary": "Accept-Encoding"}
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers=headers)
        if packed:
            headers["Content-Encoding"] = "gzip"
        charset = "utf-8" if file.content_type.startswith("text/") else None
        body = file.packed if packed else file.body
        return web.Response(body=body, content_type=file.content_type, charset=charset, headers=headers)

    # ---- changes

    async def _events(self, request: web.BaseRequest, viewer: Viewer) -> web.StreamResponse:
        permissions = await self._dashboard.permissions(viewer)
        response = web.StreamResponse(headers={**HEADERS, "Cache-Control": "no-store"})
        response.content_type = "text/event-stream"
        try:
            with self._dashboard.clients.joined(share_of(viewer.name)) as queue:
                await response.prepare(request)
                await _write(response, event("hello", self._dashboard.begun(permissions)))
                await self._follow(request, response, permissions, queue)
        except TooManyOfOne:
            text = f"{share_of(viewer.name)} follows the changes {MOST_OF_ONE} times already; close a page"
            raise Refused(429, "TooManyRequests", text) from None
        except TooManyClients:
            raise Refused(503, "Unavailable", "too many pages follow the changes") from None
        except (ConnectionError, TimeoutError):
            cut(request.transport)
        except Refused:  # the viewer's token or rights ended: the page asks again, and gets the refusal
            response.force_close()
        return response

    async def _follow(
        self,
        request: web.BaseRequest,
        response: web.StreamResponse,
        permissions: Permissions,
        queue: asyncio.Queue[Batch | None],
    ) -> None:
        """Sends batches until the client is too slow or leaves. The token and the viewer's rights are checked again."""
        loop = asyncio.get_running_loop()
        asked = loop.time()
        while True:
            batch, silent = None, True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_HEARTBEAT):
                    batch, silent = await queue.get(), False
            if batch is None and not silent:
                return
            if loop.time() - asked >= _HEARTBEAT:
                permissions, asked = await self._dashboard.permissions(await self._viewer(request)), loop.time()
            if piece := _HERE if batch is None else batch.encoded(permissions):
                await _write(response, piece)


def _takes_gzip(request: web.BaseRequest) -> bool:
    """Reports whether the client lists gzip without a weight, as browsers do; all others get what is sent to everybody."""
    given = request.headers.get("Accept-Encoding", "")[:_LONGEST_LIST].lower()
    return "gzip" in (each.strip() for each in given.split(","))


def _netloc(origin: str) -> str:
    """Returns host and port of an origin in lower case; empty for one that is none, such as `null`."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


async def _body(request: web.BaseRequest) -> bytes:
    body = bytearray()
    if not request.can_read_body:
        finished(request)
        return b""
    async with asyncio.timeout(_READ_WITHIN):
        async for block in request.content.iter_chunked(_BLOCK):
            body += block
            if len(body) > LONGEST_BODY:
                raise Refused(413, "TooLarge", f"the body is longer than {LONGEST_BODY} bytes")
    finished(request)
    return bytes(body)


async def _question(request: web.BaseRequest, route: Route) -> Mapping[str, Any]:
    if request.content_type != "application/json":
        raise Refused(415, "UnsupportedMediaType", "the body must be application/json")
    body = await _body(request)
    if route.body is None:
        return {}
    try:
        question = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise Refused(400, "BadRequest", "the body is not JSON") from None
    return checked(route.body, question, "the body")


async def _write(response: web.StreamResponse, piece: bytes) -> None:
    async with asyncio.timeout(_SENT_WITHIN):
        await response.write(piece)


@contextlib.asynccontextmanager
async def plain_listening(server: DashboardServer, host: str, port: int) -> AsyncIterator[int]:
    """Serves plain HTTP while the block runs, for this machine only; yields the port. Raises OSError."""
    # No access log: what a user looks at is nobody else's business.
    handler = web.Server(server.handle, handler_cancellation=True, access_log=None)
    runner = web.ServerRunner(handler, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
