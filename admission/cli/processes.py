"""The three processes as children, as an operator would run them: for the demo and the suites, never for production.

Each gets its own kubeconfig and free ports on loopback, writes its log to a file of its own, and is waited for until its
/readyz says so. Ended by SIGTERM in order; a child that outlives its grace is killed. A single one can be killed and
started again, to see what a crash does.
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

from admission.cli.ports import free_port

COMMANDS: Mapping[str, tuple[str, ...]] = {
    "webhook": ("admission", "webhook"),
    "controller": ("admission", "controller"),
    "ungater": ("ungater",),
}
_GRACE = 15.0
_POLL = 0.05
_LOG_TAIL = 4000
_MOST = 3
"""Times the seconds without progress within which a process has to be ready in any case."""


class RunningProcess(Protocol):
    """What is used of a child's handle: asyncio's own has it."""

    @property
    def pid(self) -> int:
        """Of the operating system."""
        ...

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative for the signal that ended it."""
        ...

    async def wait(self) -> int:
        """Its return code, once it has ended."""
        ...

    def send_signal(self, signal: int, /) -> None:
        """Raises ProcessLookupError where it has ended."""
        ...

    def kill(self) -> None:
        """The same with SIGKILL."""
        ...


Start = Callable[[Sequence[str], Mapping[str, str], Path], Awaitable[RunningProcess]]
"""Starts a module: its name and arguments, the environment, and the file that takes what it writes."""


async def start_interpreter(command: Sequence[str], environment: Mapping[str, str], log: Path) -> RunningProcess:
    """`python -m ...`, as an operator starts it."""
    with log.open("ab") as out:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", *command, env=environment, stdout=out, stderr=out
        )


class ProcessFailed(RuntimeError):
    """A child ended or did not become ready; carries the end of its log."""


@dataclass
class ChildProcess:
    """One process: how it is started and, while it lives, its handle."""

    name: str
    environment: Mapping[str, str]
    log: Path
    health_port: int
    process: RunningProcess | None = None
    launch: Start = start_interpreter
    _told_to_end: bool = field(init=False, default=False)

    async def start(self) -> None:
        """Starts it; does not wait for readiness."""
        environment = {**os.environ, **self.environment, "STOWAGE_HEALTH_PORT": str(self.health_port)}
        self.process = await self.launch(COMMANDS[self.name], environment, self.log)
        self._told_to_end = False  # not before: until now it is the one that was ended

    async def ready(self, seconds: float) -> None:
        """Wait until /readyz answers 200; `seconds` without progress. Raises ProcessFailed with the end of the log."""
        url = f"http://127.0.0.1:{self.health_port}/readyz"
        said = "no answer"
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
                    if now != said:  # it gets on, however slowly a loaded machine lets it
                        said = now
                        limit.reschedule(min(latest, asyncio.get_running_loop().time() + seconds))
                    await asyncio.sleep(_POLL)
        except TimeoutError:
            raise ProcessFailed(f"{self.name} not ready within {seconds} s: {said}\n{self.tail()}") from None

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ends it with that signal; kills it when it takes longer than its grace."""
        process = self.process
        if process is None or process.returncode is not None:
            return
        self._told_to_end = True
        process.send_signal(number)
        try:
            async with asyncio.timeout(_GRACE):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def failure(self) -> str | None:
        """With the end of its log, if it was started and has ended without being stopped."""
        if self.process is None or self.process.returncode is None or self._told_to_end:
            return None
        return f"{self.name} ended with {self.process.returncode}\n{self.tail()}"

    def tail(self) -> str:
        """The end of the log."""
        return self.log.read_text(errors="replace")[-_LOG_TAIL:] if self.log.exists() else ""


@dataclass
class StowageProcesses:
    """All three. `kubeconfigs` by process name; `environment` for all of them; `folder` takes the logs; `launch` starts one."""

    kubeconfigs: Mapping[str, Path]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    # seconds; a machine that runs other things as well starts three interpreters slowly
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
        """Where the API server reaches the webhook."""
        return f"https://127.0.0.1:{self.webhook_port}"

    @property
    def pids(self) -> list[int]:
        """Of the children that live."""
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
        """The processes that ended without being stopped, each with the end of its log."""
        failures = [failure for child in self.children.values() if (failure := child.failure())]
        return "\n".join(failures) or None

    async def stop(self) -> None:
        """Ends all, the webhook last: objects are still written while the others finish."""
        for name in ("ungater", "controller", "webhook"):
            if name in self.children:
                await self.children[name].stop()

    async def crash(self, name: str) -> None:
        """Kills one as a machine failure would."""
        await self.children[name].stop(signal.SIGKILL)

    async def restart(self, name: str) -> None:
        """Starts one again and waits for it."""
        await self.children[name].start()
        await self.children[name].ready(self.ready_within)
