"""Runs long work on the event loop in short steps, so that other tasks run in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from api.kube.turns import TURN


class InSteps:
    """Runs one piece of work at a time: `start` drops the rest of the previous work. Without a running loop it runs at once."""

    def __init__(self) -> None:
        self._work: Iterator[None] = iter(())
        self._next: asyncio.Handle | None = None

    def start(self, work: Iterator[None]) -> None:
        """Runs the first step now and the rest in later iterations of the loop. The work yields where it may be interrupted."""
        if self._next is not None:
            self._next.cancel()
        self._work = work
        self._advance()

    def _advance(self) -> None:
        self._next = None
        loop = asyncio.get_running_loop() if has_loop() else None
        until = time.perf_counter() + TURN
        for _ in self._work:
            if loop is not None and time.perf_counter() > until:
                self._next = loop.call_soon(self._advance)
                return


def has_loop() -> bool:
    """Reports whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
