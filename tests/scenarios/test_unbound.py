"""What no node takes after its gate was opened is said in its Workload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.kube.client import PatchKind
from api.kube.resources import EVENTS, NODES, PODS
from api.meta import Condition, find_condition
from api.names import EVICTED, HOSTNAME_LABEL, QUOTA_RESERVED, REQUIRE_TOPOLOGY, UNSCHEDULABLE
from api.workloads import Workload
from tests.scenarios.site import RACK, Site, eventually
from tests.scenarios.test_node_failure import patient
from tests.scenarios.test_snatched_places import approve, opened, place, snatched, workload_with

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHARES_STAGE = True
MakeSite = Callable[[str], Site]


async def said(here: Site, status: str) -> Condition | None:
    workload = await here.workload_of("gang")
    found = find_condition(workload.status.conditions, UNSCHEDULABLE) if workload else None
    return found if found is not None and found.status == status else None


def foreign(here: Site, host: str) -> dict[str, Any]:
    """A pod of a user whose namespace is not managed, waiting for the whole host."""
    spec = {**here.template(4)["spec"], "nodeSelector": {HOSTNAME_LABEL: host}}
    return {"metadata": {"name": "foreign", "namespace": here.name}, "spec": spec}


async def test_a_pod_whose_place_is_taken_from_elsewhere_is_named_until_it_is_bound(site: MakeSite) -> None:
    here = site("taken-place")
    await here.open({"b1": {"r1": 2}})
    await here.submit(patient(here.job("gang", 2, {REQUIRE_TOPOLOGY: RACK}, gpus=4)))
    first, second = await here.running("gang", 2)
    # It waits for the host already, so that it is first when a pod of the gang is lost.
    await here.make(PODS, foreign(here, first["spec"]["nodeName"]))
    await here.kube.delete(PODS, first["metadata"]["name"], here.name, grace_seconds=0)
    found = await eventually("told", lambda: said(here, "True"))
    assert "no node takes 1 pod after the gate was opened (gang-0" in found.message
    assert "Insufficient nvidia.com/gpu" in found.message
    await eventually("an event", lambda: _event(here))
    await here.kube.delete(PODS, "foreign", here.name, grace_seconds=0)
    await eventually("all are bound", lambda: said(here, "False"))
    names = {pod["metadata"]["name"] for pod in await here.running("gang", 2)}
    assert second["metadata"]["name"] in names, "the other one was not touched"


async def _event(here: Site, reason: str = "PodsUnschedulable") -> bool:
    return any(e["reason"] == reason for e in (await here.kube.list(EVENTS, here.name)).items)


async def test_a_pod_whose_place_is_taken_from_elsewhere_gets_another_and_the_others_run_on(site: MakeSite) -> None:
    """Its place is given up and another found in the rack; the one pod is replaced."""
    here = site("given-up-place")
    await here.open({"b1": {"r1": 3, "r2": 3}})
    await here.submit(patient(here.job("gang", 2, {REQUIRE_TOPOLOGY: RACK}, gpus=4)))
    first, second = await here.running("gang", 2)
    [rack] = await here.racks([first])
    await here.make(PODS, foreign(here, first["spec"]["nodeName"]))
    await here.kube.delete(PODS, first["metadata"]["name"], here.name, grace_seconds=0)
    await eventually("told", lambda: said(here, "True"))
    await eventually("it has another place", lambda: _event(here, "PodsDisplaced"))
    pods = await here.running("gang", 2)
    assert await here.racks(pods) == {rack: 2}
    assert second["metadata"]["uid"] in {pod["metadata"]["uid"] for pod in pods}, "the other one was not touched"
    await eventually("nothing is refused any more", lambda: said(here, "False"))
    workload = await here.workload_of("gang")
    assert workload is not None
    assert find_condition(workload.status.conditions, EVICTED) is None


async def test_a_place_that_is_snatched_before_the_pod_is_bound_is_given_up_for_another(site: MakeSite) -> None:
    """As above, with a foreign pod that comes between the decision and the binding."""
    here = site("snatched-place")
    await opened(here)
    await here.submit(patient(here.job("gang", 2, {REQUIRE_TOPOLOGY: RACK}, gpus=4)))
    workload = await eventually("its place is decided", lambda: workload_with(here, QUOTA_RESERVED))
    _, rack = await snatched(here, workload)
    await approve(here, workload)
    await eventually("told", lambda: said(here, "True"))
    await eventually("it has another place", lambda: _event(here, "PodsDisplaced"))
    assert await here.racks(await here.running("gang", 2)) == {rack: 2}
    assert not await _event(here, "EvictedDueToPodsUnschedulable")


async def test_a_host_that_is_cordoned_between_the_decision_and_the_gate_is_given_up(site: MakeSite) -> None:
    """The stock scheduler would refuse the pod there; the place moves to another host of the rack before any gate opens."""
    here = site("cordoned-place")
    await opened(here)
    await here.submit(patient(here.job("gang", 2, {REQUIRE_TOPOLOGY: RACK}, gpus=4)))
    workload = await eventually("its place is decided", lambda: workload_with(here, QUOTA_RESERVED))
    host, rack = place(workload)
    await here.kube.patch(NODES, host, {"spec": {"unschedulable": True}}, kind=PatchKind.MERGE)
    workload = await eventually("the host counts as failed", lambda: _with_unhealthy(here, host))
    await approve(here, workload)
    assert await here.racks(await here.running("gang", 2)) == {rack: 2}
    assert not await _event(here), "no pod was refused"


async def _with_unhealthy(here: Site, host: str) -> Workload | None:
    found = await workload_with(here, QUOTA_RESERVED)
    unhealthy = [node.name for node in found.status.unhealthy_nodes] if found is not None else []
    return found if host in unhealthy else None
