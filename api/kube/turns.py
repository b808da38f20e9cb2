"""Divides long work of a task into turns, between which other tasks run."""

from __future__ import annotations

import asyncio
import time
from typing import Final

TURN: Final = 0.01
"""Seconds after which control returns to the loop."""


class Turns:
    """The turns of one piece of work. Its task calls `give_way` wherever it may be interrupted."""

    def __init__(self) -> None:
        self._until = time.perf_counter() + TURN

    @property
    def is_over(self) -> bool:
        """Reports whether other tasks should run, for callers that would call `give_way` very often."""
        return time.perf_counter() > self._until

    async def give_way(self) -> None:
        """Lets other tasks run if the turn is over."""
        if self.is_over:
            await asyncio.sleep(0)
            self._until = time.perf_counter() + TURN
