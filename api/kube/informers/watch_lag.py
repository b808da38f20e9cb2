"""How far a watch is behind: the time from the response to one of our own writes until the watch delivers it.

The difference is measured by this process's own monotonic clock: times in objects have whole seconds and another clock.
informer.py calls it.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import Histogram

from api.kube.clock import Clock

_MOST: Final = 1024
"""Most writes that wait for their event; stowage_informer_last_event_timestamp_seconds shows a watch that is further behind."""


class OwnWrites:
    """The writes of one resource whose events the watch has not delivered yet, by key of the object; the last write counts."""

    def __init__(self, lag: Histogram, clock: Clock) -> None:
        self._lag, self._clock = lag, clock
        self._waiting: dict[str, tuple[str, float]] = {}

    def written(self, key: str, version: str) -> None:
        """Records that a write was answered with this resourceVersion."""
        self._waiting.pop(key, None)
        if len(self._waiting) >= _MOST:
            del self._waiting[next(iter(self._waiting))]
        self._waiting[key] = version, self._clock.now()

    def delivered(self, key: str, version: str) -> None:
        """Observes the lag if the watch delivers the awaited version; forgets the write if the object is gone (no version)."""
        waiting = self._waiting.get(key)
        if waiting is None:
            return
        if waiting[0] == version:
            self._lag.observe(max(0.0, self._clock.now() - waiting[1]))
        if waiting[0] == version or not version:
            del self._waiting[key]
