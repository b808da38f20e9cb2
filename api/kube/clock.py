"""A clock that is passed as an argument: monotonic time, timers and sleep. Production uses SYSTEM; tests pass their own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancels the call; has no effect if it has run."""


class Clock(Protocol):
    """A monotonic clock in seconds with an arbitrary zero."""

    def now(self) -> float:
        """Returns the time, which never decreases and ignores corrections of the wall clock."""

    def call_later(self, seconds: float, fn: Callable[[], None]) -> Timer:
        """Calls `fn` on the running loop after `seconds`."""

    async def sleep(self, seconds: float) -> None:
        """Waits for `seconds`."""


class SystemClock:
    """The monotonic clock of the machine, and the timers of the running loop."""

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
