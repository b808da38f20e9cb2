"""Long work on the loop lets other tasks run in between."""

from __future__ import annotations

import asyncio
import time

from api.kube.turns import TURN, Turns


async def test_others_run_between_turns() -> None:
    other = asyncio.create_task(asyncio.sleep(0))
    turns = Turns()
    for _ in range(3):
        until = time.perf_counter() + TURN
        while time.perf_counter() < until:
            pass
        await turns.give_way()
    assert other.done()
