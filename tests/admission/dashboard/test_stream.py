"""The stream of changes towards clients that read slowly, or that come in great number."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from admission.dashboard.serve import server, unread
from admission.dashboard.serve.routes import EVENTS
from admission.dashboard.stream import MOST_CLIENTS, MOST_OF_ONE, Batch, Clients, TooManyClients
from admission.serving.bounded_server import Refused
from tests.admission.dashboard.small_cluster import TOKENS, Served, served

LARGE = [{"namespace": "team", "name": "x", "message": "m" * 500_000}]


def batch(workloads: list[dict[str, Any]] | None = None) -> Batch:
    return Batch({}, [], workloads or [], [], queues=True)


async def count(dashboard: Served, wanted: int) -> None:
    """Waits until so many streams are open."""
    async with asyncio.timeout(20):
        while len(dashboard.dashboard.clients) != wanted:  # noqa: ASYNC110  nothing tells
            await asyncio.sleep(0.01)


async def queues_event(reads: aiohttp.ClientResponse) -> None:
    """Reads on to the last event of a batch."""
    while await reads.content.readline() != b"event: queues\n":
        pass


def test_a_client_that_does_not_read_is_dropped_alone() -> None:
    clients = Clients()
    with clients.joined("slow") as slow, clients.joined("fast") as fast:
        for _ in range(200):
            clients.publish(one := batch())
            assert fast.get_nowait() is one
        assert slow.get_nowait() is None
        assert (slow.empty(), len(clients)) == (True, 1)


async def test_a_connection_that_takes_nothing_is_cut_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_SENT_WITHIN", 0.3)
    async with served() as found, asyncio.timeout(30), stream(found, "tenant") as reads:
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await asyncio.to_thread(slow.connect, ("127.0.0.1", urlsplit(found.base).port))
            slow.sendall(f"GET {EVENTS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin\r\n\r\n".encode())
            await count(found, 2)
            for _ in range(30):  # more than the kernel buffers, fewer than the server does
                found.dashboard.clients.publish(batch(LARGE))
                await queues_event(reads)
            await count(found, 1)
            found.dashboard.clients.publish(batch())
            await queues_event(reads)
            slow.settimeout(10)
            got = b""
            with contextlib.suppress(ConnectionResetError):
                while part := await asyncio.to_thread(slow.recv, 1 << 16):
                    got = got[-8:] + part
            assert not got.endswith(b"0\r\n\r\n")  # not an end that looks like a whole answer


async def test_a_client_that_fell_behind_is_told_to_start_again() -> None:
    """It reads again, too late: the stream ends, so that the page asks for everything anew."""
    async with served() as found, asyncio.timeout(30), stream(found, "admin") as reads:
        for _ in range(100):
            found.dashboard.clients.publish(batch(LARGE))
        assert len(found.dashboard.clients) == 0
        assert not [line async for line in reads.content if line == b"event: queues\n"]


async def test_one_user_cannot_take_the_streams_of_all() -> None:
    async with served() as found, asyncio.timeout(30), contextlib.AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(stream(found, "tenant")) for _ in range(MOST_OF_ONE)]
        status, body = await found.ask(EVENTS, "tenant")
        assert (status, json.loads(body)["error"]) == (429, "TooManyRequests")
        assert f"tenant follows the changes {MOST_OF_ONE} times already" in json.loads(body)["message"]
        await stack.enter_async_context(stream(found, "admin"))
        streams[0].close()
        await count(found, MOST_OF_ONE)
        await stack.enter_async_context(stream(found, "tenant"))


def test_all_users_together_have_a_limit_too() -> None:
    clients = Clients()
    with contextlib.ExitStack() as stack:
        for number in range(MOST_CLIENTS):
            stack.enter_context(clients.joined(f"user-{number}"))
        with pytest.raises(TooManyClients), clients.joined("another"):
            pass


async def test_a_stream_ends_with_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked about again while the stream is open, whether there are changes or not."""
    monkeypatch.setattr(server, "_HEARTBEAT", 0.05)
    async with (
        served() as found,
        asyncio.timeout(30),
        stream(found, "tenant") as reads,
        stream(found, "admin") as other,
    ):
        monkeypatch.delitem(TOKENS, "tenant")
        assert b"event: queues\n" not in [line async for line in reads.content]
        await count(found, 1)
        found.dashboard.clients.publish(batch())
        await queues_event(other)


TREE = "/api/v1/topology/tas"
LONG = 8 << 20


def reads_nothing(dashboard: Served, path: str, token: str) -> socket.socket:
    """A connection that has asked for this, and takes no more of the answer than the kernels keep."""
    slow = socket.create_connection(("127.0.0.1", urlsplit(dashboard.base).port))
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    return slow


async def answered(dashboard: Served, token: str, wanted: int) -> bytes:
    """Asks for the tree until the answer has this status; returns its body."""
    async with asyncio.timeout(20):
        while True:
            status, body = await dashboard.ask(TREE, token)
            if status == wanted:
                return body
            await asyncio.sleep(0.01)


async def test_answers_that_nobody_reads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant with a thousand slow connections to the tree would fill the memory."""
    monkeypatch.setattr(unread, "MOST_OF_ONE", 20 << 20)
    async with served() as found, asyncio.timeout(60):

        async def tree(viewer: Any, flavor: str) -> bytes:
            return b"[" + b" " * LONG + b"]"

        monkeypatch.setattr(found.dashboard, "tree", tree)
        with contextlib.ExitStack() as stack:
            for _ in range(2):
                stack.enter_context(await asyncio.to_thread(reads_nothing, found, TREE, "tenant"))
            refused = json.loads(await answered(found, "tenant", 429))
            assert refused["message"].startswith(f"tenant has not read {2 * (LONG + 2)} bytes of earlier answers")
            assert (await found.ask("/api/v1/session", "tenant"))[0] == 200, "what is short is answered"
            assert (await found.ask(TREE, "admin"))[0] == 200, "others are answered"
        assert len(await answered(found, "tenant", 200)) == LONG + 2


def test_unread_answers_of_all_users_have_a_limit_too() -> None:
    answers = unread.Unread()
    answers.enter(0, "a", 2 * unread.MOST)  # the only one
    for share in "ab":
        with pytest.raises(Refused):
            answers.enter(1, share, 1)
    answers.leave(0)
    answers.enter(1, "b", unread.MOST_OF_ONE)
    answers.enter(2, "a", unread.MOST_OF_ONE)
    with pytest.raises(Refused, match="a has not read"):
        answers.enter(3, "a", 1)


@contextlib.asynccontextmanager
async def stream(dashboard: Served, token: str) -> AsyncIterator[aiohttp.ClientResponse]:
    """Opens a stream; yields its response after the hello."""
    headers = {"Authorization": f"Bearer {token}"}
    async with dashboard.session.get(dashboard.base + EVENTS, headers=headers, read_bufsize=1 << 22) as response:
        assert response.status == 200
        assert await response.content.readline() == b"event: hello\n"
        yield response


@pytest.mark.parametrize(("token", "trees"), [("admin", {"tas"}), ("reader", set[str]())])
async def test_the_first_event_says_which_trees_are_old(token: str, trees: set[str]) -> None:
    """A page reads the tree before it follows the changes: what came in between it sees by the versions."""
    async with served() as found, asyncio.timeout(30):
        before = json.loads((await found.ask("/api/v1/topology/tas"))[1])["version"]
        found.cluster.node("n0", "r0", cordoned=True)
        await found.dashboard.renew()
        async with stream(found, token) as reads:
            data = json.loads((await reads.content.readline()).removeprefix(b"data: "))
        assert data["trees"].keys() == trees
        assert all(before < version <= data["version"] for version in data["trees"].values())


async def test_a_tree_of_a_process_that_ended_is_old() -> None:
    async with served() as found:
        before = json.loads((await found.ask("/api/v1/topology/tas"))[1])["version"]
    async with served() as found:
        assert json.loads((await found.ask("/api/v1/topology/tas"))[1])["version"] > before
