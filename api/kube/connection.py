"""Where the API server is, and our identity: configuration, TLS and tokens by kubernetes-asyncio, over its aiohttp session.

kubernetes-asyncio reads the kubeconfig (certificates, tokens, exec plugins, OIDC) or the mounted ServiceAccount and
builds the TLS context and the session; its generated client is not used. A token is read again when the server says
401, at most once in ten seconds; the in-cluster token also once a minute, by the library's own hook.
"""

from __future__ import annotations

import asyncio
import inspect
import time
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from aiohttp.helpers import get_env_proxy_for_url
from yarl import URL

from api.kube.certificates import FILES
from api.kube.settings import ClientSettings

if TYPE_CHECKING:
    import aiohttp

_REFRESH_INTERVAL = 10.0
# An aborted TLS connection is closed a few turns of the loop later (its own callback, then the socket's).
_TURNS_TO_CLOSE = 5


class Connection:
    """An open session to one API server."""

    def __init__(self, settings: ClientSettings, configuration: Any, rest: Any) -> None:
        self._settings, self._configuration, self._rest = settings, configuration, rest
        self._refreshing = asyncio.Lock()
        self._refreshed = time.monotonic()
        self.host: str = configuration.host
        self.session: aiohttp.ClientSession = rest.pool_manager
        # aiohttp would repeat a PUT or DELETE whose connection broke, past retry.py's rule and the fence.
        self.session._retry_connection = False
        # It would also ask a thread, for each request, what the environment says of proxies; that is asked once, here.
        self.session._trust_env = False
        self._sockets: weakref.WeakSet[Any] = weakref.WeakSet()
        self._note_sockets(self.session.connector)
        self.request_options: dict[str, Any] = {
            name: value
            for name, value in (
                ("server_hostname", configuration.tls_server_name),
                *_proxy(configuration),
            )
            if value
        }

    async def authorization(self) -> str | None:
        """The Authorization header, None where a client certificate or nothing identifies us."""
        hook = self._configuration.refresh_api_key_hook
        if hook is not None:
            done = hook(self._configuration)
            if inspect.isawaitable(done):
                await done
        token = self._configuration.api_key.get("BearerToken")
        return str(token) if token else None

    async def refresh(self, refused: str | None) -> bool:
        """Reads the credentials again after the server refused `refused`; whether there are other ones now."""
        async with self._refreshing:
            if await self.authorization() == refused and time.monotonic() - self._refreshed > _REFRESH_INTERVAL:
                self._refreshed = time.monotonic()
                with _files(self._settings) as folder:
                    fresh = await _load(self._settings, folder)
                self._configuration.api_key = fresh.api_key
                self._configuration.refresh_api_key_hook = fresh.refresh_api_key_hook
            return await self.authorization() != refused

    def _note_sockets(self, connector: Any) -> None:
        """Remembers each connection's protocol: aiohttp forgets one whose request was cut before its socket is closed."""
        make = connector._factory

        def noted() -> Any:
            protocol = make()
            self._sockets.add(protocol)
            return protocol

        connector._factory = noted

    async def close(self) -> None:
        """Closes the session and its sockets, also those that would still wait for TLS's goodbye."""
        left = list(self._sockets)
        await self._rest.close()
        for protocol in left:
            if protocol.transport is not None:
                protocol.transport.abort()
        for _ in range(_TURNS_TO_CLOSE):
            await asyncio.sleep(0)


def _proxy(configuration: Any) -> Iterator[tuple[str, Any]]:
    """The configuration's proxy, else the environment's for this server (HTTPS_PROXY, NO_PROXY)."""
    if configuration.proxy:
        yield "proxy", configuration.proxy
        yield "proxy_headers", configuration.proxy_headers
        return
    with suppress(LookupError):
        proxy, authorization = get_env_proxy_for_url(URL(configuration.host))
        yield from (("proxy", proxy), ("proxy_auth", authorization))


async def connect(settings: ClientSettings) -> Connection:
    """Raises kubernetes_asyncio's ConfigException (naming the missing key) when the configuration cannot be read."""
    from kubernetes_asyncio.client import rest

    client: Any = rest.RESTClientObject
    with _files(settings) as folder:
        configuration = await _load(settings, folder)
        # Pools are bounded by the client's own concurrency limit; watches come on top and must never wait for a socket.
        configuration.connection_pool_maxsize = 0
        return Connection(settings, configuration, client(configuration))


def _files(settings: ClientSettings) -> AbstractContextManager[str]:
    """In a cluster certificates are files already, and perhaps nothing can be written."""
    return nullcontext("") if settings.kubeconfig is None else FILES.there()


async def _load(settings: ClientSettings, folder: str) -> Any:
    """The library's Configuration; certificates go into files of the folder.

    Imported here: its hundreds of model classes cost a second that `--help` need not pay.
    """
    from kubernetes_asyncio import config
    from kubernetes_asyncio.client.configuration import Configuration

    make: Any = Configuration
    configuration = make()
    load_in_cluster: Any = config.load_incluster_config
    load_kubeconfig: Any = config.load_kube_config
    if settings.kubeconfig is None:
        load_in_cluster(client_configuration=configuration)
    else:
        await load_kubeconfig(
            config_file=str(settings.kubeconfig),
            context=settings.context,
            client_configuration=configuration,
            persist_config=False,
            temp_file_path=folder,
        )
    return configuration
