"""Workers share what the process has imported from which they are forked, and end alone."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forked_workers import Forks


@pytest.fixture
def forks(tmp_path: Path) -> Iterator[Forks]:
    (tmp_path / "test_collected.py").write_text("import os\n\nimported_by = os.getpid()\n\n\ndef test() -> None: ...\n")
    running = Forks([str(tmp_path)])
    yield running
    running.close()


def worker(forks: Forks, program: str) -> subprocess.Popen[str]:
    """A worker that runs the program, as execnet starts one."""
    started = subprocess.Popen(
        [*forks.command, "-u", "-c", "..."], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert started.stdin is not None
    started.stdin.write(f"{program!r}\n")
    started.stdin.flush()
    return started


def test_workers_are_processes_of_their_own_that_import_nothing_again(forks: Forks) -> None:
    program = "import os, test_collected; print(test_collected.imported_by, os.getppid(), os.getpid())"
    said = [worker(forks, program).communicate()[0].split() for _ in range(2)]
    parents = {parent for imported_by, parent, _ in said if imported_by == parent}
    assert len(parents) == 1
    assert len({own for _, _, own in said}) == 2


def test_a_worker_that_is_killed_is_gone_for_the_one_who_started_it(forks: Forks) -> None:
    killed = worker(forks, "import os, time; print(os.getpid(), flush=True); time.sleep(1000)")
    assert killed.stdout is not None
    os.kill(int(killed.stdout.readline()), signal.SIGKILL)
    assert killed.communicate()[0] == ""
    assert worker(forks, "print('next')").communicate()[0] == "next\n"
