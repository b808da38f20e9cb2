"""Pods that the API server refuses: a gang never waits, or runs in part, without a word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from api.kube.client import PatchKind
from api.kube.resources import CLUSTER_QUEUES, LIMIT_RANGES, NAMESPACES, PODS, RESOURCE_QUOTAS
from api.meta import Condition, find_condition
from api.names import EVICTED, NOT_CREATED, REQUIRE_TOPOLOGY
from tests.scenarios.site import GPU, RACK, Site, eventually, never
from tests.scenarios.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True
ENVIRONMENT = {"STOWAGE_CONTROLLER__UNSCHEDULABLE_TIMEOUT": "10"}
MakeSite = Callable[[str], Site]
LARGE: Final = {"type": "Container", "max": {"cpu": "500m"}}


async def told(here: Site, kind: str, text: str) -> Condition | None:
    workload = await here.workload_of("gang")
    found = find_condition(workload.status.conditions, kind) if workload else None
    return found if found is not None and found.status == "True" and text in found.message else None


@pytest.fixture
def real_only(stage: Stage) -> None:
    if stage.name != "real":
        pytest.skip("the embedded API server enforces neither ResourceQuotas nor Pod Security")


@pytest.mark.usefixtures("real_only")
async def test_a_gang_whose_pods_a_resource_quota_refuses_says_so_and_goes_back_whole(site: MakeSite) -> None:
    here = site("few-pods")
    await here.open({"b1": {"r1": 2}})
    quota = {"metadata": {"name": "few", "namespace": here.name}, "spec": {"hard": {"pods": "1"}}}
    await here.make(RESOURCE_QUOTAS, quota)
    await here.submit(here.job("gang", 2, {REQUIRE_TOPOLOGY: RACK}))
    await eventually("it says so", lambda: told(here, NOT_CREATED, "exceeded quota: few"))
    await eventually("one runs", lambda: told(here, NOT_CREATED, "1 of 2 pods are not bound: "))
    await eventually("it goes back", lambda: told(here, EVICTED, "Pods were not created within 10 s"))

    async def gone() -> bool:
        return not await here.pods("gang")

    await eventually("the other pod ends", gone)


@pytest.mark.usefixtures("real_only")
async def test_a_jobset_says_so_for_the_pods_of_its_jobs(site: MakeSite) -> None:
    here = site("few-in-a-set")
    await here.open({"b1": {"r1": 2}})
    quota = {"metadata": {"name": "few", "namespace": here.name}, "spec": {"hard": {"pods": "1"}}}
    await here.make(RESOURCE_QUOTAS, quota)
    await here.submit_jobset(here.jobset("gang", {"workers": (1, 2)}, {REQUIRE_TOPOLOGY: RACK}))
    await eventually("it says so", lambda: told(here, NOT_CREATED, "exceeded quota: few"))


@pytest.mark.usefixtures("real_only")
async def test_a_gang_runs_on_once_its_pods_are_not_refused_any_more(site: MakeSite) -> None:
    here = site("secure-pods")
    await here.open({"b1": {"r1": 2}})
    label = "pod-security.kubernetes.io/enforce"
    for level in ("restricted", None):
        body = {"metadata": {"labels": {label: level}}}
        await here.kube.patch(NAMESPACES, here.name, body, kind=PatchKind.MERGE)
        if level is not None:
            await here.submit(here.job("gang", 2, {REQUIRE_TOPOLOGY: RACK}))
            await eventually("it says so", lambda: told(here, NOT_CREATED, "violates PodSecurity"))
    await here.running("gang", 2)

    async def silent() -> bool:
        return await told(here, NOT_CREATED, "") is None

    await eventually("no pod is refused any more", silent)


async def test_a_job_that_names_its_node_waits_for_that_reason(site: MakeSite) -> None:
    """Its queue's flavor has a topology, so its pods would wait for a place, which the API server refuses."""
    here = site("named-node")
    await here.open({"b1": {"r1": 1}})
    job = here.job("gang", 1)
    job["spec"]["template"]["spec"]["nodeName"] = "named-node-b1-r1-0"
    await here.submit(job)
    await here.waits("gang", "Misconfigured", "nodeName")


async def test_a_gang_that_a_limit_range_refuses_waits_for_that_reason(site: MakeSite) -> None:
    """The reason stays: a reconcile of the Workload once replaced it by PendingEvaluation."""
    here = site("small-pods")
    await here.open({"b1": {"r1": 2}})
    await here.make(LIMIT_RANGES, {"metadata": {"name": "small", "namespace": here.name}, "spec": {"limits": [LARGE]}})
    await here.submit(here.job("gang", 2, {REQUIRE_TOPOLOGY: RACK}))
    await here.waits("gang", "Misconfigured", "LimitRange")

    async def silent() -> bool:
        workload = await here.workload_of("gang")
        found = find_condition(workload.status.conditions, "QuotaReserved") if workload else None
        return found is not None and found.reason == "PendingEvaluation"

    await never("the reason was lost", silent, 3.0)
    await here.kube.delete(LIMIT_RANGES, "small", here.name)
    await here.running("gang", 2)


async def test_a_gang_whose_pods_have_all_failed_says_that_it_holds_its_quota_while_its_job_backs_off(
    site: MakeSite,
) -> None:
    """Five pods that fail together: Kubernetes waits 160 s before it replaces them, the embedded server 16 s."""
    here = site("backs-off")
    await here.open({"b1": {"r1": 2}})
    job = here.job("gang", 5, {REQUIRE_TOPOLOGY: RACK})
    job["spec"]["backoffLimit"] = 100
    await here.submit(job)
    for pod in await here.running("gang", 5):
        body = {"status": {"phase": "Failed"}}
        name = pod["metadata"]["name"]
        await here.kube.patch(PODS, name, body, here.name, kind=PatchKind.MERGE, subresource="status")
    told_ = await eventually("it says so", lambda: told(here, NOT_CREATED, "all 5 pods have gone"))
    assert "quota and hosts stay held meanwhile" in told_.message
    queue = await here.kube.get(CLUSTER_QUEUES, here.name)
    [usage] = queue["status"]["flavorsUsage"]
    assert {resource["name"]: resource["total"] for resource in usage["resources"]}[GPU] == "5"
