"""Promises of the documents beside their stories: match policies, constraints of each kind, trees without their levels."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from api.kube.client import PatchKind
from api.kube.resources import CONFIG_MAPS, EVENTS, NAMESPACES, PODS
from tests.scenarios.seeds.stories import are, cluster, pod, removed, stay
from tests.scenarios.site import Site, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")
ENVIRONMENT = {"STOWAGE_SAKKARA__TOPOLOGY_NAMESPACE": "sakkara"}
MakeSite = Callable[[str], Site]

# ---- 001: match policies

MATCHED = """
labels:
  pod-group.scheduling.sigs.k8s.io/name: tf-smoke-gpu
  pod-group.scheduling.sigs.k8s.io/min-available: "4"
  pod-group.scheduling.sigs.k8s.io/match-policy: "{policy}"
"""


@pytest.mark.parametrize(
    ("policy", "joiners"),
    [
        pytest.param("only-waiting", 4, id="only-waiting"),
        pytest.param("waiting-and-running", 2, id="waiting-and-running"),
        pytest.param("waiting-running-succeed", 1, id="waiting-running-succeed"),
        pytest.param("once-satisfied", 1, id="once-satisfied"),
    ],
)
async def test_001_the_match_policy_says_which_pods_count_for_one_that_joins(
    site: MakeSite, policy: str, joiners: int
) -> None:
    """Of four pods two have succeeded and one has failed. The first new pod takes its place under every policy; for the next
    ones the policy counts two that run and two that have succeeded, and never the one that failed."""
    here = site(f"seed-001-{policy}")
    lines = MATCHED.format(policy=policy)
    async with cluster(here, {"n-0": {}}, gpus=8):
        for number in range(4):
            await here.make(PODS, pod(here, f"worker-{number}", lines, gpus=1))
        await are(here, Running=4)
        for number, phase in enumerate(("Succeeded", "Succeeded", "Failed")):
            body = {"status": {"phase": phase}}
            await here.kube.patch(PODS, f"worker-{number}", body, here.name, kind=PatchKind.MERGE, subresource="status")
        await are(here, Running=1, Succeeded=2, Failed=1)
        await here.make(PODS, pod(here, "replacement", lines, gpus=1))
        await are(here, Running=2, Succeeded=2, Failed=1)
        for number in range(joiners):
            if number:
                await stay(here, Running=2, Succeeded=2, Failed=1, Gated=number)
            await here.make(PODS, pod(here, f"late-{number}", lines, gpus=1))
        await are(here, Running=2 + joiners, Succeeded=2, Failed=1)


# ---- 002: constraints of each kind, as the document writes them

NODES_OF_TWO_RACKS = {f"node-{number}": {"rack": f"rack-{number // 3}"} for number in range(6)}
TREE: dict[str, dict[str, dict[str, str]]] = {
    f"rack-{rack}": {f"node-{3 * rack + number}": {} for number in range(3)} for rack in range(2)
}


def a_tree() -> Any:
    data = {"name": "cluster-tree", "level-names": '["rack", "node"]', "tree": json.dumps(TREE)}
    metadata = {"name": "cluster-topology-configmap", "namespace": "sakkara", "labels": {"sakkara.topology": ""}}
    return {"metadata": metadata, "data": data}


def a_group(here: Site, size: int, constraints: str) -> Any:
    metadata = {"name": "group-a", "namespace": here.name, "labels": {"sakkara.group": ""}}
    return {"metadata": metadata, "data": {"name": "group-a", "size": str(size), "constraints": constraints}}


async def placed(here: Site, size: int, constraints: str) -> Counter[str]:
    """The pods of a group of that size on each node."""
    await here.make(CONFIG_MAPS, a_group(here, size, constraints))
    lines = "labels:\n  sakkara.group.name: group-a\n"
    for number in range(size):
        await here.make(PODS, pod(here, f"pod-{number}", lines, gpus=1, schedulerName="sakkara"))
    return Counter(one["spec"]["nodeName"] for one in await are(here, Running=size))


@pytest.mark.parametrize(
    ("constraints", "shares"),
    [
        pytest.param('{"node": {"type": "pack"}}', [4, 4], id="pack"),
        pytest.param('{"rack": {"type": "pack"}, "node": {"type": "spread"}}', [2, 3, 3], id="spread"),
        pytest.param('{"node": {"type": "spread", "partitions": 3}}', [2, 3, 3], id="partition"),
        pytest.param('{"node": {"min": 2, "max": 4}}', [4, 4], id="range"),
        pytest.param('{"node": {"max": 2}}', [2, 2, 2, 2], id="max"),
        pytest.param('{"node": {"factor": 4}}', [4, 4], id="factor"),
        pytest.param('{"rack": {"type": "spread", "partitions": 2}, "node": {"type": "pack"}}', [4, 4], id="user-a"),
    ],
)
async def test_002_each_kind_of_constraint(
    site: MakeSite, constraints: str, shares: list[int], request: pytest.FixtureRequest
) -> None:
    """Eight pods on six nodes of four GPUs; soft constraints, and levels that no constraint names."""
    await site("sakkara").make(NAMESPACES, {"metadata": {"name": "sakkara"}})
    here = site(f"seed-002-{request.node.callspec.id.rpartition('-')[2]}")
    async with cluster(here, NODES_OF_TWO_RACKS, gpus=4):
        await here.make(CONFIG_MAPS, a_tree())
        try:
            assert sorted((await placed(here, 8, constraints)).values()) == shares
        finally:
            await removed(here, CONFIG_MAPS, "cluster-topology-configmap", "sakkara")


async def test_002_without_a_tree_the_topology_is_flat_and_group_a_starts(site: MakeSite) -> None:
    """Its soft constraint for racks is told and ignored, the one for nodes holds."""
    here = site("seed-002-flat")
    async with cluster(here, NODES_OF_TWO_RACKS, gpus=4):
        on = await placed(here, 8, '{"rack": {"type": "pack"}, "node": {"type": "spread"}}')
        assert sorted(on.values()) == [1, 1, 1, 1, 2, 2]

        async def told() -> bool:
            events = (await here.kube.list(EVENTS, here.name)).items
            return any(e["reason"] == "ConstraintIgnored" and "no level rack" in e["message"] for e in events)

        await eventually("told that a constraint is ignored", told)


async def test_002_a_hard_constraint_of_a_level_that_the_tree_lacks_keeps_the_group_waiting(site: MakeSite) -> None:
    here = site("seed-002-hard")
    async with cluster(here, NODES_OF_TWO_RACKS, gpus=4):
        await here.make(CONFIG_MAPS, a_group(here, 1, '{"rack": {"type": "pack", "hard": true}}'))
        await here.make(PODS, pod(here, "pod-0", "labels:\n  sakkara.group.name: group-a\n", gpus=1))

        async def told() -> bool:
            data = (await here.kube.get(CONFIG_MAPS, "group-a", here.name))["data"]
            return "placement constraint: no level rack" in data.get("message", "")

        await eventually("the group's ConfigMap says why", told)
        await stay(here, Gated=1)
