"""A job overtakes a gang because jobs like it were short, outlasts that, and leaves when the gang starts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from api.kube.client import PatchKind
from api.kube.resources import CLUSTER_QUEUES, CONFIG_MAPS
from api.meta import Condition, find_condition, is_true
from api.names import BACKFILL, BACKFILL_LEARNED, BACKFILLED, EVICTED, FINISHED, RUN_TIMES, RUN_TIMES_KEY, EvictedReason
from tests.scenarios.failures import SHORT_LEASE
from tests.scenarios.launchers import MovedClock, moved_clock
from tests.scenarios.site import Site, eventually
from tests.scenarios.stage import Stage
from tests.scenarios.test_backfill import a_later_second, says, timed

pytestmark = pytest.mark.asyncio(loop_scope="session")
ENVIRONMENT = {
    **SHORT_LEASE,
    "STOWAGE_CONTROLLER__FORECASTS": "true",
    "STOWAGE_CONTROLLER__FORECAST_PERIOD": "1",
    "STOWAGE_CONTROLLER__RUN_TIMES_PERIOD": "1",
}
LIMIT = 600
"""Seconds that the job in the gang's way may run."""

MakeSite = Callable[[str], Site]


async def _has_finished(here: Site, name: str) -> bool:
    workload = await here.workload_of(name)
    return workload is not None and is_true(workload.status.conditions, FINISHED)


async def _is_stored(here: Site, text: str) -> bool:
    found = await here.kube.get(CONFIG_MAPS, RUN_TIMES, "stowage-system")
    return text in found.get("data", {}).get(RUN_TIMES_KEY, "")


async def _condition(here: Site, name: str, kind: str) -> Condition | None:
    workload = await here.workload_of(name)
    found = find_condition(workload.status.conditions, kind) if workload else None
    return found if found is not None and found.status == "True" else None


@pytest_asyncio.fixture(loop_scope="session")
async def clock(stage: Stage, tmp_path: Path) -> AsyncIterator[MovedClock]:
    """The controller's."""
    async with moved_clock(stage, "controller", tmp_path / "clock") as moved:
        yield moved


async def test_a_wrong_guess_does_not_delay_the_gang(site: MakeSite, clock: MovedClock) -> None:
    """One rack of two hosts, 4 GPUs each."""
    here = site("learned")
    await here.open({"b1": {"r1": 2}}, queueingStrategy="StrictFIFO")
    body = {"metadata": {"annotations": {BACKFILL: "true", BACKFILL_LEARNED: "true"}}}
    await here.kube.patch(CLUSTER_QUEUES, here.name, body, kind=PatchKind.MERGE)
    for n in range(5):
        await here.submit(here.job(f"short-{n}", 1, run_for="10ms"))
    for n in range(5):
        await eventually(f"the end of short-{n}", partial(_has_finished, here, f"short-{n}"))
    await eventually("what was learned is stored", partial(_is_stored, here, '"owner":"Job","name":"job-short"'))
    await here.submit(timed(here, "first", 4, LIMIT))
    await here.running("first", 4)
    await here.submit(timed(here, "gang", 8, None))
    told = await eventually("the gang's moment", partial(says, here, "gang", "expected to start at "))
    promised = told.rpartition("expected to start at ")[2].removesuffix(" or before")
    await eventually("the gang is surely the older one", partial(a_later_second, here, "gang"))
    await here.submit(timed(here, "short-9", 4, None))
    await here.running("short-9", 4)
    why = await eventually("the condition", partial(_condition, here, "short-9", BACKFILLED))
    gang = await here.workload_of("gang")
    assert gang is not None
    assert why.message.startswith(f"may be evicted from {promised} on")
    assert f"it overtook {gang.key}, which is to start then" in why.message
    clock.jump(LIMIT)
    await here.finish("first")
    await here.running("gang", 8)
    evicted = await eventually("the eviction", partial(_condition, here, "short-9", EVICTED))
    assert evicted.reason == EvictedReason.BACKFILL_ENDED
    assert gang.key in evicted.message
    assert await _condition(here, "short-9", BACKFILLED) is None
    assert await says(here, "short-9", ""), "it waits again"
