"""The dashboard's port in a cluster towards clients that break HTTP, never finish or are many."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import AsyncIterator

import pytest

from admission.dashboard.cluster import of_objects
from admission.dashboard.dashboard import Dashboard, Facts
from admission.dashboard.mcp.mcp_endpoint import PATH, Endpoint, paths
from admission.dashboard.serve import server
from admission.dashboard.serve.routes import PREFIX
from admission.dashboard.serve.server import LONGEST_BODY, DashboardServer
from admission.serving import connection_limits, connections
from admission.serving.certificate_authority import issue
from admission.serving.connection_limits import ConnectionLimits
from admission.serving.connections import Connections, listening
from admission.serving.tls import Serving
from tests.admission.dashboard.small_cluster import SmallCluster, authenticated
from tests.tasks import running

HOST = "127.0.0.1"
LIMITS = ConnectionLimits(handshake=1.0, whole=1.0, unfinished=8, served=8)
AUTHORIZED = "Authorization: Bearer tenant\r\n"
SESSION = f"GET {PREFIX}session HTTP/1.1\r\nHost: d\r\n{AUTHORIZED}"


@contextlib.asynccontextmanager
async def listened() -> AsyncIterator[tuple[int, ssl.SSLContext]]:
    """The server as run_dashboard has it; yields its port, and a client's context."""
    cluster, tls = SmallCluster(), Serving()
    pair, authority = issue((HOST,), time.time(), 3600.0)
    tls.load(pair)
    dashboard = Dashboard(of_objects(cluster.objects, cluster.world.state), Facts("0", "made-up", "token"))
    await dashboard.renew()
    tools = Endpoint(dashboard)
    handle = DashboardServer(dashboard, authenticated, paths(tools)).handle
    async with (
        running(tools.run()),
        listening(Connections(LIMITS), handle, lambda: tls.context, HOST, 0) as found,
    ):
        yield found.port, ssl.create_default_context(cadata=authority.decode())


async def said(port: int, context: ssl.SSLContext, text: bytes) -> bytes:
    """What comes until the server ends the connection."""
    reader, writer = await asyncio.open_connection(HOST, port, ssl=context)
    try:
        async with asyncio.timeout(60):
            with contextlib.suppress(ConnectionError):
                writer.write(text)
                await writer.drain()
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def works(port: int, context: ssl.SSLContext) -> bool:
    answer = await said(port, context, f"{SESSION}Connection: close\r\n\r\n".encode())
    return answer.startswith(b"HTTP/1.1 200") and b'"user":"tenant"' in answer


def question(headers: str, body: bytes) -> bytes:
    head = f"POST {PREFIX}what-if HTTP/1.1\r\nHost: d\r\n{AUTHORIZED}Content-Type: application/json\r\n{headers}\r\n"
    return head.encode() + body


LONG_HEADER = f"{SESSION}A: {'x' * 70_000}\r\n\r\n".encode()
LONG_TOKEN = (
    f"GET {PREFIX}session HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer {'x' * 7000}\r\nConnection: close\r\n\r\n"
)
SMUGGLED = f"GET {PREFIX}workloads/hidden-ns/hidden-train HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer admin\r\n\r\n"
BOTH = f"Content-Length: {len(SMUGGLED) + 5}\r\nTransfer-Encoding: chunked\r\n"
CHUNK = b"%x\r\n" % 65536 + b" " * 65536 + b"\r\n"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        pytest.param(question(BOTH, b"0\r\n\r\n" + SMUGGLED.encode()), b"400", id="two lengths, of which one hides a request"),
        pytest.param(question("Content-Length: 2\r\nContent-Length: 3\r\n", b"{} "), b"400", id="two lengths"),
        pytest.param(question("Content-Length: -1\r\n", b""), b"400", id="a negative length"),
        pytest.param(question("Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n"), b"400", id="an unknown encoding"),
        pytest.param(question("X: a\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"), b"400", id="half a line's end"),
        pytest.param(question("Transfer-Encoding : chunked\r\n", b"0\r\n\r\n"), b"400", id="a space in a header's name"),
        pytest.param(question("Content-Length: 90000000\r\n", b" " * (LONGEST_BODY + 1)), b"413", id="a huge body"),
        pytest.param(
            question("Transfer-Encoding: chunked\r\n", CHUNK * (LONGEST_BODY // 65536 + 1)), b"413", id="chunks without end"
        ),
        pytest.param(question("Content-Length: 100\r\n", b"{"), b"", id="half a body"),
        pytest.param(question("X: y\r\n", b"")[:-2], b"", id="half a head"),
        pytest.param(b"", b"", id="nothing"),
        pytest.param(b"\x16\x03\x01" * 100, b"400", id="no HTTP"),
        pytest.param(LONG_HEADER, b"400", id="a long header"),
        pytest.param(LONG_TOKEN.encode(), b"401", id="a long token"),
        pytest.param(f"{SESSION}Content-Length: 5\r\n\r\nGET /".encode(), b"200", id="a body that a GET has no use for"),
        pytest.param(
            f"GET {PREFIX}..%2f..%2fetc/passwd HTTP/1.1\r\nHost: d\r\n{AUTHORIZED}Connection: close\r\n\r\n".encode(),
            b"404",
            id="a path that leads out",
        ),
    ],
)  # fmt: skip
async def test_hostile_bytes_end_with_an_error_and_the_others_are_served(text: bytes, status: bytes) -> None:
    async with listened() as (port, context):
        answer = await said(port, context, text)
        assert answer[9:12] == status, answer
        assert answer.count(b"HTTP/1.1 ") <= 1, "nothing after it is taken for a request"
        assert b"hidden" not in answer
        assert await works(port, context)


async def test_a_slow_body_of_the_tools_ends_its_connection() -> None:
    """One byte at a time: each is progress, and the whole is bounded all the same."""
    async with listened() as (port, context), asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(HOST, port, ssl=context)
        head = f"POST {PATH} HTTP/1.1\r\nHost: d\r\n{AUTHORIZED}Content-Type: application/json\r\nContent-Length: 9999\r\n\r\n"
        writer.write(head.encode())
        with contextlib.suppress(ConnectionError):
            while not reader.at_eof():
                writer.write(b" ")
                await writer.drain()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await reader.read(100)
        writer.close()
        assert await works(port, context)


async def test_a_long_answer_that_nobody_reads_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """TLS took a long answer whole, so that it counted as sent at once: nothing bounded how long or how often."""
    length, ended = 8 << 20, asyncio.Event()

    async def tree(dashboard: Dashboard, viewer: object, flavor: str) -> bytes:
        return b" " * length

    def cut(transport: asyncio.Transport | None) -> None:
        connection_limits.cut(transport)
        ended.set()

    monkeypatch.setattr(Dashboard, "tree", tree)
    monkeypatch.setattr(server, "_SENT_WITHIN", 0.5)
    monkeypatch.setattr(connections, "cut", cut)
    async with listened() as (port, context), asyncio.timeout(60):
        narrow = socket.create_connection((HOST, port))
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader, writer = await asyncio.open_connection(sock=narrow, ssl=context, server_hostname=HOST, limit=1024)
        writer.write(f"GET {PREFIX}topology/tas HTTP/1.1\r\nHost: d\r\n{AUTHORIZED}\r\n".encode())
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        await ended.wait()
        got = 0
        with contextlib.suppress(ConnectionError):
            while part := await reader.read(1 << 16):
                got += len(part)
        assert got < length
        writer.close()
        assert await works(port, context)


async def test_many_connections_that_say_nothing_keep_nobody_out() -> None:
    async with listened() as (port, context), contextlib.AsyncExitStack() as stack:
        for _ in range(5 * LIMITS.unfinished):
            _, writer = await asyncio.open_connection(HOST, port, ssl=context)
            stack.callback(writer.close)
        assert await works(port, context)
