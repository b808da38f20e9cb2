"""Stands in for the dashboards and Serve proxies of Ray's heads, which KubeRay asks what becomes of a job or a service.

KubeRay is told that this is its HTTP proxy (hack/controlplane/operators), so that each of its questions to a head comes here.
A job runs until `end` says that it has succeeded; applications of Serve run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

_JOBS = "/api/jobs/"
_SERVE = "/api/serve/applications/"


class Dashboard:
    """The answers, by the host that is asked."""

    def __init__(self) -> None:
        self._ended: set[str] = set()

    def end(self, cluster: str) -> None:
        """The job of the RayCluster of this name has succeeded."""
        self._ended.add(cluster)

    def answer(self, host: str, path: str) -> Any:
        """What a head would say."""
        if path.startswith(_JOBS):
            ended = any(host.startswith(f"{cluster}-head") for cluster in self._ended)
            job = path.removeprefix(_JOBS)
            return {
                "status": "SUCCEEDED" if ended else "RUNNING",
                "submission_id": job,
                "job_id": job,
                "type": "SUBMISSION",
            }
        if path.startswith(_SERVE):
            return {"applications": {"app": {"status": "RUNNING", "message": "", "deployments": {}}}}
        return {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request of a client that takes us for its proxy."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            _, target, _ = head.split("\r\n", 1)[0].split(" ", 2)
            url = urlsplit(target)
            body = json.dumps(self.answer(url.hostname or "", url.path)).encode()
            lines = (
                "HTTP/1.1 200 OK",
                "Content-Type: application/json",
                f"Content-Length: {len(body)}",
                "Connection: close",
            )
            writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def serving(port: int) -> AsyncIterator[Dashboard]:
    """It answers on that port of loopback inside."""
    made = Dashboard()
    server = await asyncio.start_server(made.serve, "127.0.0.1", port)
    async with server:
        yield made
