"""JobSets whose Jobs start or end one after the other: the gang is admitted whole, and its later pods find their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.embedded.workers.kubelet import RUN_FOR
from api.kube.client import PatchKind
from api.kube.resources import PODS
from api.meta import find_condition
from api.names import EVICTED, FINISHED, REQUIRE_TOPOLOGY
from tests.scenarios.site import RACK, Site, eventually, never
from tests.scenarios.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True
ENVIRONMENT = {"STOWAGE_CONTROLLER__UNSCHEDULABLE_TIMEOUT": "5"}
MakeSite = Callable[[str], Site]


@pytest.fixture(autouse=True)
def real_only(stage: Stage) -> None:
    if stage.name != "real":
        pytest.skip("JobSets of the embedded API server start their Jobs in any order")


def a_jobset(here: Site, gpus: int = 1, **spec: Any) -> dict[str, Any]:
    """A driver and two workers, one pod each."""
    jobset = here.jobset("gang", {"driver": (1, 1), "workers": (2, 1)}, {REQUIRE_TOPOLOGY: RACK})
    for job in jobset["spec"]["replicatedJobs"]:
        job["template"]["spec"]["template"] = here.template(gpus)
    jobset["spec"].update(spec)
    return jobset


async def evicted(here: Site) -> bool:
    workload = await here.workload_of("gang")
    return workload is None or find_condition(workload.status.conditions, EVICTED) is not None


async def workers(here: Site) -> list[dict[str, Any]]:
    return [pod for pod in await here.running("gang", 3, jobset=True) if "workers" in pod["metadata"]["name"]]


async def test_jobs_wait_for_the_end_of_another_while_their_rack_is_held(site: MakeSite) -> None:
    here = site("after-the-end")
    await here.open({"b1": {"r1": 3, "r2": 1}})
    jobset = a_jobset(here, gpus=4)
    jobset["spec"]["replicatedJobs"][1]["dependsOn"] = [{"name": "driver", "status": "Complete"}]
    await here.submit_jobset(jobset)
    (driver,) = await here.running("gang", 1, jobset=True)
    await here.submit(here.job("other", 1, {REQUIRE_TOPOLOGY: RACK}, gpus=4))
    await here.running("other", 1)
    await never("evicted for pods that are not made yet", lambda: evicted(here), 8)
    body = {"metadata": {"annotations": {RUN_FOR: "1ms"}}}
    await here.kube.patch(PODS, driver["metadata"]["name"], body, here.name, kind=PatchKind.MERGE)
    assert await here.racks(await here.running("gang", 2, jobset=True)) == {"b1/r1": 2}


@pytest.mark.parametrize("how", ["dependsOn", "startupPolicy"])
async def test_jobs_wait_until_another_is_ready(site: MakeSite, how: str) -> None:
    here = site(f"after-ready-{how.lower()}")
    await here.open({"b1": {"r1": 3, "r2": 1}})
    jobset = a_jobset(here, gpus=4)
    if how == "dependsOn":
        jobset["spec"]["replicatedJobs"][1]["dependsOn"] = [{"name": "driver", "status": "Ready"}]
    else:
        jobset["spec"]["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    await here.submit_jobset(jobset)
    assert await here.racks(await workers(here)) == {"b1/r1": 2}
    assert not await evicted(here)


async def test_a_jobset_that_ends_with_its_driver_gives_its_rack_back(site: MakeSite) -> None:
    here = site("driver-ends")
    await here.open({"b1": {"r1": 3}})
    jobset = a_jobset(here, successPolicy={"operator": "All", "targetReplicatedJobs": ["driver"]})
    jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"] = here.template(1, "2s")
    await here.submit_jobset(jobset)

    async def succeeded() -> bool:
        workload = await here.workload_of("gang")
        found = find_condition(workload.status.conditions, FINISHED) if workload else None
        return found is not None and found.reason == "Succeeded"

    await eventually("it has finished", succeeded)
    await here.submit(here.job("next", 3, {REQUIRE_TOPOLOGY: RACK}, gpus=4))
    await here.running("next", 3)


async def test_a_jobset_that_restarts_keeps_its_admission(site: MakeSite) -> None:
    here = site("restarts")
    await here.open({"b1": {"r1": 3}})
    await here.submit_jobset(a_jobset(here, failurePolicy={"maxRestarts": 2}))
    first = await here.running("gang", 3, jobset=True)
    failed = {"status": {"phase": "Failed"}}
    name = first[0]["metadata"]["name"]
    await here.kube.patch(PODS, name, failed, here.name, kind=PatchKind.MERGE, subresource="status")
    before = {pod["metadata"]["uid"] for pod in first}

    async def again() -> bool:
        pods = [pod for pod in await here.pods("gang", jobset=True) if pod["status"].get("phase") == "Running"]
        return len(pods) == 3 and before.isdisjoint(pod["metadata"]["uid"] for pod in pods)

    await eventually("all three pods run anew", again)
    assert not await evicted(here)
