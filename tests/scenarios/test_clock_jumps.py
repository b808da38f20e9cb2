"""Clocks that jump, of one process at a time, an hour forward and back: all ends as it would have.

The jobs and the look-out are those of test_crashes.py. Leases count by the time that each process measures itself, so a
jump moves no leadership.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from tests.scenarios.change_watcher import Watchman
from tests.scenarios.failures import SHORT_LEASE
from tests.scenarios.launchers import MovedClock, moved_clock
from tests.scenarios.site import Site, eventually
from tests.scenarios.stage import Stage
from tests.scenarios.test_crashes import all_is_well, arrive, here, leads, lease_of, names, seen, standby, writes

__all__ = ["here", "names", "seen"]

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.long]
ENVIRONMENT = SHORT_LEASE
HOUR = 3600.0


@pytest_asyncio.fixture(loop_scope="session")
async def clock(stage: Stage, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[MovedClock]:
    """That of the process whose name is the test's parameter."""
    name = request.getfixturevalue("name")
    async with moved_clock(stage, name, tmp_path / "clock") as moved:
        yield moved


@pytest.mark.parametrize("name", ["controller", "ungater", "webhook"])
@pytest.mark.parametrize("jumps", [(HOUR, 0.0), (-HOUR, 0.0)], ids=["forward and back", "back and forward"])
async def test_a_clock_that_jumps_changes_nothing(
    stage: Stage,
    here: Site,
    seen: Watchman,
    names: list[str],
    name: str,
    clock: MovedClock,
    jumps: tuple[float, ...],
) -> None:
    arriving = asyncio.create_task(arrive(here, names))
    for number, ahead in enumerate(jumps):
        least = 3 * number + 2
        await seen.sees("some more are admitted", partial(_admitted, least))
        clock.jump(ahead)
    await arriving
    await all_is_well(here, seen, names)


def _admitted(least: int, seen: Watchman) -> bool:
    return len(seen.admitted) >= least


@pytest.mark.parametrize("name", ["controller", "ungater"])
@pytest.mark.parametrize("ahead", [HOUR, -HOUR], ids=["ahead", "behind"])
async def test_a_standby_with_another_clock_leaves_the_leader_alone_and_takes_over_when_it_is_gone(
    stage: Stage,
    here: Site,
    seen: Watchman,
    names: list[str],
    name: str,
    clock: MovedClock,
    ahead: float,
) -> None:
    """The standby has the machine's clock; the leader's shows another time."""
    clock.jump(ahead)
    await eventually("the leader has renewed by its clock", lambda: leads(stage, stage.processes.children[name]))
    async with standby(stage, name) as second:
        before = await lease_of(stage, name)
        arriving = asyncio.create_task(arrive(here, names))
        await seen.sees("some are admitted", lambda s: len(s.admitted) >= 3)
        assert (await lease_of(stage, name))["leaseTransitions"] == before["leaseTransitions"]
        assert await writes(second) == {}, "the standby only looks on"
        await stage.processes.children[name].stop()
        await eventually("the standby leads", lambda: leads(stage, second))
        await arriving
        await all_is_well(here, seen, names)
        await stage.processes.restart(name)
