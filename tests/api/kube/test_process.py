"""A process from outside: its health server, its signals, its exit code."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from api.kube import metrics
from api.process.health import HealthServer, PathAccess
from tests.api.kube.server import config

PROGRAM = """
import asyncio, sys
from api.process.process import serve
from api.kube.settings import ProcessSettings

async def main(process):
    process.ready = lambda: None
    {body}

sys.exit(serve(main, ProcessSettings("tested", health_host="{host}", health_port=0, grace={grace}, authenticate={asks})))
"""
CONNECTS = """
    from pathlib import Path
    from api.kube.client import Kube
    from api.kube.settings import ClientSettings
    before = set(sys.modules)
    async with await Kube.connect(ClientSettings(kubeconfig=Path("{kubeconfig}"))):
        print(sorted({{name.partition(".")[0] for name in sys.modules.keys() - before}} - sys.stdlib_module_names), flush=True)
"""
POLITE = """
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)
        print("cleaned", flush=True)
"""
STUBBORN = """
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            print("refused", flush=True)
"""


class Child:
    """A running process and the log lines it wrote so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []

    async def line(self, message: str) -> dict[str, Any]:
        """Reads on until a line with that message."""
        assert self.process.stderr is not None
        async with asyncio.timeout(60):
            while True:
                raw = await self.process.stderr.readline()
                assert raw, f"ended before {message!r}: {self.lines}"
                self.lines.append(json.loads(raw))
                if self.lines[-1]["message"] == message:
                    return self.lines[-1]

    async def code(self) -> int:
        async with asyncio.timeout(60):
            return await self.process.wait()


@asynccontextmanager
async def child(body: str, grace: float = 30.0, host: str = "127.0.0.1", *, asks: bool = False) -> AsyncIterator[Child]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM.format(body=body.strip(), grace=grace, host=host, asks=asks),
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Child(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda value: value.name)
async def test_a_signal_ends_it_in_order(number: signal.Signals) -> None:
    async with child(POLITE) as it:
        started = await it.line("started")
        assert started["program"] == "tested"
        assert await asked(started["health_port"], "/readyz") == (200, "ok\n")
        it.process.send_signal(number)
        assert (await it.line("stopping"))["signal"] == number.name
        await it.line("ended")
        assert await it.code() == 0
        assert it.process.stdout is not None
        assert await it.process.stdout.read() == b"cleaned\n"


async def test_no_collection_looks_at_what_was_imported_while_the_parts_are_built() -> None:
    """A pass over that holds the loop for 100 ms."""
    async with child("import gc; print(gc.get_freeze_count() > 1000, flush=True)") as it:
        await it.line("ended")
        assert it.process.stdout is not None
        assert await it.process.stdout.read() == b"True\n"


async def test_no_library_is_imported_while_the_loop_runs(tmp_path: Path) -> None:
    """One of 900 modules, which the first connection imported, held the loop for half a second."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(config("http://127.0.0.1:1", {"token": "t"})))
    async with child(CONNECTS.format(kubeconfig=kubeconfig)) as it:
        await it.line("ended")
        assert it.process.stdout is not None
        assert await it.process.stdout.read() == b"[]\n"


async def test_a_failure_is_logged_and_sets_the_exit_code() -> None:
    async with child('raise RuntimeError("a bug")') as it:
        assert "RuntimeError: a bug" in (await it.line("failed"))["exception"]
        assert await it.code() == 1


async def test_a_return_is_an_orderly_end() -> None:
    async with child("return") as it:
        await it.line("ended")
        assert await it.code() == 0


async def test_who_does_not_end_is_ended() -> None:
    async with child(STUBBORN, grace=0.05) as it:
        await it.line("started")
        it.process.terminate()
        assert (await it.line("ending at once"))["why"] == "no end within 0.05 s"
        assert await it.code() == 1


async def test_a_second_signal_does_not_wait() -> None:
    async with child(STUBBORN) as it:
        await it.line("started")
        it.process.terminate()
        await it.line("stopping")
        it.process.terminate()
        assert (await it.line("ending at once"))["why"] == "second signal: SIGTERM"
        assert await it.code() == 1


async def test_readiness_tells_why_not() -> None:
    reason: str | None = "workloads are not listed yet"
    async with HealthServer("127.0.0.1", 0, lambda: reason) as health:
        assert await asked(health.port, "/readyz") == (503, "workloads are not listed yet\n")
        reason = None
        assert await asked(health.port, "/readyz") == (200, "ok\n")
        assert await asked(health.port, "/healthz") == (200, "ok\n")
        status, text = await asked(health.port, "/metrics")
        assert status == 200
        assert next(iter(metrics.QUEUE_DEPTH.describe())).name in text


async def test_pages_of_its_own() -> None:
    pages = {"snapshot": lambda: b"{}"}
    async with HealthServer("127.0.0.1", 0, lambda: None, pages) as health:
        assert await asked(health.port, "/snapshot") == (200, "{}")
        assert (await asked(health.port, "/other"))[0] == 404
    async with HealthServer("127.0.0.1", 0, lambda: None) as health:
        assert (await asked(health.port, "/snapshot"))[0] == 404


async def asked(port: int, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.text()


async def test_an_answer_on_a_closed_connection_is_no_error_and_anything_else_unheard_is() -> None:
    body = """
    loop = asyncio.get_running_loop()
    closed = RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")
    loop.call_exception_handler({"message": "Fatal error on SSL protocol", "exception": closed})
    loop.call_exception_handler({"message": "nobody awaited this", "exception": RuntimeError("a bug")})
    """
    async with child(body) as running:
        assert (await running.line("an answer came on a closed connection"))["level"] == "INFO"
        assert (await running.line("nobody awaited this"))["level"] == "ERROR"


async def test_a_scrape_does_not_hold_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    # With hundreds of queues the page takes seconds; the Lease has to be renewed meanwhile.
    begun, answered = threading.Event(), threading.Event()

    def page() -> bytes:
        begun.set()
        return b"all\n" if answered.wait(30) else b"the loop stood still\n"

    monkeypatch.setattr("api.process.health.generate_latest", page)
    async with HealthServer("127.0.0.1", 0, lambda: None) as health, aiohttp.ClientSession() as session:
        here = f"http://127.0.0.1:{health.port}"

        async def scraped() -> str:
            async with session.get(f"{here}/metrics") as answer:
                return await answer.text()

        scrape = asyncio.create_task(scraped())
        assert await asyncio.to_thread(begun.wait, 30)
        async with session.get(f"{here}/healthz") as answer:
            assert answer.status == 200
        answered.set()
        assert await scrape == "all\n"


async def test_metrics_are_served_to_authorized_readers_only() -> None:
    asked: list[tuple[str, str]] = []

    async def may_read(token: str, path: str) -> PathAccess:
        asked.append((token, path))
        return {"good": PathAccess.MAY, "poor": PathAccess.MAY_NOT}.get(token, PathAccess.UNKNOWN)

    async with (
        HealthServer("127.0.0.1", 0, lambda: None, {"snapshot": lambda: b"{}"}, may_read) as health,
        aiohttp.ClientSession() as session,
    ):
        for path, token, status in (
            ("metrics", None, 401),
            ("metrics", "bad", 401),
            ("metrics", "poor", 403),
            ("metrics", "good", 200),
            ("snapshot", "bad", 401),
            ("snapshot", "good", 200),
            ("healthz", None, 200),
            ("readyz", None, 200),
        ):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with session.get(f"http://127.0.0.1:{health.port}/{path}", headers=headers) as answer:
                assert answer.status == status, (path, token)
    assert asked[1] == ("bad", "/metrics")


@pytest.mark.parametrize(
    ("host", "asks", "status"),
    [
        pytest.param("0.0.0.0", True, 401, id="all-interfaces"),
        pytest.param("127.0.0.1", True, 200, id="loopback"),
        pytest.param("0.0.0.0", False, 200, id="off"),
    ],
)
async def test_metrics_need_authentication_where_the_settings_say_so(host: str, asks: bool, status: int) -> None:
    """Never on loopback."""
    async with child(POLITE, host=host, asks=asks) as it:
        port = (await it.line("started"))["health_port"]
        assert (await asked(port, "/metrics"))[0] == status
        assert (await asked(port, "/healthz"))[0] == 200
