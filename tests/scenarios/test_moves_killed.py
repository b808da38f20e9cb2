"""A controller killed before and after each single write of a move.

A job of three pods leaves a rack for two others, and a gang of eight takes the rack. From the moment at which the gang is
submitted, the writes of the controller are counted. At the one of the given number the controller stands still: the write
is not carried out, or it is carried out and never answered, and no later write is either. Then the controller is killed
(SIGKILL) and another one starts. Invariants holds after every write of any client. Embedded server only: no real one stops at a
write on request; test_moves_made.py kills on the real one at what it sees.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from api.kube.resources import WORKLOADS
from api.meta import is_true
from api.names import EVICTED, FINISHED, MOVING, REQUIRE_TOPOLOGY
from api.workloads import Workload
from tests.scenarios.change_watcher import watched
from tests.scenarios.site import RACK, Site
from tests.scenarios.standstill import Killing, assert_known, at_each, killing_on, stands_or_is_done
from tests.scenarios.test_moves import fragmented
from tests.scenarios.test_moves_made import ENVIRONMENT, MAY_MOVE, moves_of, unspent

pytestmark = pytest.mark.asyncio(loop_scope="session")

WRITES = (
    "POST workloads",  # the gang's
    "PATCH workloads/job-gang/status",  # why it waits
    "PATCH workloads/job-small/status",  # its new place, and that it is on its way there
    "PATCH jobs/small",  # suspended
    "PATCH jobs/small",  # its template as it was
    "PATCH workloads/job-gang/status",  # admitted
    "PATCH workloads/job-small/status",  # at rest
    "PATCH jobs/gang",
    "PATCH jobs/small",  # started at its new place
)
"""What the controller writes at most, in about this order."""
QUICK = {(3, "after"), (5, "after"), (7, "before")}
QUOTA = 3 + 6 + 6 + 8
"""Just enough for all jobs."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def killing(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Killing]:
    """One stage for the module."""
    async with killing_on(tmp_path_factory.mktemp("killing"), ENVIRONMENT) as found:
        yield found


async def play(killing: Killing, name: str, number: int, side: str) -> list[str]:
    """The story with a kill at that write; returns the writes that were counted."""
    here, still = Site(killing.stage.kube, name), killing.standstill
    async with watched(here, evicts=True, quota=QUOTA):
        await fragmented(here, MAY_MOVE, gang=False, quota=QUOTA)
        still.arm(name, number, side)
        await here.submit(here.job("gang", 8, {REQUIRE_TOPOLOGY: RACK}))
        if number:
            await stands_or_is_done(here, still, {"gang": 8, "small": 3}, len(set(WRITES)))
            await killing.kill()
        assert list(await here.racks(await here.running("gang", 8))) == ["b1/r2"]
        assert sorted(await here.racks(await here.running("small", 3))) == ["b1/r1", "b1/r3"]
        await unspent(here, "small")
        assert moves_of(await here.workload_of("small")) == 1
        for other in ("left", "right"):
            assert len(await here.running(other, 6)) == 6
            assert moves_of(await here.workload_of(other)) == 0
        found = (await here.kube.list(WORKLOADS, name, decode=Workload)).items
        assert not any(is_true(one.status.conditions, kind) for one in found for kind in (EVICTED, FINISHED, MOVING))
    assert killing.invariants.broken == []
    return list(still.writes)


async def test_the_writes_of_a_move_are_known(killing: Killing) -> None:
    assert_known(await play(killing, "unkilled", 0, ""), WRITES)


@at_each(WRITES, QUICK)
async def test_killed_at_a_write_everybody_runs_in_the_end(killing: Killing, number: int, side: str) -> None:
    await play(killing, f"killed-{number}-{side}", number, side)
