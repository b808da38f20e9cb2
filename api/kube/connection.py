"""A session with the API server: TLS, tokens, proxies, sockets.

kubeconfig.py or service_account.py reads where it is. Credentials are reloaded after a 401, at most once in ten seconds; the
file of a token is read again once a minute anyway.
"""

from __future__ import annotations

import asyncio
import logging
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import aiohttp
from aiohttp.helpers import get_env_proxy_for_url
from yarl import URL

from api.errors import InvalidObject
from api.kube import kubeconfig, service_account
from api.kube.endpoint import Endpoint
from api.kube.settings import ClientSettings

log = logging.getLogger(__name__)

_REFRESH_INTERVAL = 10.0
# An aborted TLS connection is closed a few iterations of the loop later (its callback, then the socket's).
_TURNS_TO_CLOSE = 5
# An event of a watch may be as long as an object of etcd, 1.5 MiB, and must be read without a pause for each part.
_READ_AT_ONCE = 2 * 1024 * 1024


class Connection:
    """An open session with one API server."""

    def __init__(self, settings: ClientSettings, endpoint: Endpoint, session: aiohttp.ClientSession) -> None:
        self._settings, self._endpoint, self.session = settings, endpoint, session
        self._refreshing = asyncio.Lock()
        self._refreshed = time.monotonic()
        self.host = endpoint.host
        # aiohttp would repeat a PUT or DELETE after a broken connection, bypassing retry.py and the fence.
        self.session._retry_connection = False
        self._sockets: weakref.WeakSet[Any] = weakref.WeakSet()
        self._note_sockets(self.session.connector)
        self.request_options: dict[str, Any] = dict(_proxy(endpoint))
        if endpoint.server_name:
            self.request_options["server_hostname"] = endpoint.server_name

    def authorization(self) -> str | None:
        """Returns the Authorization header, or None without a token (client certificate or anonymous)."""
        return self._endpoint.header()

    async def refresh(self, refused: str | None) -> bool:
        """Reloads the credentials after the server refused `refused`. Reports whether they changed."""
        async with self._refreshing:
            if self.authorization() == refused and time.monotonic() - self._refreshed > _REFRESH_INTERVAL:
                self._refreshed = time.monotonic()
                try:
                    self._endpoint = await _load(self._settings)
                except (InvalidObject, OSError) as unreadable:
                    log.warning("the credentials cannot be read again", extra={"error": str(unreadable)})
            return self.authorization() != refused

    def _note_sockets(self, connector: Any) -> None:
        """Tracks the protocol of each connection: aiohttp forgets one with a cancelled request before its socket is closed."""
        make = connector._factory

        def create_and_note() -> Any:
            protocol = make()
            self._sockets.add(protocol)
            return protocol

        connector._factory = create_and_note

    async def close(self) -> None:
        """Closes the session and aborts its sockets, without waiting for the TLS shutdown."""
        left = list(self._sockets)
        await self.session.close()
        for protocol in left:
            if protocol.transport is not None:
                protocol.transport.abort()
        for _ in range(_TURNS_TO_CLOSE):
            await asyncio.sleep(0)


def _proxy(endpoint: Endpoint) -> Iterator[tuple[str, Any]]:
    """Yields request options for the configured proxy, else for the environment's (HTTPS_PROXY, NO_PROXY).

    aiohttp would look these up in a thread for each request.
    """
    if endpoint.proxy:
        yield "proxy", endpoint.proxy
        return
    with suppress(LookupError):
        proxy, authorization = get_env_proxy_for_url(URL(endpoint.host))
        yield "proxy", proxy
        if authorization:
            yield "proxy_auth", authorization


async def connect(settings: ClientSettings) -> Connection:
    """Opens a session. Raises InvalidObject or OSError for a configuration that cannot be used, with what is wrong."""
    endpoint = await _load(settings)
    return Connection(settings, endpoint, _session(endpoint))


def _session(endpoint: Endpoint) -> aiohttp.ClientSession:
    # The client's own limit bounds requests. Watches are not counted in it and must never wait for a socket.
    tls: Any = endpoint.tls() if endpoint.host.startswith("https:") else True
    connector = aiohttp.TCPConnector(limit=0, ssl=tls)
    return aiohttp.ClientSession(connector=connector, read_bufsize=_READ_AT_ONCE)


async def _load(settings: ClientSettings) -> Endpoint:
    if settings.kubeconfig is None:
        return service_account.endpoint()
    return await kubeconfig.endpoint(settings.kubeconfig, settings.context)
