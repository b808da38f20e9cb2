"""The webhook's HTTP face: reviews over TLS, health over plain words.

A body that is no AdmissionReview gets 400 with the reason, a failure of our own gets 500 with its name and is logged;
neither stops the process. Reviews are answered on the loop: they wait for nothing. The serving certificate can be
changed while connections are open (`Serving.load`): new handshakes use it, old connections go on.

`serving` is given its parts by the application (app.py), which loads a certificate first and keeps it fresh (certs.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import web
from msgspec import structs

from admission.webhook.authority import Pair
from admission.webhook.conversion import converted
from admission.webhook.endpoints import MUTATING, VALIDATING, Request, owner_to_read
from admission.webhook.lookups import Lookups
from admission.webhook.owners import Owners
from admission.webhook.review import BadReview, decode, review
from admission.webhook.rules import Rules
from api.names import CONVERT_PATH

log = logging.getLogger(__name__)

# The API server takes objects of up to 3 MB; an update carries two of them.
MAX_BODY: Final = 16 * 1024 * 1024
# It converts a list in one request: a page of 500 objects, most of them of some kilobytes.
MAX_CONVERSION: Final = 64 * 1024 * 1024
_GRACE: Final = 5.0


class Serving:
    """The TLS context of a server, whose certificate can be replaced at any time."""

    def __init__(self) -> None:
        self.context = _context()
        self.pair: Pair | None = None

    async def load(self, pair: Pair) -> None:
        """Use this certificate from the next handshake on; one that does not fit its key leaves the old in place."""
        if pair == self.pair:
            return
        with contextlib.ExitStack() as cleanup:
            path = await asyncio.to_thread(_written, pair, cleanup)
            _context().load_cert_chain(path)
            self.context.load_cert_chain(path)
        self.pair = pair


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _written(pair: Pair, cleanup: contextlib.ExitStack) -> Path:
    """The pair in a file that only we can read, gone when `cleanup` closes: ssl loads from files alone."""
    folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="stowage-webhook-")))
    path = folder / "serving.pem"
    path.write_bytes(pair.certificate + b"\n" + pair.key)
    return path


@dataclass(frozen=True, slots=True)
class Handlers:
    """What answers requests; `ready` says whether the look-ups have seen the cluster, `owners` reads what they do not hold."""

    lookups: Lookups
    rules: Rules
    ready: Callable[[], bool] = field(default=lambda: True)
    observe: Callable[[str, str], None] = field(default=lambda path, outcome: None)
    owners: Owners | None = None

    async def answer(self, request: web.Request) -> web.Response:
        """One AdmissionReview."""
        body = await request.read()
        try:
            asked = await self._with_owner(request.path, decode(body))
            reply = review(request.path, asked, self.lookups, self.rules)
            encoded = msgspec.json.encode(reply)
        except BadReview as bad:
            self.observe(request.path, "malformed")
            return web.Response(status=400, text=f"{bad}\n")
        except Exception as failure:  # the outermost edge: one bad request must not end the process
            log.exception("review failed", extra={"path": request.path})
            self.observe(request.path, "failed")
            return web.Response(status=500, text=f"internal error: {type(failure).__name__}: {failure}\n")
        self.observe(request.path, "allowed" if reply["response"]["allowed"] else "denied")
        return web.Response(body=encoded, content_type="application/json")

    async def convert(self, request: web.Request) -> web.Response:
        """One ConversionReview."""
        body = await request.clone(client_max_size=MAX_CONVERSION).read()
        try:
            encoded = await converted(body)
        except BadReview as bad:
            return web.Response(status=400, text=f"{bad}\n")
        return web.Response(body=encoded, content_type="application/json")

    async def _with_owner(self, path: str, request: Request) -> Request:
        """The request with what is to be read for it, which is nothing for nearly all."""
        claimed = owner_to_read(path, request, self.rules)
        if claimed is None or self.owners is None:
            return request
        return structs.replace(request, owner=await self.owners.read(claimed, request.namespace))

    async def healthz(self, _: web.Request) -> web.Response:
        """Alive."""
        return web.Response(text="ok\n")

    async def readyz(self, _: web.Request) -> web.Response:
        """Whether the look-ups know the cluster."""
        return web.Response(text="ok\n") if self.ready() else web.Response(status=503, text="not synced yet\n")


def make_app(handlers: Handlers) -> web.Application:
    """The routes of all endpoints."""
    app = web.Application(client_max_size=MAX_BODY)
    app.router.add_get("/healthz", handlers.healthz)
    app.router.add_get("/readyz", handlers.readyz)
    for path in (*MUTATING, *VALIDATING):
        app.router.add_post(path, handlers.answer)
    app.router.add_post(CONVERT_PATH, handlers.convert)
    return app


@contextlib.asynccontextmanager
async def serving(handlers: Handlers, tls: Serving, host: str, port: int) -> AsyncIterator[int]:
    """Serves for as long as the block runs; gives the port (a free one for 0). On exit open requests are finished."""
    runner = web.AppRunner(make_app(handlers), access_log=None, shutdown_timeout=_GRACE)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=tls.context)
        await site.start()
        addresses = runner.addresses
        log.info("webhook listens", extra={"address": str(addresses)})
        yield int(addresses[0][1])
    finally:
        await runner.cleanup()
