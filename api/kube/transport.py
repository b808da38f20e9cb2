"""Sends requests with limits, timeouts, tokens, retries and metrics; raises every failure as an error of api.errors.

Knows requests, not resources. `client.py` builds them; `retry.py` decides which may be repeated.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import aiohttp
import yarl
from aiohttp.abc import AbstractStreamWriter

from api.errors import ApiError, NotLeader, Unauthorized, Unreachable
from api.kube import metrics, retry, stream
from api.kube.backoff import TokenBucket
from api.kube.clock import SYSTEM
from api.kube.connection import Connection
from api.kube.settings import ClientSettings

# Part of a request's timeout for connecting. If no connection exists by then, nothing was sent and a retry is safe.
_CONNECTING = 0.8

Fence = Callable[[], None]
"""Called before a write connects and again when its first byte is about to leave; raises NotLeader to prevent it."""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request. `resource` is a label for metrics and messages (`jobs`, `jobs/status`)."""

    method: str
    verb: str
    resource: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    repeatable: bool = True
    fence: Fence | None = None

    def __str__(self) -> str:
        return f"{self.verb} {self.path}"


class _FencedBody(aiohttp.BytesPayload):
    """A body that calls the fence when its first byte is about to leave.

    A new connection takes several turns of the loop, and a process may be paused for any time between them: a fence that is
    called only before the connection lets a write of a former leader out after the pause. aiohttp sends the headers with the
    body's first bytes, so nothing of a refused request is sent.
    """

    def __init__(self, body: bytes, fence: Fence) -> None:
        super().__init__(body)
        self._fence = fence
        self.refused: NotLeader | None = None

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        try:
            self._fence()
        except NotLeader as refused:
            self.refused = refused
            raise
        await super().write_with_length(writer, content_length)


class Transport:
    """Sends requests over a connection within the limits of its settings."""

    def __init__(self, connection: Connection, settings: ClientSettings) -> None:
        self.connection, self.settings = connection, settings
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._bucket = TokenBucket(settings.qps, settings.burst, SYSTEM)
        # asyncio.timeout covers the request: aiohttp's timeout loses a cancellation in the same iteration of the loop, and
        # a cancelled task would continue for ever.
        self._connecting = aiohttp.ClientTimeout(total=None, connect=settings.timeout * _CONNECTING)
        self._headers = {
            "Accept": "application/json",
            "Accept-Encoding": "gzip" if settings.compress else "identity",
            "User-Agent": settings.user_agent,
        }

    async def send(self, call: ApiRequest) -> bytes:
        """Sends a request with retries and returns the body. Raises ApiError, or what the fence raises."""
        try:
            return await self._authorized(call)
        except ApiError as error:
            return await self._retry_after(call, error)

    async def _retry_after(self, call: ApiRequest, error: ApiError) -> bytes:
        """Retries after a first failure, which is replayed as the first attempt.

        The retry machinery costs a third of a request, so requests that succeed at once skip it.
        """
        failures = [error]

        async def again() -> bytes:
            if failures:
                raise failures.pop()
            metrics.RETRIES.labels(call.verb, call.resource).inc()
            return await self._authorized(call)

        return await retry.retrying(self.settings, call.repeatable)(again)

    async def stream(self, call: ApiRequest, silence: float | None) -> AsyncGenerator[stream.WatchEvent, None]:
        """Yields the events of a watch, sent once; `silence` is the longest wait for data in seconds."""
        connect = self.settings.timeout
        patience = aiohttp.ClientTimeout(total=None, connect=connect, sock_connect=connect)
        token, watched = self.connection.authorization(), _Silence(silence)
        try:
            async with asyncio.timeout(silence):
                response = await self._request(call, token, patience)
            async with response:
                _count(call, response.status)
                if response.status >= 400:
                    raise stream.answer_error(response.status, response.headers, await response.read())
                events = stream.Events()
                watched.begin(response)
                try:
                    while chunk := await response.content.readany():
                        watched.heard()
                        for event in events.feed(chunk):
                            yield event
                finally:
                    watched.end()
                    _hang_up(response)
        except Unauthorized:
            await self.connection.refresh(token)
            raise
        except (aiohttp.ClientError, OSError) as error:
            raise _unreachable(call, TimeoutError() if watched.is_over else error, silence) from error

    async def _authorized(self, call: ApiRequest) -> bytes:
        """Makes one attempt, and a second one if the token was refused and has changed."""
        token = self.connection.authorization()
        try:
            return await self._try(call, token)
        except Unauthorized:
            if not await self.connection.refresh(token):
                raise
        return await self._try(call, self.connection.authorization())

    async def _try(self, call: ApiRequest, token: str | None) -> bytes:
        async with self._slots:
            await self._bucket.take()
            if call.fence is not None:
                call.fence()
            body = call.body if call.body is None or call.fence is None else _FencedBody(call.body, call.fence)
            started = time.perf_counter()
            try:
                async with (
                    asyncio.timeout(self.settings.timeout),
                    self._request(call, token, self._connecting, body) as response,
                ):
                    data: bytes = await response.read()
            except (aiohttp.ClientError, OSError) as error:
                if isinstance(body, _FencedBody) and body.refused is not None:
                    raise body.refused from error
                _count(call, 0)
                raise _unreachable(call, error, self.settings.timeout) from error
        metrics.REQUEST_SECONDS.labels(call.verb, call.resource).observe(time.perf_counter() - started)
        _count(call, response.status)
        if response.status >= 400:
            raise stream.answer_error(response.status, response.headers, data)
        return data

    def _request(
        self,
        call: ApiRequest,
        token: str | None,
        timeout: aiohttp.ClientTimeout,
        body: bytes | aiohttp.Payload | None = None,
    ) -> Any:
        headers = dict(self._headers)
        if token:
            headers["Authorization"] = token
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        query = f"?{urlencode(call.query)}" if call.query else ""
        return self.connection.session.request(
            call.method,
            yarl.URL(self.connection.host + call.path + query, encoded=True),
            data=body,
            headers=headers,
            timeout=timeout,
            allow_redirects=False,
            **self.connection.request_options,
        )


class _Silence:
    """Hangs up a watch that delivers nothing for so many seconds (None: never).

    One timer looks when the last data came. aiohttp's sock_read would cancel one and make another for each chunk, which is a
    thirtieth of what an event costs.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds, self._loop, self._heard_at = seconds, asyncio.get_running_loop(), 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.is_over = False

    def begin(self, response: aiohttp.ClientResponse) -> None:
        """Begins to wait for data."""
        self._response = response
        self.heard()
        if self._seconds is not None:
            self._timer = self._loop.call_later(self._seconds, self._look)

    def heard(self) -> None:
        """Notes that data came."""
        self._heard_at = self._loop.time()

    def _look(self) -> None:
        due = self._heard_at + (self._seconds or 0.0)
        if due > self._loop.time():
            self._timer = self._loop.call_at(due, self._look)
        else:
            self.is_over = True
            _hang_up(self._response)

    def end(self) -> None:
        """Stops the timer."""
        if self._timer is not None:
            self._timer.cancel()


def _hang_up(response: aiohttp.ClientResponse) -> None:
    """Aborts a watch that has not ended: an orderly TLS shutdown would keep the socket open after the client is closed."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


def _count(call: ApiRequest, status: int) -> None:
    metrics.REQUESTS.labels(call.verb, call.resource, str(status)).inc()


def _unreachable(call: ApiRequest, error: Exception, seconds: float | None) -> Unreachable:
    """Returns the error; its reason says whether the request was sent, which decides about retries."""
    not_sent = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
    what = f"no answer within {seconds} s" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
    return Unreachable(0, retry.NOT_SENT if not_sent else retry.NO_ANSWER, f"{call}: {what}")
