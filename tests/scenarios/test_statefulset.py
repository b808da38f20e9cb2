"""StatefulSets as users write them, with a queue's name: admitted whole, ranked, held, rolled over, ended.

On the embedded stage a stand-in plays their controller (set_controllers.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from api.kube.client import PatchKind
from api.kube.resources import NAMESPACES, PODS, STATEFUL_SETS, WORKLOADS
from api.meta import find_condition, is_true
from api.names import (
    ADMISSION_GATE,
    ADMITTED,
    HOSTNAME_LABEL,
    POD_GROUP_NAME,
    PODS_READY,
    QUOTA_RESERVED,
    REQUIRED_TOPOLOGY,
)
from api.workloads import Workload
from tests.scenarios.failures import SHORT_LEASE, down
from tests.scenarios.set_controllers import StatefulSets, running
from tests.scenarios.site import GPU, RACK, Site, eventually, never
from tests.scenarios.stage import Stage
from tests.scenarios.stateful_sets import MakeSite, a_set, pods_of, runs, story
from tests.scenarios.test_lifecycle import says

pytestmark = pytest.mark.asyncio(loop_scope="session")

ENVIRONMENT = {
    **SHORT_LEASE,
    "STOWAGE_WAIT_FOR_PODS_READY__ENABLED": "true",
    "STOWAGE_WAIT_FOR_PODS_READY__TIMEOUT": "10m",
}


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def controller(stage: Stage) -> AsyncIterator[None]:
    """The controller of StatefulSets, where the stage has none."""
    async with running(*((StatefulSets(stage.kube),) if stage.name == "embedded" else ())):
        yield


async def workload(here: Site, name: str) -> Workload:
    """Its only Workload."""
    page = await here.kube.list(WORKLOADS, here.name)
    owned = [w for w in page.items if any(o["name"] == name for o in w["metadata"].get("ownerReferences", ()))]
    assert len(owned) == 1, [w["metadata"]["name"] for w in page.items]
    return Workload.from_wire(owned[0])


async def all_gated(here: Site, name: str, count: int) -> list[dict[str, Any]]:
    """Waits until so many of its pods are there and held."""

    async def check() -> list[dict[str, Any]] | None:
        pods = await pods_of(here, name)
        gated = [pod for pod in pods if {"name": ADMISSION_GATE} in (pod["spec"].get("schedulingGates") or ())]
        return pods if len(pods) == len(gated) == count else None

    return await eventually(f"{count} pods of {name} are held", check)


async def test_its_pods_go_to_one_rack_in_the_order_of_their_ordinals(site: MakeSite) -> None:
    here = site("sts-rack")
    await here.open({"b1": {"r1": 2}, "b2": {"r1": 1}})
    await here.make(STATEFUL_SETS, a_set(here, "ring", 4, gpus=2, annotations={REQUIRED_TOPOLOGY: RACK}))
    pods = await runs(here, "ring", 4)
    assert await here.racks(pods) == {"b1/r1": 4}
    hosts = [pod["spec"]["nodeName"] for pod in pods]
    assert hosts[0] == hosts[1] != hosts[2] == hosts[3]
    assert all(pod["spec"]["nodeSelector"][HOSTNAME_LABEL] == pod["spec"]["nodeName"] for pod in pods)
    found = await workload(here, "ring")
    assert found.metadata.name.startswith("statefulset-ring-")
    assert [(p.name, p.count) for p in found.spec.pod_sets] == [("main", 4)]
    assert {pod["metadata"]["labels"][POD_GROUP_NAME] for pod in pods} == {found.metadata.name}
    assert all(not pod["metadata"].get("finalizers") for pod in pods)


async def test_ordinals_that_begin_elsewhere_rank_alike(site: MakeSite) -> None:
    here = site("sts-ordinals")
    await here.open({"b1": {"r1": 2}})
    asked = a_set(here, "late", 4, gpus=2, annotations={REQUIRED_TOPOLOGY: RACK}, ordinals={"start": 7})
    await here.make(STATEFUL_SETS, asked)
    pods = await runs(here, "late", 4)
    assert [pod["metadata"]["name"] for pod in pods] == ["late-7", "late-8", "late-9", "late-10"]
    hosts = [pod["spec"]["nodeName"] for pod in pods]
    assert hosts[0] == hosts[1] != hosts[2] == hosts[3]


async def test_all_replicas_hold_quota_while_they_come_one_by_one(site: MakeSite) -> None:
    here = site("sts-ordered")
    await here.open({"b1": {"r1": 2}}, quota=4)
    await here.make(STATEFUL_SETS, a_set(here, "first", 3, ordered=True))
    await here.admitted("first")
    await here.make(STATEFUL_SETS, a_set(here, "second", 2, ordered=True))
    await runs(here, "first", 3)
    await here.waits("second", "WaitingForQuota", GPU)
    held = await all_gated(here, "second", 1)
    assert [pod["metadata"]["name"] for pod in held] == ["second-0"]
    await here.remove(STATEFUL_SETS, "first")
    await runs(here, "second", 2)


async def test_it_is_ready_with_its_last_pod(site: MakeSite) -> None:
    here = site("sts-ready")
    await here.open({"b1": {"r1": 1}})
    asked = a_set(here, "app", 2, ordered=True)
    stuck = {"name": "example.com/stuck"}
    asked["spec"]["template"]["spec"]["schedulingGates"] = [stuck]
    await here.make(STATEFUL_SETS, asked)

    async def let_through(ordinal: int) -> None:
        gone = {"spec": {"schedulingGates": [{**stuck, "$patch": "delete"}]}}
        await here.kube.patch(PODS, f"app-{ordinal}", gone, here.name, kind=PatchKind.STRATEGIC)

    async def there(count: int) -> None:
        async def check() -> bool:
            return [pod["metadata"]["name"] for pod in await pods_of(here, "app")] == [f"app-{n}" for n in range(count)]

        await eventually(f"{count} pods are there", check)

    await there(1)
    await let_through(0)
    await there(2)  # so the first one is ready
    await says(here, "app", PODS_READY, "False", "WaitForStart")
    await let_through(1)
    await says(here, "app", PODS_READY, "True", "Started")


async def test_scaled_to_zero_it_is_on_hold_and_comes_back_with_another_number(site: MakeSite) -> None:
    here = site("sts-hold")
    await here.open({"b1": {"r1": 1}})
    await here.make(STATEFUL_SETS, a_set(here, "sleeper", 4))
    await runs(here, "sleeper", 4)
    before = await workload(here, "sleeper")
    await here.change(STATEFUL_SETS, "sleeper", {"spec": {"replicas": 0}})

    async def held() -> bool:
        found = find_condition((await workload(here, "sleeper")).status.conditions, QUOTA_RESERVED)
        return found is not None and (found.status, found.reason, found.message) == (
            "False",
            "OnHold",
            "Job is on hold",
        )

    await eventually("the Workload is on hold", held)
    assert (await workload(here, "sleeper")).status.admission is None
    await here.make(STATEFUL_SETS, a_set(here, "guest", 4))
    await runs(here, "guest", 4)
    await never("it is admitted while on hold", lambda: _admitted(here, "sleeper"), 1.0)
    await here.change(STATEFUL_SETS, "sleeper", {"spec": {"replicas": 2}})
    await here.waits("sleeper", "TopologyPlacementFailed", "doesn't allow to fit any of 2 pod(s)")
    await here.remove(STATEFUL_SETS, "guest")
    await runs(here, "sleeper", 2)
    after = await workload(here, "sleeper")
    assert after.metadata.uid == before.metadata.uid
    assert [p.count for p in after.spec.pod_sets] == [2]


async def _admitted(here: Site, name: str) -> bool:
    return is_true((await workload(here, name)).status.conditions, ADMITTED)


async def test_another_image_is_rolled_over_under_the_same_admission(site: MakeSite) -> None:
    here = site("sts-rolled")
    await here.open({"b1": {"r1": 2}}, quota=3)
    await here.make(STATEFUL_SETS, a_set(here, "app", 3, gpus=1, annotations={REQUIRED_TOPOLOGY: RACK}))
    before = await runs(here, "app", 3)
    admitted = await workload(here, "app")
    template = (await here.kube.get(STATEFUL_SETS, "app", here.name))["spec"]["template"]
    container = {**template["spec"]["containers"][0], "image": "pause:2"}
    await here.change(STATEFUL_SETS, "app", {"spec": {"template": {"spec": {"containers": [container]}}}})

    async def rolled() -> bool:
        pods = await pods_of(here, "app")
        return len(pods) == 3 and all(
            pod["spec"]["containers"][0]["image"] == "pause:2" and pod["status"].get("phase") == "Running"
            for pod in pods
        )

    await eventually("all pods have the new image", rolled)
    after = await pods_of(here, "app")
    assert [pod["spec"]["nodeName"] for pod in after] == [pod["spec"]["nodeName"] for pod in before]
    found = await workload(here, "app")
    assert found.metadata.uid == admitted.metadata.uid
    assert is_true(found.status.conditions, ADMITTED)
    assert found.metadata.owner_references == admitted.metadata.owner_references


async def test_a_pod_that_fails_comes_back_to_its_place(site: MakeSite) -> None:
    here = site("sts-failed")
    await here.open({"b1": {"r1": 3}})
    await here.make(STATEFUL_SETS, a_set(here, "trio", 3, gpus=4, annotations={REQUIRED_TOPOLOGY: RACK}))
    before = await runs(here, "trio", 3)
    await here.kube.delete(PODS, "trio-1", here.name)

    async def back() -> bool:
        pods = {pod["metadata"]["name"]: pod for pod in await pods_of(here, "trio")}
        again = pods.get("trio-1")
        same = again is not None and again["metadata"]["uid"] == before[1]["metadata"]["uid"]
        return again is not None and not same and again["status"].get("phase") == "Running"

    await eventually("trio-1 runs again", back)
    after = await runs(here, "trio", 3)
    assert [pod["spec"]["nodeName"] for pod in after] == [pod["spec"]["nodeName"] for pod in before]


async def test_evicted_it_gives_its_place_and_comes_back(site: MakeSite) -> None:
    here = site("sts-evicted")
    await here.open({"b1": {"r1": 1}})
    await here.make(STATEFUL_SETS, a_set(here, "old", 2, gpus=2))
    await runs(here, "old", 2)
    name = (await workload(here, "old")).metadata.name
    await here.change(WORKLOADS, name, {"spec": {"active": False}})
    await all_gated(here, "old", 2)

    async def returned() -> bool:
        return (await workload(here, "old")).status.admission is None

    await eventually("its quota returns", returned)
    await here.make(STATEFUL_SETS, a_set(here, "new", 1, gpus=4))
    await runs(here, "new", 1)
    await here.change(WORKLOADS, name, {"spec": {"active": True}})
    await here.waits("old", "TopologyPlacementFailed", "doesn't allow to fit any of 2 pod(s)")
    await here.remove(STATEFUL_SETS, "new")
    await runs(here, "old", 2)


async def test_a_job_whose_workload_was_deleted_is_admitted_again(site: MakeSite) -> None:
    here = site("sts-anew")
    await here.open({"b1": {"r1": 1}})
    await here.make(STATEFUL_SETS, a_set(here, "app", 2))
    before = {pod["metadata"]["uid"] for pod in await runs(here, "app", 2)}
    found = await workload(here, "app")
    await here.kube.delete(WORKLOADS, found.metadata.name, here.name)

    async def exchanged() -> bool:
        pods = await pods_of(here, "app")
        others = [pod for pod in pods if pod["metadata"]["uid"] not in before]
        return len(others) == 2 and all(pod["status"].get("phase") == "Running" for pod in others)

    await eventually("its pods were exchanged", exchanged)
    assert (await workload(here, "app")).metadata.uid != found.metadata.uid


async def test_deleted_it_leaves_nothing(site: MakeSite) -> None:
    here = site("sts-deleted")
    await here.open({"b1": {"r1": 1}}, quota=2)
    await here.make(STATEFUL_SETS, a_set(here, "short", 2))
    await runs(here, "short", 2)
    name = (await workload(here, "short")).metadata.name
    await here.remove(STATEFUL_SETS, "short")
    await here.gone(WORKLOADS, name)
    assert await pods_of(here, "short") == []
    await here.make(STATEFUL_SETS, a_set(here, "next", 2))
    await runs(here, "next", 2)


async def _orphaned(here: Site, name: str) -> None:
    await here.kube.delete(STATEFUL_SETS, name, here.name, propagation="Orphan")
    await here.gone(STATEFUL_SETS, name)


async def test_pods_that_it_leaves_behind_keep_their_quota_until_they_are_gone(site: MakeSite) -> None:
    here = site("sts-orphan")
    await here.open({"b1": {"r1": 1}}, quota=2)
    await here.make(STATEFUL_SETS, a_set(here, "app", 2))
    before = await runs(here, "app", 2)
    name = (await workload(here, "app")).metadata.name
    await _orphaned(here, "app")
    await here.make(STATEFUL_SETS, a_set(here, "next", 1))
    await here.waits("next", "WaitingForQuota", GPU)
    await here.kube.delete(PODS, "app-0", here.name)
    await here.gone(PODS, "app-0")
    assert [pod["metadata"]["uid"] for pod in await runs(here, "app", 1)] == [before[1]["metadata"]["uid"]]
    assert is_true(Workload.from_wire(await here.kube.get(WORKLOADS, name, here.name)).status.conditions, ADMITTED)
    await here.kube.delete(PODS, "app-1", here.name)
    await runs(here, "next", 1)


async def test_one_of_the_same_name_takes_over_what_was_left_behind(site: MakeSite) -> None:
    here = site("sts-taken")
    await here.open({"b1": {"r1": 2}}, quota=2)
    await here.make(STATEFUL_SETS, a_set(here, "app", 2))
    before = [pod["metadata"]["uid"] for pod in await runs(here, "app", 2)]
    admitted = await workload(here, "app")
    await _orphaned(here, "app")
    made = await here.make(STATEFUL_SETS, a_set(here, "app", 2))

    async def taken() -> bool:
        page = await here.kube.list(WORKLOADS, here.name)
        owners = {
            w["metadata"]["name"]: [o["uid"] for o in w["metadata"].get("ownerReferences", ())] for w in page.items
        }
        return list(owners) == [admitted.metadata.name] and made["metadata"]["uid"] in owners[admitted.metadata.name]

    try:
        await eventually("its only Workload is the one that was left behind", taken)
    except AssertionError as late:
        raise AssertionError(f"{late}; {await story(here, 'app')}") from None
    assert [pod["metadata"]["uid"] for pod in await runs(here, "app", 2)] == before
    await here.kube.delete(PODS, "app-1", here.name)

    async def back() -> bool:
        pods = [pod for pod in await pods_of(here, "app") if pod["status"].get("phase") == "Running"]
        uids = [pod["metadata"]["uid"] for pod in pods]
        return len(uids) == 2 and uids[0] == before[0] and uids[1] != before[1]

    await eventually("a new pod runs in the place of the one that was deleted", back)
    after = await workload(here, "app")
    assert after.metadata.uid == admitted.metadata.uid
    assert is_true(after.status.conditions, ADMITTED)


@pytest.mark.e2e
async def test_scaled_past_the_webhook_it_is_charged_for_what_it_is(site: MakeSite, stage: Stage) -> None:
    if stage.name == "embedded":
        pytest.skip("the embedded API server has no scale subresource")
    here = site("sts-scale")
    await here.open({"b1": {"r1": 2}}, quota=5)
    await here.make(STATEFUL_SETS, a_set(here, "app", 4))
    await runs(here, "app", 4)
    await _scale(here, "app", 2)
    await runs(here, "app", 2)

    async def reclaimed() -> bool:
        done = (await workload(here, "app")).status.reclaimable_pods
        return [(pod.name, pod.count) for pod in done] == [("main", 2)]

    await eventually("the quota of two pods returns", reclaimed)
    await _scale(here, "app", 5)
    await runs(here, "app", 5)
    found = await workload(here, "app")
    assert [p.count for p in found.spec.pod_sets] == [5]


async def _scale(here: Site, name: str, replicas: int) -> None:
    body = {"spec": {"replicas": replicas}}
    await here.kube.patch(STATEFUL_SETS, name, body, here.name, kind=PatchKind.MERGE, subresource="scale")


async def test_without_a_queue_it_is_not_managed(site: MakeSite) -> None:
    here = site("sts-stranger")
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    await here.add_nodes({"b1": {"r1": 1}})
    stranger = a_set(here, "free", 3)
    del stranger["metadata"]["labels"]
    await here.make(STATEFUL_SETS, stranger)
    await runs(here, "free", 3)
    await here.change(STATEFUL_SETS, "free", {"spec": {"replicas": 1}})
    await runs(here, "free", 1)
    assert Counter(w["kind"] for w in (await here.kube.list(WORKLOADS, here.name)).items) == {}


async def test_made_while_the_controller_is_down_it_is_taken_up(site: MakeSite, stage: Stage) -> None:
    here = site("sts-crash")
    await here.open({"b1": {"r1": 2}})
    async with down(stage, "controller"):
        await here.make(STATEFUL_SETS, a_set(here, "patient", 4, gpus=2, annotations={REQUIRED_TOPOLOGY: RACK}))
        await all_gated(here, "patient", 4)
    pods = await runs(here, "patient", 4)
    assert await here.racks(pods) == {"b1/r1": 4}
    async with down(stage, "controller"):
        await here.change(STATEFUL_SETS, "patient", {"spec": {"replicas": 0}})

        async def none() -> bool:
            return not await pods_of(here, "patient")

        await eventually("its pods go without us", none)
    await here.make(STATEFUL_SETS, a_set(here, "next", 2, gpus=4))
    await runs(here, "next", 2)
