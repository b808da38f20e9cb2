"""The embedded API server as one object: `async with EmbeddedServer() as server: server.url, server.store`.

Combines store, admission and REST API, serves them over TLS (or plain HTTP) on a free loopback port, and writes kubeconfigs.
Used by the demo, the quick test suites and `stowage simulate`; production code never imports it.
"""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from aiohttp import web

from api.embedded.admission import OnReview, Services, Webhooks
from api.embedded.calls import Calls
from api.embedded.rest.http import Intercept, OnAnswer, RestApi, RestSettings
from api.embedded.rest.stream import OnSend, WatchSettings
from api.embedded.rest.tls import ServerCertificate, issue
from api.embedded.store import ObjectStorage

_LARGEST_BODY = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class EmbeddedSettings:
    """Settings of an EmbeddedServer."""

    tls: bool = True
    host: str = "127.0.0.1"
    port: int = 0
    clock: Callable[[], float] = time.time
    """Returns epoch seconds for timestamps; bookmarks and timeouts use real time."""
    seed: int | None = None
    history: int = 50_000
    """The number of events per kind that are kept for watches."""
    tokens: Mapping[str, str] = field(default_factory=dict)
    """Maps bearer tokens to user names; `admin_token` is added if there are any."""
    tenants: frozenset[str] = frozenset()
    """Users for whom reviews of access answer no."""
    services: Services = field(default_factory=dict)
    """Maps "namespace/name" of a Service to the base URL of a webhook."""
    bookmark_seconds: float = 10.0
    intercept: Intercept | None = None
    """A hook to inject faults (faults.py), as are the three that follow."""
    on_answer: OnAnswer | None = None
    on_send: OnSend | None = None
    on_review: OnReview | None = None


class EmbeddedServer:
    """The server. `url` and `kubeconfig` are usable once it has started; `store` and `calls` always."""

    def __init__(self, settings: EmbeddedSettings | None = None, store: ObjectStorage | None = None) -> None:
        self.settings = settings = settings or EmbeddedSettings()
        self.store = store or ObjectStorage(clock=settings.clock, seed=settings.seed, history=settings.history)
        self.webhooks = Webhooks(self.store, settings.services, settings.on_review, settings.tenants)
        self.calls = Calls(self.store, self.webhooks)
        self.identity: ServerCertificate | None = issue() if settings.tls else None
        self.admin_token = secrets.token_hex(16)
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        settings = self.settings
        tokens = {**settings.tokens, self.admin_token: "system:admin"} if settings.tokens else {}
        watches = WatchSettings(settings.bookmark_seconds, settings.on_send)
        rest = RestSettings(tokens, watches, settings.intercept, settings.on_answer, settings.tenants)
        face = RestApi(self.store, self.calls, rest)
        app = web.Application(client_max_size=_LARGEST_BODY)
        app.router.add_route("*", "/{path:.*}", face.handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        context = self.identity.context() if self.identity else None
        site = web.TCPSite(self._runner, settings.host, settings.port, ssl_context=context)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"{'https' if context else 'http'}://{settings.host}:{port}"

    async def stop(self) -> None:
        self.store.hang_up()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        await self.webhooks.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def kubeconfig(self, path: Path, token: str | None = None) -> Path:
        """Writes a kubeconfig (as JSON, which is valid YAML) for the administrator or the user of `token`; returns the path."""
        cluster = {"server": self.url}
        if self.identity is not None:
            cluster["certificate-authority-data"] = base64.b64encode(self.identity.ca).decode()
        name = "stowage-embedded"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token or self.admin_token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        }
        path.write_bytes(msgspec.json.encode(config))
        path.chmod(0o600)
        return path
