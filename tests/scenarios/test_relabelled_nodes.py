"""A node under a running gang gets the label of another rack: the Workload says so, and the next start repairs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.kube.resources import EVENTS, NODES, WORKLOADS
from api.meta import Condition, find_condition
from api.names import LEVELS_KEPT, REQUIRE_TOPOLOGY
from tests.scenarios.site import RACK, Site, eventually
from tests.scenarios.test_node_failure import patient

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHARES_STAGE = True
MakeSite = Callable[[str], Site]


async def said(here: Site, status: str) -> Condition | None:
    workload = await here.workload_of("gang")
    found = find_condition(workload.status.conditions, LEVELS_KEPT) if workload else None
    return found if found is not None and found.status == status else None


async def relabel(here: Site, node: str, rack: str) -> None:
    await here.change(NODES, node, {"metadata": {"labels": {RACK: rack}}}, cluster=True)


def uids(pods: list[dict[str, Any]]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


async def test_a_relabelled_node_is_said_and_the_next_start_is_placed_by_the_new_labels(site: MakeSite) -> None:
    here = site("relabelled")
    await here.open({"b1": {"r1": 2, "r2": 1}})
    await here.submit(patient(here.job("gang", 2, {REQUIRE_TOPOLOGY: RACK}, gpus=4)))
    before = await here.running("gang", 2)
    moved = "relabelled-b1-r1-0"

    await relabel(here, moved, "r2")
    found = await eventually("the Workload says so", lambda: said(here, "False"))
    assert found.reason == "NodesRelabelled"
    for part in (f"require one {RACK}", "b1/r1 (1 pods)", "b1/r2 (1 pods)"):
        assert part in found.message
    await eventually("an event", lambda: event(here))

    await relabel(here, moved, "r1")
    await eventually("the level holds again", lambda: said(here, "True"))
    assert uids(await here.running("gang", 2)) == uids(before), "no pod was touched"

    await relabel(here, moved, "r2")
    await eventually("the Workload says so again", lambda: said(here, "False"))
    workload = await here.workload_of("gang")
    assert workload is not None
    await here.change(WORKLOADS, workload.metadata.name, {"spec": {"active": False}})
    await eventually("all pods are gone", lambda: stopped(here))
    await here.change(WORKLOADS, workload.metadata.name, {"spec": {"active": True}})
    assert await here.racks(await here.running("gang", 2)) == {"b1/r2": 2}
    assert await said(here, "False") is None


async def in_one_rack(here: Site) -> bool:
    """Reports whether the gang runs whole on nodes whose present labels name one rack."""
    racks = {
        node["metadata"]["name"]: node["metadata"]["labels"].get(RACK) for node in (await here.kube.list(NODES)).items
    }
    pods = [pod for pod in await here.pods("gang") if pod.get("status", {}).get("phase") == "Running"]
    return len(pods) == 2 and len({racks.get(pod["spec"]["nodeName"]) for pod in pods}) == 1


async def test_a_node_that_is_made_anew_at_once_in_another_rack_is_seen(site: MakeSite) -> None:
    """Its deletion and creation arrive together, before anything could miss it.

    Where the deletion is acted upon first, the gang has lost a pod's host and is placed again, in one rack.
    """
    here = site("made-anew")
    await here.open({"b1": {"r1": 2, "r2": 1}})
    await here.submit(patient(here.job("gang", 2, {REQUIRE_TOPOLOGY: RACK}, gpus=4)))
    await here.running("gang", 2)
    node = await here.kube.get(NODES, name := "made-anew-b1-r1-0")
    labels = {**node["metadata"]["labels"], RACK: "r2"}
    await here.kube.delete(NODES, name)
    await here.kube.create(NODES, {"metadata": {"name": name, "labels": labels}, "status": node["status"]})

    async def seen() -> bool:
        condition = await said(here, "False")
        return await in_one_rack(here) if condition is None else "b1/r2 (1 pods)" in condition.message

    await eventually("the gang is told or is in one rack", seen)


async def test_a_node_that_comes_back_in_another_rack_is_seen_when_it_is_ready(site: MakeSite) -> None:
    """Nobody knows the place of its pods while it is not ready."""
    here = site("back-elsewhere")
    await here.open({"b1": {"r1": 2, "r2": 1}})
    await here.submit(patient(here.job("gang", 2, {REQUIRE_TOPOLOGY: RACK}, gpus=4)))
    await here.running("gang", 2)
    name = "back-elsewhere-b1-r1-0"
    await here.change(NODES, name, {"spec": {"unschedulable": True}}, cluster=True)
    await relabel(here, name, "r2")
    await here.change(NODES, name, {"spec": {"unschedulable": None}}, cluster=True)
    condition = await eventually("the Workload says so", lambda: said(here, "False"))
    assert "b1/r2 (1 pods)" in condition.message


async def stopped(here: Site) -> bool:
    return not await here.pods("gang")


async def event(here: Site) -> bool:
    return any(e["reason"] == "NodesRelabelled" for e in (await here.kube.list(EVENTS, here.name)).items)
