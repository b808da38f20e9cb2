"""What happens at the edges of a Workload's life: no job above it, queues that come late or go early, nodes that leave."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from api.errors import NotFound
from api.kube.client import PatchKind
from api.kube.resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    NODES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
    Resource,
)
from api.meta import find_condition, is_true
from api.names import ADMITTED, EVICTED, IN_USE_FINALIZER, QUOTA_RESERVED, REQUIRE_TOPOLOGY
from api.workloads import Workload
from hack.controlplane.nodes import DOWN
from tests.scenarios.site import RACK, Site, eventually, never

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True

MakeSite = Callable[[str], Site]

ONE_HOST = {"b1": {"r1": 1}}
WHOLE_RACK = {REQUIRE_TOPOLOGY: RACK}


async def gone(here: Site, resource: Resource, name: str) -> bool:
    try:
        await here.kube.get(resource, name)
    except NotFound:
        return True
    return False


# ---- a Workload that nobody owns


def by_hand(here: Site, name: str, **metadata: Any) -> dict[str, Any]:
    """A Workload of four pods that must share a rack, as somebody might write it for pods of his own."""
    template = here.template()
    pod_set = {"name": "main", "count": 4, "template": template, "topologyRequest": {"required": RACK}}
    meta = {"name": name, "namespace": here.name, **metadata}
    return {"metadata": meta, "spec": {"queueName": "lq", "podSets": [pod_set]}}


async def workload(here: Site, name: str) -> Workload:
    return Workload.from_wire(await here.kube.get(WORKLOADS, name, here.name))


async def holds(here: Site, name: str, kind: str, status: str = "True") -> bool:
    found = find_condition((await workload(here, name)).status.conditions, kind)
    return found is not None and found.status == status


async def test_a_workload_made_by_hand_is_admitted_deactivated_and_deleted(site: MakeSite) -> None:
    here = site("by-hand")
    await here.open(ONE_HOST)
    await here.make(WORKLOADS, by_hand(here, "mine", finalizers=[IN_USE_FINALIZER]))
    await eventually("admitted", lambda: holds(here, "mine", ADMITTED))
    await here.submit(here.job("job", 4, WHOLE_RACK))
    await here.waits("job", "TopologyPlacementFailed", "doesn't allow to fit any of 4 pod(s)")
    await here.change(WORKLOADS, "mine", {"spec": {"active": False}})
    await here.running("job", 4)
    left = await workload(here, "mine")
    assert left.status.admission is None
    assert is_true(left.status.conditions, EVICTED)
    await here.change(WORKLOADS, "mine", {"spec": {"active": True}})
    await eventually("waits again", lambda: _says(here, "mine", "TopologyPlacementFailed"))
    await here.remove(JOBS, "job")
    await eventually("admitted again", lambda: holds(here, "mine", ADMITTED))
    await here.remove(WORKLOADS, "mine")
    await here.submit(here.job("next", 4, WHOLE_RACK))
    await here.running("next", 4)


async def _says(here: Site, name: str, reason: str) -> bool:
    found = find_condition((await workload(here, name)).status.conditions, QUOTA_RESERVED)
    return found is not None and found.status == "False" and found.reason == reason


async def test_a_waiting_workload_made_by_hand_can_be_deleted(site: MakeSite) -> None:
    here = site("by-hand-waits")
    await here.open(ONE_HOST)
    body = by_hand(here, "mine", finalizers=[IN_USE_FINALIZER])
    body["spec"]["podSets"][0]["count"] = 5
    await here.make(WORKLOADS, body)
    await eventually("waits", lambda: _says(here, "mine", "TopologyPlacementFailed"))
    await here.remove(WORKLOADS, "mine")


# ---- queues, flavors and topologies that go early


async def test_a_topology_goes_with_its_flavor_where_no_queue_is_left(site: MakeSite) -> None:
    """No ClusterQueue is there to wake the Topology, so its flavor's end must."""
    here = site("last")
    await here.open(ONE_HOST)
    await eventually("the Topology is held", lambda: _held(here, TOPOLOGIES))
    await here.kube.delete(CLUSTER_QUEUES, here.name)
    await eventually("the ClusterQueue goes", lambda: gone(here, CLUSTER_QUEUES, here.name))
    await here.kube.delete(TOPOLOGIES, here.name)
    assert await _held(here, TOPOLOGIES), "its flavor is still there"
    await here.kube.delete(RESOURCE_FLAVORS, here.name)
    await eventually("the Topology goes", lambda: gone(here, TOPOLOGIES, here.name))


async def _held(here: Site, resource: Resource) -> bool:
    return IN_USE_FINALIZER in (await here.kube.get(resource, here.name))["metadata"].get("finalizers", [])


async def test_what_is_used_goes_when_it_is_used_no_more(site: MakeSite) -> None:
    here = site("used")
    await here.open({"b1": {"r1": 2}})
    await here.submit(here.job("job", 4, WHOLE_RACK))
    await here.running("job", 4)
    for resource in (CLUSTER_QUEUES, RESOURCE_FLAVORS, TOPOLOGIES):
        await here.kube.delete(resource, here.name)
    await eventually("the queue takes nothing more", lambda: _terminating(here))
    await here.submit(here.job("late", 4, WHOLE_RACK))
    await here.waits("late", "Suspended", f"ClusterQueue {here.name} is inactive")
    for resource in (CLUSTER_QUEUES, RESOURCE_FLAVORS, TOPOLOGIES):
        held = await here.kube.get(resource, here.name)
        assert held["metadata"]["finalizers"] == [IN_USE_FINALIZER], resource.kind
    assert len(await here.running("job", 4)) == 4, "what runs is left alone"
    await here.remove(JOBS, "job")
    for resource in (CLUSTER_QUEUES, RESOURCE_FLAVORS, TOPOLOGIES):
        await eventually(f"{resource.kind} gone", partial(gone, here, resource, here.name))
    await here.waits("late", "Misconfigured", f"ClusterQueue {here.name} doesn't exist")


async def _terminating(here: Site) -> bool:
    status = (await here.kube.get(CLUSTER_QUEUES, here.name))["status"]
    return any(c["type"] == "Active" and c["reason"] == "Terminating" for c in status["conditions"])


# ---- and those that come late


async def test_jobs_wait_for_what_their_queue_lacks_and_go_when_it_comes(site: MakeSite) -> None:
    """From the job upwards: its LocalQueue, the ClusterQueue, the flavor, the Topology; each missing one is named."""
    here, target = site("late"), "late-target"
    await here.open(ONE_HOST)
    await here.submit(here.job("job", 4, WHOLE_RACK, queue="late"))
    await here.waits("job", "Misconfigured", "LocalQueue late doesn't exist")
    local = {"metadata": {"name": "late", "namespace": here.name}, "spec": {"clusterQueue": target}}
    await here.make(LOCAL_QUEUES, local)
    await here.waits("job", "Misconfigured", f"ClusterQueue {target} doesn't exist")
    spec = (await here.kube.get(CLUSTER_QUEUES, here.name))["spec"]
    spec["resourceGroups"][0]["flavors"][0]["name"] = target
    await here.make(CLUSTER_QUEUES, {"metadata": {"name": target}, "spec": spec})
    await here.waits("job", "Suspended", f"ClusterQueue {target} is inactive")
    await eventually("the flavor is named", lambda: _inactive(here, target, "FlavorNotFound"))
    flavor = (await here.kube.get(RESOURCE_FLAVORS, here.name))["spec"]
    await here.make(RESOURCE_FLAVORS, {"metadata": {"name": target}, "spec": {**flavor, "topologyName": target}})
    await eventually("the Topology is named", lambda: _inactive(here, target, "TopologyNotFound"))
    topology = (await here.kube.get(TOPOLOGIES, here.name))["spec"]
    await here.make(TOPOLOGIES, {"metadata": {"name": target}, "spec": topology})
    await here.running("job", 4)


async def _inactive(here: Site, queue: str, reason: str) -> bool:
    status = (await here.kube.get(CLUSTER_QUEUES, queue)).get("status") or {}
    return any(c["type"] == "Active" and c["reason"] == reason for c in status.get("conditions") or [])


# ---- nodes that leave and return


async def cordon(here: Site, node: str, yes: bool) -> None:
    await here.kube.patch(NODES, node, {"spec": {"unschedulable": yes or None}}, kind=PatchKind.MERGE)


async def test_a_cordoned_node_takes_no_pod_until_it_is_back(site: MakeSite) -> None:
    here = site("cordon")
    await here.open(ONE_HOST)
    await cordon(here, "cordon-b1-r1-0", True)
    await here.submit(here.job("job", 4, WHOLE_RACK))
    await here.waits("job", "TopologyPlacementFailed", "no topology domains at level")
    await cordon(here, "cordon-b1-r1-0", False)
    await here.running("job", 4)
    # Those who run are not touched, and their place counts as taken.
    await cordon(here, "cordon-b1-r1-0", True)
    await here.submit(here.job("next", 1, WHOLE_RACK))
    await here.waits("next", "TopologyPlacementFailed", "")
    await cordon(here, "cordon-b1-r1-0", False)
    await never("the next is admitted onto a full node", lambda: _has_pods(here, "next"))
    await here.remove(JOBS, "job")
    await here.running("next", 1)


async def _has_pods(here: Site, job: str) -> bool:
    return bool(await here.pods(job))


async def test_a_lost_node_takes_no_pod_until_it_is_back(site: MakeSite) -> None:
    here = site("lost")
    await here.open({"b1": {"r1": 1, "r2": 1, "r3": 1}})
    first, second = "lost-b1-r1-0", "lost-b1-r2-0"
    await lose(here, first)
    await lose(here, second)
    await here.submit(here.job("first", 4, WHOLE_RACK))
    assert await here.racks(await here.running("first", 4)) == {"b1/r3": 4}
    await here.submit(here.job("second", 4, WHOLE_RACK))
    await here.waits("second", "TopologyPlacementFailed", "doesn't allow to fit any of 4 pod(s)")
    await mark_down(here, first, None)
    assert await here.racks(await here.running("second", 4)) == {"b1/r1": 4}


async def mark_down(here: Site, node: str, mark: str | None) -> None:
    """The kubelets of both stages leave a node with this label alone."""
    await here.kube.patch(NODES, node, {"metadata": {"labels": {DOWN: mark}}}, kind=PatchKind.MERGE)


async def lose(here: Site, node: str) -> None:
    """Its kubelet is heard of no more."""
    await mark_down(here, node, "1")
    since = {"lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    ready = {"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "", **since}
    await here.kube.patch(NODES, node, {"status": {"conditions": [ready]}}, kind=PatchKind.MERGE, subresource="status")


async def test_a_node_that_is_deleted_takes_its_room_along(site: MakeSite) -> None:
    here = site("deleted-node")
    await here.open({"b1": {"r1": 2}})
    await here.kube.delete(NODES, "deleted-node-b1-r1-1")
    await here.submit(here.job("job", 8, WHOLE_RACK))
    await here.waits("job", "TopologyPlacementFailed", "allows to fit only 4 out of 8 pod(s)")
    await here.add_nodes({"b1": {"r1": 2}})
    await here.running("job", 8)
