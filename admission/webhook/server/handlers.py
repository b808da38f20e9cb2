"""The webhook's answer to each path: reviews, conversions, health. server.py reads the request and sends the answer."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import msgspec
from aiohttp import web
from msgspec import structs

from admission.webhook.endpoints import NOTICE_UNMANAGED, TRACED, endpoint_of
from admission.webhook.guards.owners import Owners
from admission.webhook.owner_reads import needs_ancestors, owner_of_part, owner_to_read
from admission.webhook.review_request import CREATE, Request
from admission.webhook.rights import sufficient_rights
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from admission.webhook.server.conversion import converted
from admission.webhook.server.review import UNREADABLE, BadReview, decode, review
from api.process import tracing
from api.process.access import Permissions
from api.process.identities import Subject

log = logging.getLogger(__name__)
T = TypeVar("T")


class RunFunction(Protocol):
    """Calls a function with arguments, on the event loop or in a thread."""

    def __call__(self, what: Callable[..., T], *arguments: Any) -> Awaitable[T]: ...


@dataclass(frozen=True, slots=True)
class Handlers:
    """The functions that answer requests."""

    lookups: Lookups
    rules: ReviewRules
    ready: Callable[[], bool] = field(default=lambda: True)
    """Reports whether the lookups have synced."""
    observe: Callable[[str, str], None] = field(default=lambda path, outcome: None)
    owners: Owners | None = None
    """Reads owners that the lookups do not hold."""
    permissions: Permissions | None = None
    """Asks what a request's user may do."""
    clients: Collection[str] = ()
    """Common names, of which a client certificate must have one; if there are none, every client that TLS accepts is accepted.
    """
    report: Callable[[Request], None] = field(default=lambda request: None)
    """Receives each request that was answered with a warning about an unmanaged kind."""

    async def answer(self, path: str, body: bytes | bytearray, call: RunFunction) -> web.Response:
        """Answers one AdmissionReview; never raises. `call` runs the slow steps, in a thread for a large body."""
        started = time.time()
        root: tracing.Root | None = None
        try:
            request = await self._completed(path, await call(decode, body))
            if tracing.is_on() and request.operation == CREATE and path in TRACED:
                root = tracing.begin("review", started)
                request = structs.replace(request, trace=root.context if root else "")
            reply = await call(review, path, request, self.lookups, self.rules)
            encoded = msgspec.json.encode(reply)
        except BadReview as bad:
            self.observe(path, "malformed")
            return web.Response(status=400, text=f"{bad}\n")
        except Exception as failure:  # outermost handler: one bad request must not end the process
            log.exception("review failed", extra={"path": path})
            self.observe(path, "failed")
            return web.Response(status=500, text=f"internal error: {type(failure).__name__}: {failure}\n")
        if root is not None:
            root.end(_facts(path, request, reply))
        self.observe(path, "allowed" if reply["response"]["allowed"] else "denied")
        if path == NOTICE_UNMANAGED and "warnings" in reply["response"]:
            self.report(request)
        return web.Response(body=encoded, content_type="application/json")

    async def convert(self, body: bytearray, call: RunFunction) -> web.Response:
        """Answers one ConversionReview; never raises. `call` runs the slow step in a thread."""
        try:
            pieces = await call(converted, body)
        except BadReview as bad:
            return web.Response(status=400, text=f"{bad}\n")
        except Exception as failure:  # outermost handler, as above
            log.exception("conversion failed")
            return web.Response(status=500, text=f"internal error: {type(failure).__name__}\n")
        if len(pieces) == 1:
            return web.Response(body=pieces[0], content_type="application/json")
        return web.Response(body=_each(pieces), content_type="application/json")

    async def _completed(self, path: str, request: Request) -> Request:
        """Returns the request with its owners and its user's right, which few requests need."""
        try:
            claimed = owner_to_read(path, request, self.rules)
            rights = sufficient_rights(path, request, claimed, self.lookups, self.rules)
            chained = needs_ancestors(path, request, self.rules)
        except UNREADABLE:
            return request  # the review reads the same fields and denies the object with the error
        if rights and self.permissions is not None:
            subject = Subject(request.user_info.username, request.user_info.groups)
            entitled = await self.permissions.may_any(subject, rights, request.namespace)
            request = structs.replace(request, entitled=entitled)
            if not entitled:
                claimed = claimed or owner_of_part(path, request, self.rules)
        if self.owners is None:
            return request
        if chained:
            ancestors = await self.owners.ancestors(request.new, request.namespace)
            request = structs.replace(request, ancestors=ancestors)
        if claimed is not None:
            request = structs.replace(request, owner=await self.owners.read(claimed, request.namespace))
        return request

    def healthz(self) -> web.Response:
        """Always reports that the process is alive."""
        return web.Response(text="ok\n")

    def readyz(self) -> web.Response:
        """Reports with status 503 that the lookups have not yet synced."""
        return web.Response(text="ok\n") if self.ready() else web.Response(status=503, text="not synced yet\n")


def _facts(path: str, request: Request, reply: Mapping[str, Any]) -> dict[str, tracing.Value]:
    """Returns the attributes of a review's span. A name that the API server generates comes later."""
    facts: dict[str, tracing.Value] = {
        "k8s.namespace.name": request.namespace,
        "stowage.kind": endpoint_of(path, request).resource.kind,
        "stowage.name": request.name or str(request.new.get("metadata", {}).get("generateName", "")),
        "stowage.allowed": bool(reply["response"]["allowed"]),
    }
    return {key: value for key, value in facts.items() if value != ""}


async def _each(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
