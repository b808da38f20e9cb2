"""A node dies under a running gang: its pods find another node of the rack, and the others run on."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from api.assignment import decode
from api.errors import NotFound
from api.kube.client import PatchKind
from api.kube.resources import EVENTS, NODES, PODS, WORKLOADS
from api.meta import find_condition, is_true
from api.names import ADMITTED, EVICTED, HOSTNAME_LABEL, QUEUE_NAME_LABEL, REQUIRE_TOPOLOGY, REQUIRED_TOPOLOGY
from api.workloads import Workload
from tests.scenarios.gangs import a_pod as gang_pod
from tests.scenarios.gangs import create, expect_phases, said
from tests.scenarios.site import BLOCK, GROUP, RACK, Site, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

MakeSite = Callable[[str], Site]


def patient(job: dict[str, Any]) -> dict[str, Any]:
    """The job that makes new pods for those it loses."""
    job["spec"]["backoffLimit"] = 20
    return job


def assigned(workload: Workload) -> Counter[str]:
    """Pods by host, as the Workload's status says."""
    assert workload.status.admission is not None
    placed = workload.status.admission.pod_set_assignments[0].topology_assignment
    assert placed is not None
    return Counter({values[-1]: count for values, count in decode(placed)})


async def node_dies(here: Site, name: str) -> None:
    """The node is gone, and its pods with it, as the cluster's own clean-up would have it."""
    await here.kube.delete(NODES, name)
    page = await here.kube.list(PODS, here.name)
    for pod in page.items:
        if pod["spec"].get("nodeName") == name:
            with contextlib.suppress(NotFound):
                await here.kube.delete(PODS, pod["metadata"]["name"], here.name, grace_seconds=0)


async def test_pods_of_a_dead_node_find_another_one_of_the_rack(site: MakeSite) -> None:
    here = site("dead-node")
    await here.open({"b1": {"r1": 4, "r2": 2}})
    await here.submit(patient(here.job("gang", 3, {REQUIRE_TOPOLOGY: RACK}, gpus=4)))
    before = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in await here.running("gang", 3)}
    dead, *kept = sorted(before.values())
    [spare] = {f"dead-node-b1-r1-{n}" for n in range(4)} - {dead, *kept}
    await node_dies(here, dead)
    pods = await here.running("gang", 3)
    assert {pod["spec"]["nodeName"] for pod in pods} == {*kept, spare}
    survivors = {name for name, node in before.items() if node != dead}
    assert survivors <= {pod["metadata"]["name"] for pod in pods}, "who ran on another node was not touched"
    workload = await here.workload_of("gang")
    assert workload is not None
    assert assigned(workload) == Counter([*kept, spare])
    assert workload.status.unhealthy_nodes == ()
    assert is_true(workload.status.conditions, ADMITTED)
    assert find_condition(workload.status.conditions, EVICTED) is None
    await eventually("told", lambda: _told(here, dead))


async def test_two_nodes_that_die_together_are_replaced_together(site: MakeSite) -> None:
    """The pods on the third node run on; Kueue evicts the whole job."""
    here = site("dead-nodes")
    await here.open({"b1": {"r1": 5, "r2": 2}})
    await here.submit(patient(here.job("gang", 3, {REQUIRE_TOPOLOGY: RACK}, gpus=4)))
    before = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in await here.running("gang", 3)}
    *dead, kept = sorted(before.values())
    spares = {f"dead-nodes-b1-r1-{n}" for n in range(5)} - {*dead, kept}
    await asyncio.gather(*(node_dies(here, node) for node in dead))
    pods = await here.running("gang", 3)
    assert {pod["spec"]["nodeName"] for pod in pods} == {kept, *spares}
    survivors = {name for name, node in before.items() if node == kept}
    assert survivors <= {pod["metadata"]["name"] for pod in pods}, "the pod on the third node was not touched"
    workload = await here.workload_of("gang")
    assert workload is not None
    assert assigned(workload) == Counter([kept, *spares])
    assert workload.status.unhealthy_nodes == ()
    assert find_condition(workload.status.conditions, EVICTED) is None


@pytest.mark.long
async def test_more_nodes_than_a_workload_can_list_as_unhealthy_are_replaced(site: MakeSite) -> None:
    """The API lists eight at most."""
    here = site("many-dead")
    await here.open({"b1": {"r1": 12, "r2": 12}})
    await here.submit(patient(here.job("gang", 12, {REQUIRE_TOPOLOGY: BLOCK}, gpus=4)))
    before = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in await here.running("gang", 12)}
    dead = set(sorted(before.values())[:10])
    await asyncio.gather(*(node_dies(here, node) for node in dead))

    async def replaced() -> bool:
        workload = await here.workload_of("gang")
        assert workload is not None
        assert find_condition(workload.status.conditions, EVICTED) is None
        return not dead & assigned(workload).keys() and workload.status.unhealthy_nodes == ()

    await eventually("all of them are replaced", replaced)
    left = {pod["metadata"]["name"] for pod in (await here.kube.list(PODS, here.name)).items}
    assert {name for name, node in before.items() if node not in dead} <= left


async def test_a_job_of_one_host_moves_to_another_and_is_not_restarted(site: MakeSite) -> None:
    """Its pods are born gated, so the lost ones go where the ungater sends them."""
    here = site("dead-host")
    await here.open({"b1": {"r1": 2}})
    await here.submit(patient(here.job("one", 2, {REQUIRE_TOPOLOGY: RACK}, gpus=2)))
    dead, same = [pod["spec"]["nodeName"] for pod in await here.running("one", 2)]
    assert dead == same
    job = await here.get_job("one")
    assert HOSTNAME_LABEL not in job["spec"]["template"]["spec"]["nodeSelector"]
    await node_dies(here, dead)
    [spare] = {f"dead-host-b1-r1-{n}" for n in range(2)} - {dead}
    assert [pod["spec"]["nodeName"] for pod in await here.running("one", 2)] == [spare, spare]
    workload = await here.workload_of("one")
    assert workload is not None
    assert assigned(workload) == {spare: 2}
    assert workload.status.unhealthy_nodes == ()
    assert find_condition(workload.status.conditions, EVICTED) is None
    after = await here.get_job("one")
    assert after["status"]["startTime"] == job["status"]["startTime"], "the job was not stopped"
    assert after["spec"] == job["spec"]


async def _told(here: Site, node: str) -> bool:
    events = [e for e in (await here.kube.list(EVENTS, here.name)).items if e["reason"] == "NodeReplaced"]
    return [node in event["message"] for event in events] == [True]


@pytest.mark.long
async def test_where_the_rack_has_no_other_node_the_gang_goes_elsewhere_as_a_whole(site: MakeSite) -> None:
    here = site("full-rack")
    await here.open({"b1": {"r1": 2, "r2": 2}})
    await here.submit(patient(here.job("gang", 2, {REQUIRE_TOPOLOGY: RACK}, gpus=4)))
    pods = await here.running("gang", 2)
    [old] = await here.racks(pods)
    dead = pods[0]["spec"]["nodeName"]
    await node_dies(here, dead)

    async def moved() -> Workload | None:
        workload = await here.workload_of("gang")
        found = find_condition(workload.status.conditions, EVICTED) if workload else None
        return workload if found is not None and found.status == "False" else None

    workload = await eventually("evicted, and admitted again", moved)
    found = find_condition(workload.status.conditions, EVICTED)
    assert found is not None
    assert f"there was no replacement for unhealthy node(s): {dead}" in found.message
    racks = await here.racks(await here.running("gang", 2))
    assert len(racks) == 1
    assert set(racks) != {old}


@pytest.mark.long
async def test_a_tainted_node_is_left_when_its_pods_are(site: MakeSite) -> None:
    """NoExecute: once the pods have been driven out, others come on another node."""
    here = site("tainted")
    await here.open({"b1": {"r1": 2}})
    await here.submit(patient(here.job("one", 1, {REQUIRE_TOPOLOGY: RACK}, gpus=4)))
    [pod] = await here.running("one", 1)
    node = pod["spec"]["nodeName"]
    taint = {"key": "broken", "effect": "NoExecute"}
    await here.kube.patch(NODES, node, {"spec": {"taints": [taint]}}, kind=PatchKind.MERGE)
    with contextlib.suppress(NotFound):
        await here.kube.delete(PODS, pod["metadata"]["name"], here.name, grace_seconds=0)
    [other] = {f"tainted-b1-r1-{n}" for n in range(2)} - {node}
    [new] = await here.running("one", 1)
    assert new["spec"]["nodeName"] == other


def a_pod(here: Site, name: str, finalizers: tuple[str, ...] = ()) -> dict[str, Any]:
    """A plain pod that takes a whole host."""
    labels = {QUEUE_NAME_LABEL: "lq"}
    template = here.template(4)
    metadata = {
        "name": name,
        "namespace": here.name,
        "labels": labels,
        "annotations": {REQUIRED_TOPOLOGY: RACK},
        "finalizers": list(finalizers),
    }
    return {
        "metadata": metadata,
        "spec": {**template["spec"], "nodeSelector": {GROUP: here.name}},
    }


async def node_of(here: Site, pod: str) -> str:
    """Where the pod runs, once it does."""

    async def check() -> str | None:
        found = await here.kube.get(PODS, pod, here.name)
        return found["spec"].get("nodeName") if found.get("status", {}).get("phase") == "Running" else None

    return str(await eventually(f"{pod} runs", check))


async def test_a_plain_pod_keeps_its_place_when_its_node_fails(site: MakeSite) -> None:
    """Nothing replaces the pod, so no other host is taken for it while it ends."""
    here = site("dead-pod")
    await here.open({"b1": {"r1": 2}})
    await here.kube.create(PODS, a_pod(here, "lost", ("example.com/slow",)))
    dead = await node_of(here, "lost")
    await node_dies(here, dead)
    await here.kube.create(PODS, a_pod(here, "next"))
    assert await node_of(here, "next") != dead
    workload = await here.workload_of("lost")
    assert workload is not None
    assert assigned(workload) == {dead: 1}
    assert workload.status.unhealthy_nodes == ()
    await here.kube.patch(PODS, "lost", {"metadata": {"finalizers": None}}, here.name, kind=PatchKind.MERGE)


@pytest.mark.parametrize("first", ["cordoned", "lost"])
async def test_a_lost_member_of_a_gang_gets_another_host_while_others_run_on_the_cordoned_one(
    site: MakeSite, first: str
) -> None:
    """It would be pinned to a node that takes no pods, until all of the gang have left it."""
    here = site(f"cordon-{first}")
    await here.open({"b1": {"r1": 3}})
    gpus = {"g-0": 4, "g-1": 4, "g-2": 0}
    await create(here, *(gang_pod(here, name, said("g", 3), gpus=count) for name, count in gpus.items()))
    await expect_phases(here, "g-", Running=3)
    pods = {name: await here.kube.get(PODS, name, here.name) for name in gpus}
    shared = pods["g-2"]["spec"]["nodeName"]
    lost = next(name for name in ("g-0", "g-1") if pods[name]["spec"]["nodeName"] == shared)

    async def cordon() -> None:
        await here.kube.patch(NODES, shared, {"spec": {"unschedulable": True}}, kind=PatchKind.MERGE)

    if first == "cordoned":
        await cordon()
    await here.remove(PODS, lost)
    if first == "lost":
        await cordon()

    async def moved() -> bool:
        found = await here.kube.get(WORKLOADS, "g", here.name)
        places = next(c for c in found["status"]["conditions"] if c["type"] == "stowage.dev/Placement")
        return bool(places["message"].count(shared) == 1)

    await eventually("the lost member has another place", moved)
    await create(here, gang_pod(here, "g-9", said("g", 3), gpus=4))
    await expect_phases(here, "g-", Running=3)
    where = (await here.kube.get(PODS, "g-9", here.name))["spec"]["nodeName"]
    assert where not in {pod["spec"]["nodeName"] for pod in pods.values()}
