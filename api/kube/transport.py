"""Sending: limits, timeouts, tokens, retries, counting; every failure leaves as one of api.errors.

Knows requests, not resources. `client.py` makes the calls, `retry.py` says which may be repeated.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import aiohttp
import yarl

from api.errors import ApiError, Unauthorized, Unreachable
from api.kube import metrics, retry, stream
from api.kube.backoff import TokenBucket
from api.kube.clock import SYSTEM
from api.kube.connection import Connection
from api.kube.settings import ClientSettings

# Of the time for a request: a connection that is not there by then was never sent anything, and that is worth knowing.
_CONNECTING = 0.8

Fence = Callable[[], None]
"""Called right before a write leaves; raises NotLeader to stop it."""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request, ready to be sent. `resource` is a label for metrics and messages (`jobs`, `jobs/status`)."""

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


class Transport:
    """Sends calls over a connection within the limits of its settings."""

    def __init__(self, connection: Connection, settings: ClientSettings) -> None:
        self.connection, self.settings = connection, settings
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._bucket = TokenBucket(settings.qps, settings.burst, SYSTEM)
        # The whole has asyncio's own timeout: aiohttp's loses a cancellation that comes in the same turn of the loop, and
        # with it a cancelled task goes on for ever.
        self._connecting = aiohttp.ClientTimeout(total=None, connect=settings.timeout * _CONNECTING)
        self._headers = {
            "Accept": "application/json",
            "Accept-Encoding": "gzip" if settings.compress else "identity",
            "User-Agent": settings.user_agent,
        }

    async def send(self, call: ApiRequest) -> bytes:
        """The body of the answer, after as many tries as allowed. Raises ApiError, or what the fence raises."""
        try:
            return await self._authorized(call)
        except ApiError as error:
            return await self._again(call, error)

    async def _again(self, call: ApiRequest, error: ApiError) -> bytes:
        """After a first failure. The retry machinery costs a third of a request, so most never enter it; one that does
        has the failure replayed as the first try."""
        failures = [error]

        async def again() -> bytes:
            if failures:
                raise failures.pop()
            metrics.RETRIES.labels(call.verb, call.resource).inc()
            return await self._authorized(call)

        return await retry.retrying(self.settings, call.repeatable)(again)

    async def stream(self, call: ApiRequest, silence: float | None) -> AsyncGenerator[stream.WatchEvent, None]:
        """The events of a watch, sent once; `silence` is the longest wait for the next byte."""
        connect = self.settings.timeout
        patience = aiohttp.ClientTimeout(total=None, connect=connect, sock_connect=connect, sock_read=silence)
        token = await self.connection.authorization()
        try:
            async with self._request(call, token, patience) as response:
                _count(call, response.status)
                if response.status >= 400:
                    raise stream.answer_error(response.status, response.headers, await response.read())
                try:
                    async with aclosing(stream.events(response.content.iter_any())) as events:
                        async for event in events:
                            yield event
                finally:
                    _hang_up(response)
        except Unauthorized:
            await self.connection.refresh(token)
            raise
        except (aiohttp.ClientError, OSError) as error:
            raise _unreachable(call, error, silence) from error

    async def _authorized(self, call: ApiRequest) -> bytes:
        """One try; after a refused token one more with a fresh token, if there is another."""
        token = await self.connection.authorization()
        try:
            return await self._try(call, token)
        except Unauthorized:
            if not await self.connection.refresh(token):
                raise
        return await self._try(call, await self.connection.authorization())

    async def _try(self, call: ApiRequest, token: str | None) -> bytes:
        async with self._slots:
            await self._bucket.take()
            if call.fence is not None:
                call.fence()
            started = time.perf_counter()
            try:
                async with (
                    asyncio.timeout(self.settings.timeout),
                    self._request(call, token, self._connecting) as response,
                ):
                    data: bytes = await response.read()
            except (aiohttp.ClientError, OSError) as error:
                _count(call, 0)
                raise _unreachable(call, error, self.settings.timeout) from error
        metrics.REQUEST_SECONDS.labels(call.verb, call.resource).observe(time.perf_counter() - started)
        _count(call, response.status)
        if response.status >= 400:
            raise stream.answer_error(response.status, response.headers, data)
        return data

    def _request(self, call: ApiRequest, token: str | None, timeout: aiohttp.ClientTimeout) -> Any:
        headers = dict(self._headers)
        if token:
            headers["Authorization"] = token
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        query = f"?{urlencode(call.query)}" if call.query else ""
        return self.connection.session.request(
            call.method,
            yarl.URL(self.connection.host + call.path + query, encoded=True),
            data=call.body,
            headers=headers,
            timeout=timeout,
            allow_redirects=False,
            **self.connection.request_options,
        )


def _hang_up(response: aiohttp.ClientResponse) -> None:
    """Cuts a watch that is not at its end: TLS's goodbye would leave the socket open after the client is closed."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


def _count(call: ApiRequest, status: int) -> None:
    metrics.REQUESTS.labels(call.verb, call.resource, str(status)).inc()


def _unreachable(call: ApiRequest, error: Exception, seconds: float | None) -> Unreachable:
    """Whether the request left at all decides what may be repeated."""
    not_sent = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
    what = f"no answer within {seconds} s" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
    return Unreachable(0, retry.NOT_SENT if not_sent else retry.NO_ANSWER, f"{call}: {what}")
