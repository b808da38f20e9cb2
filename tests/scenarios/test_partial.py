"""Partial admission: a job that can do with fewer pods starts with those that fit, and has its own size again once stopped."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from api.kube.client import PatchKind
from api.kube.resources import WORKLOADS
from api.names import COMPLETIONS_EQUAL_PARALLELISM, MIN_PARALLELISM, REQUIRE_TOPOLOGY
from tests.scenarios import tenants
from tests.scenarios.failures import SHORT_LEASE
from tests.scenarios.site import RACK, Site, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")
ENVIRONMENT = SHORT_LEASE
SHARES_STAGE = True

MakeSite = Callable[[str], Site]


async def size(here: Site, name: str, suspended: bool, pods: int) -> bool:
    spec = (await here.get_job(name))["spec"]
    return bool(spec.get("suspend")) == suspended and spec["parallelism"] == spec["completions"] == pods


async def test_a_job_starts_with_fewer_pods_and_is_itself_again_when_stopped(site: MakeSite) -> None:
    """One rack of 8 GPUs; the job asks for 12 pods and can do with 2."""
    here = site("partial")
    await here.open({"b1": {"r1": 2}})
    said = {MIN_PARALLELISM: "2", COMPLETIONS_EQUAL_PARALLELISM: "true", REQUIRE_TOPOLOGY: RACK}
    await here.submit(here.job("elastic", 12, said))
    await here.running("elastic", 8)
    assert await size(here, "elastic", False, 8)
    workload = await here.workload_of("elastic")
    assert workload is not None
    assert workload.status.admission is not None
    assert [psa.count for psa in workload.status.admission.pod_set_assignments] == [8]
    body = {"spec": {"active": False}}
    await here.kube.patch(WORKLOADS, workload.metadata.name, body, here.name, kind=PatchKind.MERGE)
    await eventually("stopped in its own size", partial(size, here, "elastic", True, 12))
    body = {"spec": {"active": True}}
    await here.kube.patch(WORKLOADS, workload.metadata.name, body, here.name, kind=PatchKind.MERGE)
    await here.running("elastic", 8)


async def test_partial_jobs_of_two_queues_do_not_oust_each_other(site: MakeSite) -> None:
    """Each queue owns 4 of 8 GPUs, and each job asks for 5: the second starts with the 3 that are free."""
    here = site("partial-two")
    await here.open({"b1": {"r1": 2}}, quota=0, cohortName="partial-two")
    for name in ("x", "y"):
        await tenants.tenant(here, name, 4, preemption={"reclaimWithinCohort": "Any"})
    await here.submit(here.job("first", 5, {MIN_PARALLELISM: "1"}, queue="x"))
    await here.running("first", 5)
    await here.submit(here.job("second", 5, {MIN_PARALLELISM: "1"}, queue="y"))
    await here.running("second", 3)
    await here.running("first", 5)
    assert await tenants.evicted(here) == {}
