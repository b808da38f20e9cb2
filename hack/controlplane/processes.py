"""The servers as processes: started with a log file each, watched until ready, stopped in order.

Also finds and stops processes of an earlier command from state.json. Knows nothing about Kubernetes.
"""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from hack.controlplane.errors import ControlPlaneError

Pids = Sequence[tuple[str, int]]

# Asks the kernel to kill this process when its parent ends (PR_SET_PDEATHSIG is 1), then becomes the server. A launcher
# instead of a preexec_fn, which is unsafe with threads. If the parent ended before prctl, the parent id has changed.
_LAUNCHER = (
    "import ctypes, os, sys\n"
    "ctypes.CDLL(None).prctl(1, 9)\n"
    "if os.getppid() != int(sys.argv[1]): sys.exit('parent ended')\n"
    "os.execv(sys.argv[2], sys.argv[2:])\n"
)
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.05


class ServerProcesses:
    """The running servers of one cluster, in the order of their start.

    With `die_with_parent` the kernel kills a server when the *thread* that started it ends, so start a cluster from a
    long-lived thread.
    """

    def __init__(self, folder: Path, *, die_with_parent: bool) -> None:
        self._folder, self._die_with_parent = folder, die_with_parent
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def pids(self) -> list[tuple[str, int]]:
        return [(name, process.pid) for name, process in self._running.items()]

    def spawn(self, name: str, program: Path, args: Iterable[str], env: Mapping[str, str]) -> None:
        """Starts a server with output to `<name>.log`, in a new session, so that Ctrl-C reaches the parent only."""
        launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid())] if self._die_with_parent else []
        with (self._folder / f"{name}.log").open("ab" if name in self._running else "wb") as log:
            self._running[name] = subprocess.Popen(
                [*launcher, str(program), *args],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env={**os.environ, **env},
                start_new_session=True,
            )

    def send_signal(self, name: str, number: signal.Signals) -> None:
        """Sends a signal to a running server."""
        self._running[name].send_signal(number)

    def end(self, name: str, number: signal.Signals) -> None:
        """Sends the signal to one server and waits; sends SIGKILL after `_STOP_SECONDS`."""
        process = self._running[name]
        process.send_signal(number)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def wait_ready(self, name: str, url: str, context: ssl.SSLContext, seconds: float = 90.0) -> None:
        """Waits until `url` returns 200. Raises ControlPlaneError with the end of a log if a server ends or time runs out."""
        deadline = time.monotonic() + seconds
        while not answers(url, context):
            if ended := [other for other, process in self._running.items() if process.poll() is not None]:
                raise ControlPlaneError(
                    f"{ended[0]} ended with {self._running[ended[0]].returncode}\n{self.tail(ended[0])}"
                )
            if time.monotonic() > deadline:
                raise ControlPlaneError(f"{name} not ready after {seconds:.0f} s ({url})\n{self.tail(name)}")
            time.sleep(_POLL_SECONDS)

    def tail(self, name: str, lines: int = 30) -> str:
        """Returns the path and the end of a server's log."""
        return tail(self._folder / f"{name}.log", lines)

    def stop(self) -> None:
        """Stops all servers in reverse order and waits for them."""
        stop(self.pids(), self._folder)
        for process in self._running.values():
            process.wait()
        self._running.clear()


def answers(url: str, context: ssl.SSLContext) -> bool:
    """Reports whether a GET of `url` returns status 200."""
    try:
        with urllib.request.urlopen(url, context=context, timeout=3) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as refused:
        refused.close()
        return False
    except OSError:
        return False


def tail(log: Path, lines: int = 30) -> str:
    text = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join([f"--- {log} (last {min(lines, len(text))} of {len(text)} lines)", *text[-lines:]])


def stop(pids: Pids, folder: Path) -> None:
    """Stops controllers together, then the API server, then etcd, with SIGKILL if necessary. Ignores pids of other programs."""
    ours = [(name, pid) for name, pid in pids if runs_in(pid, folder)]
    _end([pid for name, pid in ours if name not in ("etcd", "apiserver")])
    for last in ("apiserver", "etcd"):
        _end([pid for name, pid in ours if name == last])


def _end(pids: Sequence[int]) -> None:
    for pid in pids:
        _signal(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in pids:
        if alive(pid):
            _signal(pid, signal.SIGKILL)


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def alive(pid: int) -> bool:
    """Reports whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def runs_in(pid: int, folder: Path) -> bool:
    """Reports whether the process runs in `folder`, and not another program that got the same pid later."""
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == folder
    except OSError:
        return False


def resident_bytes(pid: int) -> int | None:
    """Returns the resident memory in bytes, or None if the process ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    sizes = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(sizes[0]) * 1024 if sizes else None
