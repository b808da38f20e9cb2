"""Growing, jittered delays, and the token bucket: how long to wait, never the waiting's reason."""

from __future__ import annotations

import random
from dataclasses import dataclass

from api.kube.clock import Clock


def jittered(seconds: float, spread: float = 0.5) -> float:
    """A random duration within `seconds` x (1 - spread .. 1 + spread)."""
    return seconds * random.uniform(1 - spread, 1 + spread)  # noqa: S311 - spreads load, guards no secret


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential: base, 2 base, 4 base ... up to `limit`, each jittered downwards by up to a half."""

    base: float
    limit: float

    def ceiling(self, failures: int) -> float:
        """The largest delay after so many failures in a row (1 is the first)."""
        return min(self.limit, self.base * 2.0 ** min(max(failures - 1, 0), 60))

    def delay(self, failures: int) -> float:
        """A random delay between half the ceiling and the ceiling."""
        return self.ceiling(failures) * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards no secret


class TokenBucket:
    """At most `burst` at once and `qps` per second after that; callers pass in the order they came.

    Kept as one number, the time at which the bucket is empty (the generic cell rate algorithm), so there is nothing
    to refill and nothing to lock. qps 0 lets everything pass.
    """

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._interval = 1.0 / qps if qps > 0 else 0.0
        self._depth = self._interval * max(burst, 1)
        self._clock = clock
        self._empty_at = 0.0

    def reserve(self) -> float:
        """Takes one token; returns the seconds to wait before using it."""
        if not self._interval:
            return 0.0
        now = self._clock.now()
        self._empty_at = max(self._empty_at, now) + self._interval
        return max(0.0, self._empty_at - self._depth - now)

    async def take(self) -> None:
        """Waits for the caller's turn."""
        delay = self.reserve()
        if delay > 0:
            await self._clock.sleep(delay)
