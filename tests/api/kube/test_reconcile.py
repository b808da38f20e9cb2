"""The queue's promises, on a clock that the test moves."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from api.errors import Conflict, NotFound, NotLeader
from api.kube.reconcile import Queue, Reconciler
from tests.api.kube.clock import ManualClock, settle


@asynccontextmanager
async def running(reconciler: Reconciler) -> AsyncIterator[None]:
    task = asyncio.create_task(reconciler.run())
    await settle()
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def made(fn: Callable[[str], Awaitable[float | None]], clock: ManualClock, workers: int = 2) -> Reconciler:
    return Reconciler("test", fn, workers=workers, base_delay=1.0, max_delay=60.0, clock=clock)


async def test_a_key_stands_in_the_queue_once() -> None:
    queue = Queue("test", ManualClock())
    for key in ("a", "b", "a", "a", "c", "b"):
        queue.add(key)
    assert [await queue.take() for _ in range(3)] == ["a", "b", "c"]
    assert len(queue) == 0


async def test_urgent_keys_overtake_the_others() -> None:
    queue = Queue("test", ManualClock())
    for key in ("a", "b", "c"):
        queue.add(key)
    queue.add("d", urgent=True)
    queue.add("c", urgent=True)
    queue.add("d")
    assert [await queue.take() for _ in range(4)] == ["d", "c", "a", "b"]
    queue.add("e")
    queue.add("b")
    queue.add("b", urgent=True)
    queue.done("b")
    assert [await queue.take() for _ in range(2)] == ["b", "e"]
    assert len(queue) == 0


async def test_a_held_key_comes_again_when_it_was_added_meanwhile() -> None:
    queue = Queue("test", ManualClock())
    queue.add("a")
    assert await queue.take() == "a"
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    assert not queue.idle
    queue.done("a")
    assert await queue.take() == "a"
    queue.done("a")
    assert queue.idle


@pytest.mark.parametrize(
    ("plans", "due"),
    [([10.0, 5.0, 20.0], 5.0), ([5.0, 10.0], 5.0), ([0.0, 10.0], 0.0), ([10.0, 0.0], 0.0), ([10.0, -1.0], 0.0)],
    ids=["earlier replaces", "later is dropped", "waiting already", "now replaces", "past is now"],
)
async def test_the_earliest_plan_wins(plans: list[float], due: float) -> None:
    clock = ManualClock()
    queue = Queue("test", clock)
    for seconds in plans:
        queue.add_after("a", seconds)
    if due:
        await clock.advance(due - 0.01)
        assert len(queue) == 0
        await clock.advance(0.02)
    assert len(queue) == 1
    queue.done(await queue.take())
    await clock.advance(100)
    assert queue.idle


async def test_one_worker_a_key_at_a_time() -> None:
    busy: set[str] = set()
    gates = {"a": asyncio.Event(), "b": asyncio.Event()}
    seen: list[str] = []

    async def reconcile(key: str) -> None:
        assert key not in busy
        busy.add(key)
        seen.append(key)
        await gates[key].wait()
        busy.discard(key)

    reconciler = made(reconcile, ManualClock(), workers=4)
    async with running(reconciler):
        reconciler.add("a")
        reconciler.add("b")
        await settle()
        reconciler.add("a")
        await settle()
        assert seen == ["a", "b"]
        gates["a"].set()
        await settle()
        assert seen == ["a", "b", "a"]
        assert busy == {"b"}


async def test_failures_come_again_with_growing_delays_until_one_succeeds() -> None:
    clock = ManualClock()
    tries: list[float] = []

    async def reconcile(_: str) -> None:
        tries.append(clock.now())
        if len(tries) <= 9:
            raise RuntimeError("not yet")

    reconciler = made(reconcile, clock)
    async with running(reconciler):
        reconciler.add("a")
        await clock.advance(1000)
        assert len(tries) == 10
        waits = [later - earlier for earlier, later in itertools.pairwise(tries)]
        for wait, ceiling in zip(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60], strict=True):
            assert ceiling / 2 <= wait <= ceiling
        reconciler.add("a")
        await settle()
        assert len(tries) == 11
        assert clock.planned == []


async def test_a_returned_duration_is_a_plan() -> None:
    clock = ManualClock()
    at: list[float] = []

    async def reconcile(_: str) -> float | None:
        at.append(clock.now() - 1000)
        return 30.0 if len(at) < 3 else None

    reconciler = made(reconcile, clock)
    async with running(reconciler):
        reconciler.add("a")
        await clock.advance(10)
        reconciler.add("a")
        await clock.advance(500)
    assert at == [0, 10, 40]


async def test_a_bad_key_does_not_hold_up_the_others(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    async def reconcile(key: str) -> None:
        if key == "bad":
            raise ValueError("a bug")
        if key == "stale":
            raise Conflict(409, "Conflict", "somebody was first")
        if key == "cancelled":
            raise asyncio.CancelledError
        if key == "missing":
            raise NotFound(404, "NotFound", "gone")
        done.append(key)

    reconciler = made(reconcile, ManualClock(), workers=1)
    with caplog.at_level(logging.INFO):
        async with running(reconciler):
            for key in ("bad", "stale", "missing", "cancelled", "good"):
                reconciler.add(key)
            await settle()
    assert done == ["good"]
    assert [(record.levelname, bool(record.exc_info)) for record in caplog.records] == [
        ("ERROR", True),
        ("INFO", False),
        ("WARNING", False),
        ("ERROR", True),
    ]


async def test_the_end_waits_for_the_workers_and_forgets_no_key() -> None:
    clock = ManualClock()
    cleaned: list[str] = []

    async def reconcile(key: str) -> float | None:
        if key == "later":
            return 100.0
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(key)
        return None

    reconciler = made(reconcile, clock)
    async with running(reconciler):
        reconciler.add("later")
        reconciler.add("held")
        await settle()
        assert clock.planned == [100.0]
    assert cleaned == ["held"]
    assert clock.planned == []
    assert sorted([await reconciler.queue.take() for _ in range(2)]) == ["held", "later"]


async def test_a_worker_ends_also_when_a_reconcile_has_lost_its_cancellation() -> None:
    begun = asyncio.Event()

    async def deaf(_: str) -> None:
        begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        raise NotFound(404, "NotFound", "as if nothing had been said")

    reconciler = made(deaf, ManualClock())
    reconciler.add("a")
    async with asyncio.timeout(60), running(reconciler):
        await begun.wait()


async def test_a_long_queue_of_keys_that_fail_at_once_lets_others_run() -> None:
    async def fails(key: str) -> None:
        tried.append(key)
        begun.set()
        raise NotLeader(key)

    tried: list[str] = []
    begun = asyncio.Event()
    reconciler = made(fails, ManualClock())
    for number in range(1000):
        reconciler.add(f"k{number}")
    run = asyncio.create_task(reconciler.run())
    await begun.wait()
    run.cancel()  # as the leader election does when the Lease is lost
    with suppress(asyncio.CancelledError):
        await run
    assert len(tried) < 100
