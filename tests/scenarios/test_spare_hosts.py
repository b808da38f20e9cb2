"""A gang with a spare host: nobody else gets the host, its pods go there when a node dies, and it is free in the end."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from api.kube.resources import CLUSTER_QUEUES, JOBS
from api.meta import Condition, find_condition
from api.names import HOSTS_HELD, REQUIRE_TOPOLOGY
from api.names import SPARE_HOSTS as ASKED
from tests.scenarios.site import GPU, RACK, Site, eventually
from tests.scenarios.test_explain import explain
from tests.scenarios.test_node_failure import assigned, node_dies, patient

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHARES_STAGE = True
MakeSite = Callable[[str], Site]
SPARED = {REQUIRE_TOPOLOGY: RACK, ASKED: "1"}


async def told(here: Site, job: str, status: str) -> Condition:
    """What the Workload says of its spare hosts, once it has that status."""

    async def said() -> Condition | None:
        workload = await here.workload_of(job)
        found = find_condition(workload.status.conditions, HOSTS_HELD) if workload else None
        return found if found is not None and found.status == status else None

    return await eventually(f"{job} says {status} of its spare hosts", said)


async def test_pods_of_a_dead_node_go_to_the_spare_host_that_nobody_else_got(site: MakeSite) -> None:
    here = site("spared")
    await here.open({"b1": {"r1": 3}})
    await here.submit(patient(here.job("gang", 2, SPARED, gpus=4)))
    before = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in await here.running("gang", 2)}
    [spare] = {f"spared-b1-r1-{n}" for n in range(3)} - set(before.values())
    assert (await told(here, "gang", "True")).message == f"main: {spare}"
    await here.submit(here.job("other", 1, {REQUIRE_TOPOLOGY: RACK}))
    await here.waits("other", "TopologyPlacementFailed", "doesn't allow to fit any of 1 pod(s)")

    assert f"spare hosts, free of pods: main: {spare}" in await explain(here, "gang", as_json=False)
    gang, found = await here.workload_of("gang"), json.loads(await explain(here, "other"))
    assert gang is not None
    changes = [remedy["changes"] for remedy in found["remedies"]]
    assert [{"kind": "Finish", "workloads": [gang.key]}] in changes, "the spare host is free when the gang has ended"

    dead, kept = sorted(before.values())
    await node_dies(here, dead)
    after = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in await here.running("gang", 2)}
    assert sorted(after.values()) == sorted([kept, spare])
    assert {name for name, node in before.items() if node == kept} <= after.keys(), "the other pod was not touched"
    workload = await here.workload_of("gang")
    assert workload is not None
    assert assigned(workload) == {kept: 1, spare: 1}
    assert "1 of 1 spare host(s) not held" in (await told(here, "gang", "False")).message

    await here.add_nodes({"b1": {"r1": 4}})
    await told(here, "gang", "True")
    await here.remove(JOBS, "gang")
    await here.running("other", 1)


async def test_quota_counts_the_spare_host(site: MakeSite) -> None:
    here = site("spare-quota")
    await here.open({"b1": {"r1": 4}}, quota=11)
    await here.submit(here.job("gang", 2, SPARED, gpus=4))
    await here.waits("gang", "WaitingForQuota", "1 spare host(s)")
    await here.submit(here.job("plain", 2, {REQUIRE_TOPOLOGY: RACK}, gpus=4))
    await here.running("plain", 2)


async def test_the_status_of_the_queue_counts_the_spare_host(site: MakeSite) -> None:
    here = site("spare-usage")
    await here.open({"b1": {"r1": 3}}, quota=12)
    await here.submit(here.job("gang", 2, SPARED, gpus=4))
    await here.running("gang", 2)

    async def counted() -> bool:
        status = (await here.kube.get(CLUSTER_QUEUES, here.name))["status"]
        used = {one["name"]: one["total"] for one in status["flavorsUsage"][0]["resources"]}
        return used == {"cpu": "3", GPU: "12"}

    await eventually("the queue shows it", counted)
