"""Injects faults of an overloaded API server, a network and webhooks, by rates and a seed.

`FaultInjector` hooks into a EmbeddedServer (`EmbeddedSettings(**faults.seams())`) and does nothing until `storm` starts. It
spares clients that are not among its victims (such as the test itself), and counts faults, so that a test can prove that they
happened. The seed, the fault, and the number of the request from one client to one path decide what happens: the same requests
meet the same faults in every run, however clients interleave.

Faults are limited to what an API server does:

- Refusals (409, 410, 429, 500, 503) come before anything was done. CUT comes afterwards: the write stays, its response is
lost. - A dropped or silent watch loses nothing that a client cannot fetch from the last version it saw. Events that were held
back are
  not sent later, and a silent watch stays silent.
- REORDER delays one watch while others continue (there is no order between kinds), and swaps adjacent events about different
  objects. The events of one object stay in order, and no bookmark overtakes an event.
- DUPLICATE sends a line twice in a row.

Production code never imports it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec
from aiohttp import web

from api.embedded.request import RequestTarget
from api.embedded.status import MODIFIED, StatusError, expired

_WRITES: Final = frozenset(("POST", "PUT", "PATCH", "DELETE"))


class InjectedFault(StrEnum):
    """The kinds of faults; the value is the name in test ids and counters."""

    GONE = "gone"
    """410 to a watch that starts from a version, or as an ERROR event during it; 410 to a list's continue token."""
    DROPPED = "dropped"
    """A watch's connection is broken, or its response ends."""
    SILENT = "silent"
    """A watch continues without any data, not even bookmarks."""
    DUPLICATE = "duplicate"
    REORDER = "reorder"
    CONFLICT = "conflict"
    """409 to an update or patch, as if another client always wrote first."""
    BUSY = "busy"
    """429 with Retry-After."""
    BROKEN = "broken"
    """500."""
    UNAVAILABLE = "unavailable"
    """503, with Retry-After every other time."""
    SLOW = "slow"
    """The request waits before it is handled, or its response before it is sent, perhaps longer than the client does."""
    CUT = "cut"
    """A write is done, but its response is lost, or replaced by a 504."""
    HANG = "hang"
    """A webhook accepts the connection and does not answer until the API server's timeout."""


class _ObjectName(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _WatchedObject(msgspec.Struct):
    metadata: _ObjectName


class _WatchLine(msgspec.Struct):
    type: str
    object: _WatchedObject


_decode_line = msgspec.json.Decoder(_WatchLine).decode
Rates = Mapping[InjectedFault, float]


class FaultInjector:
    """The injector; see the module. `victims` reports whether requests with a token may fail; durations are in seconds."""

    def __init__(
        self,
        victims: Callable[[str], bool] = lambda _: True,
        *,
        retry_after: int = 1,
        slowness: float = 1.0,
        lag: float = 0.5,
    ) -> None:
        self._victims, self._retry_after, self._slowness, self._lag = victims, retry_after, slowness, lag
        self._rates: Rates = {}
        self._seed = 0
        self._chances: Counter[str] = Counter()
        self._silent: weakref.WeakValueDictionary[int, web.Request] = weakref.WeakValueDictionary()
        self.struck: Counter[InjectedFault] = Counter()

    def seams(self) -> dict[str, Any]:
        """Returns the arguments for EmbeddedSettings that install this injector."""
        return {
            "intercept": self.intercept,
            "on_answer": self.on_answer,
            "on_send": self.on_send,
            "on_review": self.on_review,
        }

    @contextlib.contextmanager
    def storm(self, rates: Rates, seed: int = 0) -> Iterator[Counter[InjectedFault]]:
        """Injects faults at these rates (0 to 1 per opportunity) while the block runs; yields the counter of faults."""
        self.begin(rates, seed)
        try:
            yield self.struck
        finally:
            self.end()

    def begin(self, rates: Rates, seed: int = 0) -> None:
        """Starts a new storm and resets the counters."""
        self._rates, self._seed = dict(rates), seed
        self._chances.clear()
        self.struck = Counter()

    def end(self) -> None:
        """Ends the storm. Silent watches stay silent, because a dead connection does not recover."""
        self._rates = {}

    # ---- chance

    def _drawn(self, fault: InjectedFault, lane: str) -> random.Random | None:
        """Returns a random generator for further choices if the fault happens this time, else None."""
        rate = self._rates.get(fault, 0.0)
        if rate <= 0.0:
            return None
        lane = f"{fault} {lane}"
        self._chances[lane] += 1
        draw = random.Random(f"{self._seed} {self._chances[lane]} {lane}")  # noqa: S311 - faults, no secrets
        if draw.random() >= rate:
            return None
        self.struck[fault] += 1
        return draw

    def _spared(self, request: web.Request) -> bool:
        return not self._victims(request.headers.get("Authorization", "").removeprefix("Bearer "))

    # ---- before a request is carried out

    async def intercept(self, request: web.Request) -> web.StreamResponse | None:
        """Hook before a request: returns a refusal instead of the real response, or delays it."""
        if not self._rates or self._spared(request):
            return None
        lane, method = _lane(request), request.method
        watch = request.query.get("watch") in ("true", "1")
        if self._drawn(InjectedFault.BUSY, lane):
            return _refusal(429, "TooManyRequests", "the server has received too many requests", self._retry_after)
        if self._drawn(InjectedFault.BROKEN, lane):
            return _refusal(500, "InternalError", "Internal error occurred: etcdserver: leader changed")
        if draw := self._drawn(InjectedFault.UNAVAILABLE, lane):
            after = self._retry_after if draw.random() < 0.5 else None
            return _refusal(503, "ServiceUnavailable", "apiserver is shutting down", after)
        if method in ("PUT", "PATCH") and self._drawn(InjectedFault.CONFLICT, lane):
            return _refusal(409, "Conflict", f'Operation cannot be fulfilled on "{request.path}": {MODIFIED}')
        resumes = request.query.get("continue") or (watch and request.query.get("resourceVersion", "0") != "0")
        if resumes and self._drawn(InjectedFault.GONE, lane):
            return _answer(expired("too old resource version: it was compacted"))
        if not watch and (draw := self._drawn(InjectedFault.SLOW, lane)) and draw.random() < 0.5:
            await asyncio.sleep(draw.random() * self._slowness)
        return None

    # ---- after a request

    async def on_answer(self, request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
        """Hook after a request: delays the response, or drops it."""
        if not self._rates or self._spared(request):
            return response
        lane = f"answer {_lane(request)}"
        if draw := self._drawn(InjectedFault.SLOW, lane):
            await asyncio.sleep(draw.random() * self._slowness)
        if request.method in _WRITES and response.status < 400 and (draw := self._drawn(InjectedFault.CUT, lane)):
            if draw.random() < 0.25:
                message = "Timeout: request did not complete within requested timeout - context deadline exceeded"
                return _refusal(504, "Timeout", message)
            _cut(request)
        return response

    # ---- watches

    async def on_send(self, request: web.Request, target: RequestTarget, data: bytes) -> bytes | None:
        """Hook for the lines of a watch."""
        if self._silent.get(id(request)) is request:
            return None if _is_over(request) else b""
        if not self._rates or self._spared(request):
            return data
        lane = _lane(request)
        if self._drawn(InjectedFault.SILENT, lane):
            self._silent[id(request)] = request
            return b""
        if draw := self._drawn(InjectedFault.DROPPED, lane):
            if draw.random() < 0.5:
                _cut(request)
            return None
        if self._drawn(InjectedFault.GONE, f"event {lane}"):
            return msgspec.json.encode({"type": "ERROR", "object": expired("The resourceVersion is too old.").body()})
        return await self._shuffled(data, lane)

    async def _shuffled(self, data: bytes, lane: str) -> bytes:
        lines = data.splitlines(keepends=True)
        if draw := self._drawn(InjectedFault.REORDER, lane):
            await asyncio.sleep(draw.random() * self._lag)
            lines = _swapped(lines, draw)
        return b"".join(line * 2 if self._drawn(InjectedFault.DUPLICATE, lane) else line for line in lines)

    # ---- webhooks

    async def on_review(self, webhook: str) -> None:
        """Hook before calls of webhooks by the API server, for any client."""
        if self._drawn(InjectedFault.HANG, webhook):
            await asyncio.Event().wait()  # the caller's timeout ends it


def _lane(request: web.Request) -> str:
    return f"{request.headers.get('User-Agent', '')} {request.method} {request.path}"


def _swapped(lines: list[bytes], draw: random.Random) -> list[bytes]:
    """Swaps adjacent lines at random if both are events about different objects."""
    lines = list(lines)
    for n in range(1, len(lines)):
        before, after = _subject(lines[n - 1]), _subject(lines[n])
        if before and after and before != after and draw.random() < 0.5:
            lines[n - 1], lines[n] = lines[n], lines[n - 1]
    return lines


def _subject(line: bytes) -> tuple[str, str] | None:
    event = _decode_line(line)
    return (event.object.metadata.namespace, event.object.metadata.name) if event.type != "BOOKMARK" else None


def _refusal(status: int, reason: str, message: str, retry_after: int | None = None) -> web.Response:
    details = {"retryAfterSeconds": retry_after} if retry_after else None
    return _answer(StatusError(status, reason, message, details), retry_after)


def _answer(refusal: StatusError, retry_after: int | None = None) -> web.Response:
    headers = {"Retry-After": str(retry_after)} if retry_after else {}
    body = msgspec.json.encode(refusal.body())
    return web.Response(body=body, status=refusal.status, content_type="application/json", headers=headers)


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


def _is_over(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()
