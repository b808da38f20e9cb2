"""A small blocking client of the API server, for starting a cluster and for tests: JSON, one host, a client certificate.

Deliberately independent of the product's client (api/kube), so that tests do not share its bugs.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, TypeVar
from urllib.parse import urlsplit

from hack.controlplane.errors import ControlPlaneError, RequestError

T = TypeVar("T")
Object = dict[str, Any]
MERGE = "application/merge-patch+json"
_TIMEOUT = 30.0


class Api:
    """Requests as one user. Paths are absolute, such as `/api/v1/nodes`."""

    def __init__(self, server: str, context: ssl.SSLContext) -> None:
        address = urlsplit(server)
        self._host, self._port = address.hostname or "", address.port
        self._context = context

    def request(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Object:
        """Sends a request and returns the object. Raises RequestError unless the status is 2xx."""
        with closing(self._connection()) as connection:
            return _exchange(connection, method, path, body, content_type)

    def get(self, path: str) -> Object:
        return self.request("GET", path)

    def create(self, path: str, body: Object) -> Object:
        return self.request("POST", path, body)

    def merge(self, path: str, body: Object) -> Object:
        """Applies a JSON merge patch and returns the object. Raises RequestError."""
        return self.request("PATCH", path, body, MERGE)

    def delete(self, path: str) -> Object:
        return self.request("DELETE", path)

    def stream(self, path: str) -> Iterator[Object]:
        """Yields the events of a watch until the server ends it. Raises RequestError unless the status is 2xx."""
        with closing(self._connection()) as connection:
            connection.request("GET", path, headers={"Accept": "application/json"})
            answer = connection.getresponse()
            if answer.status >= 300:
                raise RequestError("GET", path, answer.status, answer.read().decode(errors="replace"))
            for line in answer:
                yield json.loads(line)

    def create_many(self, path: str, bodies: Iterable[Object], workers: int = 8) -> None:
        """Creates all objects over several connections. Raises the first error."""
        every = list(bodies)
        with ThreadPoolExecutor(workers) as pool:
            for done in [pool.submit(self._create_slice, path, every[first::workers]) for first in range(workers)]:
                done.result()

    def _create_slice(self, path: str, bodies: Sequence[Object]) -> None:
        with closing(self._connection()) as connection:
            for body in bodies:
                _exchange(connection, "POST", path, body, "application/json")

    def _connection(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._host, self._port, context=self._context, timeout=_TIMEOUT)


def _exchange(
    connection: http.client.HTTPSConnection, method: str, path: str, body: object, content_type: str
) -> Object:
    payload = None if body is None else json.dumps(body).encode()
    connection.request(method, path, payload, {"Content-Type": content_type, "Accept": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status >= 300:
        raise RequestError(method, path, answer.status, text.decode(errors="replace"))
    result: Object = json.loads(text)
    return result


def eventually(what: str, check: Callable[[], T | None], seconds: float = 30.0, every: float = 0.05) -> T:
    """Returns the first truthy result of `check`. Raises ControlPlaneError with `what` and the last result on timeout."""
    deadline = time.monotonic() + seconds
    while True:
        if answer := check():
            return answer
        if time.monotonic() > deadline:
            raise ControlPlaneError(f"not within {seconds:.0f} s: {what} (last seen: {answer!r})")
        time.sleep(every)
