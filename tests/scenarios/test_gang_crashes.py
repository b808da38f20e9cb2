"""The controller killed while it writes a GangGroup: its successor lets all of its gangs run, or none."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from api.kube.resources import CLUSTER_QUEUES, WORKLOADS
from api.meta import is_true
from api.names import ADMITTED, GANG_MINIMUM, GANG_NAME, QUEUE_NAME_LABEL, QUOTA_RESERVED, SIGS_GANG_GROUPS
from api.workloads import Workload
from tests.scenarios.failures import SHORT_LEASE
from tests.scenarios.site import GPU, Site, eventually, never
from tests.scenarios.stage import Stage
from tests.scenarios.test_gangs import a_pod, create, phases, story

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
