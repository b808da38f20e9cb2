"""The HTTPS server of the visibility API, behind the API server's proxy.

Every request needs the proxy's client certificate (401 without), and each list a right of the user whom the proxy names (403
without). The server asks for it by a SubjectAccessReview, although the API server checks it before it forwards a request: a
mistake there must not open the API. Answers are Kubernetes' own: JSON objects, or a Status with a reason.

One summary is made at a time, in a thread; `_WAITING` more may wait, further ones get 429. Called by app.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from aiohttp import web

from admission.engine.model import Workload
from admission.engine.queue.cluster_queue import order_of
from admission.engine.queue.pending import Positions
from admission.serving.bounded_server import BoundedServer, Refused
from admission.serving.connection_limits import ConnectionLimits
from admission.serving.connections import finished
from admission.visibility.api_documents import GROUP, VERSIONS, documents
from admission.visibility.front_proxy import Trust
from admission.visibility.pending import LocalQueueName, in_line, page, summary
from api import workloads as api
from api.errors import InvalidObject, StowageError
from api.kube.resources import Resource
from api.process.access import Right
from api.process.identities import Subject

log = logging.getLogger(__name__)

CLUSTER_QUEUES: Final = Resource(GROUP, VERSIONS[0], "clusterqueues", "ClusterQueue", namespaced=False)
LOCAL_QUEUES: Final = Resource(GROUP, VERSIONS[0], "localqueues", "LocalQueue")
PENDING: Final = "pendingworkloads"
LIMITS: Final = ConnectionLimits(unfinished=64, served=64)
"""Only API servers connect, each over a few connections."""
_WAITING: Final = 32
_SENT_WITHIN: Final = 30.0
"""Seconds for an answer to be read; the API server reads it while it sends it on to the client."""
_BUSY_AGAIN: Final = 1
"""Seconds after which a client that got 429 may retry (`Retry-After`)."""

MayRead = Callable[[Subject, Right, str, str], Awaitable[bool]]
"""Reports whether the user has the right in the namespace on the named object. Raises StowageError and TimeoutError."""


@dataclass(frozen=True, slots=True)
class Queues:
    """The live state of the controller that the server reads."""

    missing: Callable[[], str | None]
    """Returns why the queues are not complete yet."""
    has_cluster_queue: Callable[[str], bool]
    cluster_queue_of: Callable[[str, str], str | None]
    """Returns the ClusterQueue of a LocalQueue by namespace and name; None if there is no such LocalQueue."""
    pending: Callable[[], Iterator[Workload]]
    """Yields the workloads of all queues."""
    workload: Callable[[str], api.Workload | None]
    positions: Callable[[], Positions] = lambda: lambda workload: (0, 0.0, order_of(workload))
    """Returns their present order."""


@dataclass(frozen=True, slots=True)
class RequestedList:
    """A list that a path names; `namespace` is None for that of a ClusterQueue."""

    version: str
    name: str
    namespace: str | None = None

    @property
    def right(self) -> Right:
        """The right that reads it."""
        return Right(CLUSTER_QUEUES if self.namespace is None else LOCAL_QUEUES, PENDING, "get")


def requested_list(path: str) -> RequestedList | None:
    """Returns the list that a raw path names, None for any other path."""
    match [unquote(part) for part in path.split("/")]:
        case ["", "apis", group, version, "clusterqueues", name, sub] if group == GROUP and sub == PENDING:
            requested = RequestedList(version, name)
        case ["", "apis", group, version, "namespaces", namespace, "localqueues", name, sub] if (
            group == GROUP and sub == PENDING and namespace
        ):
            requested = RequestedList(version, name, namespace)
        case _:
            return None
    return requested if requested.name and version in VERSIONS else None


class VisibilityServer(BoundedServer):
    """Answers requests. `may` asks the API server for a user's right."""

    def __init__(self, queues: Queues, may: MayRead, trust: Callable[[], Trust]) -> None:
        super().__init__("visibility API", LIMITS, _SENT_WITHIN)
        self._queues, self._may, self._trust = queues, may, trust
        self._documents = {path: msgspec.json.encode(document) for path, document in documents().items()}
        self._turn, self._waiting = asyncio.Lock(), 0

    async def answer(self, request: web.BaseRequest, held: contextlib.AsyncExitStack) -> web.Response:
        """Returns a document or a list. A GET has no use for a body, so it is left unread."""
        finished(request)
        subject = self._subject(request)
        document, wanted = self._documents.get(request.path), requested_list(request.rel_url.raw_path)
        if document is None and wanted is None:
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        if request.method != "GET":
            raise Refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        if wanted is None:
            return _object(document or b"")
        await self._authorize(subject, wanted)
        return _object(await self._list(wanted, request))

    def refused(self, request: web.BaseRequest, refusal: Refused) -> web.Response:
        """Returns a Kubernetes Status; kubectl shows its message."""
        body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        body |= {"message": str(refusal), "reason": refusal.error, "code": refusal.status}
        headers: dict[str, str] = {}
        if refusal.status == HTTPStatus.TOO_MANY_REQUESTS:
            body["details"] = {"retryAfterSeconds": _BUSY_AGAIN}
            headers["Retry-After"] = str(_BUSY_AGAIN)
        encoded = msgspec.json.encode(body)
        return web.Response(status=refusal.status, body=encoded, content_type="application/json", headers=headers)

    def _subject(self, request: web.BaseRequest) -> Subject:
        trust = self._trust()
        if not trust.proves(request.get_extra_info("peercert")):
            raise Refused(401, "Unauthorized", "only the API server's proxy is answered here")
        subject = trust.subject(request.headers)
        if subject is None:
            raise Refused(401, "Unauthorized", "the proxy named no user")
        return subject

    async def _authorize(self, subject: Subject, wanted: RequestedList) -> None:
        resource = wanted.right.resource
        try:
            allowed = await self._may(subject, wanted.right, wanted.namespace or "", wanted.name)
        except (StowageError, TimeoutError) as failed:
            log.warning("a user's right could not be asked for", extra={"error": str(failed)})
            raise Refused(503, "ServiceUnavailable", "the API server does not say what the user may do") from None
        if not allowed:
            named = f'{resource.plural}.{GROUP} "{wanted.name}" is forbidden: User "{subject.username}"'
            where = f' in the namespace "{wanted.namespace}"' if wanted.namespace else " at the cluster scope"
            what = f'resource "{resource.plural}/{PENDING}" in API group "{GROUP}"'
            raise Refused(403, "Forbidden", f"{named} cannot get {what}{where}")

    async def _list(self, wanted: RequestedList, request: web.BaseRequest) -> bytes:
        try:
            part = page(request.query)
        except InvalidObject as bad:
            raise Refused(400, "BadRequest", str(bad)) from None
        if (why := self._queues.missing()) is not None:
            raise Refused(503, "ServiceUnavailable", why)
        if self._waiting >= _WAITING:
            raise Refused(429, "TooManyRequests", "too many requests at once")
        self._waiting += 1
        try:
            async with self._turn:
                queue = self._cluster_queue(wanted)
                waiting = in_line(self._queues.pending(), queue)
                only = None if wanted.namespace is None else LocalQueueName(wanted.namespace, wanted.name)
                by = self._queues.positions()
                return await asyncio.to_thread(
                    summary, wanted.version, waiting, self._queues.workload, part, only, by=by
                )
        finally:
            self._waiting -= 1

    def _cluster_queue(self, wanted: RequestedList) -> str:
        """Returns the ClusterQueue whose workloads are listed. That of a LocalQueue may not exist; the list is then empty."""
        if wanted.namespace is not None:
            queue = self._queues.cluster_queue_of(wanted.namespace, wanted.name)
        else:
            queue = wanted.name if self._queues.has_cluster_queue(wanted.name) else None
        if queue is None:
            kind = wanted.right.resource.kind.lower()
            raise Refused(404, "NotFound", f'{kind}.{GROUP} "{wanted.name}" not found')
        return queue


def _object(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")
