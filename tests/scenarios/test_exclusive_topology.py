"""A JobSet or LeaderWorkerSet with its kind's exclusive placement waits with a reason where a topology assigns the pods.

The webhook rejects it; these are older than their queue, of which the webhook knew no topology then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from api.kube.resources import JOBS, JOBSETS, LEADER_WORKER_SETS, NAMESPACES, WORKLOADS
from api.meta import find_condition
from api.names import (
    JOBSET_EXCLUSIVE_TOPOLOGY,
    LWS_EXCLUSIVE_TOPOLOGY,
    QUEUE_NAME_LABEL,
    QUOTA_RESERVED,
    SLICE_REQUIRED_TOPOLOGY,
)
from api.workloads import Workload
from hack.controlplane.options import ClusterOptions
from tests.scenarios.set_controllers import LeaderWorkerSets, running
from tests.scenarios.site import RACK, Site, eventually
from tests.scenarios.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True
CONTROL_PLANE = ClusterOptions(lws=True)
MakeSite = Callable[[str], Site]


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def controller(stage: Stage) -> AsyncIterator[None]:
    async with running(*((LeaderWorkerSets(stage.kube),) if stage.name == "embedded" else ())):
        yield


async def told(here: Site, key: str) -> bool:
    """All Workloads wait and name the annotation and what to set instead."""
    workloads = [Workload.from_wire(each) for each in (await here.kube.list(WORKLOADS, here.name)).items]
    conditions = [find_condition(each.status.conditions, QUOTA_RESERVED) for each in workloads]
    return bool(conditions) and all(
        found is not None and (found.status, found.reason) == ("False", "Misconfigured") and said in found.message
        for found in conditions
        for said in (f"annotation {key} is not supported", SLICE_REQUIRED_TOPOLOGY)
    )


async def gone(here: Site) -> bool:
    return not (await here.kube.list(JOBSETS, here.name)).items and not (await here.kube.list(JOBS, here.name)).items


async def test_a_jobset_that_is_older_than_its_queue_waits_until_it_is_made_without_its_own_placement(
    site: MakeSite,
) -> None:
    """Its child Jobs keep the annotation that they were created with."""
    here = site("exclusive-jobset")
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    jobset = here.jobset("js", {"w": (2, 2)}, {JOBSET_EXCLUSIVE_TOPOLOGY: RACK})
    await here.submit_jobset(jobset)
    await here.open({"b1": {"r1": 1, "r2": 1}})
    await eventually("the Workload says so", lambda: told(here, JOBSET_EXCLUSIVE_TOPOLOGY))
    await here.remove(JOBSETS, "js")
    await eventually("the JobSet is gone", lambda: gone(here))
    await here.submit_jobset(here.jobset("js", {"w": (2, 2)}, {}))
    await here.running("js", 4, jobset=True)


async def test_a_leaderworkerset_that_is_older_than_its_queue_waits(site: MakeSite) -> None:
    here = site("exclusive-lws")
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    template = here.template()
    template["spec"]["restartPolicy"] = "Always"
    meta: dict[str, Any] = {"name": "lws", "namespace": here.name, "labels": {QUEUE_NAME_LABEL: "lq"}}
    meta["annotations"] = {LWS_EXCLUSIVE_TOPOLOGY: RACK}
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}}
    await here.make(LEADER_WORKER_SETS, {"metadata": meta, "spec": spec})
    await here.open({"b1": {"r1": 1, "r2": 1}})
    await eventually("the Workloads say so", lambda: told(here, LWS_EXCLUSIVE_TOPOLOGY))
