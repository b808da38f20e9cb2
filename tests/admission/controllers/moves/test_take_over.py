"""A process that begins to lead resumes the plans of the one before, in turns of the loop."""

from __future__ import annotations

import asyncio
import contextlib
import gc

import pytest

from admission.controllers.moves import take_over
from admission.engine.features.moves.resume import place_after_moves
from admission.engine.ledger.holds import HoldKind, hold_key
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import Admission, Workload
from tests.admission.controllers.moves.test_move_times import TwoRacks
from tests.bench.take_over import Interrupted


async def test_no_step_has_much_of_the_work() -> None:
    """The four searches, and the reading of the statuses: others run within each and between them."""
    found = Interrupted(nodes=320, candidates=112, others=5000)
    gc.disable()
    try:
        resumed = await found.resume()
    finally:
        gc.enable()
    assert [one.workload for one in resumed] == [one.workload for one in found.plans]
    assert found.evicts == [one.workload for one in found.plans]
    assert max(found.steps) < sum(step for step in found.steps if step > 0.001) / 4


async def test_each_interrupted_plan_evicts_as_few_and_its_place_is_held() -> None:
    found = Interrupted(nodes=320, candidates=112, others=0)
    for before, after in zip(found.plans, await found.resume(), strict=True):
        assert len(after.evictions) <= len(before.evictions)
        assert after.workload in found.executor.places
        assert found.ledger.holds.drop(hold_key(HoldKind.PLACE, after.workload))


async def test_a_workload_that_is_deleted_meanwhile_is_left_out() -> None:
    found = Interrupted(nodes=320, candidates=112, others=0)
    resuming = asyncio.create_task(found.resume())
    await asyncio.sleep(0)
    gone = found.plans[-1].workload
    found.queues.remove(gone)
    assert [one.workload for one in await resuming] == [one.workload for one in found.plans[:-1]]
    assert gone not in found.executor.places


async def test_a_plan_that_cannot_be_resumed_keeps_back_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Else the controller would end at each of its starts."""
    found = Interrupted(nodes=320, candidates=112, others=0)
    bad, search = found.plans[0].workload, place_after_moves

    def fails(ledger: Ledger, gang: Workload, leaving: frozenset[str], now: float) -> Admission | None:
        if gang.key == bad:
            raise ValueError(gang.key)
        return search(ledger, gang, leaving, now)

    monkeypatch.setattr(take_over, "place_after_moves", fails)
    assert [one.workload for one in await found.resume()] == [one.workload for one in found.plans[1:]]
    assert "could not be resumed" in caplog.text


async def test_nothing_moves_before_the_moves_of_today_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """They count for the budgets."""
    racks, looks = TwoRacks(), asyncio.Event()

    async def look(_: asyncio.TaskGroup) -> float:
        looks.set()
        return 0.0

    monkeypatch.setattr(racks.controller, "look", look)
    moves = asyncio.create_task(racks.controller.run())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not looks.is_set()
    cycles = asyncio.create_task(racks.scheduler.run())
    await asyncio.wait_for(looks.wait(), 30)
    for task in (moves, cycles):
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
