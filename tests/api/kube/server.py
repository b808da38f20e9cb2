"""A scripted API server: each request is answered by the next step that the test laid down. For faults only."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from api.kube.client import Kube
from api.kube.settings import ClientSettings

CLOSING = web.AppKey("closing", asyncio.Event)
Step = Callable[[web.Request], Awaitable[web.StreamResponse]]


def status(code: int, reason: str, message: str = "", headers: Mapping[str, str] | None = None, **details: Any) -> Step:
    """Answers with a Status object."""

    async def step(_: web.Request) -> web.StreamResponse:
        body = {"kind": "Status", "code": code, "reason": reason, "message": message or reason, "details": details}
        return web.json_response(body, status=code, headers=headers)

    return step


def answer(body: Any, code: int = 200) -> Step:
    """Answers with JSON."""

    async def step(_: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=code)

    return step


def listing(*items: Any, version: str = "100", token: str = "") -> Step:
    """Answers a list."""
    return answer({"metadata": {"resourceVersion": version, "continue": token}, "items": list(items)})


def event(kind: str, obj: Any) -> bytes:
    """One line of a watch."""
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def watching(*pieces: bytes, then: str = "wait") -> Step:
    """A watch that sends the pieces, then waits (until the client leaves), ends in order, or cuts the connection."""

    async def step(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        if then == "wait":
            await request.app[CLOSING].wait()
        elif then == "cut":
            assert request.transport is not None
            request.transport.abort()
        return response

    return step


async def silent(request: web.Request) -> web.StreamResponse:
    """Takes the request and never answers."""
    await request.app[CLOSING].wait()
    return web.Response()


async def cut(request: web.Request) -> web.StreamResponse:
    """Takes the request and drops the connection."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


class Script:
    """The steps to come and the requests that came. A missing step holds its request until the end."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.requests: list[web.Request] = []
        self.bodies: list[bytes] = []

    def then(self, *steps: Step) -> None:
        self.steps += steps

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.read())
        step = self.steps.pop(0) if self.steps else silent
        return await step(request)


@asynccontextmanager
async def scripted(script: Script, folder: Path, **settings: Any) -> AsyncIterator[Kube]:
    """The script served on a loopback port, and a client of it, by way of a kubeconfig."""
    app = web.Application()
    app[CLOSING] = closing = asyncio.Event()
    app.router.add_route("*", "/{path:.*}", script.handle)
    server = TestServer(app)
    await server.start_server(shutdown_timeout=0.1)
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(json.dumps(config(str(server.make_url("")), {"token": "first"})))
    quick = {"backoff_base": 0.001, "backoff_max": 0.01, "timeout": 60.0, **settings}
    try:
        async with await Kube.connect(ClientSettings(kubeconfig=kubeconfig, **quick)) as kube:
            yield kube
    finally:
        closing.set()
        await server.close()


def config(host: str, user: Mapping[str, Any]) -> dict[str, Any]:
    """A kubeconfig with one context."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "clusters": [{"name": "here", "cluster": {"server": host}}],
        "users": [{"name": "me", "user": dict(user)}],
    }
