"""The server over real TLS on loopback: who is answered, what is answered, and a CA that is replaced."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.serving.certificate_authority import issue
from admission.serving.connections import Listening
from admission.visibility.api_documents import VERSIONS, documents
from admission.visibility.front_proxy import FrontProxyTls, Trust, read_trust
from admission.visibility.server import Queues, VisibilityServer, requested_list
from api.errors import ApiError
from api.process.access import Right
from api.process.identities import Subject
from hack.controlplane.pki import Authority, KeyPairFiles
from tests.admission.visibility.test_pending import ROWS, engine, wire

HOST = "127.0.0.1"
LIST = "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/cq/pendingworkloads"
LOCAL = "/apis/visibility.kueue.x-k8s.io/v1beta1/namespaces/a/localqueues/q/pendingworkloads"
ALICE = {"X-Remote-User": "alice"}
NAMES = frozenset({"front-proxy-client"})


@dataclass
class World:
    """What the server reads, and whom it is told may read what; `gate` holds the threads that make lists."""

    why: str | None = None
    may: bool | Exception = True
    asked: list[tuple[Subject, Right, str, str]] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    async def allowed(self, subject: Subject, right: Right, namespace: str, name: str) -> bool:
        self.asked.append((subject, right, namespace, name))
        if isinstance(self.may, Exception):
            raise self.may
        return self.may

    def queues(self) -> Queues:
        rows = {row[0]: row for row in ROWS}

        def looked_up(key: str) -> Any:
            self.gate.wait(30)
            return wire(rows[key])

        local = {("a", "q"): "cq", ("a", "r"): "cq", ("b", "q"): "cq", ("a", "lost"): "gone"}
        return Queues(
            lambda: self.why,
            {"cq"}.__contains__,
            lambda namespace, name: local.get((namespace, name)),
            lambda: iter([engine(row) for row in ROWS]),
            looked_up,
        )


@dataclass
class Running:
    """A server, its CA, and the two CAs of which the first is trusted."""

    listening: Listening
    tls: FrontProxyTls
    authority: bytes
    proxy: Authority
    stranger: Authority

    def client(self, pair: KeyPairFiles | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.authority.decode())
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        return context

    @property
    def ours(self) -> KeyPairFiles:
        return self.proxy.client("client", "front-proxy-client")

    async def get(
        self,
        path: str = LIST,
        pair: KeyPairFiles | None = None,
        headers: Mapping[str, str] = ALICE,
        method: str = "GET",
    ) -> tuple[int, Any]:
        url = f"https://{HOST}:{self.listening.port}{path}"
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session,
            session.request(method, url, headers=headers, ssl=self.client(pair or self.ours)) as response,
        ):
            return response.status, await response.json()


@contextlib.asynccontextmanager
async def running(folder: Path, world: World | None = None, names: frozenset[str] = NAMES) -> AsyncIterator[Running]:
    world, tls = world or World(), FrontProxyTls()
    pair, authority = issue((HOST,), time.time(), 3600.0)
    tls.load(pair)
    proxy, stranger = Authority(folder / "proxy"), Authority(folder / "stranger")
    tls.use(Trust(proxy.certificate.read_text(), names))
    server = VisibilityServer(world.queues(), world.allowed, lambda: tls.trust)
    async with server.listening(lambda: tls.context, HOST, 0) as listening:
        yield Running(listening, tls, authority, proxy, stranger)


# ---- whose requests are answered


async def test_the_user_whom_the_proxy_names_is_asked_for(tmp_path: Path) -> None:
    world = World()
    headers = {
        "X-Remote-User": "alice",
        "X-Remote-Group": "team",
        "X-Remote-Uid": "7",
        "X-Remote-Extra-Acme.com%2fProject": "p",
        "X-Remote-Other": "ignored",
    }
    async with running(tmp_path, world) as server:
        assert (await server.get(headers=headers))[0] == 200
        assert (await server.get(LOCAL, headers=headers))[0] == 200
    (alice, right, *where), (_, local, *inside) = world.asked
    assert alice == Subject("alice", ("team",), "7", (("acme.com/project", ("p",)),))
    assert (right.verb, right.resource.plural, right.subresource, *where) == (
        "get", "clusterqueues", "pendingworkloads", "", "cq",
    )  # fmt: skip
    assert (local.resource.plural, *inside) == ("localqueues", "a", "q")


@pytest.mark.parametrize(
    ("names", "own_name", "headers", "status"),
    [
        pytest.param(NAMES, "front-proxy-client", ALICE, 200, id="the-proxy"),
        pytest.param(frozenset(), "any", ALICE, 200, id="any-name-where-none-is-given"),
        pytest.param(NAMES, "kubelet", ALICE, 401, id="another-name"),
        pytest.param(NAMES, "front-proxy-client", {}, 401, id="no-user"),
        pytest.param(NAMES, "front-proxy-client", {"X-Remote-User": ""}, 401, id="empty-user"),
        pytest.param(NAMES, "front-proxy-client", {"X-Remote-Group": "system:masters"}, 401, id="a-group-alone"),
        pytest.param(NAMES, "front-proxy-client", {"Authorization": "Bearer x"}, 401, id="a-token"),
    ],
)
async def test_who_is_answered(
    tmp_path: Path, names: frozenset[str], own_name: str, headers: Mapping[str, str], status: int
) -> None:
    world = World()
    async with running(tmp_path, world, names) as server:
        got, body = await server.get(pair=server.proxy.client("own", own_name), headers=headers)
    assert got == status
    assert (body["kind"] == "Status") is (status != 200)
    assert bool(world.asked) is (status == 200)


async def test_without_a_certificate_headers_mean_nothing(tmp_path: Path) -> None:
    world = World()
    async with running(tmp_path, world) as server:
        context = server.client(None)
        for path in (LIST, "/apis", "/healthz"):
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"https://{HOST}:{server.listening.port}{path}", headers=ALICE, ssl=context) as response,
            ):
                assert response.status == 401
    assert not world.asked


async def test_another_cas_certificate_ends_the_handshake(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        with pytest.raises(aiohttp.ClientError):
            await server.get(pair=server.stranger.client("client", "front-proxy-client"))


@pytest.mark.parametrize(
    ("data", "answered"),
    [
        pytest.param({}, False, id="no-ca"),
        pytest.param({"requestheader-client-ca-file": ""}, False, id="empty-ca"),
        pytest.param({"requestheader-client-ca-file": "CA", "requestheader-allowed-names": "{"}, False, id="no-json"),
        pytest.param({"requestheader-client-ca-file": "CA", "requestheader-allowed-names": "[1]"}, False, id="numbers"),
        pytest.param(
            {"requestheader-client-ca-file": "CA", "requestheader-allowed-names": "[" * 5000}, False, id="nested"
        ),
        pytest.param({"requestheader-client-ca-file": "CA"}, True, id="names-absent"),
        pytest.param({"requestheader-client-ca-file": "CA", "requestheader-allowed-names": "[]"}, True, id="no-names"),
        pytest.param(
            {"requestheader-client-ca-file": "CA", "requestheader-allowed-names": '["b"]'}, False, id="other-names"
        ),
    ],
)
def test_a_config_map_that_cannot_be_read_trusts_nobody(data: dict[str, str], answered: bool) -> None:
    certificate = {"subject": ((("commonName", "a"),),)}
    assert read_trust(data).proves(certificate) is answered


async def test_a_replaced_ca_ends_the_old_ones_connections(tmp_path: Path) -> None:
    """A client that was verified by the old CA is not answered any more, even on a connection that is open."""
    async with running(tmp_path) as server:
        old, new = server.ours, server.stranger.client("client", "front-proxy-client")
        url = f"https://{HOST}:{server.listening.port}{LIST}"
        async with aiohttp.ClientSession() as session:
            async with session.get(url, headers=ALICE, ssl=server.client(old)) as response:
                assert response.status == 200
                await response.read()
            assert server.tls.use(replace(server.tls.trust, authority=server.stranger.certificate.read_text()))
            server.listening.end_connections()
            with pytest.raises(aiohttp.ClientError):
                async with session.get(url, headers=ALICE, ssl=server.client(old)):
                    pass
        assert (await server.get(pair=new))[0] == 200


async def test_an_invalid_ca_keeps_the_present_one(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        with pytest.raises(OSError, match=r"PEM|ASN1|cadata|certificate"):
            server.tls.use(Trust("no certificate"))
        assert (await server.get())[0] == 200


@given(st.text(max_size=40), st.lists(st.text(max_size=8), max_size=9))
def test_any_path_names_a_list_or_nothing(text: str, parts: list[str]) -> None:
    """A path that names one has a queue's name, a version that is served, and the group of the API."""
    for path in (text, "/".join(["", "apis", "visibility.kueue.x-k8s.io", *parts]), quote(text)):
        found = requested_list(path)
        assert found is None or (found.name and found.version in VERSIONS and path.startswith("/"))


# ---- what is answered


@pytest.mark.parametrize(
    ("path", "world", "status", "message"),
    [
        pytest.param(LIST, World(may=False), 403, "cannot get resource", id="no-right"),
        pytest.param(LOCAL, World(may=False), 403, 'in the namespace "a"', id="no-right-in-the-namespace"),
        pytest.param(LIST, World(may=ApiError(500, "x", "y")), 503, "does not say", id="the-api-server-fails"),
        pytest.param(LIST, World(may=TimeoutError()), 503, "does not say", id="the-api-server-is-silent"),
        pytest.param(LIST, World(why="not listed yet: workloads"), 503, "not listed yet", id="not-synced"),
        pytest.param(LIST.replace("/cq/", "/no/"), World(), 404, '"no" not found', id="no-such-cluster-queue"),
        pytest.param(LOCAL.replace("/q/", "/no/"), World(), 404, '"no" not found', id="no-such-local-queue"),
        pytest.param(LOCAL.replace("/a/", "/c/"), World(), 404, '"q" not found', id="of-another-namespace"),
        pytest.param(LIST + "?limit=x", World(), 400, "limit", id="no-number"),
        pytest.param(LIST + "/x", World(), 404, "could not find", id="longer-path"),
        pytest.param(LIST.replace("v1beta2", "v1"), World(), 404, "could not find", id="version"),
        pytest.param("/apis/other/v1/clusterqueues/cq/pendingworkloads", World(), 404, "could not find", id="group"),
        pytest.param(LIST.replace("/cq/", "//"), World(), 404, "could not find", id="no-name"),
        pytest.param(LIST.replace("/cq/", "/%63q%2f/"), World(), 404, "not found", id="escaped-slash"),
        pytest.param("/", World(), 404, "could not find", id="root"),
    ],
)
async def test_a_refusal_is_a_status(tmp_path: Path, path: str, world: World, status: int, message: str) -> None:
    async with running(tmp_path, world) as server:
        got, body = await server.get(path)
    assert (got, body["kind"], body["code"]) == (status, "Status", status)
    assert message in body["message"]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_nothing_can_be_written(tmp_path: Path, method: str) -> None:
    async with running(tmp_path) as server:
        assert (await server.get(method=method))[0] == 405


async def test_lists(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        whole = (await server.get())[1]["items"]
        local = (await server.get(LOCAL + "?limit=1&offset=1"))[1]
        lost = (await server.get(LOCAL.replace("/q/", "/lost/")))[1]["items"]
        documents_got = {path: (await server.get(path))[1] for path in documents()}
    assert [item["metadata"]["name"] for item in whole] == ["first", "second", "other", "late"]
    assert [item["positionInClusterQueue"] for item in local["items"]] == [3]
    assert local["apiVersion"].endswith("/v1beta1")
    assert lost == []  # its ClusterQueue does not exist
    assert documents_got == documents()


async def test_a_flood_is_told_to_come_again(tmp_path: Path) -> None:
    """One list is made at a time, and a bounded number waits; the controller's other work goes on."""
    world = World()
    async with running(tmp_path, world) as server:
        world.gate.clear()
        requests = [asyncio.ensure_future(server.get()) for _ in range(40)]
        first = (await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED))[0]
        assert {task.result()[0] for task in first} == {429}
        world.gate.set()
        statuses = [status for status, _ in await asyncio.gather(*requests)]
    assert statuses.count(200) == 32
    assert statuses.count(429) == 8
