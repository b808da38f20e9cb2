"""A JobSet that was stopped starts again on another flavor: what its child jobs carry of the first must not hold it back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from api.kube.resources import JOBSETS, RESOURCE_FLAVORS, WORKLOADS
from api.meta import is_true
from api.names import EVICTED, QUOTA_RESERVED
from hack.controlplane.options import ClusterOptions
from tests.scenarios.site import BLOCK, GPU, GROUP, RACK, Site, eventually
from tests.scenarios.test_lifecycle import says

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True
CONTROL_PLANE = ClusterOptions(jobset=True)

GPUS = 4


async def test_a_jobset_moves_to_another_flavor(site: Callable[[str], Site]) -> None:
    here = site("jobset-flavors")
    # The flavors choose their nodes by labels of different keys: what is left of one is not written over by the other.
    for name, labels in (("east", {BLOCK: "b1"}), ("west", {RACK: "r2"})):
        spec = {"nodeLabels": {GROUP: here.name, **labels}}
        await here.make(RESOURCE_FLAVORS, {"metadata": {"name": f"{here.name}-{name}"}, "spec": spec})
    resources = [{"name": "cpu", "nominalQuota": 100}, {"name": GPU, "nominalQuota": GPUS}]
    flavors = [{"name": f"{here.name}-{name}", "resources": resources} for name in ("east", "west")]
    await here.open(
        {"b1": {"r1": 1}, "b2": {"r2": 1}}, resourceGroups=[{"coveredResources": ["cpu", GPU], "flavors": flavors}]
    )
    await here.submit_jobset(here.jobset("js", {"driver": (1, 1), "workers": (1, 3)}, {}))
    assert await here.racks(await here.running("js", GPUS, jobset=True)) == {"b1/r1": GPUS}
    workload = await here.admitted("js")
    await here.change(WORKLOADS, workload.metadata.name, {"spec": {"active": False}})
    await says(here, "js", EVICTED, "True", "Deactivated")

    async def rests() -> bool:
        suspended = bool((await here.get_job("js", JOBSETS))["spec"]["suspend"])
        return suspended and not await here.pods("js", jobset=True)

    await eventually("the JobSet rests", rests)

    async def quota_is_back() -> bool:
        stopped = await here.workload_of("js")
        return stopped is not None and not is_true(stopped.status.conditions, QUOTA_RESERVED)

    await eventually("its quota is given back", quota_is_back)
    await here.submit(here.job("rival", GPUS))
    assert await here.racks(await here.running("rival", GPUS)) == {"b1/r1": GPUS}
    await here.change(WORKLOADS, workload.metadata.name, {"spec": {"active": True}})
    assert await here.racks(await here.running("js", GPUS, jobset=True)) == {"b2/r2": GPUS}
