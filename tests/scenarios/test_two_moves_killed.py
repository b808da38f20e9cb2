"""A controller killed between the writes of a plan with two moves and an eviction, beside a neighbour who wants the room.

As test_mixed_moves_killed.py, but `late` is as important as the gang: where it gets what the first
mover left, the gang has no place, and the mover was stopped in vain.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from api.names import REQUIRE_TOPOLOGY
from tests.scenarios.change_watcher import watched
from tests.scenarios.site import RACK, Site
from tests.scenarios.standstill import Killing, killing_on, stands_or_is_done
from tests.scenarios.tenants import RECLAIM, prioritized
from tests.scenarios.test_mixed_moves_killed import URGENT, stopped
from tests.scenarios.test_moves import ended
from tests.scenarios.test_moves_made import ENVIRONMENT, MAY_MOVE, unspent

pytestmark = pytest.mark.asyncio(loop_scope="session")

WRITES = (
    "POST workloads",  # the gang's
    "PATCH workloads/job-gang/status",  # why it waits
    "PATCH workloads/job-peer-0/status",  # its new place, and that it is on its way there
    "PATCH workloads/job-peer-1/status",
    "PATCH jobs/peer-0",  # suspended
    "PATCH jobs/peer-1",
    "PATCH workloads/job-low/status",  # evicted
)
"""What the controller writes in about this order, up to the eviction."""
FIRST = 3
"""From here on a mover has been stopped in vain if the gang does not start."""
STEPS = [(FIRST, "after"), *((n, side) for n in range(FIRST + 1, len(WRITES) + 1) for side in ("before", "after"))]
QUICK = {(3, "after"), (4, "after")}
CASES = [pytest.param(*step, marks=[] if step in QUICK else pytest.mark.long) for step in STEPS]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def killing(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Killing]:
    """One stage for the module."""
    environment = {
        **ENVIRONMENT,
        "STOWAGE_CONTROLLER__MOVES_AFTER": "3",
    }  # others come before the new leader's first plan
    async with killing_on(tmp_path_factory.mktemp("killing"), environment) as found:
        yield found


async def blocked(here: Site) -> tuple[str, str]:
    """Two racks of 8 cpus in which these jobs leave 2 and 4; returns that of `low`, `peer-0` and `peer-1`, and the other."""
    await here.open({"b1": {"r1": 2, "r2": 2}}, preemption=RECLAIM)
    await here.submit(here.job("filler", 8, {REQUIRE_TOPOLOGY: RACK}))
    (other,) = await here.racks(await here.running("filler", 8))
    await here.submit(here.job("low", 2, {REQUIRE_TOPOLOGY: RACK}))
    (rack,) = await here.racks(await here.running("low", 2))
    for peer in ("peer-0", "peer-1"):
        await here.submit(await prioritized(here, here.job(peer, 2, {REQUIRE_TOPOLOGY: RACK, **MAY_MOVE}), URGENT))
        await here.running(peer, 2)
    await ended(here, "filler")
    await here.submit(await prioritized(here, here.job("left", 4, {REQUIRE_TOPOLOGY: RACK}), URGENT))
    assert list(await here.racks(await here.running("left", 4))) == [other]
    return rack, other


@pytest.mark.parametrize(("number", "side"), CASES)
async def test_a_neighbour_does_not_get_what_the_first_mover_left(killing: Killing, number: int, side: str) -> None:
    here, still = Site(killing.stage.kube, f"two-{number}-{side}"), killing.standstill
    async with watched(here, evicts=True):
        rack, other = await blocked(here)
        gang, late = [
            await prioritized(here, here.job(name, pods, {REQUIRE_TOPOLOGY: RACK}), URGENT)
            for name, pods in (("gang", 8), ("late", 4))
        ]
        still.arm(here.name, number, side)
        await here.submit(gang)
        await stands_or_is_done(here, still, {"gang": 8, "peer-0": 2, "peer-1": 2}, len(set(WRITES)))
        await here.submit(late)
        await killing.kill()
        assert list(await here.racks(await here.running("gang", 8))) == [rack]
        for peer in ("peer-0", "peer-1"):
            assert list(await here.racks(await here.running(peer, 2))) == [other]
            await unspent(here, peer)
            assert await stopped(here, peer) == [("Moved", 1)]
        assert await stopped(here, "low") == [("Preempted", 1)]
        for job in ("gang", "left", "late"):
            assert await stopped(here, job) == []
    assert killing.invariants.broken == []
