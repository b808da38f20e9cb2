"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable


class _Timer:
    def __init__(self, fn: Callable[[], None]) -> None:
        self.fn: Callable[[], None] | None = fn

    def cancel(self) -> None:
        self.fn = None


class ManualClock:
    """Implements api.kube.clock.Clock; `advance` runs what falls due, in order, letting tasks react in between."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._timers: list[tuple[float, int, _Timer]] = []
        self._number = itertools.count()

    def now(self) -> float:
        return self._now

    def call_later(self, seconds: float, fn: Callable[[], None]) -> _Timer:
        timer = _Timer(fn)
        heapq.heappush(self._timers, (self._now + seconds, next(self._number), timer))
        return timer

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, lambda: None if woken.done() else woken.set_result(None))
        try:
            await woken
        finally:
            timer.cancel()

    async def advance(self, seconds: float) -> None:
        end = self._now + seconds
        await settle()
        while self._timers and self._timers[0][0] <= end:
            self._now, _, timer = heapq.heappop(self._timers)
            if timer.fn is not None:
                timer.fn()
            await settle()
        self._now = end

    @property
    def planned(self) -> list[float]:
        """Seconds from now until each timer that still counts."""
        return sorted(due - self._now for due, _, timer in self._timers if timer.fn is not None)


async def settle() -> None:
    """Lets every task that can run do so (tasks that do no IO)."""
    for _ in range(20):
        await asyncio.sleep(0)


async def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Waits until the condition holds; fails after the deadline."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - any condition, not only one with an Event
            await asyncio.sleep(0.005)
