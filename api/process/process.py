"""The common frame of the three processes: event loop, logs, signals, health server, orderly shutdown.

    def main() -> None:
        sys.exit(serve(run, ProcessSettings(name="controller")))

    async def run(process: Process) -> None:
        ...
        process.ready = lambda: None if informer.has_synced else "workloads are not listed yet"
        ...

`run` works until it is cancelled (SIGTERM or SIGINT) and cleans up in `finally` blocks. leader.py has leader election.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from api.kube.settings import ProcessSettings
from api.process import logs, tracing
from api.process.health import HealthServer, MayRead, Page, PathAccess, Readiness, no_check, not_yet
from api.process.lag import watch_loop
from api.process.steps import MeasuredLoop

log = logging.getLogger(__name__)

ORDERLY, FAILED = 0, 1
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(slots=True)
class Process:
    """State of a process, passed to `main`."""

    settings: ProcessSettings
    ready: Readiness = lambda: "starting"
    """Set by `main`."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by the first signal."""
    health_port: int = 0
    pages: dict[str, Page] = field(default_factory=dict)
    """Pages that are served in addition to health and metrics, by name."""
    may_read: MayRead = not_yet
    """Authorizes readers if enabled."""

    def readiness(self) -> str | None:
        """Returns the reason for /readyz to fail, or None."""
        return "stopping" if self.stopping.is_set() else self.ready()


Main = Callable[[Process], Awaitable[None]]


def serve(main: Main, settings: ProcessSettings) -> int:
    """Runs `main` until it returns, fails or a signal arrives. Returns the exit code, 0 for an orderly end."""
    logs.configure(settings.log_level, as_json=settings.log_json)
    with asyncio.Runner(loop_factory=MeasuredLoop) as runner:
        return runner.run(_serve(main, settings))


async def _serve(main: Main, settings: ProcessSettings) -> int:
    asyncio.get_running_loop().set_exception_handler(_handle_unawaited)
    process = Process(settings)
    _listen(process)
    host, port = settings.health_host, settings.health_port
    guarded = settings.authenticate and host not in _LOOPBACK

    async def may_read(token: str, path: str) -> PathAccess:
        return await process.may_read(token, path)

    guard = may_read if guarded else no_check
    async with HealthServer(host, port, process.readiness, process.pages, guard) as health:
        process.health_port = health.port
        log.info("started", extra={"program": settings.name, "pid": os.getpid(), "health_port": health.port})
        async with tracing.exporting(settings.tracing, settings.name):
            code = await _work(main, process)
        log.info("ended", extra={"program": settings.name, "code": code})
        return code


def _handle_unawaited(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Handles exceptions that no task awaited. uvloop reports one if a response arrives on a closed connection."""
    error = context.get("exception")
    if isinstance(error, RuntimeError) and str(error).endswith("the handler is closed"):
        log.info("an answer came on a closed connection", extra={"error": str(error)})
    else:
        loop.default_exception_handler(context)


def _listen(process: Process) -> None:
    """Installs signal handlers: the first signal starts an orderly shutdown, a second one ends the process at once."""

    def handle_signal(name: str) -> None:
        if process.stopping.is_set():
            _exit_at_once(f"second signal: {name}")
        log.info("stopping", extra={"program": process.settings.name, "signal": name})
        process.stopping.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, handle_signal, number.name)


async def _work(main: Main, process: Process) -> int:
    # First of all: from then on no garbage collection looks at what was imported, which holds the loop for 100 ms.
    watching = asyncio.create_task(watch_loop(), name="loop lag")
    work = asyncio.create_task(_call(main, process), name=process.settings.name)
    stopping = asyncio.create_task(process.stopping.wait(), name="stopping")
    try:
        await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        work.cancel()
        await asyncio.wait({work}, timeout=process.settings.grace)
    finally:
        for task in (stopping, watching):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    if not work.done():
        _exit_at_once(f"no end within {process.settings.grace} s")
    if work.cancelled():
        return ORDERLY
    error = work.exception()
    if error is not None:
        log.critical("failed", extra={"program": process.settings.name}, exc_info=error)
    return FAILED if error is not None else ORDERLY


async def _call(main: Main, process: Process) -> None:
    await main(process)


def _exit_at_once(why: str) -> None:
    """Ends the process without cleanup: a task that ignores its cancellation would block any orderly end."""
    log.critical("ending at once", extra={"why": why})
    logging.shutdown()
    os._exit(FAILED)
