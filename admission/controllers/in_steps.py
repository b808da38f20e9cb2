"""Long work on the loop in short steps, so that others get their turn between two."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Final

STEP: Final = 0.01
"""Seconds after which the loop gets its turn."""


class InSteps:
    """One piece of work at a time: `start` drops what is left of the one before. Without a running loop all is done at once."""

    def __init__(self) -> None:
        self._work: Iterator[None] = iter(())
        self._next: asyncio.Handle | None = None

    def start(self, work: Iterator[None]) -> None:
        """Does the first step now, the rest in later turns of the loop. The work yields where it may be interrupted."""
        if self._next is not None:
            self._next.cancel()
        self._work = work
        self._advance()

    def _advance(self) -> None:
        self._next = None
        loop = asyncio.get_running_loop() if _has_loop() else None
        until = time.perf_counter() + STEP
        for _ in self._work:
            if loop is not None and time.perf_counter() > until:
                self._next = loop.call_soon(self._advance)
                return


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
