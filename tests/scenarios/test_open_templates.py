"""A job that goes to one rack as a whole, where racks are the lowest level: its pods are made open, not one is patched."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from api.kube.resources import WORKLOADS
from api.names import REQUIRE_TOPOLOGY, TOPOLOGY_GATE
from tests.scenarios.site import BLOCK, RACK, Site, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
GATE = {"name": TOPOLOGY_GATE}


async def test_the_template_names_the_rack_and_is_itself_again_after_a_stop(site: Callable[[str], Site]) -> None:
    here = site("open")
    await here.open({"b1": {"r1": 2, "r2": 2}}, levels=(BLOCK, RACK))
    await here.submit(here.job("job", 8, {REQUIRE_TOPOLOGY: RACK}))
    pods = await here.running("job", 8)
    (rack,) = await here.racks(pods)
    template = (await here.get_job("job"))["spec"]["template"]["spec"]
    assert f"{template['nodeSelector'][BLOCK]}/{template['nodeSelector'][RACK]}" == rack
    assert GATE not in template.get("schedulingGates", [])

    workload = await here.workload_of("job")
    assert workload is not None
    await here.change(WORKLOADS, workload.metadata.name, {"spec": {"active": False}})

    async def restored() -> bool:
        spec = (await here.get_job("job"))["spec"]
        now = spec["template"]["spec"]
        return (
            bool(spec["suspend"]) and GATE in now.get("schedulingGates", []) and RACK not in now.get("nodeSelector", {})
        )

    await eventually("the job is suspended, with its own template", restored)
    await here.change(WORKLOADS, workload.metadata.name, {"spec": {"active": True}})
    assert len(await here.racks(await here.running("job", 8))) == 1
