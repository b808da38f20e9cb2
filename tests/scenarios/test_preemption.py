"""Who has to go for whom: quota that was lent is taken back, and a gang gets a hole of its own shape and not a pod more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from api.kube.resources import CLUSTER_QUEUES, EVENTS, LOCAL_QUEUES, WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from api.meta import find_condition, is_true
from api.names import ADMITTED, PREEMPTED, PRIORITY_CLASS_LABEL, QUOTA_RESERVED, REQUIRE_TOPOLOGY
from api.workloads import Workload
from tests.scenarios.site import BLOCK, GPU, RACK, Site, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

MakeSite = Callable[[str], Site]

RECLAIM = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}


async def tenant(here: Site, name: str, quota: int, **queue: Any) -> None:
    """A ClusterQueue of the site's cohort with so many GPUs, and the LocalQueue `name` that leads to it."""
    resources = [{"name": "cpu", "nominalQuota": 1000}, {"name": GPU, "nominalQuota": quota}]
    groups = [{"coveredResources": ["cpu", GPU], "flavors": [{"name": here.name, "resources": resources}]}]
    spec = {"namespaceSelector": {}, "resourceGroups": groups, "cohortName": here.name, **queue}
    await here.make(CLUSTER_QUEUES, {"metadata": {"name": f"{here.name}-{name}"}, "spec": spec})
    local = {"metadata": {"name": name, "namespace": here.name}, "spec": {"clusterQueue": f"{here.name}-{name}"}}
    await here.make(LOCAL_QUEUES, local)


async def prioritized(here: Site, job: dict[str, Any], value: int) -> dict[str, Any]:
    """The job with a priority class of that value."""
    name = f"{here.name}-p{value}"
    await here.make(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
    job["metadata"]["labels"][PRIORITY_CLASS_LABEL] = name
    return job


async def evicted(here: Site) -> dict[str, Workload]:
    """By job: the Workloads of the site that were ever preempted."""
    page = await here.kube.list(WORKLOADS, here.name)
    found = [Workload.from_wire(item) for item in page.items]
    return {
        w.metadata.owner_references[0].name: w
        for w in found
        if find_condition(w.status.conditions, PREEMPTED) is not None
    }


async def told(here: Site, reason: str) -> Counter[str]:
    """How often something was told about each Workload."""
    events = (await here.kube.list(EVENTS, here.name)).items
    return Counter(
        e["involvedObject"]["name"] for e in events if e["reason"] == reason for _ in range(e.get("count", 1))
    )


async def usage(here: Site, queue: str, field: str = "flavorsReservation") -> Mapping[str, str]:
    """Total and borrowed GPUs in the status of a ClusterQueue."""
    found = await here.kube.get(CLUSTER_QUEUES, f"{here.name}-{queue}")
    flavors = (found.get("status") or {}).get(field) or [{"resources": []}]
    return next(({k: r[k] for k in ("total", "borrowed")} for r in flavors[0]["resources"] if r["name"] == GPU), {})


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
    on_victims = set(await told(here, "Preempted"))
    return on_victims == victims and set(await told(here, "PreemptedWorkload")) == {preemptor}


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
