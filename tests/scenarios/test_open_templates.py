"""The fast path, controller.openTemplates: the pods of a job that goes to one rack are made open, not one is patched."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from api.errors import NotFound
from api.kube.resources import NODES, PODS, WORKLOADS
from api.meta import find_condition, is_true
from api.names import ADMITTED, EVICTED, HOSTNAME_LABEL, REQUIRE_TOPOLOGY, TOPOLOGY_GATE
from tests.scenarios.site import BLOCK, RACK, Site, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")
GATE = {"name": TOPOLOGY_GATE}
ENVIRONMENT = {"STOWAGE_CONTROLLER__OPEN_TEMPLATES": "true"}


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


async def test_a_job_of_one_host_restarts_on_another_with_the_same_admission(site: Callable[[str], Site]) -> None:
    """Its template names the host, so that no pod needs a patch; and a template can't follow."""
    here = site("dead-host")
    await here.open({"b1": {"r1": 2}})
    job = here.job("one", 2, {REQUIRE_TOPOLOGY: RACK}, gpus=2)
    job["spec"]["backoffLimit"] = 6
    await here.submit(job)
    dead, same = [pod["spec"]["nodeName"] for pod in await here.running("one", 2)]
    assert dead == same
    assert (await here.get_job("one"))["spec"]["template"]["spec"]["nodeSelector"][HOSTNAME_LABEL] == dead
    await here.kube.delete(NODES, dead)
    for pod in (await here.kube.list(PODS, here.name)).items:
        with contextlib.suppress(NotFound):
            await here.kube.delete(PODS, pod["metadata"]["name"], here.name, grace_seconds=0)
    [spare] = {f"dead-host-b1-r1-{n}" for n in range(2)} - {dead}
    assert [pod["spec"]["nodeName"] for pod in await here.running("one", 2)] == [spare, spare]
    workload = await here.workload_of("one")
    assert workload is not None
    assert workload.status.unhealthy_nodes == ()
    assert is_true(workload.status.conditions, ADMITTED)
    assert find_condition(workload.status.conditions, EVICTED) is None
