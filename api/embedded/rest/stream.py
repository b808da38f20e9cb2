"""Watches over HTTP: start, bookmarks and end.

A watch from a resourceVersion that the history no longer covers gets one ERROR event with a 410 Status. A watch without a
version (or from 0) starts with all present objects. With `sendInitialEvents` a marked bookmark ends these. Called by http.py.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import msgspec
from aiohttp import web

from api.embedded.request import RequestTarget
from api.embedded.rest import routes
from api.embedded.rest.listing import too_large
from api.embedded.status import StatusError, bad_request, expired
from api.embedded.store import ObjectStorage
from api.embedded.table import StoreEvent
from api.embedded.watch import Watcher

_LONGEST = 1800.0
# Called with the watch, its target and the lines to send; returns the lines to send instead, or None to end the watch.
OnSend = Callable[[web.Request, RequestTarget, bytes], Awaitable[bytes | None]]


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """`bookmark_seconds` is the idle time after which clients that allow it get a bookmark; `on_send` injects faults."""

    bookmark_seconds: float = 10.0
    on_send: OnSend | None = None


@dataclass(slots=True)
class Stream:
    """One watch request."""

    store: ObjectStorage
    target: RequestTarget
    query: Mapping[str, str]
    settings: WatchSettings

    async def serve(self, request: web.Request) -> web.StreamResponse:
        kind = self.target.kind
        wanted = self.store.filter(kind, self.query.get("labelSelector", ""), self.query.get("fieldSelector", ""))
        watcher = Watcher(self.store.table(kind), self.target.namespace, wanted)
        try:
            backlog = self._backlog(watcher)
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            if await self._send(request, response, backlog):
                await self._follow(request, response, watcher)
        finally:
            watcher.close()
        return response

    def _backlog(self, watcher: Watcher) -> bytes:
        """Returns all lines before the first live event. Must run right after the watcher was registered, without an await."""
        requested, current = routes.version(self.query), self.store.resource_version
        initial = self.query.get("sendInitialEvents")
        if initial and self.query.get("resourceVersionMatch") != "NotOlderThan":
            raise bad_request(
                "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            )
        if requested is not None and requested > current:
            raise too_large(requested, current)
        if initial == "true" or (initial is None and not requested):
            lines = self._present(watcher)
            return lines + (self.bookmark(current, ends_initial=True) if initial else b"")
        table = self.store.table(self.target.kind)
        if requested is not None and requested < table.floor:
            return self._error(expired(f"too old resource version: {requested} ({table.floor})"))
        seen = (watcher.see(event) for event in table.since(requested or current))
        return b"".join(self.line(event) for event in seen if event)

    def _present(self, watcher: Watcher) -> bytes:
        table = self.store.table(self.target.kind)
        events = (StoreEvent("ADDED", table.records[key], None) for key in table.span(self.target.namespace))
        return b"".join(self.line(event) for event in events if watcher.see(event))

    async def _follow(self, request: web.Request, response: web.StreamResponse, watcher: Watcher) -> None:
        seconds = routes.number(self.query, "timeoutSeconds")
        end = time.monotonic() + (seconds or _LONGEST)
        bookmarks = routes.flag(self.query, "allowWatchBookmarks")
        while not watcher.closed and (left := end - time.monotonic()) > 0:
            pause = min(left, self.settings.bookmark_seconds) if bookmarks else left
            if await watcher.wait(pause):
                data = b"".join(map(self.line, watcher.drain()))
            else:
                data = self.bookmark(self.store.resource_version) if bookmarks else b""
            if not await self._send(request, response, data):
                return

    async def _send(self, request: web.Request, response: web.StreamResponse, data: bytes) -> bool:
        if data and self.settings.on_send is not None:
            changed = await self.settings.on_send(request, self.target, data)
            if changed is None:
                return False
            data = changed
        if data:
            try:
                await response.write(data)
            except ConnectionResetError:  # the client was killed or its connection broke
                return False
        return not data.startswith(b'{"type":"ERROR"')

    def line(self, event: StoreEvent) -> bytes:
        kind = self.target.kind
        body = event.record.typed(kind.kind, kind.in_version(self.target.version))
        return b'{"type":"%b","object":%b}\n' % (event.type.encode(), body)

    def bookmark(self, rv: int, *, ends_initial: bool = False) -> bytes:
        kind = self.target.kind
        meta: dict[str, object] = {"resourceVersion": str(rv)}
        if ends_initial:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        obj = {"kind": kind.kind, "apiVersion": kind.in_version(self.target.version), "metadata": meta}
        return msgspec.json.encode({"type": "BOOKMARK", "object": obj}) + b"\n"

    def _error(self, refusal: StatusError) -> bytes:
        return msgspec.json.encode({"type": "ERROR", "object": refusal.body()}) + b"\n"
