"""The eight scenarios of the first forms, with pods bound to nodes at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from api.assignment import decode
from api.kube.resources import CLUSTER_QUEUES, JOBS, PODS, WORKLOADS
from api.meta import is_true
from api.names import (
    EVICTED,
    HOSTNAME_LABEL,
    PODSET_LABEL,
    PREFER_TOPOLOGY,
    REQUIRE_TOPOLOGY,
    TOPOLOGY_GATE,
    TOPOLOGY_PODSET,
    TOPOLOGY_WORKLOAD,
    WORKLOAD_ANNOTATION,
)
from hack.controlplane.options import ClusterOptions
from tests.scenarios.site import BLOCK, GPU, RACK, Site, eventually, never

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True
CONTROL_PLANE = ClusterOptions(jobset=True)

MakeSite = Callable[[str], Site]

SMALL = {"b1": {"r1": 2, "r2": 2}, "b2": {"r1": 2}}
"""Three racks of two hosts with four GPUs each; two blocks have a rack of the same name."""


async def test_1_a_new_node_makes_a_waiting_workload_admissible(site: MakeSite) -> None:
    here = site("new-node")
    await here.open({"b1": {"r1": 1}})
    await here.submit(here.job("wide", 8, {REQUIRE_TOPOLOGY: RACK}))
    await here.waits("wide", "TopologyPlacementFailed", "allows to fit only 4 out of 8 pod(s)")
    await here.add_nodes({"b1": {"r2": 2}})
    pods = await here.running("wide", 8)
    assert await here.racks(pods) == {"b1/r2": 8}


async def test_2_require_admits_in_one_domain_or_says_what_is_missing(site: MakeSite) -> None:
    here = site("require")
    await here.open(SMALL, inline=True)
    await here.submit(here.job("fits", 8, {REQUIRE_TOPOLOGY: RACK}))
    assert len(await here.racks(await here.running("fits", 8))) == 1
    await here.submit(here.job("too-wide", 9, {REQUIRE_TOPOLOGY: RACK}))
    await here.waits("too-wide", "TopologyPlacementFailed", "allows to fit only 8 out of 9 pod(s)")
    assert await here.pods("too-wide") == []


async def test_3_prefer_takes_one_domain_then_several_and_waits_only_for_room(site: MakeSite) -> None:
    here = site("prefer")
    await here.open(SMALL)
    await here.submit(here.job("one", 8, {PREFER_TOPOLOGY: RACK}))
    assert len(await here.racks(await here.running("one", 8))) == 1
    await here.submit(here.job("two", 12, {PREFER_TOPOLOGY: RACK}))
    racks = await here.racks(await here.running("two", 12))
    assert sorted(racks.values()) == [4, 8]
    await here.submit(here.job("none", 5, {PREFER_TOPOLOGY: "auto"}))
    await here.waits("none", "TopologyPlacementFailed", "allows to fit only 4 out of 5 pod(s)")


async def test_4_gate_and_annotations_are_in_the_template_and_pods_are_created_gated(site: MakeSite) -> None:
    here = site("gate")
    await here.open({"b1": {"r1": 1}})
    await here.submit(here.job("job", 2, {REQUIRE_TOPOLOGY: RACK}, queue="not-there-yet"))
    template = (await here.get_job("job"))["spec"]["template"]
    assert {"name": TOPOLOGY_GATE} in template["spec"]["schedulingGates"]
    assert template["metadata"]["annotations"][TOPOLOGY_PODSET] == "main"
    assert template["metadata"]["labels"][PODSET_LABEL] == "main"
    await here.waits("job", "Misconfigured", "LocalQueue not-there-yet doesn't exist")
    # Somebody unsuspends it by hand: nothing slips past the quota onto the nodes.
    await here.change(JOBS, "job", {"spec": {"suspend": False}})

    async def ungated() -> bool:
        page = await here.kube.list(PODS, here.name)
        return any(not pod["spec"].get("schedulingGates") for pod in page.items)

    await never("a pod of a job unsuspended by hand is not gated", ungated)
    await eventually("suspended again", lambda: _suspended(here, "job"))
    await here.submit(here.job("right", 2, {REQUIRE_TOPOLOGY: RACK}))
    workload = await here.admitted("right")
    for pod in await here.running("right", 2):
        annotations = pod["metadata"]["annotations"]
        assert annotations[WORKLOAD_ANNOTATION] == annotations[TOPOLOGY_WORKLOAD] == workload.metadata.name


async def _suspended(here: Site, job: str) -> bool:
    return bool((await here.get_job(job))["spec"]["suspend"]) and not await here.pods(job)


async def test_5_pods_go_to_the_nodes_of_the_assignment_in_its_numbers(site: MakeSite) -> None:
    here = site("numbers")
    await here.open(SMALL)
    await here.submit(here.job("job", 7, {REQUIRE_TOPOLOGY: BLOCK}, gpus=1))
    workload = await here.admitted("job")
    assert workload.status.admission is not None
    assignment = workload.status.admission.pod_set_assignments[0].topology_assignment
    assert assignment is not None
    pods = await here.running("job", 7)
    assert Counter(pod["spec"]["nodeName"] for pod in pods) == {v[-1]: n for v, n in decode(assignment)}
    for pod in pods:
        assert pod["spec"]["nodeSelector"][HOSTNAME_LABEL] == pod["spec"]["nodeName"]


async def test_6_capacity_returns_on_suspension_and_is_taken_again_on_resumption(site: MakeSite) -> None:
    here = site("suspend")
    await here.open({"b1": {"r1": 1}})
    whole_host = {REQUIRE_TOPOLOGY: RACK}
    await here.submit(here.job("first", 4, whole_host))
    await here.running("first", 4)
    await here.submit(here.job("second", 4, whole_host))
    await here.waits("second", "TopologyPlacementFailed", "doesn't allow to fit any of 4 pod(s)")
    first = await here.workload_of("first")
    assert first is not None
    # spec.active: the first goes, the second gets its place
    await here.change(WORKLOADS, first.metadata.name, {"spec": {"active": False}})
    await here.running("second", 4)
    await eventually("first suspended", lambda: _suspended(here, "first"))
    await here.change(WORKLOADS, first.metadata.name, {"spec": {"active": True}})
    await here.waits("first", "TopologyPlacementFailed", "doesn't allow to fit any of 4 pod(s)")
    # deletion of the Job: its place returns
    await here.remove(JOBS, "second")
    await here.running("first", 4)
    # stop policy: drained, and back after the restart
    await here.change(CLUSTER_QUEUES, here.name, {"spec": {"stopPolicy": "HoldAndDrain"}}, cluster=True)
    await eventually("first drained", lambda: _suspended(here, "first"))
    await here.waits("first", "Suspended", f"ClusterQueue {here.name} is inactive")
    await here.change(CLUSTER_QUEUES, here.name, {"spec": {"stopPolicy": "None"}}, cluster=True)
    await here.running("first", 4)
    workload = await here.workload_of("first")
    assert workload is not None
    assert not is_true(workload.status.conditions, EVICTED)


async def test_7_pods_of_daemonsets_and_strangers_count_against_the_nodes(site: MakeSite) -> None:
    here = site("daemons")
    await here.open({"b1": {"r1": 1, "r2": 1}})
    for rack in ("r1", "r2"):
        template = here.template(gpus=1)
        name = f"{here.name}-b1-{rack}-0"
        spec = {**template["spec"], "nodeName": name}
        await here.make(PODS, {"metadata": {"name": f"daemon-{rack}", "namespace": here.name}, "spec": spec})
    await here.submit(here.job("job", 4, {REQUIRE_TOPOLOGY: RACK}))
    await here.waits("job", "TopologyPlacementFailed", "allows to fit only 3 out of 4 pod(s)")
    await here.remove(PODS, "daemon-r2")
    assert await here.racks(await here.running("job", 4)) == {"b1/r2": 4}


async def test_8_a_jobset_with_several_replicated_jobs(site: MakeSite) -> None:
    here = site("jobset")
    await here.open(SMALL)
    await here.submit_jobset(here.jobset("js", {"driver": (1, 1), "workers": (2, 4)}, {REQUIRE_TOPOLOGY: RACK}))
    pods = await here.running("js", 9, jobset=True)
    by_role: dict[str, list[dict[str, object]]] = {}
    for pod in pods:
        by_role.setdefault(pod["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"], []).append(pod)
    assert {role: len(members) for role, members in by_role.items()} == {"driver": 1, "workers": 8}
    for members in by_role.values():
        assert len(await here.racks(members)) == 1
    workload = await here.workload_of("js")
    assert workload is not None
    assert workload.status.admission is not None
    assert {psa.name: psa.count for psa in workload.status.admission.pod_set_assignments} == {"driver": 1, "workers": 8}


async def test_finished_jobs_give_their_place_to_waiting_ones(site: MakeSite) -> None:
    here = site("finish")
    await here.open({"b1": {"r1": 1}})
    await here.submit(here.job("short", 4, {REQUIRE_TOPOLOGY: RACK}, run_for="1s"))
    await here.admitted("short")  # two jobs posted at once have no order
    await here.submit(here.job("next", 4, {REQUIRE_TOPOLOGY: RACK}))
    await here.running("next", 4)
    short = await here.workload_of("short")
    assert short is not None
    assert is_true(short.status.conditions, "Finished")


async def test_quota_is_counted_besides_room(site: MakeSite) -> None:
    here = site("quota")
    await here.open(SMALL, quota=4)
    await here.submit(here.job("first", 4))
    await here.running("first", 4)
    await here.submit(here.job("second", 1))
    await here.waits(
        "second", "WaitingForQuota", f"insufficient unused quota for {GPU} in flavor {here.name}, 1 more needed"
    )
    await here.submit(here.job("never", 5))
    await here.waits("never", "ExceedsMaxQuota", "> maximum capacity (4")


async def test_a_wait_is_reported_again_after_its_queue_was_stopped(site: MakeSite) -> None:
    here = site("told-again")
    await here.open({"b1": {"r1": 1}})
    await here.submit(here.job("wide", 5, {REQUIRE_TOPOLOGY: RACK}))
    await here.waits("wide", "TopologyPlacementFailed", "allows to fit only 4 out of 5 pod(s)")
    await here.change(CLUSTER_QUEUES, here.name, {"spec": {"stopPolicy": "Hold"}}, cluster=True)
    await here.waits("wide", "Suspended", f"ClusterQueue {here.name} is inactive")
    await here.change(CLUSTER_QUEUES, here.name, {"spec": {"stopPolicy": "None"}}, cluster=True)
    await here.waits("wide", "TopologyPlacementFailed", "allows to fit only 4 out of 5 pod(s)")
