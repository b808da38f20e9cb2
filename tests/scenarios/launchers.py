"""Other ways to start a process of ours: with a clock that a test sets, or from the files of another version."""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import struct
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from admission.cli.local_cluster.processes import RunningProcess
from tests.scenarios.stage import Stage

_RUN: Final = """
import mmap, runpy, struct, sys, time
path, *sys.argv = sys.argv[1:]
with open(path, "rb") as file:
    ahead = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
true = time.time
time.time = lambda: true() + struct.unpack("d", ahead[:])[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


class MovedClock:
    """The wall clock of processes that `start` starts: `ahead` of the machine's by so many seconds, from one moment on."""

    def __init__(self, file: Path) -> None:
        file.write_bytes(struct.pack("d", 0.0))
        self._path = file
        with file.open("r+b") as opened:
            self._ahead = mmap.mmap(opened.fileno(), 8)

    def jump(self, ahead: float) -> None:
        """It shows another time; negative: an earlier one than the machine's."""
        self._ahead[:] = struct.pack("d", ahead)

    async def start(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> RunningProcess:
        """As admission.cli.local_cluster.processes.start_interpreter."""
        with log.open("ab") as out:
            return await asyncio.create_subprocess_exec(
                sys.executable, "-c", _RUN, str(self._path), *command, env=environment, stdout=out, stderr=out
            )


@contextlib.asynccontextmanager
async def moved_clock(stage: Stage, name: str, file: Path) -> AsyncIterator[MovedClock]:
    """The clock of the stage's process of that name, which is started anew with it, and at the end without."""
    child, moved = stage.processes.children[name], MovedClock(file)
    usual, child.launch = child.launch, moved.start
    await child.stop()
    await stage.processes.restart(name)
    yield moved
    child.launch = usual
    await child.stop()
    await stage.processes.restart(name)


class OtherVersion:
    """The processes of the version whose files are in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def start(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> RunningProcess:
        """As admission.cli.local_cluster.processes.start_interpreter."""
        found = os.pathsep.join(filter(None, (str(self._folder), environment.get("PYTHONPATH"))))
        with log.open("ab") as out:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                *command,
                cwd=self._folder,
                env={**environment, "PYTHONPATH": found},
                stdout=out,
                stderr=out,
            )
