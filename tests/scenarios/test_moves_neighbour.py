"""A plan of moves and an eviction beside a neighbour who submits small jobs at each step.

The neighbour's jobs are as important as the gang, and fit where the movers leave long before the evicted workload has left. On
an embedded stage, which refuses some writes of the eviction as if the victim's owner had changed it each time: the place is
held until they are written.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio
from aiohttp import web

from api.embedded.server import EmbeddedSettings
from api.errors import StowageError
from api.kube.resources import EVENTS, JOBS
from api.meta import find_condition
from api.names import EVICTED, MOVING, REQUIRE_TOPOLOGY
from tests.scenarios.change_watcher import watched
from tests.scenarios.site import RACK, Site, eventually
from tests.scenarios.stage import Stage, embedded
from tests.scenarios.tenants import prioritized
from tests.scenarios.test_mixed_moves_killed import URGENT, stopped
from tests.scenarios.test_moves_made import ENVIRONMENT
from tests.scenarios.test_two_moves_killed import blocked

pytestmark = pytest.mark.asyncio(loop_scope="session")
MANY = 12


@dataclass
class Conflicts:
    """How many writes of evictions are still refused, and were."""

    left: int = 0
    made: int = 0

    async def intercept(self, request: web.Request) -> web.StreamResponse | None:
        """Hook before a request."""
        if not self.left or request.method != "PATCH" or "/workloads/job-low-" not in request.path:
            return None
        if f'"{EVICTED}"' not in (await request.text()):
            return None
        self.left, self.made = self.left - 1, self.made + 1
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict", "code": 409}
        return web.json_response({**status, "message": "the object has been modified"}, status=409)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def refusing(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Stage, Conflicts]]:
    """One stage for the module."""
    conflicts = Conflicts()
    settings = EmbeddedSettings(intercept=conflicts.intercept)
    async with embedded(tmp_path_factory.mktemp("neighbour"), ENVIRONMENT, settings) as stage:
        yield stage, conflicts


@contextlib.asynccontextmanager
async def small_jobs(here: Site) -> AsyncIterator[None]:
    """The neighbour submits a job of one pod again and again, from the moment at which the first mover is on its way."""

    async def submit() -> None:
        await eventually("a mover is on its way", lambda: _moves(here))
        for number in range(MANY):
            with contextlib.suppress(StowageError):
                await here.submit(
                    await prioritized(here, here.job(f"tiny-{number}", 1, {REQUIRE_TOPOLOGY: RACK}), URGENT)
                )
            await asyncio.sleep(0.1)

    task = asyncio.create_task(submit())
    try:
        yield
        await task
    finally:
        task.cancel()


async def _moves(here: Site) -> bool:
    found = [await here.workload_of(peer) for peer in ("peer-0", "peer-1")]
    return any(one is not None and find_condition(one.status.conditions, MOVING) is not None for one in found)


@pytest.mark.parametrize("refused", [pytest.param(0, id="the eviction is written"), pytest.param(2, id="only later")])
async def test_nobody_takes_what_the_movers_leave(refusing: tuple[Stage, Conflicts], refused: int) -> None:
    stage, conflicts = refusing
    here = Site(stage.kube, f"neighbour-{refused}")
    async with watched(here, evicts=True):
        rack, other = await blocked(here)
        conflicts.left = refused
        async with small_jobs(here):
            await here.submit(await prioritized(here, here.job("gang", 8, {REQUIRE_TOPOLOGY: RACK}), URGENT))
            assert list(await here.racks(await here.running("gang", 8))) == [rack]
        for peer in ("peer-0", "peer-1"):
            assert list(await here.racks(await here.running(peer, 2))) == [other]
            assert await stopped(here, peer) == [("Moved", 1)]
        assert await stopped(here, "low") == [("Preempted", 1)]
        assert conflicts.made == refused
        events = (await here.kube.list(EVENTS, here.name)).items
        assert not [event["message"] for event in events if event["reason"] == "MovesStopped"]


@pytest.mark.parametrize("what", ["deleted", "suspended"])
async def test_a_mover_that_its_owner_stops_on_its_way_does_not_keep_the_gang_waiting(
    refusing: tuple[Stage, Conflicts], what: str
) -> None:
    """Between the plan and the eviction."""
    stage, conflicts = refusing
    here = Site(stage.kube, f"owner-{what}")
    async with watched(here, evicts=True):
        rack, other = await blocked(here)
        conflicts.left = 1
        await here.submit(await prioritized(here, here.job("gang", 8, {REQUIRE_TOPOLOGY: RACK}), URGENT))
        await eventually("a mover is on its way", lambda: _moves(here))
        if what == "deleted":
            await here.remove(JOBS, "peer-0")
        else:
            await here.change(JOBS, "peer-0", {"spec": {"suspend": True}})
        assert list(await here.racks(await here.running("gang", 8))) == [rack]
        assert list(await here.racks(await here.running("peer-1", 2))) == [other]
        assert await stopped(here, "low") == [("Preempted", 1)]
