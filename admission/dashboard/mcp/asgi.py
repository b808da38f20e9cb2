"""Answers a request of aiohttp by an ASGI application, as the SDK of the Model Context Protocol is one. Whole bodies only.

The keys of scope and messages are those of ASGI's specification for HTTP, version 2.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from aiohttp import web

from admission.dashboard.viewer import Viewer

VIEWER: Final = "stowage.viewer"
"""The key of a scope under which the viewer is."""
_KEPT: Final = (b"authorization", b"cookie")
"""Headers that the application does not get: it gets the viewer instead."""
_Message = MutableMapping[str, Any]
Application = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[_Message]], Callable[[_Message], Awaitable[None]]],
    Awaitable[None],
]


async def answered(application: Application, request: web.BaseRequest, viewer: Viewer, body: bytes) -> web.Response:
    """Returns the application's response. Cancelling this cancels the application: there is no other disconnect."""
    unread, begun, sent = [body], list[_Message](), bytearray()

    async def receive() -> _Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: _Message) -> None:
        if message["type"] == "http.response.start":
            begun.append(message)
        elif message["type"] == "http.response.body":
            sent.extend(message.get("body", b""))

    await application(_scope(request, viewer), receive, send)
    if not begun:
        raise RuntimeError("the application sent no response")
    response = web.Response(status=begun[0]["status"], body=bytes(sent))
    for name, value in begun[0].get("headers", ()):
        if name.lower() != b"content-length":
            response.headers[name.decode("latin-1")] = value.decode("latin-1")
    return response


def _scope(request: web.BaseRequest, viewer: Viewer) -> MutableMapping[str, Any]:
    headers = [(name.lower(), value) for name, value in request.raw_headers if name.lower() not in _KEPT]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path,
        "raw_path": request.rel_url.raw_path.encode(),
        "query_string": request.rel_url.raw_query_string.encode(),
        "root_path": "",
        "headers": headers,
        VIEWER: viewer,
    }
