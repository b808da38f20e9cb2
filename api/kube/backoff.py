"""Exponential backoff with jitter, and a token bucket."""

from __future__ import annotations

import random
from dataclasses import dataclass

from api.kube.clock import Clock


def jittered(seconds: float, spread: float = 0.5) -> float:
    """Returns a random duration within `seconds` x (1 - spread .. 1 + spread)."""
    return seconds * random.uniform(1 - spread, 1 + spread)  # noqa: S311 - spreads load, guards no secret


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff: base, 2 base, 4 base ... up to `limit` (seconds), each reduced by up to half at random."""

    base: float
    limit: float

    def ceiling(self, failures: int) -> float:
        """Returns the largest delay in seconds after this number of failures in a row (the first is 1)."""
        return min(self.limit, self.base * 2.0 ** min(max(failures - 1, 0), 60))

    def delay(self, failures: int) -> float:
        """Returns a random delay between half the ceiling and the ceiling."""
        return self.ceiling(failures) * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards no secret


class TokenBucket:
    """Limits calls to `burst` at once and then `qps` per second, in the order of arrival.

    The state is one number, the time at which the bucket is empty (the generic cell rate algorithm), so nothing needs
    refilling or a lock. With `qps` 0 there is no limit.
    """

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._interval = 1.0 / qps if qps > 0 else 0.0
        self._depth = self._interval * max(burst, 1)
        self._clock = clock
        self._empty_at = 0.0

    def reserve(self) -> float:
        """Takes one token and returns the seconds to wait before using it."""
        if not self._interval:
            return 0.0
        now = self._clock.now()
        self._empty_at = max(self._empty_at, now) + self._interval
        return max(0.0, self._empty_at - self._depth - now)

    async def take(self) -> None:
        """Takes one token, waiting as long as necessary."""
        delay = self.reserve()
        if delay > 0:
            await self._clock.sleep(delay)
