"""A long computation shares the loop with everything else (controllers/report/turns.py)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from admission.controllers.report.turns import Turns


async def test_the_loop_works_between_turns_and_never_during_one() -> None:
    seen: list[int] = []
    data = {"n": 0}

    async def other() -> None:
        while True:
            data["n"] += 1
            await asyncio.sleep(0)

    def count(pause: Callable[[], None]) -> int:
        for _ in range(20):
            before = data["n"]
            for _ in range(1000):
                assert data["n"] == before, "nothing else runs during a turn"
            seen.append(before)
            pause()
        return len(seen)

    beside = asyncio.create_task(other())
    try:
        turns = Turns(count, 0.0, 1.0)
        result = await turns.result()
    finally:
        beside.cancel()
    assert result == 20
    assert turns.spent > 0
    assert seen == sorted(set(seen)), "the loop had a turn after each pause"


async def test_an_error_reaches_the_caller_and_its_thread_ends() -> None:
    def fail(pause: Callable[[], None]) -> None:
        pause()
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await Turns(fail, 0.0, 0.0).result()
    assert not [thread for thread in threading.enumerate() if thread.name == "turns"]


async def test_a_cancelled_caller_ends_the_computation() -> None:
    began, ended = asyncio.Event(), []
    loop = asyncio.get_running_loop()

    def endless(pause: Callable[[], None]) -> None:
        try:
            while True:
                loop.call_soon_threadsafe(began.set)
                pause()
        finally:
            ended.append(True)

    task = asyncio.create_task(Turns(endless, 0.0, 0.0).result())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended
    assert not [thread for thread in threading.enumerate() if thread.name == "turns"]
