"""A controller killed before and after each single write of a plan in which one blocker moves and another is evicted.

As test_moves_killed.py. `peer` may move, and is as important as the gang; `low` may not move, and
is less important. `late` is no more important than `low`, and waits behind the gang: its four pods fit where `peer` leaves.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import pytest
import pytest_asyncio

from api.kube.resources import WORKLOADS
from api.meta import is_true
from api.names import EVICTED, MOVING, REQUIRE_TOPOLOGY
from api.workloads import Workload
from tests.scenarios.change_watcher import watched
from tests.scenarios.site import RACK, Site, eventually
from tests.scenarios.standstill import Killing, assert_known, at_each, killing_on, stands_or_is_done
from tests.scenarios.tenants import RECLAIM, prioritized
from tests.scenarios.test_moves import ended
from tests.scenarios.test_moves_made import ENVIRONMENT, MAY_MOVE, unspent

pytestmark = pytest.mark.asyncio(loop_scope="session")

WRITES = (
    "POST workloads",  # the gang's
    "PATCH workloads/job-gang/status",  # why it waits
    "PATCH workloads/job-peer/status",  # its new place, and that it is on its way there
    "PATCH jobs/peer",  # suspended
    "PATCH workloads/job-low/status",  # evicted
    "PATCH jobs/low",  # suspended
    "PATCH jobs/peer",  # its template as it was
    "PATCH workloads/job-peer/status",  # at rest
    "PATCH jobs/low",  # its template as it was
    "PATCH jobs/peer",  # started at its new place
    "PATCH workloads/job-low/status",  # waits again
    "PATCH workloads/job-gang/status",  # admitted
    "PATCH jobs/gang",
    "PATCH workloads/job-gang/status",  # that its place is held, if that is not written together with why it waits
    "PATCH workloads/job-low/status",  # why it waits again
)
"""What the controller writes at most, in about this order."""
QUICK = {(3, "after"), (5, "after")}
URGENT = 100


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def killing(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Killing]:
    """One stage for the module."""
    async with killing_on(tmp_path_factory.mktemp("killing"), ENVIRONMENT) as found:
        yield found


async def blocked(here: Site) -> tuple[str, str]:
    """Two racks of 8 cpus in which these jobs leave 5 and none; returns that of `low` and `peer`, and the other."""
    await here.open({"b1": {"r1": 2, "r2": 2}}, preemption=RECLAIM)
    await here.submit(here.job("filler", 8, {REQUIRE_TOPOLOGY: RACK}))
    (other,) = await here.racks(await here.running("filler", 8))
    await here.submit(here.job("low", 3, {REQUIRE_TOPOLOGY: RACK}))
    await here.running("low", 3)
    await here.submit(await prioritized(here, here.job("peer", 3, {REQUIRE_TOPOLOGY: RACK, **MAY_MOVE}), URGENT))
    (rack,) = await here.racks(await here.running("peer", 3))
    await ended(here, "filler")
    await here.submit(await prioritized(here, here.job("left", 5, {REQUIRE_TOPOLOGY: RACK}), URGENT))
    assert list(await here.racks(await here.running("left", 5))) == [other]
    return rack, other


async def stopped(here: Site, job: str) -> list[tuple[str, int]]:
    """How often the job's Workload was stopped, by reason."""
    workload = await eventually(f"{job} has a Workload", partial(here.workload_of, job))
    stats = workload.status.scheduling_stats
    return [(one.reason, one.count) for one in stats.evictions] if stats else []


async def play(killing: Killing, name: str, number: int, side: str) -> list[str]:
    """The story with a kill at that write; returns the writes that were counted."""
    here, still = Site(killing.stage.kube, name), killing.standstill
    async with watched(here, evicts=True):
        rack, other = await blocked(here)
        gang = await prioritized(here, here.job("gang", 8, {REQUIRE_TOPOLOGY: RACK}), URGENT)
        late = here.job("late", 4, {REQUIRE_TOPOLOGY: RACK})
        still.arm(name, number, side)
        await here.submit(gang)
        if number:
            await stands_or_is_done(here, still, {"gang": 8, "peer": 3, "low": 0}, len(set(WRITES)))
            await here.submit(late)
            await killing.kill()
        assert list(await here.racks(await here.running("gang", 8))) == [rack]
        assert list(await here.racks(await here.running("peer", 3))) == [other]
        assert len(await here.running("left", 5)) == 5
        await unspent(here, "peer")
        assert await stopped(here, "peer") == [("Moved", 1)]
        assert await stopped(here, "low") == [("Preempted", 1)]
        for job in ("gang", "left", *(("late",) if number else ())):
            assert await stopped(here, job) == []
        found = (await here.kube.list(WORKLOADS, name, decode=Workload)).items
        assert not any(is_true(one.status.conditions, MOVING) for one in found)
        assert sum(is_true(one.status.conditions, EVICTED) for one in found) == 1
    assert killing.invariants.broken == []
    return list(still.writes)


async def test_the_writes_of_a_mixed_plan_are_known(killing: Killing) -> None:
    assert_known(await play(killing, "unkilled", 0, ""), WRITES)


@at_each(WRITES, QUICK)
async def test_killed_at_a_write_of_a_mixed_plan_nobody_stops_in_vain(killing: Killing, number: int, side: str) -> None:
    await play(killing, f"killed-{number}-{side}", number, side)
