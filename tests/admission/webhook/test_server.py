"""The server over real TLS on loopback: answers, malformed bodies, failures, and certificates that are replaced."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from admission.webhook.authority import Pair, issue
from admission.webhook.certs import MountedCertificates, keep
from admission.webhook.lookups import Lookups
from admission.webhook.rules import Rules
from admission.webhook.server import Handlers, Serving, serving
from api.names import REQUIRE_TOPOLOGY
from tests.admission.webhook.objects import QUEUE, job
from tests.admission.webhook.test_review import MUTATE_JOB, VALIDATE_JOB, body

HOST = "127.0.0.1"


def trusting(bundle: bytes) -> ssl.SSLContext:
    """A client that trusts just these CAs, as strictly as Python can."""
    context = ssl.create_default_context(cadata=bundle.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


async def asked(port: int, bundle: bytes, path: str = "/healthz", data: bytes | None = None) -> tuple[int, str]:
    """One request over a connection of its own."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
        method = "GET" if data is None else "POST"
        url = f"https://{HOST}:{port}{path}"
        async with session.request(method, url, data=data, ssl=trusting(bundle)) as response:
            return response.status, await response.text()


@contextlib.asynccontextmanager
async def running(handlers: Handlers | None = None) -> AsyncIterator[tuple[int, bytes, Serving]]:
    tls = Serving()
    pair, authority = issue((HOST, "localhost"), time.time(), 3600.0)
    await tls.load(pair)
    async with serving(handlers or Handlers(Lookups(), Rules()), tls, HOST, 0) as port:
        yield port, authority, tls


async def test_reviews_and_health() -> None:
    ready: list[bool] = []
    async with running(Handlers(Lookups(), Rules(), ready=lambda: bool(ready))) as (port, authority, _):
        assert await asked(port, authority) == (200, "ok\n")
        assert await asked(port, authority, "/readyz") == (503, "not synced yet\n")
        ready.append(True)
        assert await asked(port, authority, "/readyz") == (200, "ok\n")
        status, text = await asked(port, authority, MUTATE_JOB, body(job()))
        assert status == 200
        assert '"patchType":"JSONPatch"' in text
        status, text = await asked(port, authority, VALIDATE_JOB, body(job()))
        assert '"allowed":true' in text


async def test_a_refusal_is_an_answer_with_its_fields() -> None:
    async with running() as (port, authority, _):
        bad = job(annotations={REQUIRE_TOPOLOGY: "auto"})
        status, text = await asked(port, authority, VALIDATE_JOB, body(bad))
        assert status == 200
        assert f'"field":"metadata.annotations[{REQUIRE_TOPOLOGY}]"' in text


async def test_what_is_no_review_gets_400_and_the_server_stays() -> None:
    async with running() as (port, authority, _):
        assert await asked(port, authority, MUTATE_JOB, b"{") == (
            400,
            "the body is no AdmissionReview: Input data was truncated\n",
        )
        assert (await asked(port, authority, "/mutate-v1-pod", body({})))[0] == 404
        assert (await asked(port, authority, MUTATE_JOB))[0] == 405
        assert (await asked(port, authority))[0] == 200


class Failing(dict[str, Any]):
    """A look-up that breaks."""

    def __contains__(self, key: object) -> bool:
        raise RuntimeError("the copy is gone")


async def test_a_failure_of_ours_is_named_and_the_server_stays(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[tuple[str, str]] = []
    broken: Mapping[str, Any] = Failing()
    handlers = Handlers(Lookups(broken), Rules(), observe=lambda path, outcome: seen.append((path, outcome)))
    async with running(handlers) as (port, authority, _):
        answer = await asked(port, authority, MUTATE_JOB, body(job(labels={})))
        assert answer == (500, "internal error: RuntimeError: the copy is gone\n")
        assert (await asked(port, authority, MUTATE_JOB, body(job(labels=QUEUE))))[0] == 200
    assert "review failed" in caplog.text
    assert seen == [(MUTATE_JOB, "failed"), (MUTATE_JOB, "allowed")]


async def test_a_new_certificate_serves_new_connections_and_old_ones_go_on() -> None:
    async with running() as (port, old, tls):
        connector = aiohttp.TCPConnector(ssl=trusting(old), keepalive_timeout=60)
        async with aiohttp.ClientSession(connector=connector) as session:
            async with session.get(f"https://{HOST}:{port}/healthz") as response:
                assert response.status == 200
            pair, new = issue((HOST,), time.time(), 3600.0)
            await tls.load(pair)
            async with session.get(f"https://{HOST}:{port}/healthz") as response:
                assert response.status == 200
        assert (await asked(port, new))[0] == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await asked(port, old)


async def test_a_certificate_that_does_not_fit_its_key_is_not_taken() -> None:
    async with running() as (port, authority, tls):
        one, two = (issue((HOST,), time.time(), 60.0)[0] for _ in range(2))
        with pytest.raises(ssl.SSLError):
            await tls.load(Pair(one.certificate, two.key))
        assert (await asked(port, authority))[0] == 200


async def test_mounted_certificates_are_followed(tmp_path: Path) -> None:
    def write(pair: Pair) -> None:
        (tmp_path / "tls.crt").write_bytes(pair.certificate)
        (tmp_path / "tls.key").write_bytes(pair.key)

    first, second = (issue((HOST,), time.time(), 3600.0) for _ in range(2))
    tls, loaded = Serving(), asyncio.Event()
    task = asyncio.create_task(keep(MountedCertificates(tmp_path, tls), interval=0.01, loaded=loaded.set))
    try:
        write(first[0])  # at the first pass the files may not be there yet
        await asyncio.wait_for(loaded.wait(), 60)
        async with serving(Handlers(Lookups(), Rules()), tls, HOST, 0) as port:
            assert (await asked(port, first[1]))[0] == 200
            write(second[0])
            async with asyncio.timeout(60):
                while tls.pair != second[0]:
                    loaded.clear()
                    await loaded.wait()
            assert (await asked(port, second[1]))[0] == 200
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
