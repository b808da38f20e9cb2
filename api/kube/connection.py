"""Connects to the API server with kubernetes-asyncio: configuration, TLS, tokens, and its aiohttp session.

kubernetes-asyncio reads the kubeconfig (certificates, tokens, exec plugins, OIDC) or the mounted ServiceAccount and creates
the TLS context and the session; its generated client is not used. Credentials are reloaded after a 401, at most once in ten
seconds. The library's hook also reloads the in-cluster token once a minute.
"""

from __future__ import annotations

import asyncio
import inspect
import time
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from aiohttp.helpers import get_env_proxy_for_url
from yarl import URL

from api.kube.certificates import FILES
from api.kube.settings import ClientSettings

if TYPE_CHECKING:
    import aiohttp

_REFRESH_INTERVAL = 10.0
# An aborted TLS connection is closed a few iterations of the loop later (its callback, then the socket's).
_TURNS_TO_CLOSE = 5


class Connection:
    """An open session with one API server."""

    def __init__(self, settings: ClientSettings, configuration: Any, rest: Any) -> None:
        self._settings, self._configuration, self._rest = settings, configuration, rest
        self._refreshing = asyncio.Lock()
        self._refreshed = time.monotonic()
        self.host: str = configuration.host
        self.session: aiohttp.ClientSession = rest.pool_manager
        # aiohttp would repeat a PUT or DELETE after a broken connection, bypassing retry.py and the fence.
        self.session._retry_connection = False
        # It would also look up the environment's proxies in a thread for each request; _proxy does so once.
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
        """Returns the Authorization header, or None without a token (client certificate or anonymous)."""
        hook = self._configuration.refresh_api_key_hook
        if hook is not None:
            done = hook(self._configuration)
            if inspect.isawaitable(done):
                await done
        token = self._configuration.api_key.get("BearerToken")
        return str(token) if token else None

    async def refresh(self, refused: str | None) -> bool:
        """Reloads the credentials after the server refused `refused`. Reports whether they changed."""
        async with self._refreshing:
            if await self.authorization() == refused and time.monotonic() - self._refreshed > _REFRESH_INTERVAL:
                self._refreshed = time.monotonic()
                with _files(self._settings) as folder:
                    fresh = await _load(self._settings, folder)
                self._configuration.api_key = fresh.api_key
                self._configuration.refresh_api_key_hook = fresh.refresh_api_key_hook
            return await self.authorization() != refused

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
        await self._rest.close()
        for protocol in left:
            if protocol.transport is not None:
                protocol.transport.abort()
        for _ in range(_TURNS_TO_CLOSE):
            await asyncio.sleep(0)


def _proxy(configuration: Any) -> Iterator[tuple[str, Any]]:
    """Yields request options for the configured proxy, else for the environment's (HTTPS_PROXY, NO_PROXY)."""
    if configuration.proxy:
        yield "proxy", configuration.proxy
        yield "proxy_headers", configuration.proxy_headers
        return
    with suppress(LookupError):
        proxy, authorization = get_env_proxy_for_url(URL(configuration.host))
        yield from (("proxy", proxy), ("proxy_auth", authorization))


def load() -> None:
    """Imports the library, for processes: done by the first `connect` it would hold the event loop for half a second."""
    for module in ("kubernetes_asyncio.config", "kubernetes_asyncio.client.rest"):
        import_module(module)


async def connect(settings: ClientSettings) -> Connection:
    """Opens a session. Raises kubernetes_asyncio's ConfigException with the missing key for a bad configuration."""
    from kubernetes_asyncio.client import rest

    client: Any = rest.RESTClientObject
    with _files(settings) as folder:
        configuration = await _load(settings, folder)
        # The client's own limit bounds the pool. Watches are not counted in it and must never wait for a socket.
        configuration.connection_pool_maxsize = 0
        return Connection(settings, configuration, client(configuration))


def _files(settings: ClientSettings) -> AbstractContextManager[str]:
    """Returns the folder for certificates. In a cluster they are mounted files, and the file system may be read-only."""
    return nullcontext("") if settings.kubeconfig is None else FILES.folder_with_files()


async def _load(settings: ClientSettings, folder: str) -> Any:
    """Returns the library's Configuration; it writes certificates to files in the folder.

    The import is local, because the library's hundreds of model classes take a second that `--help` should not cost.
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
