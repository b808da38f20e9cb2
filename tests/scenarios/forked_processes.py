"""The processes of stages, forked from a server that has imported all their modules.

A stage starts three processes and kills some, dozens of times in a run: the imports alone cost each a second of a core. What
runs after the fork is what `python -m` runs, with the same environment, signals and log. The demo starts interpreters
(tests/integration/test_demo.py).
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import runpy
import signal
import sys
import warnings
from collections.abc import Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

_SERVER: Final = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["admission.app", "admission.webhook.app", "ungater.app"])
_POLL: Final = 0.01


class ForkedProcess:
    """The handle of one, as asyncio's own; it belongs to no loop."""

    def __init__(self, process: BaseProcess) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Of the operating system."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative for the signal that ended it."""
        return self._process.exitcode

    async def wait(self) -> int:
        """Its return code, once it has ended."""
        while (code := self.returncode) is None:  # noqa: ASYNC110 - multiprocessing has nothing to await
            await asyncio.sleep(_POLL)
        return code

    def send_signal(self, number: int, /) -> None:
        """Raises ProcessLookupError where it has ended."""
        if self.returncode is not None:
            raise ProcessLookupError(self.pid)
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Sends SIGKILL where it has not ended."""
        self._process.kill()


async def start_forked(command: Sequence[str], environment: Mapping[str, str], log: Path) -> ForkedProcess:
    """As admission.cli.local_cluster.processes.start_interpreter.

    The first call of a worker waits for the server's imports, the others for a fork. Not in a thread: multiprocessing looks
    at all its children when it starts one, and must not do so while `returncode` does.
    """
    process = _SERVER.Process(target=_run, args=(tuple(command), dict(environment), str(log)), daemon=True)
    process.start()
    return ForkedProcess(process)


def _run(command: tuple[str, ...], environment: dict[str, str], log: str) -> None:
    gc.freeze()  # a garbage collection that walks through what was imported copies its pages
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for descriptor in (1, 2):
        os.dup2(out, descriptor)
    os.close(out)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the server ignores it
    warnings.simplefilter("error")  # as for the tests themselves; what cannot be raised stands in the log (failures.py)
    warnings.simplefilter("ignore", ResourceWarning)  # a process that ends does not wait for each connection to close
    sys.argv = list(command)
    runpy.run_module(command[0], run_name="__main__", alter_sys=True)
