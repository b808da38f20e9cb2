"""A controller killed before and after each single write of a move (Issue 21, must be shown 2).

A job of three pods leaves a rack for two others, and a gang of eight takes the rack. From the moment at which the gang is
submitted, the writes of the controller are counted. At the one of the given number the controller stands still: the write
is not carried out, or it is carried out and never answered, and no later write is either. Then the controller is killed
(SIGKILL) and another one starts. Invariants holds after every write of any client. Embedded server only: no real one stops at a
write on request; test_moves_made.py kills on the real one at what it sees.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
import pytest_asyncio
from aiohttp import web

from api.errors import NotFound
from api.fake.server import FakeSettings
from api.kube.resources import LEASES, WORKLOADS
from api.meta import is_true
from api.names import EVICTED, FINISHED, MOVING, REQUIRE_TOPOLOGY
from api.workloads import Workload
from tests.scenarios.change_watcher import watched
from tests.scenarios.invariants import Invariants
from tests.scenarios.site import RACK, Site, eventually
from tests.scenarios.stage import Stage, embedded
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


@dataclass
class Standstill:
    """Lets the controller's writes in a namespace pass up to the one of a number, where it and all later ones stand still.

    `side`: whether that write is carried out ("after") or not ("before"). `writes` are those that were counted.
    """

    namespace: str = ""
    number: int = 0
    side: str = ""
    writes: list[str] = field(default_factory=list)
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def arm(self, namespace: str, number: int, side: str) -> None:
        self.namespace, self.number, self.side, self.writes = namespace, number, side, []
        self.reached, self.over = asyncio.Event(), asyncio.Event()

    def release(self) -> None:
        """The dead controller's requests end, and those of others pass."""
        self.namespace = ""
        self.over.set()

    def _counts(self, request: web.Request) -> bool:
        return f"/namespaces/{self.namespace}/" in request.path and not re.search("/(events|localqueues)", request.path)

    async def intercept(self, request: web.Request) -> web.StreamResponse | None:
        """Hook before a request."""
        if not self.namespace or request.method == "GET" or request.headers.get("Authorization") != "Bearer controller":
            return None
        if self.reached.is_set():
            return await self._stands()
        if not self._counts(request):
            return None
        self.writes.append(f"{request.method} {request.path.split(f'/namespaces/{self.namespace}/')[1]}")
        if len(self.writes) != self.number:
            return None
        self.reached.set()
        if self.side == "before":
            return await self._stands()
        request["stowage-last"] = True
        return None

    async def on_answer(self, request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
        """Hook after a request."""
        return await self._stands() if request.get("stowage-last") else response

    async def _stands(self) -> web.StreamResponse:
        await self.over.wait()
        return web.Response(status=503)


@dataclass
class Killing:
    """The stage, where its controller stands still, and what is watched meanwhile."""

    stage: Stage
    standstill: Standstill
    invariants: Invariants

    async def kill(self) -> None:
        """Kills the controller and starts another one, which does not wait for the lease of the dead one."""
        await self.stage.processes.crash("controller")
        self.standstill.release()
        for lease in (await self.stage.kube.list(LEASES)).items:
            if "controller" in lease["metadata"]["name"]:
                await self._forget(lease["metadata"]["name"], lease["metadata"]["namespace"])
        await self.stage.processes.restart("controller")

    async def _forget(self, name: str, namespace: str) -> None:
        try:
            await self.stage.kube.delete(LEASES, name, namespace)
        except NotFound:
            return


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def killing(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Killing]:
    """One stage for the module."""
    still = Standstill()
    settings = FakeSettings(intercept=still.intercept, on_answer=still.on_answer)
    async with embedded(tmp_path_factory.mktemp("killing"), ENVIRONMENT, settings) as stage:
        assert stage.server is not None
        async with Invariants(stage.server.store).watched() as invariants:
            yield Killing(stage, still, invariants)


async def stands_or_is_done(here: Site, still: Standstill) -> None:
    """Returns when the write is reached, or all run: two writes to one object are sometimes made as one."""

    async def check() -> bool:
        runs = [job for job, pods in (("gang", 8), ("small", 3)) if len(await here.pods(job)) == pods]
        return still.reached.is_set() or (len(runs) == 2 and len(still.writes) >= len(set(WRITES)))

    await eventually(f"write {still.number} of {still.writes}", check)


async def play(killing: Killing, name: str, number: int, side: str) -> list[str]:
    """The story with a kill at that write; returns the writes that were counted."""
    here, still = Site(killing.stage.kube, name), killing.standstill
    async with watched(here, evicts=True, quota=QUOTA):
        await fragmented(here, MAY_MOVE, gang=False, quota=QUOTA)
        still.arm(name, number, side)
        await here.submit(here.job("gang", 8, {REQUIRE_TOPOLOGY: RACK}))
        if number:
            await stands_or_is_done(here, still)
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
    writes = await play(killing, "unkilled", 0, "")
    assert {re.sub("-[0-9a-f]{5}/", "/", each) for each in writes} == set(WRITES)
    assert len(writes) <= len(WRITES)


@pytest.mark.parametrize(
    ("number", "side"),
    [
        pytest.param(number, side, marks=[] if (number, side) in QUICK else pytest.mark.long)
        for number in range(1, len(WRITES) + 1)
        for side in ("before", "after")
    ],
)
async def test_killed_at_a_write_everybody_runs_in_the_end(killing: Killing, number: int, side: str) -> None:
    await play(killing, f"killed-{number}-{side}", number, side)
