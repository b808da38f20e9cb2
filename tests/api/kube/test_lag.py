"""The loop's lag, and whether this process or the machine caused it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

import pytest
from prometheus_client import Histogram

from api.kube import metrics
from api.process.lag import PERIOD, RESTING, watch_loop


def _beyond(histogram: Histogram, seconds: float) -> float:
    samples = [sample for metric in histogram.collect() for sample in metric.samples if sample.name.endswith("_bucket")]
    within = {sample.labels["le"]: sample.value for sample in samples}
    return within["+Inf"] - within[str(seconds)]


def _compute() -> None:
    began = time.process_time()
    while time.process_time() - began < 0.2:
        pass


@pytest.mark.parametrize(
    ("hold", "ours"),
    [
        pytest.param(_compute, True, id="the-process-computes"),
        pytest.param(lambda: time.sleep(0.2), False, id="it-does-not-run"),
    ],
)
async def test_a_held_loop_is_seen_and_told_from_a_busy_machine(hold: Callable[[], None], ours: bool) -> None:
    lag, held = _beyond(metrics.LOOP_LAG, 0.1), _beyond(metrics.LOOP_HELD, 0.1)
    watching = asyncio.create_task(watch_loop())
    await asyncio.sleep(0)
    hold()
    while _beyond(metrics.LOOP_LAG, 0.1) == lag:  # noqa: ASYNC110  # the timer is due
        await asyncio.sleep(0)
    assert (_beyond(metrics.LOOP_HELD, 0.1) > held) is ours
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching


@pytest.mark.parametrize(
    ("share", "last"), [pytest.param(0.0, RESTING, id="it-rests"), pytest.param(0.5, PERIOD, id="it-works")]
)
async def test_a_process_that_rests_is_woken_less_often(
    share: float, last: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, cpu, slept = 0.0, 0.0, list[float]()

    async def sleep(seconds: float) -> None:
        nonlocal now, cpu
        if len(slept) == 20:
            raise asyncio.CancelledError
        slept.append(seconds)
        now, cpu = now + seconds, cpu + share * seconds

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    monkeypatch.setattr(time, "process_time", lambda: cpu)
    with pytest.raises(asyncio.CancelledError):
        await watch_loop()
    assert slept[0] == pytest.approx(PERIOD)
    assert slept[-1] == pytest.approx(last)
