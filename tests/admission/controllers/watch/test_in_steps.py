"""Long work on the loop leaves others their turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from admission.controllers.watch.in_steps import InSteps
from api.kube.turns import TURN


def work(done: list[str], name: str, parts: int) -> Iterator[None]:
    for n in range(parts):
        until = time.perf_counter() + TURN / 4
        while time.perf_counter() < until:
            pass
        done.append(f"{name}{n}")
        yield


@pytest.mark.asyncio
async def test_others_get_their_turn() -> None:
    done: list[str] = []
    InSteps().start(work(done, "a", 40))
    assert 0 < len(done) < 40
    turns = 0
    while len(done) < 40:
        await asyncio.sleep(0)
        turns += 1
    assert turns > 2
    assert done == [f"a{n}" for n in range(40)]


@pytest.mark.asyncio
async def test_new_work_takes_the_place_of_old_work() -> None:
    done: list[str] = []
    steps = InSteps()
    steps.start(work(done, "a", 40))
    steps.start(work(done, "b", 20))
    for _ in range(100):
        await asyncio.sleep(0)
    assert done[-1] == "b19"
    assert "a39" not in done


def test_without_a_loop_all_is_done_at_once() -> None:
    done: list[str] = []
    InSteps().start(work(done, "a", 12))
    assert len(done) == 12
