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
import msgspec
import pytest

from admission.serving.certificate_authority import ServingCertificate, issue
from admission.serving.certificates import MountedCertificates, keep
from admission.serving.tls import Serving
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from admission.webhook.server.handlers import Handlers
from admission.webhook.server.server import serving
from admission.webhook.server.server_limits import ServerLimits
from api.names import REQUIRE_TOPOLOGY
from hack.controlplane import pki
from tests.admission.webhook.objects import QUEUE, job
from tests.admission.webhook.server.test_review import MUTATE_JOB, VALIDATE_JOB, body

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
async def running(
    handlers: Handlers | None = None, limits: ServerLimits | None = None, clients: Path | None = None
) -> AsyncIterator[tuple[int, bytes, Serving]]:
    tls = Serving(clients)
    pair, authority = issue((HOST, "localhost"), time.time(), 3600.0)
    tls.load(pair)
    async with serving(handlers or Handlers(Lookups(), ReviewRules()), tls, HOST, 0, limits) as port:
        yield port, authority, tls


async def test_reviews_and_health() -> None:
    ready: list[bool] = []
    async with running(Handlers(Lookups(), ReviewRules(), ready=lambda: bool(ready))) as (port, authority, _):
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
            "the body is not an AdmissionReview: Input data was truncated\n",
        )
        assert (await asked(port, authority, "/mutate-v1-pod", body({})))[0] == 404
        assert (await asked(port, authority, MUTATE_JOB))[0] == 405
        assert (await asked(port, authority))[0] == 200


class Failing(dict[str, Any]):
    """A look-up that breaks."""

    def __contains__(self, key: object) -> bool:
        raise RuntimeError("the copy is gone")


async def test_owners_that_cannot_be_read_are_refused() -> None:
    obj = {"metadata": {"ownerReferences": ["x"]}, "spec": {}}
    async with running() as (port, authority, _):
        status, text = await asked(port, authority, "/mutate-core-v1-pod", body(obj))
    assert status == 200
    assert '"allowed":false' in text
    assert "cannot be read" in text


async def test_a_failure_of_ours_is_named_and_the_server_stays(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[tuple[str, str]] = []
    broken: Mapping[str, Any] = Failing()
    handlers = Handlers(Lookups(broken), ReviewRules(), observe=lambda path, outcome: seen.append((path, outcome)))
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
            tls.load(pair)
            async with session.get(f"https://{HOST}:{port}/healthz") as response:
                assert response.status == 200
        assert (await asked(port, new))[0] == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await asked(port, old)


async def test_a_certificate_that_does_not_fit_its_key_is_not_taken() -> None:
    async with running() as (port, authority, tls):
        one, two = (issue((HOST,), time.time(), 60.0)[0] for _ in range(2))
        with pytest.raises(ssl.SSLError):
            tls.load(ServingCertificate(one.certificate, two.key))
        assert (await asked(port, authority))[0] == 200


async def test_mounted_certificates_are_followed(tmp_path: Path) -> None:
    def write(pair: ServingCertificate) -> None:
        (tmp_path / "tls.crt").write_bytes(pair.certificate)
        (tmp_path / "tls.key").write_bytes(pair.key)

    first, second = (issue((HOST,), time.time(), 3600.0) for _ in range(2))
    tls, loaded = Serving(), asyncio.Event()
    task = asyncio.create_task(keep(MountedCertificates(tmp_path, tls), interval=0.01, loaded=loaded.set))
    try:
        write(first[0])  # at the first pass the files may not be there yet
        await asyncio.wait_for(loaded.wait(), 60)
        async with serving(Handlers(Lookups(), ReviewRules()), tls, HOST, 0) as port:
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


# ---- what strangers may take


async def _said(port: int, bundle: bytes, message: bytes) -> bytes:
    """What comes until the server ends the connection."""
    reader, writer = await asyncio.open_connection(HOST, port, ssl=trusting(bundle))
    try:
        writer.write(message)
        async with asyncio.timeout(60):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def _post(body: bytes, length: int | None = None) -> bytes:
    return f"POST {VALIDATE_JOB} HTTP/1.1\r\nHost: w\r\nContent-Length: {length or len(body)}\r\n\r\n".encode() + body


_CHUNK = b"%x\r\n" % 5000 + b" " * 5000 + b"\r\n"
_ENDLESS = f"POST {VALIDATE_JOB} HTTP/1.1\r\nHost: w\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + _CHUNK * 10


@pytest.mark.parametrize(
    ("message", "status"),
    [
        pytest.param(_post(b"x", 16 * 2**20), b"413", id="announced-too-long"),
        pytest.param(_ENDLESS, b"413", id="too-long-without-an-end"),
        pytest.param(_post(b"[" * 20_000), b"413", id="too-many-values"),
        pytest.param(_post(b"{", 100), b"408", id="half-a-body"),
        pytest.param(b"POST / HTTP/1.1\r\nHost:", b"", id="half-a-head"),
        pytest.param(b"", b"", id="nothing"),
    ],
)
async def test_what_is_too_long_or_never_whole_ends_its_connection(message: bytes, status: bytes) -> None:
    async with running(limits=ServerLimits(body=40_000, values=10_000, whole=0.5)) as (port, authority, _):
        assert (await _said(port, authority, message))[9:12] == status
        assert (await asked(port, authority))[0] == 200


async def test_a_review_of_too_many_values_is_denied_with_the_object_and_the_limit() -> None:
    """A user who wrote such an object is told so; before, an internal error named no object."""
    head = (
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"0b4c-9",'
        b'"kind":{"group":"","version":"v1","kind":"ConfigMap"},"resource":{"group":"","version":"v1",'
        b'"resource":"configmaps"},"name":"deep","namespace":"ns","operation":"CREATE","object":"'
    )
    async with running(limits=ServerLimits(values=10_000)) as (port, authority, _):
        answer = await _said(port, authority, _post(head + b"[" * 20_000))
        response = msgspec.json.decode(answer.partition(b"\r\n\r\n")[2])["response"]
        assert (response["uid"], response["allowed"], response["status"]["code"]) == ("0b4c-9", False, 413)
        assert response["status"]["message"].startswith('ConfigMap "deep" is too large to be checked: a body of ')
        assert "at most 10000 values" in response["status"]["message"]
        announced = await _said(port, authority, _post(head, 16 * 2**20))
        assert b'ConfigMap \\"deep\\" is too large to be checked: a body has at most 3145728 bytes' in announced
        assert (await asked(port, authority))[0] == 200


async def test_of_too_many_connections_the_oldest_that_says_nothing_gives_way() -> None:
    async with (
        running(limits=ServerLimits(unfinished=3, whole=60)) as (port, authority, _),
        contextlib.AsyncExitStack() as stack,
    ):
        held = []
        for _ in range(4):
            reader, writer = await asyncio.open_connection(HOST, port, ssl=trusting(authority))
            stack.callback(writer.close)
            held.append(reader)
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(held[0].read(), 60) == b""
        assert not any(reader.at_eof() for reader in held[1:])
        assert (await asked(port, authority))[0] == 200


async def test_a_large_review_is_answered_aside() -> None:
    async with running(limits=ServerLimits(small=10)) as (port, authority, _):
        assert (await asked(port, authority, VALIDATE_JOB, body(job())))[0] == 200
        assert (await asked(port, authority, VALIDATE_JOB, b"[" * 5000))[0] == 400


async def test_a_large_review_beyond_those_that_wait_is_denied_and_may_come_again() -> None:
    """Shed before blocking. 429 with a time, so that clients of the API server try again by themselves."""
    sent = b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"0b4c-9","kind":{}}}'
    async with running(limits=ServerLimits(small=10, waiting=0)) as (port, authority, _):
        status, text = await asked(port, authority, VALIDATE_JOB, sent)
        response = msgspec.json.decode(text)["response"]
        assert (status, response["uid"], response["allowed"]) == (200, "0b4c-9", False)
        assert (response["status"]["code"], response["status"]["details"]) == (429, {"retryAfterSeconds": 1})
        assert (await asked(port, authority, VALIDATE_JOB, b"[" * 5000))[0] == 503, "no uid to answer to"


async def test_a_large_review_looks_again_where_the_copy_changed_meanwhile() -> None:
    tries: list[None] = []

    class Changing(dict[str, Any]):
        def __contains__(self, key: object) -> bool:
            tries.append(None)
            if len(tries) < 3:
                raise RuntimeError("dictionary changed size during iteration")
            return False

    changing: Mapping[str, Any] = Changing()
    async with running(Handlers(Lookups(changing), ReviewRules()), ServerLimits(small=10)) as (port, authority, _):
        assert (await asked(port, authority, MUTATE_JOB, body(job(labels={}))))[0] == 200


async def test_only_clients_with_the_right_certificate_are_answered(tmp_path: Path) -> None:
    ours, others = pki.Authority(tmp_path / "ours"), pki.Authority(tmp_path / "others")
    known, stranger = (each.client("client", "kube-apiserver", ()) for each in (ours, others))

    async def status(bundle: bytes, pair: pki.KeyPairFiles | None) -> int | None:
        context = trusting(bundle)
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        async with aiohttp.ClientSession() as session:
            try:
                url = f"https://{HOST}:{port}{VALIDATE_JOB}"
                async with session.post(url, data=body(job()), ssl=context) as answer:
                    return answer.status
            except aiohttp.ClientError:
                return None

    async with running(clients=ours.certificate) as (port, authority, _):
        assert await status(authority, known) == 200
        assert await status(authority, None) is None
        assert await status(authority, stranger) is None
    async with running(Handlers(Lookups(), ReviewRules(), clients=("front-proxy",)), clients=ours.certificate) as (
        port,
        authority,
        _,
    ):
        assert await status(authority, known) == 403
