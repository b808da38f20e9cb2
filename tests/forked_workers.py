"""How `make test` starts its workers (pytest-xdist): each is forked from one process that has imported all tests.

What the tests import takes seconds of a core and 300 MB. The imports of one process serve all workers, which share its memory.

    python -m tests.forked_workers serve SOCKET COLLECTED...   imports, then forks a worker at each connection
    python -IS tests/forked_workers.py attach SOCKET           what execnet starts for a worker: hands its streams to the fork
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import Final

_STREAMS: Final = 3


def attach(path: str) -> None:
    """Connects a fork with this process's standard streams; returns when it has ended. Imports next to nothing."""
    with socket.socket(socket.AF_UNIX) as worker:
        worker.connect(path)
        socket.send_fds(worker, [b"\0"], list(range(_STREAMS)))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(_STREAMS):  # else nobody would see that the worker has closed them
            os.dup2(nowhere, stream)
        worker.recv(1)


def serve(path: str, collected: list[str]) -> None:
    """Collects these tests, then forks a worker at each connection until the standard input ends."""
    import gc
    import select

    import pytest

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # pytest ends the workers, and then this one
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(64)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # tells that it listens
    pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", *collected])
    sys.stdout.flush()  # else each fork would write it
    gc.unfreeze()  # tests/conftest.py keeps the collected tests
    gc.collect()
    gc.freeze()  # a garbage collection that walks through what was imported copies its pages
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended forks need no wait
    while True:
        ready, _, _ = select.select([listening, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        worker, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            _work(worker)
            return
        worker.close()


def _work(worker: socket.socket) -> None:
    """Runs in the fork, as `python -c` would, what execnet writes to it; the socket closes when the process ends."""
    import types

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _, streams, _, _ = socket.recv_fds(worker, 1, _STREAMS)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.argv = ["-c"]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(eval(sys.stdin.readline()), vars(main))
    worker.close()


class Forks:
    """The process that imports these tests, and how a worker is forked from it."""

    def __init__(self, collected: list[str]) -> None:
        import subprocess
        import tempfile

        self._folder = tempfile.TemporaryDirectory(prefix="stowage-workers-")
        path = f"{self._folder.name}/socket"
        self.command: Final = [sys.executable, "-IS", __file__, "attach", path]
        """Starts a worker, as an interpreter that reads its program from the standard input."""
        imports = [sys.executable, "-m", __name__, "serve", path, *collected]
        self._process = subprocess.Popen(imports, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._process.stdout.read()  # until it listens

    def close(self) -> None:
        """Ends it; workers that still run go on."""
        self._process.communicate()
        self._folder.cleanup()


if __name__ == "__main__":
    what, path, *more = sys.argv[1:]  # execnet adds options of an interpreter
    if what == "attach":
        attach(path)
    else:
        serve(path, more)
