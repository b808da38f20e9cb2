"""The loop's steps are measured in CPU time, and a long one is named."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from api.kube import metrics
from api.kube.steps import LIMIT, MeasuredLoop


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
    with caplog.at_level(logging.WARNING, "api.kube.steps"), asyncio.Runner(loop_factory=MeasuredLoop) as runner:
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

    with caplog.at_level(logging.WARNING, "api.kube.steps"), asyncio.Runner(loop_factory=MeasuredLoop) as runner:
        runner.run(main())
    assert any(getattr(record, "step", "").endswith("hold") for record in caplog.records)
