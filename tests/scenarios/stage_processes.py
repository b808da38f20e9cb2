"""The processes of the stages that play now: every wait ends at once, and every failure tells, when one has fallen.

Stages enter themselves (stage.py); `eventually` (site.py) and the reports of failed tests (conftest.py) ask.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from admission.cli.local_cluster.processes import StowageProcesses

_PLAYING: list[StowageProcesses] = []


@contextlib.contextmanager
def playing(processes: StowageProcesses) -> Iterator[None]:
    """They play until the block ends."""
    _PLAYING.append(processes)
    try:
        yield
    finally:
        _PLAYING.remove(processes)


def fallen() -> str | None:
    """Which of them have ended though nobody told them to, with the ends of their logs."""
    return "\n".join(failure for each in _PLAYING if (failure := each.failure())) or None


def logs(lines: int) -> str:
    """The last lines of each one's log."""
    children = [child for each in _PLAYING for child in each.children.values()]
    return "\n".join("\n".join([f"--- {child.name}", *child.tail().splitlines()[-lines:]]) for child in children)
