"""The loop's steps are measured in CPU time, and a long one is named."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass

import pytest

from api.kube import metrics
from api.process import steps
from api.process.steps import LIMIT, MeasuredLoop


def _compute() -> None:
    began = time.thread_time()
    while time.thread_time() - began < 1.5 * LIMIT:
        pass


async def _computes() -> None:
    await asyncio.sleep(0)
    _compute()


async def _sleeps() -> None:
    await asyncio.sleep(0)
    time.sleep(1.5 * LIMIT)  # noqa: ASYNC251  as on a machine that runs others meanwhile


async def _is_short() -> None:
    for _ in range(100):
        await asyncio.sleep(0)


def _long() -> float:
    samples = [sample for metric in metrics.LONG_STEPS.collect() for sample in metric.samples]
    within = {sample.labels["le"]: sample.value for sample in samples if sample.name.endswith("_bucket")}
    return within["+Inf"] - within[str(LIMIT)]


@pytest.mark.parametrize(
    ("work", "named"),
    [
        pytest.param(_computes, ["busy: _computes"], id="a-task-computes"),
        pytest.param(_sleeps, [], id="the-process-does-not-run"),
        pytest.param(_is_short, [], id="many-short-steps"),
    ],
)
def test_a_step_that_computes_for_long_is_counted_and_named(
    work: object, named: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        await asyncio.create_task(work(), name="busy")  # type: ignore[operator]

    before = _long()
    with caplog.at_level(logging.WARNING, "api.process.steps"), asyncio.Runner(loop_factory=MeasuredLoop) as runner:
        runner.run(main())
    assert [getattr(record, "step", "") for record in caplog.records if "busy" in getattr(record, "step", "")] == named
    assert _long() - before >= len(named)


@pytest.mark.parametrize("how", ["call_soon", "call_soon_threadsafe", "call_later", "call_at"])
def test_a_callback_is_a_step(how: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def hold() -> None:
            _compute()
            done.set()

        if how == "call_later":
            loop.call_later(0.001, hold)
        elif how == "call_at":
            loop.call_at(loop.time() + 0.001, hold)
        else:
            getattr(loop, how)(hold)
        await done.wait()

    with caplog.at_level(logging.WARNING, "api.process.steps"), asyncio.Runner(loop_factory=MeasuredLoop) as runner:
        runner.run(main())
    assert any(getattr(record, "step", "").endswith("hold") for record in caplog.records)


@dataclass
class _Clocks:
    """The clock of the wall and that of the thread's CPU time, which counts the system calls."""

    now: float = 0.0
    cpu: float = 0.0
    calls: int = 0

    def thread_time(self) -> float:
        self.calls += 1
        return self.cpu

    def work(self, seconds: float, share: float = 1.0) -> None:
        self.now += seconds
        self.cpu += share * seconds


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> _Clocks:
    clocks = _Clocks()
    monkeypatch.setattr(steps, "monotonic", lambda: clocks.now)
    monkeypatch.setattr(steps, "thread_time", clocks.thread_time)
    return clocks


async def _run(clocks: _Clocks, seconds: list[float], share: float = 1.0) -> None:
    for each in seconds:
        asyncio.get_running_loop().call_soon(clocks.work, each, share)
    await asyncio.sleep(0)


def test_short_steps_need_one_system_call_a_millisecond(clocks: _Clocks) -> None:
    with asyncio.Runner(loop_factory=MeasuredLoop) as runner:
        before = clocks.calls
        runner.run(_run(clocks, [0.00005] * 1000))
        assert clocks.calls - before <= 50


@pytest.mark.parametrize(
    ("seconds", "share", "counted"),
    [
        pytest.param([0.004] * 100, 1.0, [], id="no-step-is-long"),
        pytest.param([0.0001] * 5000, 1.0, [], id="very-many-short-steps"),
        pytest.param([0.0009] * 50 + [0.06] + [0.0009] * 50, 1.0, [0.06], id="a-long-step-among-short-ones"),
        pytest.param([0.06, 0.06], 1.0, [0.06, 0.06], id="long-steps-after-each-other"),
        pytest.param([0.0009, 0.3, 0.0009], 0.1, [0.03], id="a-step-that-mostly-waits-for-the-processor"),
    ],
)
def test_a_step_is_charged_with_its_own_time(
    seconds: list[float], share: float, counted: list[float], clocks: _Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    took: list[float] = []
    monkeypatch.setattr(steps, "_count", lambda callback, cpu: took.append(cpu))
    with asyncio.Runner(loop_factory=MeasuredLoop) as runner:
        runner.run(_run(clocks, seconds, share))
    assert took == pytest.approx(counted, abs=0.0011)
