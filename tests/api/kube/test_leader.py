"""One leader at most, whatever the network does; time is the test's."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from api.errors import NotLeader
from api.kube.leader import LeaderElection
from api.kube.settings import LeaderSettings
from tests.api.kube.clock import ManualClock, settle, until
from tests.api.kube.server import Script, scripted


class LeaseServer(Script):
    """One Lease, kept as the API server keeps it; `cut_off` names the candidates whose requests
    fail, `hanging` those whose requests are carried out late: when they are not named there any more."""

    def __init__(self) -> None:
        super().__init__()
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.cut_off: set[str] = set()
        self.hanging: set[str] = set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        who = request.headers["User-Agent"]
        body = await request.read()
        if who in self.cut_off:
            return refusal(500, "InternalError")
        await until(lambda: who not in self.hanging, seconds=3600)
        return self.answer(request.method, json.loads(body) if body else {})

    def answer(self, method: str, body: dict[str, Any]) -> web.Response:
        if method == "GET":
            return refusal(404, "NotFound") if self.lease is None else web.json_response(self.lease)
        if method == "POST" and self.lease is not None:
            return refusal(409, "AlreadyExists")
        if method == "PUT":
            assert self.lease is not None
            if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
                return refusal(409, "Conflict")
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.lease = body
        return web.json_response(body)

    @property
    def holder(self) -> str | None:
        return self.lease["spec"]["holderIdentity"] if self.lease else None


def refusal(code: int, reason: str) -> web.Response:
    return web.json_response({"kind": "Status", "code": code, "reason": reason, "message": reason}, status=code)


class Candidate:
    """A running election; `working` says whether its work runs."""

    def __init__(self, election: LeaderElection) -> None:
        self.election = election
        self.working = False
        self.terms = 0
        self.fail: Exception | None = None
        self.finish = asyncio.Event()
        self.task = asyncio.create_task(election.run(self.lead))

    async def lead(self) -> None:
        self.working, self.terms = True, self.terms + 1
        try:
            await self.finish.wait()
            if self.fail:
                raise self.fail
        finally:
            self.working = False

    def may_write(self) -> bool:
        try:
            self.election.fence()
        except NotLeader:
            return False
        return True

    async def stop(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


class Race:
    """Candidates on one clock and one Lease."""

    def __init__(self, server: LeaseServer, clock: ManualClock, candidates: list[Candidate]) -> None:
        self.server, self.clock, self.candidates = server, clock, candidates

    def leaders(self) -> list[str]:
        """Who could write right now; never more than one."""
        found = [c.election.settings.identity for c in self.candidates if c.may_write()]
        assert len(found) <= 1, f"two leaders: {found}"
        return found

    async def pass_time(self, seconds: float, step: float = 0.25) -> list[str]:
        """Lets time go by in small steps, each with real requests in between; who led at the end."""
        for _ in range(int(seconds / step)):
            await self.clock.advance(step)
            await self.quiet()
            self.leaders()
            assert sum(c.working for c in self.candidates) <= 1
        return self.leaders()

    async def quiet(self) -> None:
        """Until every candidate waits for the clock again (or for a request that hangs)."""
        for _ in range(3):
            await settle()
            await asyncio.sleep(0.001)

    async def lead(self, who: str) -> None:
        await until(lambda: self.leaders() == [who] and any(c.working for c in self.candidates))


@asynccontextmanager
async def race(folder: Path, *names: str) -> AsyncIterator[Race]:
    server, clock = LeaseServer(), ManualClock()
    async with scripted(server, folder) as kube:
        candidates = [
            Candidate(LeaderElection(kube.tuned(user_agent=name), LeaderSettings("stowage", "controller", name), clock))
            for name in names
        ]
        try:
            yield Race(server, clock, candidates)
        finally:
            for candidate in candidates:
                await candidate.stop()


async def test_one_of_two_leads_and_keeps_leading(tmp_path: Path) -> None:
    async with race(tmp_path, "a", "b") as run:
        await until(run.leaders)
        [first] = run.leaders()
        assert await run.pass_time(60) == [first]
        assert run.server.holder == first
        assert run.server.lease is not None
        assert run.server.lease["spec"]["leaseTransitions"] == 0
        assert {c.election.leader for c in run.candidates} == {first}


@pytest.mark.parametrize("fault", ["cut_off", "hanging"])
async def test_a_leader_that_is_cut_off_stops_before_another_starts(tmp_path: Path, fault: str) -> None:
    async with race(tmp_path, "a") as run:
        await run.lead("a")
        getattr(run.server, fault).add("a")
        run.candidates.append(other_candidate(run, "b"))
        assert await run.pass_time(7) == ["a"]  # renewed at most 2.4 s before the fault: the fence is open
        assert await run.pass_time(3.5) == []
        assert not run.candidates[0].working
        assert run.server.holder == "a"
        await run.pass_time(10)
        await run.lead("b")
        assert run.server.lease is not None
        assert run.server.lease["spec"]["leaseTransitions"] == 1


def other_candidate(run: Race, name: str) -> Candidate:
    kube = run.candidates[0].election._kube.tuned(user_agent=name)
    return Candidate(LeaderElection(kube, LeaderSettings("stowage", "controller", name), run.clock))


async def test_the_fence_holds_even_when_no_timer_could_run(tmp_path: Path) -> None:
    async with race(tmp_path, "a") as run:
        await run.lead("a")
        run.clock._now += 10.0  # the loop was blocked: nothing ran meanwhile
        with pytest.raises(NotLeader, match=r"lease stowage/controller of a: last proved 10\.0 s ago, allowed 10\.0 s"):
            run.candidates[0].election.fence()


@pytest.mark.parametrize("seed", range(3))
async def test_never_two_leaders_whatever_fails(tmp_path: Path, seed: int) -> None:
    names, dice = ("a", "b", "c"), random.Random(seed)
    led: set[str] = set()
    async with race(tmp_path, *names) as run:
        for _ in range(40):
            fault = dice.choice([run.server.cut_off, run.server.hanging])
            run.server.cut_off.clear()
            run.server.hanging.clear()
            fault.update(name for name in names if dice.random() < 0.5)
            led.update(await run.pass_time(dice.uniform(0.5, 12.0), step=0.5))
    assert len(led) > 1


async def test_a_short_fault_is_ridden_out(tmp_path: Path) -> None:
    async with race(tmp_path, "a") as run:
        await run.lead("a")
        run.server.cut_off.add("a")
        assert await run.pass_time(5) == ["a"]
        run.server.cut_off.clear()
        assert await run.pass_time(20) == ["a"]
        assert run.candidates[0].terms == 1


async def test_a_lost_leader_stands_again(tmp_path: Path) -> None:
    async with race(tmp_path, "a") as run:
        await run.lead("a")
        run.server.cut_off.add("a")
        assert await run.pass_time(12) == []
        run.server.cut_off.clear()
        await run.pass_time(5)
        await run.lead("a")
        assert run.candidates[0].terms == 2


async def test_a_stolen_lease_ends_the_work_at_once(tmp_path: Path) -> None:
    async with race(tmp_path, "a") as run:
        await run.lead("a")
        assert run.server.lease is not None
        run.server.answer("PUT", {**run.server.lease, "spec": {**run.server.lease["spec"], "holderIdentity": "thief"}})
        assert await run.pass_time(5) == []
        assert run.server.holder == "thief"


async def test_a_leader_that_ends_gives_the_lease_back(tmp_path: Path) -> None:
    async with race(tmp_path, "a") as run:
        await run.lead("a")
        await run.candidates[0].stop()
        assert run.server.holder == ""
        run.candidates.append(other_candidate(run, "b"))
        await run.lead("b")  # without a second going by


@pytest.mark.parametrize("error", [None, RuntimeError("a bug")], ids=["returns", "raises"])
async def test_the_work_decides_when_it_is_over(tmp_path: Path, error: Exception | None) -> None:
    async with race(tmp_path, "a") as run:
        await run.lead("a")
        candidate = run.candidates[0]
        candidate.fail = error
        candidate.finish.set()
        await until(candidate.task.done)
        assert candidate.task.exception() is error
        assert run.server.holder == ""
        candidate.task = asyncio.create_task(asyncio.sleep(0))


async def test_a_dead_leaders_lease_runs_out(tmp_path: Path) -> None:
    async with race(tmp_path) as run:
        spec = {"holderIdentity": "dead", "leaseDurationSeconds": 15, "renewTime": "2020-01-01T00:00:00.000000Z"}
        run.server.lease = {
            "metadata": {"name": "controller", "namespace": "stowage", "resourceVersion": "x"},
            "spec": spec,
        }
        async with scripted(run.server, tmp_path) as kube:
            election = LeaderElection(
                kube.tuned(user_agent="a"), LeaderSettings("stowage", "controller", "a"), run.clock
            )
            run.candidates.append(Candidate(election))
            # However old its times look: whose clock is right is not known, so a whole duration is waited.
            assert await run.pass_time(14) == []
            await run.pass_time(4)
            await run.lead("a")
            await run.candidates.pop().stop()


@pytest.mark.parametrize(
    "wrong",
    [{"lease_duration": 10.0}, {"renew_deadline": 2.0}, {"retry_period": 0.0}],
    ids=lambda value: next(iter(value)),
)
def test_timing_that_could_make_two_leaders_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"lease_duration .* > renew_deadline .* > retry_period .* does not hold"):
        LeaderSettings("stowage", "controller", "a", **wrong)
