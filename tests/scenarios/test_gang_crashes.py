"""The controller killed while it writes a GangGroup: its successor lets all of its gangs run, or none.

And killed as a gang runs, before it has written that: its successor sees it in the pods, also in one that was lost meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from api.kube.resources import CLUSTER_QUEUES, DEPLOYMENTS, EVENTS, POD_GROUPS, PODS, WORKLOADS
from api.meta import is_true
from api.names import ADMITTED, GANG_LABEL, GANG_MINIMUM, GANG_NAME, QUEUE_NAME_LABEL, QUOTA_RESERVED, SIGS_GANG_GROUPS
from api.workloads import Workload
from tests.scenarios.failures import SHORT_LEASE
from tests.scenarios.gangs import a_pod, create, phases, story
from tests.scenarios.site import GPU, Site, eventually, never
from tests.scenarios.stage import Stage
from tests.scenarios.test_lost_members import named, owner_of

pytestmark = pytest.mark.asyncio(loop_scope="session")
ENVIRONMENT = SHORT_LEASE
SHARES_STAGE = True

MakeSite = Callable[[str], Site]
GANGS = 8


async def reserved(here: Site) -> int:
    """How many gangs have quota."""
    found = (Workload.from_wire(each) for each in (await here.kube.list(WORKLOADS, here.name)).items)
    return sum(is_true(workload.status.conditions, QUOTA_RESERVED) for workload in found)


async def give(here: Site, quota: int) -> None:
    """The queue has so much from now on."""
    resources = [{"name": "cpu", "nominalQuota": quota}, {"name": GPU, "nominalQuota": quota}]
    groups = [{"coveredResources": ["cpu", GPU], "flavors": [{"name": here.name, "resources": resources}]}]
    await here.change(CLUSTER_QUEUES, here.name, {"spec": {"resourceGroups": groups}}, cluster=True)


async def queued(here: Site) -> bool:
    return bool((await here.kube.list(WORKLOADS, here.name)).items)


async def quota_written(here: Site) -> bool:
    return await reserved(here) > 0


async def started(here: Site) -> bool:
    found = (Workload.from_wire(each) for each in (await here.kube.list(WORKLOADS, here.name)).items)
    return any(is_true(workload.status.conditions, ADMITTED) for workload in found)


async def let_go(here: Site) -> bool:
    return sum((await phases(here)).values()) > (await phases(here))["Gated"]


@pytest.mark.parametrize(
    ("moment", "left"),
    [
        pytest.param(quota_written, GANGS, id="quota with the room that there was"),
        pytest.param(quota_written, GANGS - 1, id="quota with less room than before"),
        pytest.param(let_go, GANGS - 1, id="gates with less room than before"),
        pytest.param(queued, GANGS, id="Workloads", marks=pytest.mark.long),
        pytest.param(started, GANGS, id="checks", marks=pytest.mark.long),
        pytest.param(let_go, GANGS, id="gates", marks=pytest.mark.long),
    ],
)
async def test_killed_while_a_group_is_half_written_all_of_it_runs_or_none(
    site: MakeSite, stage: Stage, moment: Callable[[Site], Awaitable[bool]], left: int
) -> None:
    here = site(f"half-{moment.__name__.replace('_', '-')}-{left}")
    await here.open({"b1": {"r1": 2}}, quota=GANGS)
    every = json.dumps([f"{here.name}/g{i}" for i in range(GANGS)])

    def member(i: int) -> Any:
        labels = {GANG_NAME: f"g{i}", GANG_MINIMUM: "1", QUEUE_NAME_LABEL: "lq"}
        return a_pod(here, f"g{i}-0", labels, {SIGS_GANG_GROUPS: every}, gpus=1)

    await create(here, *(member(i) for i in range(GANGS)))
    await eventually(moment.__name__, lambda: moment(here))
    await stage.processes.crash("controller")
    await give(here, left)
    written = await reserved(here)
    await stage.processes.restart("controller")

    async def decided() -> bool:
        running = (await phases(here))["Running"]
        return (running == GANGS) if left == GANGS or written == GANGS else (running == 0 and await reserved(here) == 0)

    try:
        await eventually(f"all or none, {written} of {GANGS} had quota", decided)
    except AssertionError as late:
        raise AssertionError(f"{late}; {await story(here)}") from None

    async def torn() -> bool:
        return (await phases(here))["Running"] not in (0, GANGS)

    await never("some run and some do not", torn)
    await give(here, GANGS)

    async def all_run() -> bool:
        return (await phases(here))["Running"] == GANGS

    await eventually("all run", all_run)


TIMEOUT = 5
"""Seconds that a gang has to get bound: fewer than the controller takes to come back."""


async def running(here: Site) -> dict[str, dict[str, Any]]:
    """Members that run and stay, by UID."""
    found = (await here.kube.list(PODS, here.name)).items
    lasting = (p for p in found if p["metadata"]["name"] != "foreign" and not p["metadata"].get("deletionTimestamp"))
    return {pod["metadata"]["uid"]: pod for pod in lasting if pod.get("status", {}).get("phase") == "Running"}


async def evictions(here: Site) -> list[str]:
    events = (await here.kube.list(EVENTS, here.name)).items
    return [event["message"] for event in events if event["reason"].startswith("Evicted")]


@pytest.mark.parametrize("owner", ["pods", "deployment"])
async def test_a_member_lost_while_no_controller_ran_had_been_bound(site: MakeSite, stage: Stage, owner: str) -> None:
    """Its successor has no node for longer than the timeout, and the others run on."""
    if owner == "deployment" and stage.name == "embedded":
        pytest.skip("the embedded API server has no controller of Deployments")
    here = site(f"lost-unseen-{owner}")
    here.gpus_per_host = 1
    await here.open({"b": {"r": 3}})
    spec = {"minMember": 3, "scheduleTimeoutSeconds": TIMEOUT}
    await here.make(POD_GROUPS, {"metadata": {"name": "g", "namespace": here.name}, "spec": spec})
    member = a_pod(here, "p", {GANG_LABEL: "g"}, gpus=1)
    if owner == "pods":
        await create(here, *(named(member, f"p-{number}") for number in range(3)))
    else:
        await here.make(DEPLOYMENTS, owner_of(here, owner, member))

    async def all_run() -> dict[str, dict[str, Any]] | None:
        found = await running(here)
        return found if len(found) == 3 else None

    before = await eventually("all run", all_run)
    await stage.processes.crash("controller")
    lost = next(iter(before.values()))
    foreign = a_pod(here, "foreign", {}, gpus=1)
    foreign["spec"]["nodeName"] = lost["spec"]["nodeName"]
    await here.kube.delete(PODS, lost["metadata"]["name"], here.name)
    await create(here, foreign)
    if owner == "pods":
        await create(here, named(member, "p-next"))
    await stage.processes.restart("controller")
    others = before.keys() - {lost["metadata"]["uid"]}

    async def others_end() -> bool:
        return not others <= (await running(here)).keys()

    try:
        await never("the others run on", others_end, seconds=TIMEOUT + 3.0)
        await here.kube.delete(PODS, "foreign", here.name)
        after = await eventually("the successor runs", all_run)
    except AssertionError as failed:
        raise AssertionError(f"{failed}; {await story(here)}") from None
    assert others < after.keys(), await story(here)
    assert await evictions(here) == []
