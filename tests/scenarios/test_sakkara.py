"""Sakkara groups: trees and groups told in ConfigMaps, placed as they say, bound by the stock scheduler. No queue is named
unless a test says so. The tree that groups of no queue go by is the first of the cluster: each test makes its own, and takes
it away."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import pytest

from api.errors import ApiError, Forbidden, NotFound
from api.kube.client import PatchKind
from api.kube.resources import (
    CLUSTER_QUEUES,
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    EVENTS,
    JOBSETS,
    LOCAL_QUEUES,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    RESOURCE_FLAVORS,
    WORKLOADS,
    Resource,
)
from api.names import (
    GANG_LABEL,
    GANG_QUEUE,
    HOSTNAME_LABEL,
    POD_GROUP_NAME,
    QUEUE_NAME_LABEL,
    SAKKARA_GROUP,
    SAKKARA_GROUP_ANNOTATION,
    SAKKARA_GROUP_NAME,
    SAKKARA_RANK,
    SAKKARA_TOPOLOGY,
)
from api.sakkara import label_of_level
from hack.controlplane.options import ClusterOptions
from tests.scenarios.site import GPU, GROUP, RACK, Site, eventually, never
from tests.scenarios.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")
CONTROL_PLANE = ClusterOptions(jobset=True)
APP_WRAPPERS = Resource("example.com", "v1", "appwrappers", "AppWrapper")

MakeSite = Callable[[str], Site]
Units = Mapping[str, Sequence[int]]
"""GPUs of each node, by unit (rack or server)."""
Tree = dict[str, dict[str, dict[str, str]]]

A = {"rack": {"type": "spread", "partitions": 2}, "node": {"type": "pack"}}
B = {"server": {"type": "pack"}, "node": {"type": "spread", "min": 2, "max": 4}}
APART = {"rack": {"type": "pack"}, "node": {"type": "spread"}}


# ---- what is made


async def site_of(here: Site, units: Units) -> None:
    """A namespace, and nodes `<site>-b-<unit>-<n>` with so many GPUs."""
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    for unit, gpus in units.items():
        for n, amount in enumerate(gpus):
            here.gpus_per_host = amount
            await here._add_node("b", unit, node(here, unit, n))


def node(here: Site, unit: str, n: int) -> str:
    return f"{here.name}-b-{unit}-{n}"


def tree_of(here: Site, units: Units, level: str = "rack", **data: str) -> dict[str, Any]:
    """The topology ConfigMap of these nodes."""
    tree: Tree = {unit: {node(here, unit, n): {} for n in range(len(gpus))} for unit, gpus in units.items()}
    given = {"name": here.name, "level-names": json.dumps([level, "node"]), "tree": json.dumps(tree), **data}
    metadata = {"name": f"tree-{here.name}", "namespace": "default", "labels": {SAKKARA_TOPOLOGY: ""}}
    return {"metadata": metadata, "data": given}


@contextlib.asynccontextmanager
async def tree(here: Site, units: Units, level: str = "rack") -> AsyncIterator[None]:
    """The nodes, and their tree while the block lasts."""
    await site_of(here, units)
    made = tree_of(here, units, level)
    await here.make(CONFIG_MAPS, made)
    try:
        yield
    finally:
        await here.kube.delete(CONFIG_MAPS, made["metadata"]["name"], "default")


def a_group(here: Site, name: str, size: int | str, constraints: Any = None, **data: str) -> dict[str, Any]:
    """The group's ConfigMap."""
    given = {"name": name, "size": str(size), **data}
    if constraints is not None:
        given["constraints"] = constraints if isinstance(constraints, str) else json.dumps(constraints)
    return {"metadata": {"name": name, "namespace": here.name, "labels": {SAKKARA_GROUP: ""}}, "data": given}


def a_pod(
    here: Site, name: str, group: str, *, gpus: int = 1, labels: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A member, of a scheduler that does not exist."""
    made = template(here, {SAKKARA_GROUP_NAME: group, **(labels or {})}, gpus)
    return {
        "metadata": {"name": name, "namespace": here.name, "labels": made["metadata"]["labels"]},
        "spec": made["spec"],
    }


def template(here: Site, labels: Mapping[str, str], gpus: int = 1) -> dict[str, Any]:
    made = here.template(gpus)
    spec = {**made["spec"], "nodeSelector": {GROUP: here.name}, "schedulerName": "sakkara-scheduler"}
    return {"metadata": {"labels": dict(labels)}, "spec": spec}


async def create(here: Site, group: str, count: int, *, first: int = 0, **more: Any) -> None:
    for number in range(first, first + count):
        await here.make(PODS, a_pod(here, f"{group}-{number}", group, **more))


def a_job(here: Site, group: str, pods: int) -> dict[str, Any]:
    """A Job of no queue whose pods are members, each made again some time after it was deleted."""
    spec = {
        "parallelism": pods,
        "completions": pods,
        "completionMode": "Indexed",
        "backoffLimit": 100,
        "template": template(here, {SAKKARA_GROUP_NAME: group}),
    }
    return {"metadata": {"name": group, "namespace": here.name}, "spec": spec}


def a_deployment(here: Site, group: str, pods: int) -> dict[str, Any]:
    """A Deployment whose pods are members, each made again at once when it is deleted."""
    made = template(here, {SAKKARA_GROUP_NAME: group, "app": group})
    made["spec"]["restartPolicy"] = "Always"
    spec = {"replicas": pods, "selector": {"matchLabels": {"app": group}}, "template": made}
    return {"metadata": {"name": group, "namespace": here.name}, "spec": spec}


# ---- what is seen


async def members(here: Site, prefix: str) -> list[dict[str, Any]]:
    page = await here.kube.list(PODS, here.name)
    mine = [pod for pod in page.items if pod["metadata"]["name"].startswith(prefix)]
    return [
        pod
        for pod in mine
        if not pod["metadata"].get("deletionTimestamp") and pod.get("status", {}).get("phase") != "Failed"
    ]


async def states(here: Site, prefix: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for pod in await members(here, prefix):
        gated = bool(pod["spec"].get("schedulingGates"))
        found["Gated" if gated else pod.get("status", {}).get("phase", "Pending")] += 1
    return found


async def are(here: Site, prefix: str, **wanted: int) -> list[dict[str, Any]]:
    """Waits until the pods whose names begin so are in these states; returns them."""
    last: Counter[str] = Counter()

    async def check() -> bool:
        nonlocal last
        last = await states(here, prefix)
        return last == Counter(wanted)

    try:
        await eventually(f"{prefix}: {wanted}", check, 60)
    except AssertionError as late:
        raise AssertionError(f"{late}; {dict(last)}; {await story(here)}") from None
    return await members(here, prefix)


async def stay(here: Site, prefix: str, **wanted: int) -> None:
    async def other() -> bool:
        return await states(here, prefix) != Counter(wanted)

    await never(f"{prefix} is no more {wanted}", other)


async def story(here: Site) -> str:
    said = []
    for made in (await here.kube.list(WORKLOADS, here.name)).items:
        conditions = made.get("status", {}).get("conditions", ())
        said.append((made["metadata"]["name"], [f"{c['type']}={c['status']} {c['message']}" for c in conditions]))
    events = [f"{e['reason']}: {e['message']}" for e in (await here.kube.list(EVENTS, here.name)).items]
    return f"workloads: {said}; events: {events[-12:]}"


def shares(pods: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
    """Pods on each used node, the fullest first, by unit."""
    nodes = Counter(pod["spec"]["nodeName"] for pod in pods)
    found: dict[str, list[int]] = {}
    for name, count in nodes.items():
        found.setdefault(name.rsplit("-", 2)[1], []).append(count)
    return {unit: sorted(counts, reverse=True) for unit, counts in sorted(found.items())}


async def told(here: Site, text: str, *, kind: str = "Pod", reason: str = "GangWaiting", namespace: str = "") -> None:
    """Waits until an event of that reason says so."""
    last: list[str] = []

    async def check() -> bool:
        nonlocal last
        events = (await here.kube.list(EVENTS, namespace or here.name)).items
        last = [e["message"] for e in events if e["involvedObject"]["kind"] == kind and e["reason"] == reason]
        return text in last

    try:
        await eventually(f"told {text}", check)
    except AssertionError as late:
        raise AssertionError(f"{late}; {last}") from None


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


async def test_no_pod_of_a_group_goes_through_its_gate_before_it_bears_its_rank(site: MakeSite) -> None:
    """Issue 16, A6: an environment variable that is made of the label is filled when the pod starts."""
    here = site("rank-first")
    async with tree(here, {"r0": [4, 4]}):
        await here.make(CONFIG_MAPS, a_group(here, "g", 6))
        await create(here, "g", 6)

        async def all_through() -> bool:
            through = [pod for pod in await members(here, "g-") if not pod["spec"].get("schedulingGates")]
            for pod in through:
                assert SAKKARA_RANK in pod["metadata"]["labels"], pod
            return len(through) == 6

        await eventually("all have ranks and start", all_through)


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


async def test_a_group_evicts_whole_groups_of_lower_priority_the_least_that_suffice(
    site: MakeSite, stage: Stage
) -> None:
    here = site("priority")
    async with tree(here, {"r0": [4], "r1": [4], "r2": [4]}):
        for name, size, priority in (("low", 4, 0), ("mid", 4, 5), ("high", 4, 10)):
            await here.make(CONFIG_MAPS, a_group(here, name, size, priority=str(priority)))
            if stage.name == "embedded":
                await create(here, name, size)
            else:
                await here.make(DEPLOYMENTS, a_deployment(here, name, size))
            await are(here, f"{name}-", Running=size)
        # equal priority evicts nobody, nor does a group that would not fit even then
        for name, size, priority in (("equal", 4, 0), ("huge", 13, 100)):
            await here.make(CONFIG_MAPS, a_group(here, name, size, priority=str(priority)))
            await create(here, name, size)
        for name in ("low", "mid", "high"):
            await stay(here, f"{name}-", Running=4)
        await here.make(CONFIG_MAPS, a_group(here, "urgent", 3, priority="7"))
        await create(here, "urgent", 3)
        await are(here, "urgent-", Running=3)
        await are(here, "low-", **({} if stage.name == "embedded" else {"Gated": 4}))
        await are(here, "mid-", Running=4)
        await are(here, "high-", Running=4)
        await stay(here, "huge-", Gated=13)
        await here.change(CONFIG_MAPS, "mid", {"data": {"priority": "20"}})

        async def followed() -> bool:
            return bool((await here.kube.get(WORKLOADS, "mid", here.name))["spec"]["priority"] == 20)

        await eventually("the group's new priority holds while it runs", followed)


async def test_a_job_whose_group_is_evicted_runs_again_and_none_of_its_pods_has_failed(
    site: MakeSite, stage: Stage
) -> None:
    """Issue 16, A4: eight pods are evicted, and backoffLimit allows six to fail."""
    if stage.name == "embedded":
        pytest.skip("pods that the embedded API server's Job controller makes pass no webhooks")
    here = site("evicted-job")
    async with tree(here, {"r0": [4, 4]}):
        await here.make(CONFIG_MAPS, a_group(here, "low", 8))
        job = a_job(here, "low", 8)
        del job["spec"]["backoffLimit"]  # 6
        await here.submit(job)
        await are(here, "low-", Running=8)
        await here.make(CONFIG_MAPS, a_group(here, "high", 8, priority="5"))
        await create(here, "high", 8)
        await are(here, "high-", Running=8)
        await are(here, "low-", Gated=8)
        status = (await here.get_job("low"))["status"]
        assert (status.get("failed", 0), status.get("active")) == (0, 8)
        for number in range(8):
            await here.kube.delete(PODS, f"high-{number}", here.name)
        await are(here, "low-", Running=8)
        status = (await here.get_job("low"))["status"]
        assert (status.get("failed", 0), status.get("active")) == (0, 8)


DISRUPTED = {"type": "DisruptionTarget"}


def job_spec(here: Site, group: str, **spec: Any) -> dict[str, Any]:
    """Of a Job of two members; without a backoffLimit of ours."""
    made = a_job(here, group, 2)["spec"]
    del made["backoffLimit"]
    return {**made, **spec}


WRAPPED = "wrapped"
"""The Job of a wrapper of a kind that Stowage does not manage."""
OWNERS: dict[str, dict[str, Any]] = {
    "once": {"backoffLimit": 0},
    WRAPPED: {"backoffLimit": 0},
    "plain": {"backoffLimit": 0, "completionMode": "NonIndexed"},
    "index": {"backoffLimitPerIndex": 0, "maxFailedIndexes": 0},
    "harsh": {
        "backoffLimit": 0,
        "podFailurePolicy": {
            "rules": [
                {"action": "FailJob", "onPodConditions": [{**DISRUPTED, "status": "True"}]},
                {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}},
            ]
        },
    },
}
"""Jobs that the first failure of a pod ends."""


async def an_app_wrapper(here: Site, job: Mapping[str, Any]) -> dict[str, Any]:
    """An AppWrapper of the Job, made as soon as its kind is served; a reference to it as the owner of the Job."""
    kind = {
        "kind": APP_WRAPPERS.kind,
        "plural": APP_WRAPPERS.plural,
        "singular": "appwrapper",
        "listKind": "AppWrapperList",
    }
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": APP_WRAPPERS.version, "served": True, "storage": True, "schema": schema}
    spec = {"group": APP_WRAPPERS.group, "scope": "Namespaced", "names": kind, "versions": [version]}
    await here.make(CRDS, {"metadata": {"name": f"{APP_WRAPPERS.plural}.{APP_WRAPPERS.group}"}, "spec": spec})
    metadata = {"name": WRAPPED, "namespace": here.name}
    body = {
        "metadata": metadata,
        "spec": {"components": [{"template": {"apiVersion": "batch/v1", "kind": "Job", **job}}]},
    }

    async def made() -> dict[str, Any] | None:
        with contextlib.suppress(NotFound):
            return await here.make(APP_WRAPPERS, body)
        return None

    uid = (await eventually("AppWrappers are served", made))["metadata"]["uid"]
    owner = {"apiVersion": APP_WRAPPERS.api_version, "kind": APP_WRAPPERS.kind, "name": WRAPPED, "uid": uid}
    return {**owner, "controller": True, "blockOwnerDeletion": True}


async def test_no_job_ends_by_the_eviction_of_its_group(site: MakeSite, stage: Stage) -> None:
    """Issue 16, A4: Jobs that allow no failure at all, of each kind, an AppWrapper's, and a JobSet without restarts."""
    if stage.name == "embedded":
        pytest.skip("pods that the embedded API server's Job controller makes pass no webhooks")
    here = site("evicted-jobs")
    names = [*OWNERS, "set"]
    size = 2 * len(names)

    async def untouched() -> None:
        """None has failed or counts a failure."""
        for name in names:
            job = await here.get_job("set-part-0" if name == "set" else name)
            status = job.get("status", {})
            ended = [c["type"] for c in status.get("conditions") or () if c["status"] == "True"]
            seen = (status.get("failed", 0), status.get("failedIndexes", ""), ended)
            assert seen == (0, "", []), f"{name}: {status}"
        whole = (await here.get_job("set", JOBSETS))["status"]
        assert not whole.get("restarts"), whole
        assert not whole.get("terminalState"), whole

    async with tree(here, {"r0": [len(names)] * 2}):
        uids = {}
        for name in names:
            await here.make(CONFIG_MAPS, a_group(here, name, 2))
            if name == "set":
                replicated = [
                    {"name": "part", "replicas": 1, "template": {"spec": job_spec(here, name, backoffLimit=0)}}
                ]
                spec = {"replicatedJobs": replicated, "failurePolicy": {"maxRestarts": 0}}
                await here.submit_jobset({"metadata": {"name": name, "namespace": here.name}, "spec": spec})
            else:
                metadata: dict[str, Any] = {"name": name, "namespace": here.name}
                job = {"metadata": metadata, "spec": job_spec(here, name, **OWNERS[name])}
                if name == WRAPPED:
                    metadata["ownerReferences"] = [await an_app_wrapper(here, job)]
                made = await here.submit(job)
                uids[name] = made["metadata"]["uid"]
        for name in names:
            await are(here, f"{name}-", Running=2)
        await here.make(CONFIG_MAPS, a_group(here, "high", size, priority="5"))
        await create(here, "high", size)
        await are(here, "high-", Running=size)
        for name in names:
            await are(here, f"{name}-", Gated=2)
        await untouched()
        for number in range(size):
            await here.kube.delete(PODS, f"high-{number}", here.name)
        for name in names:
            await are(here, f"{name}-", Running=2)
        await untouched()
        for name, uid in uids.items():
            assert (await here.get_job(name))["metadata"]["uid"] == uid, "the same Job runs again"


# ---- bad input


async def refused(here: Site, resource: Any, obj: Mapping[str, Any]) -> str:
    """What the API server answers to it."""
    body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
    with pytest.raises(Forbidden) as answer:
        await here.kube.create(resource, body)
    return str(answer.value)


SIZE = "must be a whole number from 1 to 2147483647"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param({"size": "many"}, f'data.size: Invalid value: "many": {SIZE}', id="size"),
        pytest.param(
            {"priority": "1.5"},
            'data.priority: Invalid value: "1.5": must be a whole number from -2147483648 to 2147483647',
            id="priority",
        ),
        pytest.param(
            {"name": "Group A"},
            'data.name: Invalid value: "Group A": must be a DNS subdomain of at most 253 characters',
            id="name",
        ),
        pytest.param(
            {"constraints": '{"rack": {"type": "spread", "partitions": 3}}'},
            "data.constraints[rack][partitions]: Invalid value: 3: contradicts size 2: must not be greater",
            id="partitions-above-size",
        ),
        pytest.param(
            {"constraints": '{"node": {"min": 4, "max": 2}}'},
            "data.constraints[node][min]: Invalid value: 4: contradicts max 2: must not be greater",
            id="min-above-max",
        ),
        pytest.param(
            {"constraints": '{"node": {"max": 3, "factor": 4}}'},
            "data.constraints[node][factor]: Invalid value: 4: contradicts max 3: no count in that range is a multiple",
            id="factor",
        ),
        pytest.param(
            {"constraints": '{"node": {"type": "stack"}}'},
            'data.constraints[node][type]: Invalid value: "stack": must be one of pack, spread',
            id="type",
        ),
    ],
)
async def test_a_malformed_group_is_refused_with_what_is_wrong(
    site: MakeSite, data: dict[str, str], message: str
) -> None:
    here = site("malformed")
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    bad = a_group(here, "bad", 2)
    bad["data"] |= data
    assert message in await refused(here, CONFIG_MAPS, bad)
    good = a_group(here, "good", 2)
    await here.make(CONFIG_MAPS, good)
    with pytest.raises(ApiError, match=r"data\.size"):
        await here.change(CONFIG_MAPS, "good", {"data": {"size": "0"}})
    await here.change(CONFIG_MAPS, "good", {"data": {"status": "Pending"}})
    await here.remove(CONFIG_MAPS, "good")


async def test_a_pod_that_differs_is_refused_with_the_name_of_another(site: MakeSite) -> None:
    here = site("differs")
    await site_of(here, {"r0": [4]})
    await create(here, "g", 1)
    resources = "must ask for the same resources as pod g-0 of gang g: cpu 1, nvidia.com/gpu 1"
    demands = "must have the node selector, affinity, tolerations and priority of pod g-0 of gang g"

    async def answer(pod: dict[str, Any]) -> str:
        """Until the webhook has seen the first pod."""
        tries = itertools.count()

        async def told() -> str | None:
            pod["metadata"]["name"] = f"h-{next(tries)}"
            try:
                await here.kube.create(PODS, {"apiVersion": "v1", "kind": "Pod", **pod})
            except Forbidden as bad:
                return str(bad)
            return None

        return await eventually("the pod is refused", told)

    said = await answer(a_pod(here, "h-1", "g", gpus=2))
    assert f'spec.containers: Invalid value: "cpu 1, nvidia.com/gpu 2": {resources}' in said
    elsewhere = a_pod(here, "h-2", "g")
    elsewhere["spec"]["nodeSelector"] = {RACK: "r0"}
    assert f"spec: Invalid value: {demands}" in await answer(elsewhere)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        pytest.param(
            {SAKKARA_GROUP_NAME: "a", GANG_LABEL: "b"},
            f'metadata.labels[{GANG_LABEL}]: Invalid value: "b": must be the same as {SAKKARA_GROUP_NAME}, a',
            id="two-groups",
        ),
        pytest.param(
            {SAKKARA_GROUP_NAME: "a", POD_GROUP_NAME: "b"},
            f'metadata.labels[{SAKKARA_GROUP_NAME}]: Invalid value: "a": must be the name in {POD_GROUP_NAME}, b',
            id="another-dialect",
        ),
        pytest.param(
            {SAKKARA_GROUP_NAME: "Group_A"},
            f'metadata.labels[{SAKKARA_GROUP_NAME}]: Invalid value: "Group_A": must be a DNS subdomain',
            id="no-name",
        ),
    ],
)
async def test_a_pod_that_names_its_group_badly_is_refused(
    site: MakeSite, labels: dict[str, str], message: str
) -> None:
    here = site("names")
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    pod = a_pod(here, "p", "a")
    pod["metadata"]["labels"] = labels
    assert message in await refused(here, PODS, pod)


async def test_a_level_that_the_tree_lacks_is_reported(site: MakeSite) -> None:
    here = site("level")
    async with tree(here, {"r0": [4]}):
        await here.make(CONFIG_MAPS, a_group(here, "g", 2, {"row": {"type": "spread"}}))
        await create(here, "g", 2)
        levels = f"{label_of_level(here.name, 'rack')}, {HOSTNAME_LABEL}"
        await here.waits("g-0", "TopologyPlacementFailed", f"placement constraint: no level row: there are {levels}")
        await stay(here, "g-", Gated=2)


async def test_a_second_config_map_of_one_group_is_reported(site: MakeSite) -> None:
    here = site("second")
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    for name, size in (("one", 2), ("two", 3)):
        made = a_group(here, name, size)
        made["data"]["name"] = "g"
        await here.make(CONFIG_MAPS, made)
    said = "data.name: 'g': ConfigMap one describes the group of this name"
    await told(here, said, kind="ConfigMap", reason="InvalidGroup")


async def test_unlabelled_config_maps_are_ignored(site: MakeSite) -> None:
    here = site("others")
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    await here.make(CONFIG_MAPS, {"metadata": {"name": "any", "namespace": here.name}, "data": {"size": "many"}})
    await here.remove(CONFIG_MAPS, "any")
