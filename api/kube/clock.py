"""Time as an argument: monotonic now, timers and sleep. The running path uses SYSTEM; tests give their own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol


class Timer(Protocol):
    """A planned call."""

    def cancel(self) -> None:
        """Drops it; harmless when it has run."""


class Clock(Protocol):
    """Monotonic seconds with an arbitrary zero."""

    def now(self) -> float:
        """Never goes back, does not follow the wall clock's corrections."""

    def call_later(self, seconds: float, fn: Callable[[], None]) -> Timer:
        """Calls `fn` on the running loop after so long."""

    async def sleep(self, seconds: float) -> None:
        """Waits."""


class SystemClock:
    """The machine's monotonic clock and the running loop's timers."""

    def now(self) -> float:
        """See Clock."""
        return time.monotonic()

    def call_later(self, seconds: float, fn: Callable[[], None]) -> Timer:
        """See Clock."""
        return asyncio.get_running_loop().call_later(seconds, fn)

    async def sleep(self, seconds: float) -> None:
        """See Clock."""
        await asyncio.sleep(seconds)


SYSTEM: Final = SystemClock()
