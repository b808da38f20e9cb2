"""Sakkara groups: trees and groups told in ConfigMaps, placed as they say, bound by the stock scheduler. No queue is named
unless a test says so. The tree that groups of no queue go by is the first of the cluster: each test makes its own, and takes
it away."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from api.kube.client import PatchKind
from api.kube.informers.informer import Informer
from api.kube.informers.store import Change
from api.kube.resources import (
    CLUSTER_QUEUES,
    CONFIG_MAPS,
    DEPLOYMENTS,
    LOCAL_QUEUES,
    POD_GROUPS,
    PODS,
    RESOURCE_FLAVORS,
    WORKLOADS,
)
from api.names import (
    GANG_LABEL,
    GANG_QUEUE,
    QUEUE_NAME_LABEL,
    SAKKARA_GROUP_ANNOTATION,
    SAKKARA_RANK,
)
from hack.controlplane.options import ClusterOptions
from tests.scenarios.failures import SHORT_LEASE
from tests.scenarios.sakkara import (
    MakeSite,
    Tree,
    Units,
    a_deployment,
    a_group,
    a_job,
    a_pod,
    are,
    create,
    members,
    node,
    shares,
    site_of,
    stay,
    story,
    told,
    tree,
)
from tests.scenarios.site import DEADLINE, GPU, GROUP, eventually
from tests.scenarios.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")
ENVIRONMENT = SHORT_LEASE
CONTROL_PLANE = ClusterOptions(jobset=True)


A = {"rack": {"type": "spread", "partitions": 2}, "node": {"type": "pack"}}
B = {"server": {"type": "pack"}, "node": {"type": "spread", "min": 2, "max": 4}}
APART = {"rack": {"type": "pack"}, "node": {"type": "spread"}}


# ---- what is made


# ---- what is seen


# ---- the stories


async def test_story_a_two_partitions_on_separate_racks_each_packed_on_its_nodes(site: MakeSite) -> None:
    here = site("story-a")
    async with tree(here, {"r0": [3, 3, 3], "r1": [3, 3, 3], "r2": [3, 3, 3]}):
        await here.make(CONFIG_MAPS, a_group(here, "a", 8, A))
        await create(here, "a", 8)
        pods = await are(here, "a-", Running=8)
    found = shares(pods)
    assert list(found.values()) == [[3, 1], [3, 1]], found
    assert {pod["spec"]["schedulerName"] for pod in pods} == {"default-scheduler"}
    workload = await here.kube.get(WORKLOADS, "a", here.name)
    assert workload["metadata"]["annotations"][SAKKARA_GROUP_ANNOTATION] == "a"


@pytest.mark.parametrize("hosts", [pytest.param([4, 4], id="two-hosts"), pytest.param([6], id="one-host")])
async def test_no_pod_of_a_group_goes_through_its_gate_before_it_bears_its_rank(
    site: MakeSite, hosts: list[int]
) -> None:
    """An environment variable that is made of the label is filled when the pod starts."""
    here = site(f"rank-first-{len(hosts)}")
    async with tree(here, {"r0": hosts}):
        await here.make(CONFIG_MAPS, a_group(here, "g", 6))
        wrong: list[str] = []

        def changed(change: Change[dict[str, Any]]) -> None:
            pod = change.object
            if not pod["spec"].get("schedulingGates") and SAKKARA_RANK not in pod["metadata"]["labels"]:
                wrong.append(pod["metadata"]["name"])

        pods: Informer[dict[str, Any]] = Informer(here.kube, PODS, dict, namespace=here.name)
        pods.add_handler(changed)
        looks_on = asyncio.create_task(pods.run(), name="informer of the site's pods")
        try:
            await pods.synced(DEADLINE)
            await create(here, "g", 6)
            await are(here, "g-", Running=6)
            assert not wrong
            assert len(pods.objects) == 6
        finally:
            looks_on.cancel()
            await asyncio.gather(looks_on, return_exceptions=True)


async def test_story_b_packed_on_one_server_with_two_to_four_on_each_of_its_nodes(site: MakeSite) -> None:
    here = site("story-b")
    async with tree(here, {"s0": [4, 4, 4], "s1": [4, 4, 4]}, "server"):
        await here.make(CONFIG_MAPS, a_group(here, "b", 6, B))
        await create(here, "b", 6)
        found = shares(await are(here, "b-", Running=6))
    assert list(found.values()) == [[2, 2, 2]], found


@pytest.mark.parametrize(
    ("units", "wanted"),
    [
        pytest.param({"r0": [8, 8, 8], "r1": [8, 8, 8]}, [[3, 3, 2]], id="free"),
        pytest.param({"r0": [0, 3, 8], "r1": [2, 2, 2]}, [[5, 3]], id="small-nodes"),
        pytest.param({"r0": [3, 3, 0], "r1": [2, 2, 0]}, [[3, 3], [1, 1]], id="small-rack"),
    ],
)
async def test_eight_pods_on_racks_of_three_nodes(
    site: MakeSite, units: Units, wanted: list[list[int]], request: pytest.FixtureRequest
) -> None:
    here = site(f"eight-{request.node.callspec.id.rpartition('-')[2]}-{len(str(wanted))}")
    async with tree(here, units):
        await here.make(CONFIG_MAPS, a_group(here, "g", 8, APART))
        await create(here, "g", 8)
        found = shares(await are(here, "g-", Running=8))
    assert list(found.values()) == wanted, found


# ---- the ConfigMap


async def test_pods_wait_until_their_config_map_exists(site: MakeSite) -> None:
    here = site("waits")
    async with tree(here, {"r0": [2, 2]}):
        await create(here, "w", 2)
        await told(here, "no ConfigMap with the label sakkara.group describes group w, and there is no PodGroup of it")
        await stay(here, "w-", Gated=2)
        await here.make(CONFIG_MAPS, a_group(here, "w", 3))
        await told(here, "2 of 3 pods exist")
        await create(here, "w", 1, first=2)
        assert shares(await are(here, "w-", Running=3)) == {"r0": [2, 1]}


async def test_pods_of_a_job_are_members_and_those_too_many_wait_for_a_place(site: MakeSite, stage: Stage) -> None:
    if stage.name == "embedded":
        pytest.skip("pods that the embedded API server's Job controller makes pass no webhooks")
    here = site("job")
    async with tree(here, {"r0": [4, 4]}):
        await here.make(CONFIG_MAPS, a_group(here, "j", 3))
        await here.submit(a_job(here, "j", 4))
        await are(here, "j-", Running=3, Gated=1)
        await stay(here, "j-", Running=3, Gated=1)
        running = [pod for pod in await members(here, "j-") if pod["spec"].get("nodeName")]
        (gated,) = [pod["metadata"]["name"] for pod in await members(here, "j-") if pod["spec"].get("schedulingGates")]
        await told(here, f"the group has its 3 pods; 1 more wait: {gated}")
        await here.kube.delete(PODS, running[0]["metadata"]["name"], here.name)

        async def taken() -> bool:
            pod = await here.kube.get(PODS, gated, here.name)
            return bool(pod["spec"].get("nodeName") == running[0]["spec"]["nodeName"])

        await eventually("the waiting pod takes the place", taken)


async def test_pods_of_a_deployment_are_members(site: MakeSite, stage: Stage) -> None:
    if stage.name == "embedded":
        pytest.skip("the embedded API server has no Deployment controller")
    here = site("deployment")
    async with tree(here, {"r0": [1, 1], "r1": [4, 4]}):
        await here.make(CONFIG_MAPS, a_group(here, "d", 4, {"rack": {"type": "pack", "hard": True}}))
        await here.make(DEPLOYMENTS, a_deployment(here, "d", 4))
        assert shares(await are(here, "d-", Running=4)) == {"r1": [4]}


async def test_without_any_tree_the_nodes_are_each_for_themselves(site: MakeSite) -> None:
    here = site("flat")
    await site_of(here, {"r0": [4, 4], "r1": [4]})
    await here.make(CONFIG_MAPS, a_group(here, "f", 6, {"node": {"type": "spread"}}))
    await create(here, "f", 6)
    pods = await are(here, "f-", Running=6)
    assert shares(pods) == {"r0": [2, 2], "r1": [2]}
    assert {pod["metadata"]["labels"].get(SAKKARA_RANK) for pod in pods} == {str(rank) for rank in range(6)}


async def test_a_group_that_waits_follows_its_config_map(site: MakeSite) -> None:
    here = site("follows")
    async with tree(here, {"r0": [2, 2], "r1": [2, 2]}):
        await here.make(CONFIG_MAPS, a_group(here, "g", 6, {"rack": {"type": "pack", "hard": True}}))
        await create(here, "g", 6)

        async def refused() -> bool:
            return "hard placement constraint" in await story(here)

        await eventually("it is told that it does not fit", refused)
        await here.change(CONFIG_MAPS, "g", {"data": {"constraints": json.dumps({"rack": {"type": "pack"}})}})
        assert shares(await are(here, "g-", Running=6)) == {"r0": [2, 2], "r1": [2]}


# ---- PodGroups


async def test_a_pod_group_stands_in_for_the_config_map_and_every_level_packs(site: MakeSite) -> None:
    here = site("standin")
    async with tree(here, {"r0": [2, 2], "r1": [4, 4]}):
        await create(here, "p", 2)
        await here.make(POD_GROUPS, {"metadata": {"name": "p", "namespace": here.name}, "spec": {"minMember": 5}})
        await stay(here, "p-", Gated=2)
        await create(here, "p", 3, first=2)
        assert shares(await are(here, "p-", Running=5)) == {"r1": [4, 1]}


async def test_the_config_map_wins_over_the_pod_group_that_pods_name(site: MakeSite) -> None:
    here = site("wins")
    async with tree(here, {"r0": [4, 4], "r1": [4, 4]}):
        await here.make(CONFIG_MAPS, a_group(here, "g", 4, {"rack": {"type": "spread", "partitions": 2}}))
        await here.make(POD_GROUPS, {"metadata": {"name": "g", "namespace": here.name}, "spec": {"minMember": 2}})
        for number in range(4):
            pod = a_pod(here, f"g-{number}", "g")
            pod["metadata"]["labels"] = {GANG_LABEL: "g"}
            pod["spec"].pop("schedulerName")
            await here.make(PODS, pod)
            if number == 1:
                await told(here, "2 of 4 pods exist")
        assert shares(await are(here, "g-", Running=4)) == {"r0": [2], "r1": [2]}
        assert (await here.kube.get(PODS, "g-0", here.name))["metadata"]["labels"][QUEUE_NAME_LABEL] == GANG_QUEUE


# ---- queues and trees


async def test_a_flavor_names_the_tree_and_its_queue_counts(site: MakeSite) -> None:
    here = site("named")
    units = {"r0": [4, 4], "r1": [4, 4]}
    async with tree(here, units):
        flavor = {"nodeLabels": {GROUP: here.name}, "topologyName": here.name}
        await here.make(RESOURCE_FLAVORS, {"metadata": {"name": here.name}, "spec": flavor})
        resources = [{"name": "cpu", "nominalQuota": 100}, {"name": GPU, "nominalQuota": 5}]
        groups = [{"coveredResources": ["cpu", GPU], "flavors": [{"name": here.name, "resources": resources}]}]
        spec = {"namespaceSelector": {}, "resourceGroups": groups}
        await here.make(CLUSTER_QUEUES, {"metadata": {"name": here.name}, "spec": spec})
        local = {"metadata": {"name": "lq", "namespace": here.name}, "spec": {"clusterQueue": here.name}}
        await here.make(LOCAL_QUEUES, local)
        await here.make(CONFIG_MAPS, a_group(here, "q", 4, {"rack": {"type": "spread", "partitions": 2}}))
        await create(here, "q", 4, labels={QUEUE_NAME_LABEL: "lq"})
        assert shares(await are(here, "q-", Running=4)) == {"r0": [2], "r1": [2]}
        await here.make(CONFIG_MAPS, a_group(here, "more", 2))
        await create(here, "more", 2, labels={QUEUE_NAME_LABEL: "lq"})
        await stay(here, "more-", Gated=2)
        # a Job of the queue goes by the same tree
        job = here.job("train", 1, {"stowage.dev/placement-constraints": '{"rack": {"hard": true}}'})
        await here.submit(job)
        await here.running("train", 1)


async def test_a_tree_may_change_and_a_bad_one_leaves_the_last_good_one(site: MakeSite) -> None:
    here = site("changes")
    units = {"r0": [1, 1], "r1": [1, 1]}
    hard = {"rack": {"type": "pack", "hard": True}}
    async with tree(here, units):
        name = f"tree-{here.name}"
        await here.make(CONFIG_MAPS, a_group(here, "g", 3, hard))
        await create(here, "g", 3)
        await stay(here, "g-", Gated=3)

        async def change(tree: str) -> None:
            await here.kube.patch(CONFIG_MAPS, name, {"data": {"tree": tree}}, "default", kind=PatchKind.MERGE)

        await change("{")
        why = "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
        bad = f"must be a JSON object of units by name: {why}"
        await told(
            here,
            f"data.tree: '{{': {bad}; the last good tree stays in force",
            kind="ConfigMap",
            reason="InvalidTopology",
            namespace="default",
        )
        await change(json.dumps({"r": {node(here, "r0", 0): {}, "nobody": {}}}))
        await told(
            here,
            "data.tree: the cluster has no node nobody; the last good tree stays in force",
            kind="ConfigMap",
            reason="InvalidTopology",
            namespace="default",
        )
        await stay(here, "g-", Gated=3)
        row: dict[str, Tree] = {node(here, unit, n): {} for unit in units for n in range(2)}
        await change(json.dumps({"all": row}))
        assert shares(await are(here, "g-", Running=3)) in ({"r0": [1, 1], "r1": [1]}, {"r0": [1], "r1": [1, 1]})


async def test_changes_while_the_controller_is_down_apply_when_it_is_back(site: MakeSite, stage: Stage) -> None:
    here = site("down")
    units = {"r0": [2, 2], "r1": [2, 2]}
    async with tree(here, units):
        await create(here, "g", 4)
        await stay(here, "g-", Gated=4)
        await stage.processes.crash("controller")
        halves: Tree = {f"half-{n}": {node(here, unit, n): {} for unit in units} for n in range(2)}
        body = {"data": {"level-names": '["half", "node"]', "tree": json.dumps(halves)}}
        await here.kube.patch(CONFIG_MAPS, f"tree-{here.name}", body, "default", kind=PatchKind.MERGE)
        await here.make(CONFIG_MAPS, a_group(here, "g", 4, {"half": {"type": "pack", "hard": True}}))
        await stage.processes.restart("controller")
        pods = await are(here, "g-", Running=4)
    found = Counter(pod["spec"]["nodeName"].rpartition("-")[2] for pod in pods)
    assert list(found.values()) == [4], "all on the first nodes of both racks, or on the second ones"


# ---- priority


# ---- bad input
