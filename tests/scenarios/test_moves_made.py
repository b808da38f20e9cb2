"""Jobs that allow it go to other places so that a gang gets its domain.

`fleet` is the story of a cluster without a free NVLink domain (marin#8925): small jobs of equal priority everywhere, room for
the gang in sum, and no domain whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from api.kube.resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from api.meta import find_condition, is_true, rfc3339
from api.names import (
    ADMITTED,
    BACKFILL,
    EVICTED,
    FINISHED,
    LAST_CHECKPOINT,
    MAX_EXEC_TIME_LABEL,
    MINIMUM_RUN_TIME,
    MOVABLE,
    MOVE_COST,
    MOVES_PER_DAY,
    MOVING,
    QUOTA_RESERVED,
    REQUIRE_TOPOLOGY,
)
from api.workloads import Workload
from tests.scenarios.change_watcher import Watchman, watched
from tests.scenarios.failures import SHORT_LEASE
from tests.scenarios.site import RACK, Site, eventually, never
from tests.scenarios.stage import Stage
from tests.scenarios.tenants import RECLAIM, prioritized
from tests.scenarios.test_backfill import says
from tests.scenarios.test_moves import ended, fragmented

pytestmark = pytest.mark.asyncio(loop_scope="session")
ENVIRONMENT = {**SHORT_LEASE, "STOWAGE_CONTROLLER__MOVES": "true", "STOWAGE_CONTROLLER__MOVES_AFTER": "0"}
SHARES_STAGE = True

MakeSite = Callable[[str], Site]
MAY_MOVE = {MOVABLE: "true", MINIMUM_RUN_TIME: "0s"}


def moves_of(workload: Workload | None) -> int:
    assert workload is not None
    stats = workload.status.scheduling_stats
    return sum(one.count for one in stats.evictions if one.reason == "Moved") if stats else 0


async def moved(here: Site, job: str) -> Workload:
    """The job's Workload once it has left its old place."""

    async def check() -> Workload | None:
        workload = await here.workload_of(job)
        found = None if workload is None else find_condition(workload.status.conditions, MOVING)
        return workload if found is not None and found.status == "False" else None

    return await eventually(f"{job} was moved", check)


async def unspent(here: Site, job: str) -> None:
    """No pod of the job counts as failed, so its backoffLimit of 0 is not spent."""
    found: dict[str, Any] = await here.get_job(job)
    assert not (found.get("status") or {}).get("failed")


async def fleet(here: Site, racks: int, per_rack: int, terms: dict[str, str]) -> list[str]:
    """NVLink domains of so many hosts of 4 GPUs, in each a small job of three pods on one host; returns their names."""
    await here.open({"b1": {f"r{n}": per_rack for n in range(racks)}})
    fillers = [f"filler-{n}" for n in range(racks)]
    for name in fillers:  # each leaves three GPUs of one host
        await here.submit(here.job(name, 4 * per_rack - 3, {REQUIRE_TOPOLOGY: RACK}))
        await here.running(name, 4 * per_rack - 3)
    names = [f"small-{n}" for n in range(racks)]
    for name in names:
        await here.submit(here.job(name, 3, {REQUIRE_TOPOLOGY: RACK, **terms}))
        await here.running(name, 3)
    for name in fillers:
        await ended(here, name)
    return names


async def test_a_gang_gets_its_rack_and_the_mover_runs_again(site: MakeSite) -> None:
    here = site("made")
    await fragmented(here, MAY_MOVE, waits=False)
    gang = await here.running("gang", 8)
    assert list(await here.racks(gang)) == ["b1/r2"]
    workload = await moved(here, "small")
    assert is_true(workload.status.conditions, ADMITTED)
    assert moves_of(workload) == 1
    assert sorted(await here.racks(await here.running("small", 3))) == ["b1/r1", "b1/r3"]
    await unspent(here, "small")
    assert "Evicted" not in await here.story("small")


async def test_in_a_fleet_of_small_jobs_the_gang_gets_an_nvlink_domain(site: MakeSite) -> None:
    here = site("fleet")
    names = await fleet(here, 4, 4, MAY_MOVE)
    await here.submit(here.job("gang", 16, {REQUIRE_TOPOLOGY: RACK}))
    gang = await here.racks(await here.running("gang", 16))
    assert len(gang) == 1
    for name in names:
        assert set(await here.racks(await here.running(name, 3))).isdisjoint(gang)
    assert sum([moves_of(await here.workload_of(name)) for name in names]) == 1
    workload = await here.workload_of("gang")
    assert workload is not None
    assert moves_of(workload) == 0


async def test_nothing_moves_for_a_gang_that_loses_less_until_its_reserved_start(site: MakeSite) -> None:
    here = site("reserved")
    await here.open({"b1": {"r1": 2, "r2": 1}})
    await here.change(CLUSTER_QUEUES, here.name, {"metadata": {"annotations": {BACKFILL: "true"}}}, cluster=True)
    await here.submit(here.job("filler", 4, {REQUIRE_TOPOLOGY: RACK}))
    assert list(await here.racks(await here.running("filler", 4))) == ["b1/r2"]
    small = here.job("small", 1, {REQUIRE_TOPOLOGY: RACK, **MAY_MOVE, MOVE_COST: "10h"})
    small["metadata"]["labels"][MAX_EXEC_TIME_LABEL] = "600"
    await here.submit(small)
    await here.running("small", 1)
    await ended(here, "filler")
    await here.submit(here.job("gang", 8, {REQUIRE_TOPOLOGY: RACK}))
    await eventually("the gang's moment", partial(says, here, "gang", "expected to start at "))

    async def moves() -> bool:
        workload = await here.workload_of("small")
        assert workload is not None
        return find_condition(workload.status.conditions, MOVING) is not None or moves_of(workload) > 0

    await never("the job moves", moves, 4.0)
    await here.finish("small")
    await here.running("gang", 8)
    assert not await moves()


async def test_what_has_just_been_moved_stays(site: MakeSite) -> None:
    here = site("twice")
    names = await fleet(here, 2, 2, {MOVABLE: "true", MINIMUM_RUN_TIME: "0s"})
    for name in names:
        await here.change(JOBS, name, {"metadata": {"annotations": {MINIMUM_RUN_TIME: "1h"}}})
    await here.submit(here.job("gang", 8, {REQUIRE_TOPOLOGY: RACK}))
    await here.waits("gang", "TopologyPlacementFailed", "")

    async def was_moved() -> bool:
        return any([moves_of(await here.workload_of(name)) for name in names])

    await never("a job moved within its minimum run time", was_moved, 4.0)


async def test_the_budget_of_a_queue_holds(site: MakeSite) -> None:
    here = site("budget")
    names = await fleet(here, 3, 2, MAY_MOVE)
    await here.change(CLUSTER_QUEUES, here.name, {"metadata": {"annotations": {MOVES_PER_DAY: "1"}}}, cluster=True)
    await here.submit(here.job("first", 8, {REQUIRE_TOPOLOGY: RACK}))
    await here.running("first", 8)
    await here.remove(JOBS, "first")
    assert sum([moves_of(await here.workload_of(name)) for name in names]) == 1
    for name in names:  # the room that the move freed is filled again
        assert await here.running(name, 3)


STEPS: dict[str, Callable[[Watchman], bool]] = {
    "moving": lambda seen: _is(seen, "small", MOVING, "True"),
    "at-rest": lambda seen: _is(seen, "small", MOVING, "False"),
    "gang-reserved": lambda seen: _is(seen, "gang", QUOTA_RESERVED, "True"),
}


def _is(seen: Watchman, job: str, kind: str, status: str) -> bool:
    workload = seen.workload(job)
    found = None if workload is None else find_condition(workload.status.conditions, kind)
    return found is not None and found.status == status


@pytest.mark.parametrize("step", STEPS)
async def test_a_controller_killed_while_it_moves_leaves_everybody_running(
    site: MakeSite, stage: Stage, step: str
) -> None:
    here = site(f"killed-{step}")
    async with watched(here, evicts=True) as seen:
        await fragmented(here, MAY_MOVE, waits=False)
        await seen.sees(step, STEPS[step])
        await stage.processes.crash("controller")
        await stage.processes.restart("controller")
        assert list(await here.racks(await here.running("gang", 8))) == ["b1/r2"]
        assert sorted(await here.racks(await here.running("small", 3))) == ["b1/r1", "b1/r3"]
        await unspent(here, "small")
        assert moves_of(await here.workload_of("small")) == 1
        for name in ("left", "right"):
            assert len(await here.running(name, 6)) == 6
        found = (await here.kube.list(WORKLOADS, here.name, decode=Workload)).items
        assert not any(is_true(one.status.conditions, kind) for one in found for kind in (EVICTED, FINISHED))


async def test_a_job_moves_instead_of_being_evicted(site: MakeSite) -> None:
    """The urgent job may evict any of the others; `small` has just saved its work, so its move loses the least."""
    here = site("instead")
    saved = {LAST_CHECKPOINT: rfc3339(time.time() + 60.0)}
    await fragmented(here, {**MAY_MOVE, **saved}, gang=False, preemption=RECLAIM)
    await here.submit(await prioritized(here, here.job("gang", 8, {REQUIRE_TOPOLOGY: RACK}), 100))
    assert list(await here.racks(await here.running("gang", 8))) == ["b1/r2"]
    assert sorted(await here.racks(await here.running("small", 3))) == ["b1/r1", "b1/r3"]
    workload = await here.workload_of("small")
    assert workload is not None
    assert workload.status.scheduling_stats is not None
    assert [(one.reason, one.count) for one in workload.status.scheduling_stats.evictions] == [("Moved", 1)]


async def test_one_blocker_moves_and_another_is_evicted(site: MakeSite) -> None:
    """`peer` is as important as the gang and may move; `low` may not, and is less important: neither alone helps."""
    here = site("mixed")
    await here.open({"b1": {"r1": 2, "r2": 2}}, preemption=RECLAIM)
    await here.submit(here.job("filler", 8, {REQUIRE_TOPOLOGY: RACK}))
    (other,) = await here.racks(await here.running("filler", 8))
    await here.submit(here.job("low", 3, {REQUIRE_TOPOLOGY: RACK}))
    await here.running("low", 3)
    await here.submit(await prioritized(here, here.job("peer", 3, {REQUIRE_TOPOLOGY: RACK, **MAY_MOVE}), 100))
    (rack,) = await here.racks(await here.running("peer", 3))
    await ended(here, "filler")
    await here.submit(await prioritized(here, here.job("left", 5, {REQUIRE_TOPOLOGY: RACK}), 100))
    assert list(await here.racks(await here.running("left", 5))) == [other]
    async with watched(here, evicts=True):
        await here.submit(await prioritized(here, here.job("gang", 8, {REQUIRE_TOPOLOGY: RACK}), 100))
        assert list(await here.racks(await here.running("gang", 8))) == [rack]
        assert list(await here.racks(await here.running("peer", 3))) == [other]
        await unspent(here, "peer")
        assert moves_of(await here.workload_of("peer")) == 1
        assert "Preempted" in await here.story("low")
        assert await here.running("left", 5)
        assert moves_of(await here.workload_of("low")) == 0


async def test_where_no_move_helps_the_urgent_job_evicts(site: MakeSite) -> None:
    here = site("evicts")
    await here.open({"b1": {"r1": 2}}, preemption=RECLAIM)
    await here.submit(here.job("small", 3, {REQUIRE_TOPOLOGY: RACK, **MAY_MOVE}))
    await here.running("small", 3)
    await here.submit(await prioritized(here, here.job("gang", 8, {REQUIRE_TOPOLOGY: RACK}), 100))
    await here.running("gang", 8)
    assert "Preempted" in await here.story("small")


@pytest.mark.parametrize("by", ["LocalQueue", "WorkloadPriorityClass"])
async def test_a_queue_or_a_priority_class_allows_moves_of_its_jobs(site: MakeSite, by: str) -> None:
    here = site(f"allows-{by.lower()}")
    await fragmented(here, {}, small_of=7)
    terms = {"metadata": {"annotations": MAY_MOVE}}
    if by == "LocalQueue":
        await here.change(LOCAL_QUEUES, "lq", terms)
    else:
        await here.change(WORKLOAD_PRIORITY_CLASSES, f"{here.name}-p7", terms, cluster=True)
    assert list(await here.racks(await here.running("gang", 8))) == ["b1/r2"]
    assert sorted(await here.racks(await here.running("small", 3))) == ["b1/r1", "b1/r3"]
