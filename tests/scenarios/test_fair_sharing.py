"""Fair sharing on: who came late gets its share of what is lent, by weight, and the shares stand in the status."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from api.kube.resources import CLUSTER_QUEUES, COHORTS
from tests.scenarios import tenants
from tests.scenarios.site import GPU, Site, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
ENVIRONMENT = {"STOWAGE_FAIR_SHARING__ENABLE": "true"}

GPUS = 16


async def test_the_latecomer_gets_three_quarters(site: Callable[[str], Site]) -> None:
    """Sixteen GPUs belong to the cohort alone; both tenants want all of them, and neither owns any."""
    here = site("shares")
    await here.open({"b1": {"r1": 2, "r2": 2}}, quota=0, cohortName="shares")
    resources = [{"name": "cpu", "nominalQuota": 1000}, {"name": GPU, "nominalQuota": GPUS}]
    groups = [{"coveredResources": ["cpu", GPU], "flavors": [{"name": here.name, "resources": resources}]}]
    await here.make(COHORTS, {"metadata": {"name": "shares"}, "spec": {"resourceGroups": groups}})
    for name, weight in (("three", 3), ("one", 1)):
        await tenants.tenant(here, name, 0, preemption=tenants.RECLAIM, fairSharing={"weight": str(weight)})
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


async def _uses(here: Site, wanted: dict[str, int]) -> bool:
    used = {name: await tenants.usage(here, name) for name in wanted}
    return used == {name: {"total": str(n), "borrowed": str(n)} for name, n in wanted.items()}


async def _shares(here: Site, wanted: dict[str, int]) -> bool:
    found = {name: await here.kube.get(CLUSTER_QUEUES, f"{here.name}-{name}") for name in wanted}
    return {
        name: queue["status"].get("fairSharing", {}).get("weightedShare") for name, queue in found.items()
    } == wanted
