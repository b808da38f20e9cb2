"""Watches over HTTP: where they start, bookmarks, their end.

A watch from a resourceVersion that history has lost gets one ERROR event with a 410 Status; one without a version (or
from 0) starts with everything that is there. `sendInitialEvents` ends the first part by a marked bookmark.
Called by http.py.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import msgspec
from aiohttp import web

from api.fake import routes
from api.fake.listing import too_large
from api.fake.request import RequestTarget
from api.fake.status import StatusError, bad_request, expired
from api.fake.store import Storage
from api.fake.table import StoreEvent
from api.fake.watch import Watcher

_LONGEST = 1800.0
# Given the watch, its target and the lines about to be sent: what to send instead; None hangs the watch up.
OnSend = Callable[[web.Request, RequestTarget, bytes], Awaitable[bytes | None]]


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """Seconds of silence after which a bookmark is sent to clients that allow them; and the seam for faults."""

    bookmark_seconds: float = 10.0
    on_send: OnSend | None = None


@dataclass(slots=True)
class Stream:
    """One watch request on its way."""

    store: Storage
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
        """Everything before the first live event. Runs without a pause after the watcher was registered."""
        asked, current = routes.version(self.query), self.store.resource_version
        initial = self.query.get("sendInitialEvents")
        if initial and self.query.get("resourceVersionMatch") != "NotOlderThan":
            raise bad_request(
                "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            )
        if asked is not None and asked > current:
            raise too_large(asked, current)
        if initial == "true" or (initial is None and not asked):
            lines = self._present(watcher)
            return lines + (self.bookmark(current, ends_initial=True) if initial else b"")
        table = self.store.table(self.target.kind)
        if asked is not None and asked < table.floor:
            return self._error(expired(f"too old resource version: {asked} ({table.floor})"))
        seen = (watcher.see(event) for event in table.since(asked or current))
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
            except ConnectionResetError:  # the watcher is gone without a word: killed, or its connection cut
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
