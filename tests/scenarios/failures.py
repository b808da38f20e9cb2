"""Processes that fail and come back, and what their logs must not say: for the suites of outages and crashes."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

from admission.cli.local_cluster.processes import ChildProcess
from tests.scenarios.stage import Stage

SHORT_LEASE: Mapping[str, str] = {
    "STOWAGE_LEASE__DURATION": "4",
    "STOWAGE_LEASE__RENEW_DEADLINE": "3",
    "STOWAGE_LEASE__RETRY_PERIOD": "0.5",
}
"""For a killed process's successor to lead after seconds."""

_BAD = frozenset({"ERROR", "CRITICAL"})


@contextlib.asynccontextmanager
async def down(stage: Stage, *names: str) -> AsyncIterator[None]:
    """The processes are killed, and started again at the end."""
    for name in names:
        await stage.processes.crash(name)
    try:
        yield
    finally:
        for name in names:
            await stage.processes.restart(name)


@contextlib.contextmanager
def paused(child: ChildProcess) -> Iterator[None]:
    """It stands still meanwhile, as on a machine that swaps or is moved."""
    assert child.process is not None
    child.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.process.send_signal(signal.SIGCONT)


def entries(log: Path) -> list[dict[str, Any]]:
    """The lines of a process's log; one that is not JSON (a traceback, a warning of Python's) counts as an ERROR."""
    found = []
    for line in log.read_text(errors="replace").splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            found.append({"level": "ERROR", "logger": "stderr", "message": line})
    return found


def complaints(folder: Path) -> list[str]:
    """What the processes logged as an error: nothing, whatever the world around them does."""
    return [
        f"{log.name}: {entry}"
        for log in sorted(folder.glob("*.log"))
        for entry in entries(log)
        if entry["level"] in _BAD or "exception" in entry
    ]
