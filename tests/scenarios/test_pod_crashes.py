"""The controller killed in the life of a plain pod group: its successor finds it half done, and does the rest once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from api.kube.client import PatchKind
from api.kube.resources import PODS, WORKLOADS
from api.meta import is_true
from api.names import ADMITTED, EVICTED, MANAGED_FINALIZER
from api.workloads import Workload
from tests.scenarios.failures import SHORT_LEASE
from tests.scenarios.gangs import phases, story
from tests.scenarios.site import Site, eventually
from tests.scenarios.stage import Stage
from tests.scenarios.test_plain_pods import a_member, bound

pytestmark = pytest.mark.asyncio(loop_scope="session")
ENVIRONMENT = SHORT_LEASE
SHARES_STAGE = True

MakeSite = Callable[[str], Site]
MEMBERS = 8
NAMES = [f"ring-{index}" for index in range(MEMBERS)]


async def the_workload(here: Site) -> Workload | None:
    found = (await here.kube.list(WORKLOADS, here.name)).items
    return Workload.from_wire(found[0]) if found else None


async def queued(here: Site) -> bool:
    return await the_workload(here) is not None


async def admitted(here: Site) -> bool:
    found = await the_workload(here)
    return found is not None and is_true(found.status.conditions, ADMITTED)


async def let_go(here: Site) -> bool:
    counts = await phases(here)
    return sum(counts.values()) > counts["Gated"]


async def open_for(here: Site) -> None:
    await here.open({"b1": {"r1": 2, "r2": 1}})


@pytest.mark.parametrize(
    "moment", [pytest.param(queued, marks=pytest.mark.long), pytest.param(admitted, marks=pytest.mark.long), let_go]
)
async def test_killed_while_a_group_starts_all_of_it_runs_in_its_rack(
    site: MakeSite, stage: Stage, moment: Callable[[Site], Awaitable[bool]]
) -> None:
    here = site(f"pods-{moment.__name__.replace('_', '-')}")
    await open_for(here)
    for index in range(MEMBERS):
        await here.make(PODS, a_member(here, "ring", index, MEMBERS))
    await eventually(moment.__name__, lambda: moment(here))
    await stage.processes.crash("controller")
    await stage.processes.restart("controller")
    pods = await bound(here, *NAMES)
    assert await here.racks(pods) == {"b1/r1": MEMBERS}
    assert Counter(pod["spec"]["nodeName"] for pod in pods).most_common(1)[0][1] == 4
    assert len((await here.kube.list(WORKLOADS, here.name)).items) == 1


async def test_killed_while_a_member_is_exchanged_the_new_one_takes_its_place(site: MakeSite, stage: Stage) -> None:
    here = site("pods-exchange")
    await open_for(here)
    for index in range(MEMBERS):
        await here.make(PODS, a_member(here, "ring", index, MEMBERS))
    failed = (await bound(here, *NAMES))[2]
    await stage.processes.crash("controller")
    body = {"status": {"phase": "Failed"}}
    await here.kube.patch(PODS, "ring-2", body, here.name, kind=PatchKind.MERGE, subresource="status")
    await here.make(PODS, a_member(here, "ring", 2, MEMBERS, name="again"))
    await stage.processes.restart("controller")
    (again,) = await bound(here, "again")
    assert again["spec"]["nodeName"] == failed["spec"]["nodeName"]

    async def free() -> bool:
        pod = await here.kube.get(PODS, "ring-2", here.name)
        return MANAGED_FINALIZER not in pod["metadata"].get("finalizers", [])

    await eventually("the failed one is let go", free)


async def test_killed_while_a_group_is_stopped_no_quota_is_kept_for_it(site: MakeSite, stage: Stage) -> None:
    here = site("pods-stopped")
    await open_for(here)
    for index in range(MEMBERS):
        await here.make(PODS, a_member(here, "ring", index, MEMBERS))
    await bound(here, *NAMES)
    await here.change(WORKLOADS, "ring", {"spec": {"active": False}})

    async def evicted() -> bool:
        found = await the_workload(here)
        return found is not None and is_true(found.status.conditions, EVICTED)

    await eventually("it is evicted", evicted)
    await stage.processes.crash("controller")
    await stage.processes.restart("controller")

    async def returned() -> bool:
        found = await the_workload(here)
        return found is not None and found.status.admission is None and (await phases(here))["Running"] == 0

    try:
        await eventually("its quota is back", returned)
    except AssertionError as late:
        raise AssertionError(f"{late}; {await story(here)}") from None


async def test_pods_of_a_group_deleted_one_by_one_while_gated_leave_nothing_behind(site: MakeSite) -> None:
    here = site("pods-dwindle")
    await open_for(here)
    for index in range(MEMBERS):
        await here.make(PODS, a_member(here, "wide", index, MEMBERS, gpus=4))
    await here.waits("wide-0", "TopologyPlacementFailed", "")
    for index in range(MEMBERS):
        await here.remove(PODS, f"wide-{index}")
        await here.gone(PODS, f"wide-{index}")

    async def nothing() -> bool:
        found = await the_workload(here)
        return found is None or found.status.admission is None

    await eventually("nothing holds quota", nothing)
