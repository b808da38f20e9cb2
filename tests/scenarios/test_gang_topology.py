"""Gangs with a place: the whole placement language on pods and PodGroups, roles in one domain, GangGroups that make room."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from api import names
from api.errors import ApiError
from api.kube.resources import NAMESPACES, POD_GROUPS, PODS, SIGS_POD_GROUPS, WORKLOADS
from api.meta import find_condition, parse_time
from api.names import (
    GANG_LABEL,
    GANG_MINIMUM,
    GANG_NAME,
    HOSTNAME_LABEL,
    KOORDINATOR_MINIMUM,
    KOORDINATOR_NAME,
    POD_GROUP_NAME,
    POD_GROUP_TOTAL_COUNT,
    PODSET_GROUP_NAME,
    REQUIRE_TOPOLOGY,
    REQUIRED_TOPOLOGY,
    SIGS_GANG_GROUPS,
    SIGS_GANG_MINIMUM,
    SIGS_GANG_NAME,
)
from api.workloads import Workload
from tests.scenarios.gangs import a_pod, create, end, expect_phases, expect_reason, expect_same_phases, said, story
from tests.scenarios.site import BLOCK, RACK, Site, eventually
from tests.scenarios.tenants import evicted, prioritized

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True

MakeSite = Callable[[str], Site]
Texts = dict[str, str]


async def pods_of(here: Site, prefix: str = "") -> list[dict[str, Any]]:
    found = (await here.kube.list(PODS, here.name)).items
    return [pod for pod in found if pod["metadata"]["name"].startswith(prefix) and pod["spec"].get("nodeName")]


async def racks(here: Site, prefix: str = "") -> Counter[str]:
    return await here.racks(await pods_of(here, prefix))


def by_host(pods: list[dict[str, Any]]) -> list[int]:
    return sorted(Counter(pod["spec"]["nodeName"] for pod in pods).values())


def pod_group(here: Site, name: str, minimum: int, annotations: Mapping[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": here.name, "annotations": dict(annotations)}
    return {"metadata": metadata, "spec": {"minMember": minimum}}


# ---- roles


@pytest.mark.parametrize("resource", [POD_GROUPS, SIGS_POD_GROUPS], ids=["x-k8s", "sigs"])
async def test_a_pod_group_that_requires_a_rack_lands_there_with_all_its_roles(site: MakeSite, resource: Any) -> None:
    here = site(f"roles-rack-{resource.group.split('.')[1]}")
    await here.open({"b1": {"r1": 1, "r2": 2}})
    await here.make(resource, pod_group(here, "train", 4, {REQUIRED_TOPOLOGY: RACK}))
    labels = {GANG_LABEL: "train"}
    server, *workers = (
        a_pod(here, name, labels, gpus=gpus) for name, gpus in (("ps", 1), ("w-0", 2), ("w-1", 2), ("w-2", 2))
    )
    await create(here, server, *workers[:2])
    await expect_same_phases(here, "", Gated=3)
    await create(here, workers[2])
    await expect_phases(here, "", Running=4)
    assert await racks(here) == {"b1/r2": 4}, "the server alone would fit the smaller rack"
    workload = Workload.from_wire(await here.kube.get(WORKLOADS, "train", here.name))
    assert len(workload.spec.pod_sets) == 2


async def test_roles_that_share_a_group_name_share_a_rack_and_others_do_not(site: MakeSite) -> None:
    here = site("roles-named")
    await here.open({"b1": {"r1": 1, "r2": 2}})
    one = {REQUIRED_TOPOLOGY: RACK, PODSET_GROUP_NAME: "one"}
    gang = said("named", 4)
    await create(here, a_pod(here, "ps", gang, one, gpus=1), *(a_pod(here, f"w-{i}", gang, one) for i in range(3)))
    await expect_phases(here, "", Running=4)
    assert await racks(here) == {"b1/r2": 4}


async def test_gangs_of_a_group_that_ask_for_one_block_lie_in_it(site: MakeSite) -> None:
    here = site("group-block")
    await here.open({"b1": {"r1": 1}, "b2": {"r1": 1, "r2": 1}})
    both = json.dumps([f"{here.name}/master", f"{here.name}/workers"])
    asked = {SIGS_GANG_GROUPS: both, REQUIRE_TOPOLOGY: BLOCK, PODSET_GROUP_NAME: "job"}
    await create(here, a_pod(here, "master-0", said("master", 1), asked, gpus=1, queue="lq"))
    await create(here, *(a_pod(here, f"worker-{i}", said("workers", 3), asked, queue="lq") for i in range(2)))
    await expect_same_phases(here, "", Gated=3)
    await create(here, a_pod(here, "worker-2", said("workers", 3), asked, queue="lq"))
    await expect_phases(here, "", Running=4)
    assert {rack.partition("/")[0] for rack in await racks(here)} == {"b2"}, (
        "the master alone would fit the smaller one"
    )


# ---- the language, in each dialect


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [
        pytest.param({GANG_NAME: "g", GANG_MINIMUM: "4"}, {}, id="coscheduling"),
        pytest.param({SIGS_GANG_NAME: "g", SIGS_GANG_MINIMUM: "4"}, {}, id="older"),
        pytest.param({GANG_LABEL: "g"}, {}, id="podgroup"),
        pytest.param({}, {KOORDINATOR_NAME: "g", KOORDINATOR_MINIMUM: "4"}, id="koordinator"),
        pytest.param({POD_GROUP_NAME: "g"}, {POD_GROUP_TOTAL_COUNT: "4"}, id="kueue"),
    ],
)
async def test_the_pods_of_a_gang_of_each_dialect_may_require_a_rack(
    site: MakeSite, labels: Texts, annotations: Texts, request: pytest.FixtureRequest
) -> None:
    here = site(f"rack-{request.node.callspec.id.rpartition('-')[2]}")
    await here.open({"b1": {"r1": 1, "r2": 2}})
    if GANG_LABEL in labels:
        await here.make(POD_GROUPS, pod_group(here, "g", 4, {}))
    asked = {**annotations, REQUIRED_TOPOLOGY: RACK}
    await create(here, *(a_pod(here, f"p-{i}", labels, asked, gpus=2, queue="lq") for i in range(4)))
    await expect_phases(here, "", Running=4)
    assert await racks(here) == {"b1/r2": 4}


SPREAD = json.dumps({"topology-rack": {"type": "spread", "partitions": 2}, "node": {"type": "pack"}})
LAYERS = json.dumps([{"topology": RACK, "size": 4}, {"topology": HOSTNAME_LABEL, "size": 2}])


@pytest.mark.parametrize("on", ["pods", "group"])
@pytest.mark.parametrize(
    ("asked", "hosts"),
    [
        pytest.param({names.PREFERRED_TOPOLOGY: RACK}, None, id="preferred"),
        pytest.param({names.PREFER_TOPOLOGY: "auto"}, [4], id="auto"),
        pytest.param(
            {REQUIRE_TOPOLOGY: BLOCK, names.SLICE_REQUIRED_TOPOLOGY: HOSTNAME_LABEL, names.SLICE_SIZE: "2"},
            None,
            id="slices",
        ),
        pytest.param({REQUIRED_TOPOLOGY: BLOCK, names.SLICE_CONSTRAINTS: LAYERS}, None, id="layers"),
        pytest.param({names.PLACEMENT_CONSTRAINTS: SPREAD}, [2, 2], id="constraints"),
    ],
)
async def test_every_form_of_the_language_stands_on_the_pods_or_their_pod_group(
    site: MakeSite, asked: Texts, hosts: list[int] | None, on: str, request: pytest.FixtureRequest
) -> None:
    form = request.node.callspec.id.split("-")
    here = site(f"form-{on}-{next(part for part in form if part not in (on, 'embedded', 'real'))}")
    await here.open({"b1": {"r1": 1, "r2": 1}})
    await here.make(POD_GROUPS, pod_group(here, "g", 4, asked if on == "group" else {}))
    await create(
        here, *(a_pod(here, f"p-{i}", {GANG_LABEL: "g"}, asked if on == "pods" else {}, gpus=1) for i in range(4))
    )
    await expect_phases(here, "", Running=4)
    placed = await pods_of(here)
    if hosts is None:
        assert len(await racks(here)) == 1
        assert all(count % 2 == 0 for count in by_host(placed))
    else:
        assert by_host(placed) == hosts


async def test_a_rack_that_a_pod_group_requires_gives_way_with_time(site: MakeSite) -> None:
    here = site("gang-relax")
    await here.open({"b1": {"r1": 1, "r2": 1}})
    asked = {REQUIRED_TOPOLOGY: RACK, names.RELAX_TOPOLOGY_AFTER: "3s"}
    await here.make(POD_GROUPS, pod_group(here, "wide", 4, asked))
    labels = {GANG_LABEL: "wide"}
    await create(here, a_pod(here, "ps", labels, gpus=1), *(a_pod(here, f"w-{i}", labels) for i in range(3)))
    await expect_phases(here, "", Running=4)
    assert set(await racks(here)) == {"b1/r1", "b1/r2"}
    workload = Workload.from_wire(await here.kube.get(WORKLOADS, "wide", here.name))
    group = await here.kube.get(POD_GROUPS, "wide", here.name)
    reserved = find_condition(workload.status.conditions, names.QUOTA_RESERVED)
    times = (reserved.last_transition_time if reserved else None, group["metadata"]["creationTimestamp"])
    until, since = (parse_time(time) or 0.0 for time in times)
    assert until - since >= 3, "it did not wait for the rack"


async def test_what_a_pod_group_asks_may_change_while_its_pods_wait(site: MakeSite) -> None:
    here = site("gang-changes")
    await here.open({"b1": {"r1": 1, "r2": 1}})
    await here.make(POD_GROUPS, pod_group(here, "g", 2, {REQUIRED_TOPOLOGY: RACK}))
    await create(here, *(a_pod(here, f"p-{i}", {GANG_LABEL: "g"}, gpus=3) for i in range(2)))
    await expect_reason(here, "g", "allows to fit only")
    change = {"metadata": {"annotations": {REQUIRED_TOPOLOGY: BLOCK}}}
    await here.change(POD_GROUPS, "g", change)
    await expect_phases(here, "", Running=2)


async def test_late_members_stand_in_the_rack_that_their_gang_requires(site: MakeSite) -> None:
    here = site("late-rack")
    await here.open({"b1": {"r1": 1, "r2": 2}})
    await here.make(POD_GROUPS, pod_group(here, "g", 3, {REQUIRED_TOPOLOGY: RACK}))
    labels = {GANG_LABEL: "g"}
    await create(here, *(a_pod(here, f"p-{i}", labels) for i in range(3)))
    await expect_phases(here, "p-", Running=3)
    await create(here, *(a_pod(here, f"late-{i}", labels) for i in range(2)))
    await expect_phases(here, "late-", Running=1, Gated=1)
    await expect_same_phases(here, "late-", Running=1, Gated=1)
    assert await racks(here) == {"b1/r2": 4}, "the other rack has room, but it is another rack"


# ---- room


async def test_a_gang_group_of_higher_priority_makes_room_for_all_its_gangs_or_none(site: MakeSite) -> None:
    here = site("group-evicts")
    await here.open({"b1": {"r1": 1, "r2": 1}}, preemption={"withinClusterQueue": "LowerPriority"})
    for index in range(2):
        await here.submit(await prioritized(here, here.job(f"old-{index}", 1, {REQUIRE_TOPOLOGY: RACK}, gpus=4), 1))
        await here.running(f"old-{index}", 1)
    both = json.dumps([f"{here.name}/a", f"{here.name}/b"])
    group = {SIGS_GANG_GROUPS: both, REQUIRED_TOPOLOGY: RACK}

    async def member(gang: str, index: int, pods: int, gpus: int) -> None:
        pod = a_pod(here, f"{gang}-{index}", said(gang, pods), group, gpus=gpus, queue="lq")
        await create(here, await prioritized(here, pod, 9))

    await member("a", 0, 1, 4)
    for index in range(2):
        await member("b", index, 2, 3)
    await here.waits("b-0", "TopologyPlacementFailed", "allow to fit")
    await expect_same_phases(here, "old-", Running=2)
    await here.remove(PODS, "b-0")
    await here.remove(PODS, "b-1")
    for index in range(2, 4):
        await member("b", index, 2, 2)
    await expect_phases(here, "a-", Running=1)
    await expect_phases(here, "b-", Running=2)
    assert set(await evicted(here)) == {"old-0", "old-1"}


# ---- what cannot be


@pytest.mark.parametrize(
    ("annotations", "field", "text"),
    [
        pytest.param({REQUIRED_TOPOLOGY: "a b"}, REQUIRED_TOPOLOGY, "name part must consist of", id="no label"),
        pytest.param(
            {names.UNCONSTRAINED_TOPOLOGY: "perhaps"}, names.UNCONSTRAINED_TOPOLOGY, "boolean", id="no boolean"
        ),
        pytest.param({names.SLICE_SIZE: "2"}, names.SLICE_SIZE, "may not be set when", id="slices of no level"),
        pytest.param(
            {PODSET_GROUP_NAME: "7", REQUIRED_TOPOLOGY: RACK},
            PODSET_GROUP_NAME,
            "must not be a number",
            id="group is a number",
        ),
        pytest.param({names.PLACEMENT_CONSTRAINTS: "{"}, names.PLACEMENT_CONSTRAINTS, "JSON", id="constraints no JSON"),
        pytest.param(
            {names.RELAX_TOPOLOGY_AFTER: "soon", REQUIRED_TOPOLOGY: RACK},
            names.RELAX_TOPOLOGY_AFTER,
            "duration",
            id="no period",
        ),
        pytest.param(
            {names.RELAX_TOPOLOGY_AFTER: "5m"}, names.RELAX_TOPOLOGY_AFTER, "may not be set when", id="nothing to relax"
        ),
        pytest.param({names.PLACEMENT_PROFILE: "Best"}, names.PLACEMENT_PROFILE, "supported values", id="no profile"),
        pytest.param(
            {names.PLACEMENT_CONSTRAINTS: "{}", PODSET_GROUP_NAME: "one", REQUIRED_TOPOLOGY: RACK},
            names.PLACEMENT_CONSTRAINTS,
            "may not be set when",
            id="constraints of a group",
        ),
    ],
)
async def test_a_pod_group_that_asks_for_what_cannot_be_is_refused(
    site: MakeSite, annotations: Texts, field: str, text: str
) -> None:
    here = site("pod-group-bad")
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    body = {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", **pod_group(here, "bad", 2, annotations)}
    with pytest.raises(ApiError) as refused:
        await here.kube.create(POD_GROUPS, body)
    assert field in str(refused.value)
    assert text in str(refused.value)


async def test_pods_of_one_role_with_different_topology_requests_are_reported(site: MakeSite) -> None:
    here = site("role-unlike")
    await here.open({"b1": {"r1": 1}})
    gang = said("g", 2)
    await create(
        here, a_pod(here, "p-0", gang, {REQUIRED_TOPOLOGY: RACK}), a_pod(here, "p-1", gang, {REQUIRED_TOPOLOGY: BLOCK})
    )

    async def heard() -> bool:
        return "the same in all pods of one role" in await story(here)

    await eventually("an event names both", heard)
    await expect_same_phases(here, "", Gated=2)


async def test_a_member_that_fails_and_comes_back_under_another_name_takes_the_same_place(site: MakeSite) -> None:
    here = site("gang-exchange")
    await here.open({"b1": {"r1": 2, "r2": 2}})
    await here.make(POD_GROUPS, pod_group(here, "ring", 4, {REQUIRED_TOPOLOGY: RACK}))

    def member(name: str, index: int) -> Any:
        return a_pod(here, name, {GANG_LABEL: "ring", names.POD_GROUP_INDEX_LABEL: str(index)})

    await create(here, *(member(f"p-{index}", index) for index in range(4)))
    await expect_phases(here, "p-", Running=4)
    (failed,) = await pods_of(here, "p-2")
    await end(here, ["p-2"], "Failed")
    await create(here, member("again", 2))
    await expect_phases(here, "again", Running=1)
    (again,) = await pods_of(here, "again")
    assert again["spec"]["nodeName"] == failed["spec"]["nodeName"]
    assert again["metadata"]["labels"][names.POD_GROUP_INDEX_LABEL] == "2"
    assert len((await here.kube.list(WORKLOADS, here.name)).items) == 1, "it is no late member"
