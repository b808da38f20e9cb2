"""The REST API over `Calls` (writes) and `ObjectStorage` (reads).

Maps methods to verbs and bearer tokens to users. There is no RBAC: `config/rbac` is tested on the real control plane. Called by
server.py.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml
from aiohttp import web

from api.embedded.calls import Calls, Context, UserInfo
from api.embedded.request import RequestTarget
from api.embedded.rest import discovery, routes
from api.embedded.rest.listing import encode, list_bytes
from api.embedded.rest.stream import Stream, WatchSettings
from api.embedded.status import Obj, StatusError, bad_request, internal, not_allowed, not_found, success, unauthorized
from api.embedded.store import ObjectStorage
from api.embedded.table import StoredObject
from api.embedded.writes.change import APPLY
from api.embedded.writes.deletion import DeleteOptions
from api.text.manifests import documents

log = logging.getLogger(__name__)
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105
_AUTHENTICATED = ("system:authenticated",)
# Called before each request; a response that it returns replaces the real one. Used to inject faults.
Intercept = Callable[[web.Request], Awaitable[web.StreamResponse | None]]
# Called with each response except watches before it is sent; returns the response to send. Used to inject faults.
OnAnswer = Callable[[web.Request, web.StreamResponse], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class RestSettings:
    """Settings of the REST server."""

    tokens: Mapping[str, str] = field(default_factory=dict)
    """User names by bearer token, which a TokenReview knows; without any every client is an administrator."""
    watches: WatchSettings = field(default_factory=WatchSettings)
    intercept: Intercept | None = None
    on_answer: OnAnswer | None = None
    tenants: frozenset[str] = frozenset()
    """Users for whom a SubjectAccessReview answers no."""


class RestApi:
    def __init__(self, store: ObjectStorage, calls: Calls, settings: RestSettings) -> None:
        self._store, self._calls, self._settings = store, calls, settings

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answers every request: a refusal with a Status object, a bug with status 500."""
        context = Context()
        try:
            if self._settings.intercept is not None:
                taken = await self._settings.intercept(request)
                if taken is not None:
                    return taken
            context.user = self._user(request)
            response = await self._dispatch(request, context)
        except routes.NoPage:
            response = web.Response(text="404 page not found\n", status=404)
        except StatusError as refusal:
            response = _json(refusal.body(), refusal.status)
        except ConnectionResetError:  # the client closed the connection during its request
            response = web.Response(status=499)
        except Exception as error:  # outermost handler of a request
            log.exception("request failed: %s %s", request.method, request.path)
            response = _json(internal(f"{type(error).__name__}: {error}").body(), 500)
        for warning in context.warnings:
            if not response.prepared:
                response.headers.add("Warning", f'299 - "{warning}"')
        if self._settings.on_answer is not None and not response.prepared:
            return await self._settings.on_answer(request, response)
        return response

    def _user(self, request: web.Request) -> UserInfo:
        if not self._settings.tokens:
            return UserInfo()
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        name = self._settings.tokens.get(token)
        if name is None:
            raise unauthorized()
        return UserInfo(name, _AUTHENTICATED)

    async def _dispatch(self, request: web.Request, context: Context) -> web.StreamResponse:
        if request.method in ("GET", "HEAD"):
            known = discovery.answer(self._store, request.path)
            if known is not None:
                return web.Response(text=known) if isinstance(known, str) else _json(known)
        if request.method == "POST" and request.path == _ACCESS_REVIEWS:
            return await self._access(request)
        if request.method == "POST" and request.path == _TOKEN_REVIEWS:
            return await self._identity(request)
        target = routes.parse(request.raw_path.partition("?")[0]).target(self._store)
        if target.name is None:
            return await self._collection(request, target, context)
        return await self._object(request, target, context)

    async def _access(self, request: web.Request) -> web.Response:
        body = await _body(request)
        allowed = body["spec"].get("user") not in self._settings.tenants
        return _json({**body, "status": {"allowed": allowed}}, 201)

    async def _identity(self, request: web.Request) -> web.Response:
        body = await _body(request)
        name = self._settings.tokens.get(body["spec"].get("token"))
        user = {"user": UserInfo(name, _AUTHENTICATED).body()} if name is not None else {}
        return _json({**body, "status": {"authenticated": name is not None, **user}}, 201)

    async def _collection(self, request: web.Request, target: RequestTarget, context: Context) -> web.StreamResponse:
        match request.method:
            case "GET" if routes.flag(request.query, "watch"):
                return await Stream(self._store, target, request.query, self._settings.watches).serve(request)
            case "GET":
                return _raw(list_bytes(self._store, target, request.query))
            case "POST":
                options = routes.options(request.query, _agent(request), "Create")
                record = await self._calls.create(target, await _body(request), options, context)
                return _record(target, record, 201)
            case "DELETE":
                return await self._delete_collection(request, target, context)
        raise not_allowed()

    async def _object(self, request: web.Request, target: RequestTarget, context: Context) -> web.StreamResponse:
        if target.subresource in ("binding", "eviction"):
            return await self._act(request, target, context)
        match request.method:
            case "GET":
                return _record(target, self._find(target))
            case "PUT":
                options = routes.options(request.query, _agent(request), "Update")
                return _record(target, await self._calls.update(target, await _body(request), options, context))
            case "PATCH":
                return await self._patch(request, target, context)
            case "DELETE" if not target.subresource:
                record, gone = await self._calls.delete(target, await _delete_options(request), context)
                return self._deleted(target, record, gone)
        raise not_allowed()

    def _find(self, target: RequestTarget) -> StoredObject:
        record = self._store.record(target.kind, target.key)
        if record is None:
            raise not_found(target.kind, target.name or "")
        return record

    async def _patch(self, request: web.Request, target: RequestTarget, context: Context) -> web.StreamResponse:
        options = routes.options(request.query, _agent(request) if request.content_type != APPLY else "", "Patch")
        body = await _body(request)
        existed = self._store.record(target.kind, target.key) is not None
        record = await self._calls.patch(target, body, request.content_type, options, context)
        return _record(target, record, 200 if existed else 201)

    def _deleted(self, target: RequestTarget, record: StoredObject, gone: bool) -> web.Response:
        """Returns the deleted object for pods, and a Status for other kinds once they are removed."""
        if gone and target.kind.plural != "pods":
            return _json(success(target.kind, target.name or "", record.uid))
        return _record(target, record)

    async def _delete_collection(self, request: web.Request, target: RequestTarget, context: Context) -> web.Response:
        query = request.query
        wanted = self._store.filter(target.kind, query.get("labelSelector", ""), query.get("fieldSelector", ""))
        options = await _delete_options(request)
        records = list(self._store.table(target.kind).select(target.namespace, wanted))
        for record in records:
            meta = record.obj["metadata"]
            if self._store.record(target.kind, record.key) is not None:
                one = RequestTarget(target.kind, target.version, meta.get("namespace"), meta["name"])
                await self._calls.delete(one, options, context)
        return _raw(encode(target, records, {"resourceVersion": str(self._store.resource_version)}))

    async def _act(self, request: web.Request, target: RequestTarget, context: Context) -> web.StreamResponse:
        if request.method != "POST":
            raise not_allowed()
        options = routes.options(request.query, _agent(request), "Create")
        body = await _body(request)
        if target.subresource == "binding":
            await self._calls.bind(target, body, options)
        else:
            plain = RequestTarget(target.kind, target.version, target.namespace, target.name)
            await self._calls.delete(plain, _options_of(body.get("deleteOptions") or {}, request.query), context)
        return _json({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)


def _agent(request: web.Request) -> str:
    return request.headers.get("User-Agent", "")


async def _body(request: web.Request) -> Any:
    data = await request.read()
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        if "yaml" in request.content_type:
            return _yaml(data)
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error


def _yaml(data: bytes) -> Any:
    try:
        return next(documents(data), None)
    except yaml.YAMLError as error:
        raise bad_request(f"error decoding YAML: {error}") from error


async def _delete_options(request: web.Request) -> DeleteOptions:
    body = await _body(request) if request.can_read_body else {}
    return _options_of(body if isinstance(body, dict) else {}, request.query)


def _options_of(body: Obj, query: Mapping[str, str]) -> DeleteOptions:
    pre = body.get("preconditions") or {}
    grace = body.get("gracePeriodSeconds", routes.number(query, "gracePeriodSeconds"))
    return DeleteOptions(
        propagation=body.get("propagationPolicy") or query.get("propagationPolicy"),
        grace=grace,
        uid=pre.get("uid"),
        resource_version=pre.get("resourceVersion"),
        dry_run="All" in (body.get("dryRun") or ()) or query.get("dryRun") == "All",
    )


def _json(body: Obj, status: int = 200) -> web.Response:
    return _raw(msgspec.json.encode(body), status)


def _raw(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


def _record(target: RequestTarget, record: StoredObject, status: int = 200) -> web.Response:
    return _raw(record.typed(target.kind.kind, target.kind.in_version(target.version)), status)
