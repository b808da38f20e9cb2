"""LeaderWorkerSets as users write them, with a queue's name: each group admitted by itself, leader and workers together.

On the embedded stage a stand-in plays their controller (set_controllers.py); on the real one it is the kind's own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from api.errors import ApiError
from api.kube.client import PatchKind
from api.kube.resources import ELASTIC_QUOTAS, LEADER_WORKER_SETS, LOCAL_QUEUES, NAMESPACES, PODS, WORKLOADS
from api.meta import find_condition, is_true
from api.names import (
    ADMISSION_GATE,
    ADMITTED,
    COMPONENT_INDEX,
    ELASTIC_QUOTA,
    HOSTNAME_LABEL,
    LWS_GROUP_INDEX,
    LWS_NAME,
    LWS_WORKER_INDEX,
    MANAGED_NAMESPACE,
    PODSET_GROUP_NAME,
    PODSET_LABEL,
    QUEUE_NAME_LABEL,
    QUOTA_RESERVED,
    REQUIRED_TOPOLOGY,
    SLICE_REQUIRED_TOPOLOGY,
)
from api.workloads import Workload
from hack.controlplane.options import ClusterOptions
from tests.scenarios.set_controllers import LeaderWorkerSets, running
from tests.scenarios.site import GPU, RACK, Site, eventually
from tests.scenarios.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True

CONTROL_PLANE = ClusterOptions(lws=True)
MakeSite = Callable[[str], Site]
Pod = dict[str, Any]


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def controller(stage: Stage) -> AsyncIterator[None]:
    """The controller of LeaderWorkerSets, where the stage has none."""
    async with running(*((LeaderWorkerSets(stage.kube),) if stage.name == "embedded" else ())):
        yield


def a_template(here: Site, gpus: int, annotations: Mapping[str, str]) -> dict[str, Any]:
    template = here.template(gpus)
    template["metadata"] = {"annotations": dict(annotations)}
    template["spec"]["restartPolicy"] = "Always"
    return template


def a_set(
    here: Site,
    name: str,
    replicas: int,
    size: int,
    *,
    gpus: int = 1,
    leader_gpus: int | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A LeaderWorkerSet as a user writes it; with a template for leaders where it is said what they ask for."""
    given: dict[str, Any] = {"size": size, "workerTemplate": a_template(here, gpus, annotations or {})}
    if leader_gpus is not None:
        given["leaderTemplate"] = a_template(here, leader_gpus, annotations or {})
    meta = {"name": name, "namespace": here.name, "labels": {QUEUE_NAME_LABEL: "lq"}}
    return {"metadata": meta, "spec": {"replicas": replicas, "leaderWorkerTemplate": given, **spec}}


async def pods_of(here: Site, name: str) -> list[Pod]:
    """Its pods that are not going, by group and rank."""
    page = await here.kube.list(PODS, here.name, label_selector=f"{LWS_NAME}={name}")
    staying = [pod for pod in page.items if not pod["metadata"].get("deletionTimestamp")]
    return sorted(staying, key=_place)


def _place(pod: Pod) -> tuple[int, int]:
    labels = pod["metadata"]["labels"]
    return int(labels[LWS_GROUP_INDEX]), int(labels[LWS_WORKER_INDEX])


async def runs(here: Site, name: str, *places: tuple[int, int]) -> list[Pod]:
    """Waits until exactly the pods of these places (group, rank) run; others may wait."""

    async def check() -> list[Pod] | None:
        going = [pod for pod in await pods_of(here, name) if pod["status"].get("phase") == "Running"]
        return going if [_place(pod) for pod in going] == sorted(places) else None

    try:
        return await eventually(f"pods {places} of {name} run", check)
    except AssertionError as late:
        pods = [
            (
                pod["metadata"]["name"],
                pod["spec"].get("schedulingGates"),
                pod["metadata"].get("labels"),
                pod["metadata"].get("annotations"),
                pod["status"].get("phase"),
            )
            for pod in await pods_of(here, name)
        ]
        raise AssertionError(f"{late}; {await here.story(name)}; pods: {pods}") from None


def group(index: int, size: int) -> list[tuple[int, int]]:
    return [(index, rank) for rank in range(size)]


async def workloads(here: Site) -> dict[str, Workload]:
    """By the index of their group."""
    found = [Workload.from_wire(item) for item in (await here.kube.list(WORKLOADS, here.name)).items]
    return {w.metadata.annotations[COMPONENT_INDEX]: w for w in found}


async def test_each_group_is_admitted_by_itself_and_put_into_one_rack(site: MakeSite) -> None:
    here = site("lws-rack")
    await here.open({"b1": {"r1": 2}, "b2": {"r1": 2}})
    asked = a_set(here, "serve", 2, 4, gpus=2, annotations={REQUIRED_TOPOLOGY: RACK})
    await here.make(LEADER_WORKER_SETS, asked)
    pods = await runs(here, "serve", *group(0, 4), *group(1, 4))
    one, other = pods[:4], pods[4:]
    for half in (one, other):
        assert len(await here.racks(half)) == 1
        hosts = [pod["spec"]["nodeName"] for pod in half]
        assert hosts[0] == hosts[1] != hosts[2] == hosts[3]
    assert await here.racks(one) != await here.racks(other)
    assert all(pod["spec"]["nodeSelector"][HOSTNAME_LABEL] == pod["spec"]["nodeName"] for pod in pods)
    found = await workloads(here)
    assert set(found) == {"0", "1"}
    assert [(p.name, p.count) for p in found["1"].spec.pod_sets] == [("main", 4)]
    assert found["0"].metadata.name.startswith("leaderworkerset-serve-0-")
    (owner,) = found["0"].metadata.owner_references
    assert (owner.kind, owner.name) == ("LeaderWorkerSet", "serve")


async def _queued_at_creation(here: Site, asked: dict[str, Any], queue: str) -> bool:
    """Whether the set would be created with this queue."""
    probe = {"apiVersion": LEADER_WORKER_SETS.api_version, "kind": LEADER_WORKER_SETS.kind, **asked}
    made = await here.kube.create(LEADER_WORKER_SETS, probe, dry_run=True)
    return bool((made["metadata"].get("labels") or {}).get(QUEUE_NAME_LABEL) == queue)


async def test_one_without_a_queue_goes_by_the_namespaces_own_group_by_group(site: MakeSite) -> None:
    """Pod by pod, half a group could start."""
    here = site("lws-default")
    await here.open({"b1": {"r1": 2}}, quota=4)
    await here.kube.patch(
        NAMESPACES, here.name, {"metadata": {"labels": {MANAGED_NAMESPACE: "true"}}}, kind=PatchKind.MERGE
    )
    own = {"metadata": {"name": "default", "namespace": here.name}, "spec": {"clusterQueue": here.name}}
    await here.make(LOCAL_QUEUES, own)
    asked = a_set(here, "serve", 2, 3)
    del asked["metadata"]["labels"]
    await eventually("the webhook knows the namespace's queue", partial(_queued_at_creation, here, asked, "default"))
    await here.make(LEADER_WORKER_SETS, asked)

    async def admitted() -> list[str] | None:
        found = await workloads(here)
        of_two = [index for index, w in found.items() if is_true(w.status.conditions, ADMITTED)]
        return of_two if of_two and len(found) == 2 else None

    # Of two groups that came within the same second the one with the smaller UID goes first.
    (index,) = await eventually("one of the two groups is admitted", admitted)
    await runs(here, "serve", *group(int(index), 3))
    assert await admitted() == [index]


@pytest.mark.parametrize("together", [False, True], ids=["apart", "one placement group"])
async def test_leader_and_workers_are_pod_sets_of_one_admission(site: MakeSite, together: bool) -> None:
    here = site(f"lws-roles-{int(together)}")
    await here.open({"b1": {"r1": 3}, "b2": {"r1": 2}})
    annotations = {REQUIRED_TOPOLOGY: RACK, **({PODSET_GROUP_NAME: "all"} if together else {})}
    asked = a_set(here, "roles", 1, 5, gpus=2, leader_gpus=4, annotations=annotations)
    await here.make(LEADER_WORKER_SETS, asked)
    pods = await runs(here, "roles", *group(0, 5))
    leader, workers = pods[0], pods[1:]
    assert [pod["metadata"]["labels"][PODSET_LABEL] for pod in pods] == ["leader", *["worker"] * 4]
    hosts = [pod["spec"]["nodeName"] for pod in workers]
    assert hosts[0] == hosts[1] != hosts[2] == hosts[3]
    assert len(await here.racks(workers)) == 1
    if together:
        assert await here.racks([leader]) == {"b1/r1": 1}
        assert await here.racks(workers) == {"b1/r1": 4}
    found = await workloads(here)
    assert [(p.name, p.count) for p in found["0"].spec.pod_sets] == [("leader", 1), ("worker", 4)]


async def test_workers_that_come_after_their_leader_is_ready_have_their_place_already(site: MakeSite) -> None:
    here = site("lws-ready")
    await here.open({"b1": {"r1": 1}})
    asked = a_set(here, "first", 1, 4, leader_gpus=1, startupPolicy="LeaderReady")
    await here.make(LEADER_WORKER_SETS, asked)
    await runs(here, "first", *group(0, 4))
    await here.make(LEADER_WORKER_SETS, a_set(here, "second", 1, 2))

    async def held() -> bool:
        pods = await pods_of(here, "second")
        return bool(pods) and all({"name": ADMISSION_GATE} in (p["spec"].get("schedulingGates") or ()) for p in pods)

    await eventually("the next one is held", held)
    await here.waits("second", "TopologyPlacementFailed", "doesn't allow to fit any of 2 pod(s)")
    await here.remove(LEADER_WORKER_SETS, "first")
    await runs(here, "second", *group(0, 2))


async def test_groups_come_and_go_with_the_replicas(site: MakeSite) -> None:
    here = site("lws-scaled")
    await here.open({"b1": {"r1": 1}}, quota=4)
    await here.make(LEADER_WORKER_SETS, a_set(here, "serve", 1, 2))
    await runs(here, "serve", *group(0, 2))
    # One more at a time: of two groups that came within the same second the one with the smaller UID goes first.
    await here.change(LEADER_WORKER_SETS, "serve", {"spec": {"replicas": 2}})
    await runs(here, "serve", *group(0, 2), *group(1, 2))
    await here.change(LEADER_WORKER_SETS, "serve", {"spec": {"replicas": 3}})

    async def third_waits() -> bool:
        third = (await workloads(here)).get("2")
        return third is not None and any(c.reason == "WaitingForQuota" for c in third.status.conditions)

    await eventually("the third group waits", third_waits)
    await runs(here, "serve", *group(0, 2), *group(1, 2))
    await here.change(LEADER_WORKER_SETS, "serve", {"spec": {"replicas": 1}})
    await runs(here, "serve", *group(0, 2))

    async def one_is_left() -> bool:
        return set(await workloads(here)) == {"0"}

    await eventually("their Workloads went with them", one_is_left)
    await here.change(LEADER_WORKER_SETS, "serve", {"spec": {"replicas": 0}})

    async def none_is_left() -> bool:
        return not await workloads(here) and not await pods_of(here, "serve")

    await eventually("nothing is left", none_is_left)
    await here.change(LEADER_WORKER_SETS, "serve", {"spec": {"replicas": 2}})
    await runs(here, "serve", *group(0, 2), *group(1, 2))


async def test_a_recreated_group_returns_to_its_place(site: MakeSite) -> None:
    here = site("lws-anew")
    await here.open({"b1": {"r1": 2}, "b2": {"r1": 2}})
    asked = a_set(here, "serve", 2, 2, gpus=4, annotations={REQUIRED_TOPOLOGY: RACK})
    await here.make(LEADER_WORKER_SETS, asked)
    before = await runs(here, "serve", *group(0, 2), *group(1, 2))
    found = await workloads(here)
    await here.kube.delete(PODS, before[0]["metadata"]["name"], here.name)

    async def exchanged() -> bool:
        uids = {pod["metadata"]["uid"] for pod in await pods_of(here, "serve")}
        return not uids & {pod["metadata"]["uid"] for pod in before[:2]}

    await eventually("the group's pods are others", exchanged)
    after = await runs(here, "serve", *group(0, 2), *group(1, 2))
    assert [pod["spec"]["nodeName"] for pod in after] == [pod["spec"]["nodeName"] for pod in before]
    again = await workloads(here)
    assert {index: w.metadata.uid for index, w in again.items()} == {i: w.metadata.uid for i, w in found.items()}


async def test_one_group_evicted_leaves_the_others(site: MakeSite) -> None:
    here = site("lws-evicted")
    await here.open({"b1": {"r1": 1}})
    await here.make(LEADER_WORKER_SETS, a_set(here, "serve", 2, 2))
    await runs(here, "serve", *group(0, 2), *group(1, 2))
    name = (await workloads(here))["1"].metadata.name
    await here.change(WORKLOADS, name, {"spec": {"active": False}})
    await runs(here, "serve", *group(0, 2))

    async def returned() -> bool:
        return (await workloads(here))["1"].status.admission is None

    await eventually("its quota returns", returned)
    await here.change(WORKLOADS, name, {"spec": {"active": True}})
    await runs(here, "serve", *group(0, 2), *group(1, 2))


async def test_deleted_it_leaves_nothing(site: MakeSite) -> None:
    here = site("lws-deleted")
    await here.open({"b1": {"r1": 1}}, quota=4)
    await here.make(LEADER_WORKER_SETS, a_set(here, "short", 2, 2))
    await runs(here, "short", *group(0, 2), *group(1, 2))
    await here.remove(LEADER_WORKER_SETS, "short")

    async def nothing() -> bool:
        return not await workloads(here) and not await pods_of(here, "short")

    await eventually("nothing is left", nothing)
    await here.make(LEADER_WORKER_SETS, a_set(here, "next", 2, 2))
    await runs(here, "next", *group(0, 2), *group(1, 2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            {"spec": {"leaderWorkerTemplate": {"size": 3}}},
            "spec.leaderWorkerTemplate.size: Invalid value: 3: field is immutable",
            id="size",
        ),
        pytest.param(
            {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"nodeSelector": {"a": "b"}}}}}},
            "spec.leaderWorkerTemplate.workerTemplate.spec: Invalid value: field is immutable",
            id="other nodes",
        ),
        pytest.param(
            {"metadata": {"labels": {QUEUE_NAME_LABEL: None}}},
            f'metadata.labels[{QUEUE_NAME_LABEL}]: Invalid value: "": field is immutable',
            id="no queue",
        ),
    ],
)
async def test_these_changes_are_refused(site: MakeSite, change: dict[str, Any], message: str) -> None:
    here = site("lws-fixed")
    await here.open({"b1": {"r1": 1}})
    await here.make(LEADER_WORKER_SETS, a_set(here, "serve", 1, 2))
    with pytest.raises(ApiError) as refused:
        await here.kube.patch(LEADER_WORKER_SETS, "serve", change, here.name, kind=PatchKind.MERGE)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("labels", "annotations", "message"),
    [
        pytest.param(
            {QUEUE_NAME_LABEL: "Q_1"}, {}, f'metadata.labels[{QUEUE_NAME_LABEL}]: Invalid value: "Q_1"', id="queue"
        ),
        pytest.param(
            {},
            {SLICE_REQUIRED_TOPOLOGY: RACK},
            "spec.leaderWorkerTemplate.workerTemplate.metadata.annotations",
            id="slices without a size",
        ),
        pytest.param(
            {},
            {PODSET_GROUP_NAME: "g", REQUIRED_TOPOLOGY: RACK},
            "can only define groups of at least 2 pod sets, got: 1 pod set(s)",
            id="a placement group of one",
        ),
    ],
)
async def test_a_malformed_one_is_refused(
    site: MakeSite, labels: dict[str, str], annotations: dict[str, str], message: str
) -> None:
    here = site("lws-bad")
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    bad = a_set(here, "bad", 1, 2, annotations=annotations)
    bad["metadata"]["labels"] |= labels
    kind = {"apiVersion": LEADER_WORKER_SETS.api_version, "kind": LEADER_WORKER_SETS.kind}
    with pytest.raises(ApiError) as refused:
        await here.kube.create(LEADER_WORKER_SETS, {**kind, **bad})
    assert message in str(refused.value)


@pytest.mark.parametrize("labels", [{QUEUE_NAME_LABEL: ELASTIC_QUOTA}, {}], ids=["queued", "unlabelled"])
async def test_groups_go_by_the_elastic_quota_of_their_namespace_whole(site: MakeSite, labels: dict[str, str]) -> None:
    """Queue named or not, three GPUs hold one group of two, and no half of another."""
    here = site("lws-queued" if labels else "lws-unlabelled")
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    await here.add_nodes({"b1": {"r1": 1}})
    spec = {"min": {GPU: "3"}, "max": {GPU: "3"}}
    await here.make(ELASTIC_QUOTAS, {"metadata": {"name": "quota", "namespace": here.name}, "spec": spec})

    async def in_force() -> bool:
        found = (await here.kube.get(ELASTIC_QUOTAS, "quota", here.name)).get("status") or {}
        return any(c["type"] == "Active" and c["status"] == "True" for c in found.get("conditions", ()))

    await eventually("the quota is in force", in_force)
    asked = a_set(here, "serve", 2, 2)
    asked["metadata"]["labels"] = labels
    await eventually("the webhook knows the quota", partial(_queued_at_creation, here, asked, ELASTIC_QUOTA))
    await here.make(LEADER_WORKER_SETS, asked)

    async def one_whole() -> bool:
        going = [pod for pod in await pods_of(here, "serve") if pod["status"].get("phase") == "Running"]
        waiting = [w for w in (await workloads(here)).values() if not is_true(w.status.conditions, QUOTA_RESERVED)]
        told = [find_condition(w.status.conditions, QUOTA_RESERVED) for w in waiting]
        said = any(each is not None and each.reason == "WaitingForQuota" for each in told)
        return len(going) == 2 and len({_place(pod)[0] for pod in going}) == 1 and len(waiting) == 1 and said

    await eventually("one group runs, the other waits", one_whole)

    async def used() -> bool:
        return bool((await here.kube.get(ELASTIC_QUOTAS, "quota", here.name))["status"].get("used") == {GPU: "2"})

    await eventually("the quota counts it", used)
