"""One leader at most, whatever the network does; time is the test's."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Self

import pytest
from prometheus_client import REGISTRY

from api.errors import AlreadyExists, Conflict, NotFound, NotLeader, ServerError, Unreachable
from api.kube.client import Kube
from api.kube.settings import LeaderSettings
from api.kube.transport import ApiRequest, Transport
from api.process.leader import LeaderElection
from tests.api.kube.clock import ManualClock, settle, until


class LeaseServer:
    """One Lease, kept as the API server keeps it; `cut_off` names the candidates whose requests
    fail, `hanging` those whose requests are carried out late: when they are not named there any more."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.cut_off: set[str] = set()
        self.hanging: set[str] = set()
        self._requests: set[asyncio.Task[bytes]] = set()

    def take(self, who: str, call: ApiRequest) -> asyncio.Task[bytes]:
        """The answer to come."""
        request = asyncio.create_task(self._handle(who, call))
        self._requests.add(request)
        request.add_done_callback(self._requests.discard)
        return request

    async def close(self) -> None:
        """Answers what hangs."""
        self.hanging.clear()
        await asyncio.gather(*self._requests, return_exceptions=True)

    async def _handle(self, who: str, call: ApiRequest) -> bytes:
        await asyncio.sleep(0)
        if who in self.cut_off:
            raise ServerError(500, "InternalError", "cut off")
        while who in self.hanging:  # noqa: ASYNC110 - a set tells nobody of its changes
            await asyncio.sleep(0)
        return json.dumps(self.answer(call.method, json.loads(call.body or b"{}"))).encode()

    def answer(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        if method == "GET":
            if self.lease is None:
                raise NotFound(404, "NotFound", "no Lease yet")
            return self.lease
        if method == "POST" and self.lease is not None:
            raise AlreadyExists(409, "AlreadyExists", "there is one")
        if method == "PUT":
            assert self.lease is not None
            if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
                raise Conflict(409, "Conflict", "modified meanwhile")
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.lease = body
        return body

    @property
    def holder(self) -> str | None:
        return self.lease["spec"]["holderIdentity"] if self.lease else None


class Wire(Transport):
    """Straight to the server, without a network: requests take turns of the loop and the time of the test's clock, which
    never runs ahead of them however slow the machine is. One that was given up is carried out all the same."""

    def __init__(self, server: LeaseServer, clock: ManualClock, who: str, timeout: float) -> None:
        self.server, self.clock, self.who, self.timeout = server, clock, who, timeout

    async def send(self, call: ApiRequest) -> bytes:
        until = self.clock.now() + self.timeout
        answer = self.server.take(self.who, call)
        while not answer.done():
            if self.clock.now() >= until:
                raise Unreachable(0, "NoAnswer", f"{call}: no answer within {self.timeout} s")
            await asyncio.sleep(0)
        return answer.result()


class WiredKube(Kube):
    """A client with that wire."""

    def __init__(self, wire: Wire) -> None:
        super().__init__(wire)
        self.wire = wire

    def tuned(self, **changes: Any) -> Self:
        wire = self.wire
        return type(self)(Wire(wire.server, wire.clock, wire.who, changes["timeout"]))


class LeaseCandidate:
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

    def __init__(self) -> None:
        self.server, self.clock = LeaseServer(), ManualClock()
        self.candidates: list[LeaseCandidate] = []

    def leaders(self) -> list[str]:
        """Who could write right now; never more than one."""
        found = [c.election.settings.identity for c in self.candidates if c.may_write()]
        assert len(found) <= 1, f"two leaders: {found}"
        return found

    async def pass_time(self, seconds: float, step: float = 0.25) -> list[str]:
        """Lets time go by in small steps, each with requests in between; who led at the end."""
        for _ in range(int(seconds / step)):
            await self.clock.advance(step)
            await settle()
            self.leaders()
            assert sum(c.working for c in self.candidates) <= 1
        return self.leaders()

    async def lead(self, who: str) -> None:
        await until(lambda: self.leaders() == [who] and any(c.working for c in self.candidates))

    def joined_by(self, name: str) -> None:
        """One more candidate."""
        kube = WiredKube(Wire(self.server, self.clock, name, timeout=60.0))
        election = LeaderElection(kube, LeaderSettings("stowage", "controller", name), self.clock)
        self.candidates.append(LeaseCandidate(election))


@asynccontextmanager
async def race(*names: str) -> AsyncIterator[Race]:
    run = Race()
    for name in names:
        run.joined_by(name)
    try:
        yield run
    finally:
        await run.server.close()
        for candidate in run.candidates:
            await candidate.stop()


async def test_one_of_two_leads_and_keeps_leading() -> None:
    async with race("a", "b") as run:
        await until(run.leaders)
        [first] = run.leaders()
        assert await run.pass_time(60) == [first]
        assert run.server.holder == first
        assert run.server.lease is not None
        assert run.server.lease["spec"]["leaseTransitions"] == 0
        assert {c.election.leader for c in run.candidates} == {first}


@pytest.mark.parametrize("fault", ["cut_off", "hanging"])
async def test_a_leader_that_is_cut_off_stops_before_another_starts(fault: str) -> None:
    async with race("a") as run:
        await run.lead("a")
        getattr(run.server, fault).add("a")
        run.joined_by("b")
        assert await run.pass_time(7) == ["a"]  # renewed at most 2.4 s before the fault: the fence is open
        assert await run.pass_time(3.5) == []
        assert not run.candidates[0].working
        assert run.server.holder == "a"
        await run.pass_time(10)
        await run.lead("b")
        assert run.server.lease is not None
        assert run.server.lease["spec"]["leaseTransitions"] == 1


async def test_the_fence_holds_even_when_no_timer_could_run() -> None:
    async with race("a") as run:
        await run.lead("a")
        run.clock._now += 10.0  # the loop was blocked: nothing ran meanwhile
        with pytest.raises(NotLeader, match=r"lease stowage/controller of a: last proved 10\.0 s ago, allowed 10\.0 s"):
            run.candidates[0].election.fence()


@pytest.mark.parametrize("seed", range(3))
async def test_never_two_leaders_whatever_fails(seed: int) -> None:
    names, dice = ("a", "b", "c"), random.Random(seed)
    async with race(*names) as run:
        for _ in range(40):
            fault = dice.choice([run.server.cut_off, run.server.hanging])
            run.server.cut_off.clear()
            run.server.hanging.clear()
            fault.update(name for name in names if dice.random() < 0.5)
            await run.pass_time(dice.uniform(0.5, 12.0), step=0.5)
        # Who led meanwhile is chance; afterwards somebody does, and another one when that one is cut off.
        run.server.cut_off.clear()
        run.server.hanging.clear()
        [first] = await run.pass_time(30, step=0.5)
        run.server.cut_off.add(first)
        [second] = await run.pass_time(30, step=0.5)
        assert second != first


async def test_a_short_fault_is_ridden_out() -> None:
    async with race("a") as run:
        await run.lead("a")
        run.server.cut_off.add("a")
        assert await run.pass_time(5) == ["a"]
        run.server.cut_off.clear()
        assert await run.pass_time(20) == ["a"]
        assert run.candidates[0].terms == 1


async def test_a_lost_leader_stands_again() -> None:
    async with race("a") as run:
        await run.lead("a")
        run.server.cut_off.add("a")
        assert await run.pass_time(12) == []
        run.server.cut_off.clear()
        await run.pass_time(5)
        await run.lead("a")
        assert run.candidates[0].terms == 2


async def test_a_stolen_lease_ends_the_work_at_once() -> None:
    async with race("a") as run:
        await run.lead("a")
        assert run.server.lease is not None
        run.server.answer("PUT", {**run.server.lease, "spec": {**run.server.lease["spec"], "holderIdentity": "thief"}})
        assert await run.pass_time(5) == []
        assert run.server.holder == "thief"


async def test_a_leader_that_ends_gives_the_lease_back() -> None:
    async with race("a") as run:
        await run.lead("a")
        await run.candidates[0].stop()
        assert run.server.holder == ""
        run.joined_by("b")
        await run.lead("b")  # without a second going by


@pytest.mark.parametrize("error", [None, RuntimeError("a bug")], ids=["returns", "raises"])
async def test_the_work_decides_when_it_is_over(error: Exception | None) -> None:
    async with race("a") as run:
        await run.lead("a")
        candidate = run.candidates[0]
        candidate.fail = error
        candidate.finish.set()
        await until(candidate.task.done)
        assert candidate.task.exception() is error
        assert run.server.holder == ""
        candidate.task = asyncio.create_task(asyncio.sleep(0))


async def test_a_dead_leaders_lease_runs_out() -> None:
    async with race() as run:
        spec = {"holderIdentity": "dead", "leaseDurationSeconds": 15, "renewTime": "2020-01-01T00:00:00.000000Z"}
        metadata = {"name": "controller", "namespace": "stowage", "resourceVersion": "x"}
        run.server.lease = {"metadata": metadata, "spec": spec}
        run.joined_by("a")
        # However old its times look: whose clock is right is not known, so a whole duration is waited.
        assert await run.pass_time(14) == []
        await run.pass_time(4)
        await run.lead("a")


@pytest.mark.parametrize("seed", [0, 1, 30, 50, 59])
async def test_a_standby_leads_as_soon_as_the_lease_of_a_leader_that_was_killed_runs_out(seed: int) -> None:
    """It has seen the last renewal one pause after it was made at the latest, and waits for no other."""
    random.seed(seed)
    async with race("a") as run:
        await run.lead("a")
        run.joined_by("b")
        await run.pass_time(20 + random.random() * 5)
        run.server.cut_off.add("a")
        pause = LeaderSettings("", "", "").retry_period * 1.2
        assert await run.pass_time(15.0 + pause + 0.25) == ["b"]


@pytest.mark.parametrize(
    "wrong",
    [{"lease_duration": 10.0}, {"renew_deadline": 2.0}, {"retry_period": 0.0}],
    ids=lambda value: next(iter(value)),
)
def test_timing_that_could_make_two_leaders_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"lease_duration .* > renew_deadline .* > retry_period .* does not hold"):
        LeaderSettings("stowage", "controller", "a", **wrong)


async def test_a_single_replica_leads_without_a_lease() -> None:
    """Its metric says so: an alert looks for the one that leads."""
    server, led = LeaseServer(), asyncio.Event()
    clock = ManualClock()
    kube = WiredKube(Wire(server, clock, "a", timeout=60.0))
    election = LeaderElection(kube, LeaderSettings("stowage", "alone", "a"), clock)
    labels = {"lease": "alone"}

    async def lead() -> None:
        led.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(election.run_alone(lead))
    await led.wait()
    assert REGISTRY.get_sample_value("stowage_leader", labels) == 1
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert REGISTRY.get_sample_value("stowage_leader", labels) == 0
