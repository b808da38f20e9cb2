"""The three processes as tasks of the test's own loop, so that a test can inspect what they keep in memory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from admission.app import run_controller
from admission.settings import AdmissionSettings
from admission.webhook.app import run_webhook
from api.process.health import HealthServer
from api.process.process import Process
from ungater.app import run as run_ungater
from ungater.settings import UngaterSettings


@dataclass
class OwnTask:
    """The handle of a process that runs as a task, with the interface of asyncio's child processes."""

    pid: int
    task: asyncio.Task[None]

    @property
    def returncode(self) -> int | None:
        """None while the task runs."""
        return 0 if self.task.done() else None

    async def wait(self) -> int:
        """Waits for the end of the task. Raises the error that ended it."""
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
        return 0

    def send_signal(self, number: int, /) -> None:
        """Ends the task, whatever the signal."""
        if self.task.done():
            raise ProcessLookupError(number)
        self.task.cancel()

    def kill(self) -> None:
        """Ends the task."""
        self.send_signal(signal.SIGKILL)


@dataclass
class OwnTasks:
    """Starts the processes as tasks (see admission.cli.local_cluster.processes.Start); `tasks` has them by name."""

    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def start(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> OwnTask:
        """Starts one process. Its metrics page is that of all three."""
        name = command[-1]
        with mock.patch.dict(os.environ, environment, clear=True):
            run = self._ungater() if name == "ungater" else self._admission(name)
        self.tasks[name] = asyncio.create_task(run, name=name)
        return OwnTask(os.getpid(), self.tasks[name])

    async def _serve(self, process: Process, main: Awaitable[None]) -> None:
        host, port = process.settings.health_host, process.settings.health_port
        async with HealthServer(host, port, process.readiness, process.pages):
            await main

    def _ungater(self) -> Coroutine[Any, Any, None]:
        settings = UngaterSettings()
        process = Process(settings.process_settings("ungater"))
        return self._serve(process, run_ungater(process, settings))

    def _admission(self, name: str) -> Coroutine[Any, Any, None]:
        settings = AdmissionSettings()
        process = Process(settings.process_settings(name))
        run = run_webhook if name == "webhook" else run_controller
        return self._serve(process, run(process, settings))
