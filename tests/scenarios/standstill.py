"""A controller that stands still at one of its writes, is killed there, and has a successor. On embedded stages only."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import pytest
from aiohttp import web

from api.embedded.server import EmbeddedSettings
from api.errors import NotFound
from api.kube.resources import LEASES
from tests.scenarios.invariants import Invariants
from tests.scenarios.site import Site, eventually
from tests.scenarios.stage import Stage, embedded


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
    last: web.Request | None = None

    def arm(self, namespace: str, number: int, side: str) -> None:
        self.namespace, self.number, self.side, self.writes = namespace, number, side, []
        self.reached, self.over = asyncio.Event(), asyncio.Event()

    def release(self) -> None:
        """The dead controller's requests end, and those of others pass."""
        self.namespace = ""
        self.over.set()

    def _counts(self, request: web.Request) -> bool:
        return f"/namespaces/{self.namespace}/" in request.path and not re.search("/(events|localqueues)", request.path)

    def _write(self, request: web.Request) -> str:
        return f"{request.method} {request.path.rpartition(f'/namespaces/{self.namespace}/')[2]}"

    async def intercept(self, request: web.Request) -> web.StreamResponse | None:
        """Hook before a request."""
        if not self.namespace or request.method == "GET" or request.headers.get("Authorization") != "Bearer controller":
            return None
        if self.reached.is_set():
            return await self._stands()
        if not self._counts(request):
            return None
        self.writes.append(self._write(request))
        if len(self.writes) != self.number:
            return None
        self.reached.set()
        if self.side == "before":
            return await self._stands()
        self.last = request
        return None

    async def on_answer(self, request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
        """Hook after a request. A write that was refused as out of date is made again, and counts once."""
        if request is self.last:
            return await self._stands()
        if response.status == HTTPStatus.CONFLICT and self.namespace and (write := self._write(request)) in self.writes:
            self.writes.remove(write)
        return response

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


@contextlib.asynccontextmanager
async def killing_on(folder: Path, environment: Mapping[str, str]) -> AsyncIterator[Killing]:
    """A stage whose controller can be made to stand still."""
    still = Standstill()
    settings = EmbeddedSettings(intercept=still.intercept, on_answer=still.on_answer)
    async with embedded(folder, environment, settings) as stage:
        assert stage.server is not None
        async with Invariants(stage.server.store).watched() as invariants:
            yield Killing(stage, still, invariants)


async def stands_or_is_done(here: Site, still: Standstill, runs: Mapping[str, int], writes: int) -> None:
    """Returns when the write is reached, or after so many writes, when the jobs run with so many pods.

    Two writes to one object are sometimes made as one.
    """

    async def check() -> bool:
        done = [len(await here.pods(job)) == pods for job, pods in runs.items()]
        return still.reached.is_set() or (all(done) and len(still.writes) >= writes)

    await eventually(f"write {still.number} of {still.writes}", check)


def at_each(writes: Sequence[str], quick: Collection[tuple[int, str]]) -> pytest.MarkDecorator:
    """A test for each write, before and after it; those that are not `quick` are long."""
    steps = [(number, side) for number in range(1, len(writes) + 1) for side in ("before", "after")]
    cases = [pytest.param(*step, marks=[] if step in quick else pytest.mark.long) for step in steps]
    return pytest.mark.parametrize(("number", "side"), cases)


def assert_known(obj: Sequence[str], writes: Sequence[str]) -> None:
    """What the controller wrote is listed in `writes`, by which it is killed."""
    assert {re.sub("-[0-9a-f]{5}/", "/", each) for each in obj} == set(writes)
    assert len(obj) <= len(writes)
