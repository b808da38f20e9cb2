"""Processes killed or paused at the worst moments, and two of a kind at once: the same end, and nothing wrong on the way.

Three racks of twelve GPUs, seven jobs of six pods, each to be in one rack: six run, two to a rack, and one waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from admission.cli.local_cluster.embedded import NAMESPACE
from admission.cli.local_cluster.ports import free_port
from admission.cli.local_cluster.processes import ChildProcess
from api.errors import ApiError, NotFound
from api.kube.resources import JOBS, LEASES, PODS, WORKLOADS
from api.names import REQUIRE_TOPOLOGY
from tests.scenarios.change_watcher import Watchman, watched
from tests.scenarios.failures import SHORT_LEASE, paused
from tests.scenarios.site import RACK, Site, eventually
from tests.scenarios.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")
ENVIRONMENT = SHORT_LEASE

RACKS, HOSTS, PODS_EACH, RUNNING = 3, 3, 6, 6
CRASH = itertools.count()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def here(stage: Stage) -> Site:
    """The one site of all crashes; each leaves it empty."""
    site = Site(stage.kube, "crashes")
    await site.open({"b1": {f"r{n}": HOSTS for n in range(RACKS)}})
    return site


@pytest.fixture
def names() -> list[str]:
    """Of the jobs of one crash, and of no other.

    Kubernetes' Job controller keeps by name what it still awaits of a Job that is deleted, so a Job with the name of
    an earlier one may get no pods for minutes, no matter what started it (kubernetes/kubernetes#142142).
    """
    crash = next(CRASH)
    return [f"job-{crash}-{n}" for n in range(RUNNING + 1)]


@pytest_asyncio.fixture(loop_scope="session")
async def seen(here: Site) -> AsyncIterator[Watchman]:
    """Looks on, and empties the site in the end."""
    async with watched(here) as watchman:
        yield watchman
        for name in [job["metadata"]["name"] for job in (await here.kube.list(JOBS, here.name)).items]:
            await here.kube.delete(JOBS, name, here.name, propagation="Background")
        await eventually("the site is empty", lambda: _empty(here))


async def _empty(here: Site) -> bool:
    return not any([(await here.kube.list(resource, here.name)).items for resource in (JOBS, WORKLOADS, PODS)])


async def arrive(here: Site, names: list[str]) -> None:
    """All jobs, one after the other; a job refused because the webhook does not answer is posted again, as users do."""
    for name in names:
        job = here.job(name, PODS_EACH, {REQUIRE_TOPOLOGY: RACK})
        await eventually(f"{name} accepted", partial(_accepted, here, job))


async def _accepted(here: Site, job: Mapping[str, object]) -> bool:
    try:
        await here.submit(job)
    except ApiError as refused:
        if "failed calling webhook" not in str(refused):
            raise
        return False
    return True


async def all_is_well(here: Site, seen: Watchman, names: list[str]) -> None:
    """Six jobs run, two in each rack, whole; the seventh says why it waits."""
    await seen.sees("all that fit are admitted", lambda s: len(s.admitted) == RUNNING)
    admitted = seen.admitted
    racks: Counter[str] = Counter()
    for name in admitted:
        pods = await here.running(name, PODS_EACH)
        (rack,) = {pod["spec"]["nodeName"].rsplit("-", 1)[0] for pod in pods}
        racks[rack] += 1
    assert set(racks.values()) == {2}
    (left,) = set(names) - set(admitted)
    await here.waits(left, "TopologyPlacementFailed", "doesn't allow to fit any of 6 pod(s)")


@dataclass(frozen=True)
class Crash:
    """Who is killed, and when."""

    victims: tuple[str, ...]
    moment: Callable[[Watchman], bool]
    times: int = 1


CRASHES = {
    "controller as jobs arrive": Crash(("controller",), lambda seen: seen.made >= 4),
    "controller as it admits": Crash(("controller",), lambda seen: len(seen.admitted) >= 3),
    "controller as pods come, and again": Crash(("controller",), lambda seen: seen.gated >= 1 or seen.bound >= 1, 2),
    "ungater as pods come": Crash(("ungater",), lambda seen: seen.gated >= 1 or seen.bound >= 1),
    "ungater as it opens": Crash(("ungater",), lambda seen: seen.bound >= 1),
    "webhook as jobs arrive": Crash(("webhook",), lambda seen: seen.made >= 4),
    "all three": Crash(("controller", "ungater", "webhook"), lambda seen: len(seen.admitted) >= 3),
}


@pytest.mark.parametrize("crash", [pytest.param(crash, id=name) for name, crash in CRASHES.items()])
async def test_after_a_crash_all_is_as_without(
    stage: Stage, here: Site, seen: Watchman, names: list[str], crash: Crash
) -> None:
    arriving = asyncio.create_task(arrive(here, names))
    await seen.sees("the moment of the crash", crash.moment)
    for _ in range(crash.times):
        for name in crash.victims:
            await stage.processes.crash(name)
        for name in crash.victims:
            await stage.processes.restart(name)
    await arriving
    await all_is_well(here, seen, names)


# How far the story is: Workloads made, admitted, and pods bound; in the end RUNNING + 1, RUNNING and RUNNING * PODS_EACH.
POINTS = (RUNNING + 1) + RUNNING + RUNNING * PODS_EACH


def progress(seen: Watchman) -> int:
    return seen.made + len(seen.admitted) + seen.bound


@pytest.mark.long
@pytest.mark.parametrize("victim", ["controller", "ungater", "webhook"])
@pytest.mark.parametrize("seed", range(10))
async def test_killed_anywhere_on_the_way(
    stage: Stage, here: Site, seen: Watchman, names: list[str], victim: str, seed: int
) -> None:
    """Ten random points for each process, by seed."""
    point = random.Random(f"{victim} {seed}").randrange(1, POINTS)
    crash = Crash((victim,), lambda watchman: progress(watchman) >= point)
    await test_after_a_crash_all_is_as_without(stage, here, seen, names, crash)


# ---- two of a kind


async def lease_of(stage: Stage, name: str) -> dict[str, Any]:
    """The spec of the Lease for which processes of that name stand."""
    spec: dict[str, Any] = (await stage.kube.get(LEASES, f"stowage-{name}", NAMESPACE))["spec"]
    return spec


async def leads(stage: Stage, child: ChildProcess) -> bool:
    assert child.process is not None
    try:
        spec = await lease_of(stage, child.name)
    except NotFound:  # a process is ready before it stands for the Lease
        return False
    return str(spec.get("holderIdentity")).endswith(f"_{child.process.pid}")


async def handovers_of(stage: Stage, name: str) -> int:
    """How often another process than before has taken the Lease."""
    return int((await lease_of(stage, name))["leaseTransitions"])


async def has_run_out(stage: Stage, name: str) -> bool:
    lease = await lease_of(stage, name)
    renewed = datetime.fromisoformat(lease["renewTime"])
    return datetime.now(UTC) > renewed + timedelta(seconds=lease["leaseDurationSeconds"])


@contextlib.asynccontextmanager
async def standby(stage: Stage, name: str) -> AsyncIterator[ChildProcess]:
    """A second process, beside the first one that leads."""
    first = stage.processes.children[name]
    second = replace(first, health_port=free_port(), log=first.log.with_name(f"second-{name}.log"), process=None)
    await eventually(f"the first {name} leads", lambda: leads(stage, first))
    await second.start()
    try:
        await second.ready(120)
        yield second
    finally:
        await second.stop()


async def metric(child: ChildProcess, name: str) -> Iterable[Sample]:
    """The samples of one metric of the process."""
    url = f"http://127.0.0.1:{child.health_port}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        text = await answer.text()
    return [s for family in text_string_to_metric_families(text) for s in family.samples if s.name == name]


async def writes(child: ChildProcess) -> dict[str, float]:
    """What a process has sent to the API server but reads, by verb and resource. Without Leases: where the leader is slow to
    renew its own, a standby tries to take it, and may be refused."""
    found: dict[str, float] = {}
    for sample in await metric(child, "stowage_api_requests_total"):
        if sample.labels["verb"] not in ("get", "list", "watch") and sample.labels["resource"] != "leases":
            what = f"{sample.labels['verb']} {sample.labels['resource']}"
            found[what] = found.get(what, 0) + sample.value
    return found


async def knows_that_it_does_not_lead(child: ChildProcess) -> bool:
    return {sample.value for sample in await metric(child, "stowage_leader")} == {0.0}


async def test_of_two_controllers_one_leads_and_the_other_takes_over(
    stage: Stage, here: Site, seen: Watchman, names: list[str]
) -> None:
    first = stage.processes.children["controller"]
    async with standby(stage, "controller") as second:
        arriving = asyncio.create_task(arrive(here, names))
        await seen.sees("some are admitted", lambda s: len(s.admitted) >= 3)
        assert await leads(stage, first)
        assert await writes(second) == {}, "a standby only looks on"
        assert await writes(first) != {}
        await first.stop(signal.SIGKILL)
        await eventually("the second controller leads", lambda: leads(stage, second))
        await arriving
        await all_is_well(here, seen, names)
        await stage.processes.restart("controller")
        # An orderly end gives the Lease back.
        await second.stop()
        await eventually("the first controller leads again", lambda: leads(stage, first))
        (left,) = set(names) - set(seen.admitted)
        await here.kube.delete(JOBS, seen.admitted[0], here.name, propagation="Background")
        await here.running(left, PODS_EACH)


# ---- a pause that is longer than the lease

LEADERS = pytest.mark.parametrize("name", ["controller", "ungater"])
HALF_WAY = {"controller": lambda seen: len(seen.admitted) >= 3, "ungater": lambda seen: seen.bound >= 3}


@LEADERS
async def test_who_was_paused_beyond_its_lease_stands_for_it_again(
    stage: Stage, here: Site, seen: Watchman, names: list[str], name: str
) -> None:
    arriving = asyncio.create_task(arrive(here, names))
    await seen.sees("it is half way", HALF_WAY[name])
    with paused(stage.processes.children[name]):
        await eventually("its lease has run out", lambda: has_run_out(stage, name))
    await arriving
    await all_is_well(here, seen, names)


@LEADERS
async def test_who_was_paused_beyond_its_lease_leaves_all_to_the_one_that_took_over(
    stage: Stage, here: Site, seen: Watchman, names: list[str], name: str
) -> None:
    first = stage.processes.children[name]
    async with standby(stage, name) as second:
        arriving = asyncio.create_task(arrive(here, names))
        await seen.sees("it is half way", HALF_WAY[name])
        with paused(first):
            await eventually("the second leads", lambda: leads(stage, second))
        await eventually("the first one knows", lambda: knows_that_it_does_not_lead(first))
        handovers = await handovers_of(stage, name)
        written = await writes(first)
        await arriving
        await all_is_well(here, seen, names)
        later = await writes(first)
        if (
            await handovers_of(stage, name) == handovers
        ):  # a busy machine may keep the second one from renewing its Lease
            assert later == written, "it only looks on"
            assert await leads(stage, second)
