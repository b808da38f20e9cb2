"""Fair sharing on: who came late gets its share of what is lent, by weight, and the shares stand in the status."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from api.kube.resources import CLUSTER_QUEUES, COHORTS, RESOURCE_FLAVORS
from tests.scenarios import quota_shares, tenants
from tests.scenarios.site import GPU, GROUP, RACK, Site, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")
ENVIRONMENT = {"STOWAGE_FAIR_SHARING__ENABLE": "true"}

GPUS = 16
WEIGHTS = {"three": 3, "one": 1}
"""Of the tenants, by LocalQueue."""


async def opened(here: Site, gpus: int) -> None:
    """So many GPUs belong to the cohort alone; both tenants live on what it lends."""
    await here.open({"b1": {"r1": gpus // 8, "r2": gpus // 8}}, quota=0, cohortName=here.name)
    resources = [{"name": "cpu", "nominalQuota": 1000}, {"name": GPU, "nominalQuota": gpus}]
    groups = [{"coveredResources": ["cpu", GPU], "flavors": [{"name": here.name, "resources": resources}]}]
    await here.make(COHORTS, {"metadata": {"name": here.name}, "spec": {"resourceGroups": groups}})
    for name, weight in WEIGHTS.items():
        await tenants.tenant(here, name, 0, preemption=tenants.RECLAIM, fairSharing={"weight": str(weight)})


async def test_the_latecomer_gets_three_quarters(site: Callable[[str], Site]) -> None:
    """Sixteen GPUs, and both tenants want all of them."""
    here = site("shares")
    await opened(here, GPUS)
    for n in range(GPUS):
        await here.submit(here.job(f"one-{n}", 1, queue="one"))
    await eventually("all of it", lambda: _uses(here, {"one": GPUS, "three": 0}))
    for n in range(GPUS):
        await here.submit(here.job(f"three-{n}", 1, queue="three"))
    await eventually("12 to 4", lambda: _uses(here, {"one": 4, "three": 12}))
    await eventually("the shares of both", lambda: _shares(here, {"one": 250, "three": 250}))
    assert len(await tenants.evicted(here)) == 12
    cohort = await here.kube.get(COHORTS, "shares")
    assert cohort["status"]["fairSharing"] == {"weightedShare": 0}, "a root borrows of nobody"


async def play(
    here: Site, each: int, gpus: int, pods: tuple[int, int], seconds: tuple[int, int]
) -> quota_shares.QuotaShares:
    """`each` jobs of the smaller tenant and three times as many of the other, all there at once.

    Each has so many pods and runs for so many seconds (from, to).
    """
    random, jobs = Random(7), []
    for name, weight in WEIGHTS.items():
        for n in range(weight * each):
            length = f"{random.randint(*seconds)}s"
            jobs.append(here.job(f"{name}-{n}", random.randint(*pods), queue=name, run_for=length))
    random.shuffle(jobs)
    await opened(here, gpus)
    async with quota_shares.watched(here.kube, here.name, *WEIGHTS) as held:
        for start in range(0, len(jobs), 20):
            await asyncio.gather(*(here.submit(job) for job in jobs[start : start + 20]))

        async def ended() -> bool:
            return held.finished == len(jobs)

        await eventually("all jobs have ended", ended, seconds=len(jobs) * 4 + 60.0)
    print(quota_shares.told(held, WEIGHTS))
    return held


async def test_both_hold_their_shares_while_jobs_come_and_go(site: Callable[[str], Site]) -> None:
    held = await play(site("turns"), each=20, gpus=16, pods=(1, 1), seconds=(2, 4))
    assert 2.25 <= held.ratio("three", "one") <= 3.75


@pytest.mark.long
async def test_both_hold_their_shares_within_a_tenth_over_500_jobs(site: Callable[[str], Site]) -> None:
    held = await play(site("turns-500"), each=125, gpus=64, pods=(1, 3), seconds=(4, 12))
    assert 2.7 <= held.ratio("three", "one") <= 3.3


async def test_a_cohort_reclaims_its_own_quota_although_its_queue_borrows_in_another_flavor(
    site: Callable[[str], Site],
) -> None:
    """The left cohort owns rack r1, the right one r2; their queues own nothing. The left queue borrows r2 and so has the larger
    share, and it gets r1 back all the same.
    """
    here = site("own-quota")
    await here.open({"b1": {"r1": 1, "r2": 1}}, levels=())
    flavors = [f"{here.name}-{rack}" for rack in RACKS]
    for flavor, rack in zip(flavors, RACKS, strict=True):
        of_rack = {"nodeLabels": {GROUP: here.name, RACK: rack}}
        await here.make(RESOURCE_FLAVORS, {"metadata": {"name": flavor}, "spec": of_rack})
    await here.make(COHORTS, {"metadata": {"name": here.name}, "spec": {}})
    for side, owned in (("left", [4, 0]), ("right", [0, 4])):
        spec = {"parentName": here.name, "resourceGroups": _groups(flavors, owned)}
        await here.make(COHORTS, {"metadata": {"name": f"{here.name}-{side}"}, "spec": spec})
        queue = {"resourceGroups": _groups(flavors, [0, 0]), "cohortName": f"{here.name}-{side}"}
        await tenants.tenant(here, side, 0, preemption=tenants.RECLAIM, **queue)
    await here.submit(_in_rack(here, "borrows-r2", "left", "r2"))
    await here.running("borrows-r2", 4)
    await here.submit(_in_rack(here, "takes-r1", "right", "r1"))
    await here.running("takes-r1", 4)
    await here.submit(_in_rack(here, "wants-its-own", "left", "r1"))
    await here.running("wants-its-own", 4)
    assert set(await tenants.evicted(here)) == {"takes-r1"}
    await here.running("borrows-r2", 4)


RACKS = ("r1", "r2")


def _groups(flavors: list[str], gpus: list[int]) -> list[dict[str, Any]]:
    """Quota of so many GPUs in each flavor."""
    amounts = [[{"name": "cpu", "nominalQuota": owned}, {"name": GPU, "nominalQuota": owned}] for owned in gpus]
    listed = [{"name": name, "resources": each} for name, each in zip(flavors, amounts, strict=True)]
    return [{"coveredResources": ["cpu", GPU], "flavors": listed}]


def _in_rack(here: Site, name: str, queue: str, rack: str) -> dict[str, Any]:
    job = here.job(name, 4, queue=queue)
    job["spec"]["template"]["spec"]["nodeSelector"] = {RACK: rack}
    return job


async def _uses(here: Site, wanted: dict[str, int]) -> bool:
    used = {name: await tenants.usage(here, name) for name in wanted}
    return used == {name: {"total": str(n), "borrowed": str(n)} for name, n in wanted.items()}


async def _shares(here: Site, wanted: dict[str, int]) -> bool:
    found = {name: await here.kube.get(CLUSTER_QUEUES, f"{here.name}-{name}") for name in wanted}
    return {
        name: queue["status"].get("fairSharing", {}).get("weightedShare") for name, queue in found.items()
    } == wanted
