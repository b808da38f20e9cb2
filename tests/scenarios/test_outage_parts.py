"""What goes on while the webhook is down: the controllers of jobs that are admitted start, stop and make their parts anew."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from api.kube.client import PatchKind
from api.kube.resources import JOBS, PODS
from api.names import REQUIRE_TOPOLOGY
from hack.controlplane.options import ClusterOptions
from tests.scenarios.failures import SHORT_LEASE, down
from tests.scenarios.site import RACK, Site, eventually
from tests.scenarios.stage import Stage
from tests.scenarios.tenants import prioritized

pytestmark = pytest.mark.asyncio(loop_scope="session")
ENVIRONMENT = SHORT_LEASE
CONTROL_PLANE = ClusterOptions(jobset=True)
MakeSite = Callable[[str], Site]
PREEMPTION = {"withinClusterQueue": "LowerPriority"}


async def test_without_the_webhook_a_jobset_that_was_accepted_starts(stage: Stage, site: MakeSite) -> None:
    """Its controller resumes its Jobs, with the node selectors of the admission."""
    here = site("parts-start")
    await here.open({"b1": {"r1": 1}})
    await here.submit(here.job("first", 4, {REQUIRE_TOPOLOGY: RACK}))
    await here.running("first", 4)
    await here.submit_jobset(here.jobset("second", {"work": (2, 2)}, {REQUIRE_TOPOLOGY: RACK}))
    await here.waits("second", "TopologyPlacementFailed", "")
    async with down(stage, "webhook"):
        await here.finish("first")
        await here.running("second", 4, jobset=True)


async def test_without_the_webhook_a_jobset_restarts(stage: Stage, site: MakeSite) -> None:
    """Its controller deletes its Jobs and creates others from the templates of the admitted JobSet."""
    here = site("parts-restart")
    await here.open({"b1": {"r1": 1}})
    jobset = here.jobset("gang", {"work": (2, 2)}, {REQUIRE_TOPOLOGY: RACK})
    jobset["spec"]["failurePolicy"] = {"maxRestarts": 3}
    await here.submit_jobset(jobset)
    before = await here.running("gang", 4, jobset=True)
    names = {pod["metadata"]["uid"] for pod in before}
    async with down(stage, "webhook"):
        body = {"status": {"phase": "Failed"}}
        name = before[0]["metadata"]["name"]
        await here.kube.patch(PODS, name, body, here.name, kind=PatchKind.MERGE, subresource="status")

        async def anew() -> bool:
            pods = await here.pods("gang", jobset=True)
            running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
            return len(running) == 4 and not names & {pod["metadata"]["uid"] for pod in pods}

        await eventually("the JobSet runs anew", anew)


async def test_without_the_webhook_a_jobset_is_preempted(stage: Stage, site: MakeSite) -> None:
    """Its controller suspends its Jobs, so that what evicts it starts."""
    here = site("parts-stop")
    await here.open({"b1": {"r1": 1}}, preemption=PREEMPTION)
    await here.submit_jobset(here.jobset("victim", {"work": (2, 2)}, {REQUIRE_TOPOLOGY: RACK}))
    await here.running("victim", 4, jobset=True)
    await stage.processes.crash("controller")
    await here.submit(await prioritized(here, here.job("urgent", 4), 100))
    async with down(stage, "webhook"):
        await stage.processes.restart("controller")
        await here.running("urgent", 4)
        await here.remove(JOBS, "urgent")
        await here.running("victim", 4, jobset=True)
