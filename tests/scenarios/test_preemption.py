"""Who has to go for whom: quota that was lent is taken back, and a gang gets a hole of its own shape and not a pod more."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

import pytest

from admission.controllers.state.evictions import Eviction
from admission.controllers.state.evictions import evicted as after_eviction
from api.kube.client import PatchKind
from api.kube.resources import JOBS, WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from api.merge import merge_diff
from api.meta import find_condition, is_true
from api.names import ADMITTED, PREEMPTED, PRIORITY_CLASS_LABEL, QUOTA_RESERVED, REQUIRE_TOPOLOGY, EvictedReason
from api.workloads import Workload
from tests.scenarios.failures import SHORT_LEASE
from tests.scenarios.site import BLOCK, RACK, Site, eventually
from tests.scenarios.stage import Stage
from tests.scenarios.tenants import RECLAIM, evicted, prioritized, tenant, told, usage

pytestmark = pytest.mark.asyncio(loop_scope="session")
ENVIRONMENT = SHORT_LEASE
SHARES_STAGE = True

MakeSite = Callable[[str], Site]


async def test_quota_that_was_lent_is_taken_back(site: MakeSite) -> None:
    here = site("reclaim")
    await here.open({"b1": {"r1": 2, "r2": 2}}, quota=0, cohortName="reclaim")
    await tenant(here, "ours", 8, preemption=RECLAIM)
    await tenant(here, "theirs", 8, preemption=RECLAIM)
    for n in range(4):
        await here.submit(here.job(f"lent-{n}", 4, {REQUIRE_TOPOLOGY: RACK}, queue="theirs"))
    for n in range(4):
        await here.running(f"lent-{n}", 4)
    await eventually("borrowed 8 of 16", lambda: _shows(here, "theirs", {"total": "16", "borrowed": "8"}))
    await here.submit(here.job("owner", 8, {REQUIRE_TOPOLOGY: RACK}, queue="ours"))
    pods = await here.running("owner", 8)
    assert len(await here.racks(pods)) == 1
    gone = await evicted(here)
    assert len(gone) == 2
    owner = await here.workload_of("owner")
    assert owner is not None
    for workload in gone.values():
        why = find_condition(workload.status.conditions, PREEMPTED)
        assert why is not None
        assert (why.status, why.reason) == ("True", "InCohortReclamation")
        assert f"(UID: {owner.metadata.uid}, JobUID: " in why.message
        assert "preemptor path: /reclaim/reclaim-ours; preemptee path: /reclaim/reclaim-theirs" in why.message
        await eventually("it waits again", partial(_waits_again, here, workload.metadata.name))
    await eventually("nothing borrowed", lambda: _shows(here, "theirs", {"total": "8", "borrowed": "0"}))
    await eventually("events", lambda: _told(here, owner.metadata.name, {w.metadata.name for w in gone.values()}))
    # What remains stays: the two that were not evicted run on.
    for n in range(4):
        if f"lent-{n}" not in gone:
            await here.running(f"lent-{n}", 4)


async def _shows(here: Site, queue: str, wanted: Mapping[str, str]) -> bool:
    return await usage(here, queue) == wanted


async def _waits_again(here: Site, name: str) -> bool:
    workload = Workload.from_wire(await here.kube.get(WORKLOADS, name, here.name))
    states = workload.status.conditions
    return workload.status.admission is None and not is_true(states, QUOTA_RESERVED) and not is_true(states, ADMITTED)


async def _told(here: Site, preemptor: str, victims: set[str]) -> bool:
    return await told(here, "Preempted") == victims and await told(here, "PreemptedWorkload") == {preemptor}


async def test_a_new_priority_value_requeues_workloads_that_may_evict_now(site: MakeSite) -> None:
    here = site("revalued")
    await here.open({"b1": {"r1": 1}}, preemption={"withinClusterQueue": "LowerPriority"})
    await here.submit(await prioritized(here, here.job("runs", 4, {REQUIRE_TOPOLOGY: RACK}), 9))
    await here.running("runs", 4)
    await here.submit(await prioritized(here, here.job("waits", 4, {REQUIRE_TOPOLOGY: RACK}), 5))
    await here.waits("waits", "TopologyPlacementFailed", "")
    await here.kube.patch(WORKLOAD_PRIORITY_CLASSES, f"{here.name}-p9", {"value": 1}, kind=PatchKind.MERGE)
    await here.running("waits", 4)
    now = await here.workload_of("runs")
    assert now is not None
    assert now.spec.priority == 1


async def test_one_that_was_evicted_evicts_its_preemptor_once_the_priorities_have_changed(site: MakeSite) -> None:
    """A changed priority is no repetition that the guard against endless evictions should stop."""
    here = site("turned")
    await here.open({"b1": {"r1": 1}}, preemption={"withinClusterQueue": "LowerPriority"})
    await here.submit(await prioritized(here, here.job("first", 4), 5))
    await here.running("first", 4)
    await here.submit(await prioritized(here, here.job("second", 4), 9))
    await here.running("second", 4)
    await here.kube.patch(WORKLOAD_PRIORITY_CLASSES, f"{here.name}-p9", {"value": 1}, kind=PatchKind.MERGE)
    await here.running("first", 4)


async def test_a_running_job_that_names_a_lower_class_may_be_evicted_as_soon_as_that_class_is_there(
    site: MakeSite,
) -> None:
    """By label; the class is made after the Workload, and after the Job names it."""
    here = site("renamed")
    await here.open({"b1": {"r1": 1}}, preemption={"withinClusterQueue": "LowerPriority"})
    await here.submit(await prioritized(here, here.job("runs", 4, {REQUIRE_TOPOLOGY: RACK}), 9))
    await here.running("runs", 4)
    await here.submit(await prioritized(here, here.job("waits", 4, {REQUIRE_TOPOLOGY: RACK}), 5))
    await here.waits("waits", "TopologyPlacementFailed", "")
    low = f"{here.name}-low"
    await here.change(JOBS, "runs", {"metadata": {"labels": {PRIORITY_CLASS_LABEL: low}}})

    async def missed() -> bool:
        return "runs" in await told(here, "WorkloadPriorityClassNotFound")

    await eventually("it is told that the class is missing", missed)
    await here.running("runs", 4)
    await here.make(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": low}, "value": 1})
    await here.running("waits", 4)
    now = await here.workload_of("runs")
    assert now is not None
    assert now.spec.priority == 1


async def test_a_gang_of_eight_gets_racks_and_only_those_in_them_go(site: MakeSite) -> None:
    """Two blocks of two racks of one host (4 GPUs); small jobs everywhere. The gang wants one block: both racks of one."""
    here = site("gang")
    await here.open({"b1": {"r1": 1, "r2": 1}, "b2": {"r1": 1, "r2": 1}}, preemption=RECLAIM)
    # In block 2 somebody important runs: the hole has to be in block 1.
    await here.submit(await prioritized(here, here.job("important", 4, {REQUIRE_TOPOLOGY: RACK}), 1000))
    kept = await here.racks(await here.running("important", 4))
    names = [f"small-{n}" for n in range(6)]
    for name in names:
        await here.submit(here.job(name, 2, {REQUIRE_TOPOLOGY: RACK}))
    where = {name: await here.racks(await here.running(name, 2)) for name in names}
    await here.submit(await prioritized(here, here.job("gang", 8, {REQUIRE_TOPOLOGY: BLOCK}), 100))
    racks = await here.racks(await here.running("gang", 8))
    (block,) = {name.split("/")[0] for name in racks}
    assert sorted(racks.values()) == [4, 4]
    assert block not in {name.split("/")[0] for name in kept}
    gone = set(await evicted(here))
    assert gone == {name for name, racks_of in where.items() if next(iter(racks_of)).startswith(block)}
    assert len(gone) == 4
    for name in (*names, "important"):
        if name not in gone:
            assert await here.running(name, 2 if name in names else 4)


# ---- the controller dies when it has evicted some of the victims and not yet the others


async def half_done(here: Site, job: str) -> None:
    """What an eviction that was carried out has written."""
    workload = await here.workload_of(job)
    assert workload is not None
    eviction = Eviction(EvictedReason.PREEMPTED, "Preempted to accommodate a workload", preemption="InClusterQueue")
    diff = merge_diff(workload.status.to_wire(), after_eviction(workload.status, eviction, time.time()).to_wire())
    meta = workload.metadata
    body = {"status": diff}
    await here.kube.patch(WORKLOADS, meta.name, body, meta.namespace, kind=PatchKind.MERGE, subresource="status")


async def test_killed_between_two_evictions_it_finishes_what_it_had_begun(
    stage: Stage, site: Callable[[str], Site]
) -> None:
    here = site("half-evicted")
    await here.open({"b1": {"r1": 1, "r2": 1}, "b2": {"r1": 1, "r2": 1}}, preemption=RECLAIM)
    names = [f"small-{n}" for n in range(8)]
    for name in names:
        await here.submit(here.job(name, 2, {REQUIRE_TOPOLOGY: RACK}))
    where = {name: next(iter(await here.racks(await here.running(name, 2)))) for name in names}
    block = where["small-7"].split("/")[0]
    victims = sorted(name for name, rack in where.items() if rack.startswith(block))
    assert len(victims) == 4
    await stage.processes.crash("controller")
    await half_done(here, victims[1])
    await here.submit(await prioritized(here, here.job("gang", 8, {REQUIRE_TOPOLOGY: BLOCK}), 100))
    await stage.processes.restart("controller")
    racks = await here.racks(await here.running("gang", 8))
    assert set(racks) == {f"{block}/r1", f"{block}/r2"}
    assert sorted(await evicted(here)) == victims
    for name in set(names) - set(victims):
        assert await here.running(name, 2)
