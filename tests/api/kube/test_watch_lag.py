"""How far a watch is behind our own writes."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Histogram

from api.kube.informers import watch_lag
from api.kube.informers.watch_lag import OwnWrites
from tests.api.kube.clock import ManualClock


class Lag:
    """Writes of one resource on a clock that stands still, and the lags that were observed."""

    def __init__(self) -> None:
        self.registry, self.clock = CollectorRegistry(), ManualClock()
        histogram = Histogram("lag", "of a test", buckets=(1, 5), registry=self.registry)
        self.writes = OwnWrites(histogram, self.clock)

    async def wait(self, seconds: float) -> None:
        await self.clock.advance(seconds)

    @property
    def observed(self) -> tuple[int, float]:
        """How many, and their sum."""
        count, total = (self.registry.get_sample_value(f"lag_{name}") or 0 for name in ("count", "sum"))
        return int(count), total


async def test_the_time_from_the_answer_to_the_event() -> None:
    lag = Lag()
    lag.writes.written("ns/a", "7")
    await lag.wait(3)
    lag.writes.delivered("ns/a", "6")  # an older write of another
    lag.writes.delivered("ns/b", "7")
    assert lag.observed == (0, 0)
    lag.writes.delivered("ns/a", "7")
    lag.writes.delivered("ns/a", "7")
    assert lag.observed == (1, 3)


async def test_the_last_of_several_writes_counts() -> None:
    lag = Lag()
    lag.writes.written("ns/a", "7")
    await lag.wait(3)
    lag.writes.written("ns/a", "8")
    lag.writes.delivered("ns/a", "7")
    await lag.wait(1)
    lag.writes.delivered("ns/a", "8")
    assert lag.observed == (1, 1)


async def test_what_is_deleted_is_not_awaited() -> None:
    lag = Lag()
    lag.writes.written("ns/a", "7")
    lag.writes.delivered("ns/a", "")
    lag.writes.delivered("ns/a", "7")
    assert lag.observed == (0, 0)


async def test_a_watch_that_never_answers_fills_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_lag, "_MOST", 3)
    lag = Lag()
    for number in range(10):
        lag.writes.written(f"ns/{number}", "1")
    for number in range(10):
        lag.writes.delivered(f"ns/{number}", "1")
    assert lag.observed[0] == 3
