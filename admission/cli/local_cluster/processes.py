"""Runs the three processes as children, for the demo and the test suites, never in production.

Each has its own kubeconfig, free loopback ports and log file, and counts as started when /readyz answers 200. They end by
SIGTERM in order; a child that exceeds its grace period is killed. A single one can be killed and restarted, to test crashes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import aiohttp

from admission.cli.local_cluster.ports import free_port

COMMANDS: Mapping[str, tuple[str, ...]] = {
    "webhook": ("admission", "webhook"),
    "controller": ("admission", "controller"),
    "ungater": ("ungater",),
}
_GRACE = 15.0
_POLL = 0.05
_LOG_TAIL = 4000
_MOST = 3
"""Multiple of the seconds without progress after which readiness times out even with progress."""


class RunningProcess(Protocol):
    """The handle of a child; asyncio's subprocess implements it."""

    @property
    def pid(self) -> int:
        """Process id."""
        ...

    @property
    def returncode(self) -> int | None:
        """Return code; None while the process runs, negative for the signal that ended it."""
        ...

    async def wait(self) -> int:
        """Waits for the end and returns the return code."""
        ...

    def send_signal(self, signal: int, /) -> None:
        """Sends a signal. Raises ProcessLookupError if the process has ended."""
        ...

    def kill(self) -> None:
        """Sends SIGKILL. Raises ProcessLookupError if the process has ended."""
        ...


Start = Callable[[Sequence[str], Mapping[str, str], Path], Awaitable[RunningProcess]]
"""Starts a module, given its name and arguments, the environment, and the file for its output."""


async def start_interpreter(command: Sequence[str], environment: Mapping[str, str], log: Path) -> RunningProcess:
    """Starts `python -m ...`, as an operator would."""
    with log.open("ab") as out:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", *command, env=environment, stdout=out, stderr=out
        )


class ProcessFailed(RuntimeError):
    """A child ended or did not become ready; the message has the end of its log."""


@dataclass
class ChildProcess:
    """One process: how to start it and, while it runs, its handle."""

    name: str
    environment: Mapping[str, str]
    log: Path
    health_port: int
    process: RunningProcess | None = None
    launch: Start = start_interpreter
    _ending: bool = field(init=False, default=False)

    async def start(self) -> None:
        """Starts the process without waiting for readiness."""
        environment = {**os.environ, **self.environment, "STOWAGE_HEALTH_PORT": str(self.health_port)}
        self.process = await self.launch(COMMANDS[self.name], environment, self.log)
        self._ending = False  # only now: until here `process` is the previous one

    async def ready(self, seconds: float) -> None:
        """Waits until /readyz answers 200. Raises ProcessFailed after `seconds` without a changed answer."""
        url = f"http://127.0.0.1:{self.health_port}/readyz"
        status = "no answer"
        try:
            async with asyncio.timeout(seconds) as limit, aiohttp.ClientSession() as session:
                latest = asyncio.get_running_loop().time() + _MOST * seconds
                while True:
                    if self.process is None or self.process.returncode is not None:
                        raise ProcessFailed(self.failure() or f"{self.name} was ended")
                    try:
                        async with session.get(url) as answer:
                            now = await answer.text()
                            if answer.status == 200:
                                return
                    except aiohttp.ClientError as error:
                        now = str(error)
                    if now != status:  # progress, however slow on a loaded machine
                        status = now
                        limit.reschedule(min(latest, asyncio.get_running_loop().time() + seconds))
                    await asyncio.sleep(_POLL)
        except TimeoutError:
            raise ProcessFailed(f"{self.name} not ready within {seconds} s: {status}\n{self.tail()}") from None

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Sends the signal and waits; kills the process if it exceeds `_GRACE`."""
        process = self.process
        if process is None or process.returncode is not None:
            return
        self._ending = True
        process.send_signal(number)
        try:
            async with asyncio.timeout(_GRACE):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def failure(self) -> str | None:
        """Returns a message with the end of the log if the process ended without being stopped, else None."""
        if self.process is None or self.process.returncode is None or self._ending:
            return None
        return f"{self.name} ended with {self.process.returncode}\n{self.tail()}"

    def tail(self) -> str:
        """Returns the last `_LOG_TAIL` characters of the log."""
        return self.log.read_text(errors="replace")[-_LOG_TAIL:] if self.log.exists() else ""


@dataclass
class StowageProcesses:
    """The three processes."""

    kubeconfigs: Mapping[str, Path]
    """By process name."""
    folder: Path
    """Receives the logs."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Applies to all processes."""
    # seconds; starting three interpreters is slow on a loaded machine
    ready_within: float = 120.0
    webhook_port: int = field(default_factory=free_port)
    launch: Start = start_interpreter
    children: dict[str, ChildProcess] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for name, kubeconfig in self.kubeconfigs.items():
            own = {"STOWAGE_KUBECONFIG": str(kubeconfig), "STOWAGE_HEALTH_HOST": "127.0.0.1"}
            if name == "webhook":
                own |= {
                    "STOWAGE_WEBHOOK__HOST": "127.0.0.1",
                    "STOWAGE_WEBHOOK__PORT": str(self.webhook_port),
                    "STOWAGE_WEBHOOK__URL": self.webhook_url,
                }
            self.children[name] = ChildProcess(
                name, {**own, **self.environment}, self.folder / f"{name}.log", free_port(), launch=self.launch
            )

    @property
    def webhook_url(self) -> str:
        """The webhook's base URL for the API server."""
        return f"https://127.0.0.1:{self.webhook_port}"

    @property
    def pids(self) -> list[int]:
        """Process ids of the running children."""
        return [c.process.pid for c in self.children.values() if c.process and c.process.returncode is None]

    async def __aenter__(self) -> Self:
        try:
            for child in self.children.values():
                await child.start()
            await asyncio.gather(*(child.ready(self.ready_within) for child in self.children.values()))
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def failure(self) -> str | None:
        """Returns the processes that ended without being stopped, each with the end of its log, or None."""
        failures = [failure for child in self.children.values() if (failure := child.failure())]
        return "\n".join(failures) or None

    async def stop(self) -> None:
        """Stops all, the webhook last, because the others still write objects while they end."""
        for name in ("ungater", "controller", "webhook"):
            if name in self.children:
                await self.children[name].stop()

    async def crash(self, name: str) -> None:
        """Kills one with SIGKILL, as a machine failure would."""
        await self.children[name].stop(signal.SIGKILL)

    async def restart(self, name: str) -> None:
        """Starts one again and waits for readiness. Raises ProcessFailed."""
        await self.children[name].start()
        await self.children[name].ready(self.ready_within)
