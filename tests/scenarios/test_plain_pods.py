"""Plain pods, groups of pods and Deployments: admitted by their gates, put to their places, ended when they must stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from api.errors import ApiError, NotFound
from api.kube.client import PatchKind
from api.kube.resources import DEPLOYMENTS, EVENTS, NAMESPACES, PODS, WORKLOADS
from api.meta import find_condition, is_true
from api.names import (
    ADMISSION_GATE,
    ADMITTED,
    FINISHED,
    HOSTNAME_LABEL,
    MANAGED_FINALIZER,
    MANAGED_LABEL,
    POD_GROUP_INDEX_LABEL,
    POD_GROUP_NAME,
    POD_GROUP_TOTAL_COUNT,
    PODS_HELD,
    QUEUE_NAME_LABEL,
    REQUIRED_TOPOLOGY,
    RETRIABLE_IN_GROUP,
    ROLE_HASH,
    WAITING_FOR_REPLACEMENT_PODS,
)
from api.workloads import Workload
from tests.scenarios.site import GPU, GROUP, RACK, Site, eventually, never
from tests.scenarios.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True

MakeSite = Callable[[str], Site]


def a_pod(here: Site, name: str, *, gpus: int = 1, annotations: Mapping[str, str] | None = None, **labels: str) -> Any:
    """A pod as a user writes it."""
    template = here.template(gpus)
    metadata = {
        "name": name,
        "namespace": here.name,
        "labels": {QUEUE_NAME_LABEL: "lq", **labels},
        "annotations": {**template["metadata"]["annotations"], **(annotations or {})},
    }
    return {"metadata": metadata, "spec": template["spec"]}


def a_member(
    here: Site,
    group: str,
    index: int,
    total: int,
    *,
    name: str = "",
    gpus: int = 1,
    more: Mapping[str, str] | None = None,
) -> Any:
    """A member of a group that asks for a rack."""
    said = {POD_GROUP_TOTAL_COUNT: str(total), REQUIRED_TOPOLOGY: RACK, **(more or {})}
    labels = {POD_GROUP_NAME: group, POD_GROUP_INDEX_LABEL: str(index)}
    pod = a_pod(here, name or f"{group}-{index}", gpus=gpus, annotations=said)
    pod["metadata"]["labels"] |= labels
    return pod


async def state(here: Site, name: str) -> dict[str, Any]:
    return await here.kube.get(PODS, name, here.name)


async def bound(here: Site, *names: str) -> list[dict[str, Any]]:
    """Waits until the pods run on nodes."""

    async def check() -> list[dict[str, Any]] | None:
        pods = [await state(here, name) for name in names]
        return pods if all(pod["status"].get("phase") == "Running" for pod in pods) else None

    try:
        return await eventually(f"{names} run", check)
    except AssertionError as late:
        raise AssertionError(f"{late}; {await _story(here)}") from None


async def _story(here: Site) -> str:
    pods = [
        (p["metadata"]["name"], p["spec"].get("schedulingGates"), p["status"].get("phase"), p["spec"].get("nodeName"))
        for p in (await here.kube.list(PODS, here.name)).items
    ]
    workloads = [
        (
            w["metadata"]["name"],
            [(c["type"], c["status"], c["message"]) for c in w.get("status", {}).get("conditions", ())],
        )
        for w in (await here.kube.list(WORKLOADS, here.name)).items
    ]
    events = [f"{e['reason']}: {e['message']}" for e in (await here.kube.list(EVENTS, here.name)).items]
    return f"pods: {pods}; workloads: {workloads}; events: {events[-12:]}"


async def workload(here: Site, name: str) -> Workload | None:
    try:
        return Workload.from_wire(await here.kube.get(WORKLOADS, name, here.name))
    except NotFound:
        return None


async def test_a_single_pod_waits_for_quota_starts_and_gives_it_back(site: MakeSite) -> None:
    here = site("pod-alone")
    await here.open({"b1": {"r1": 1}}, quota=4)
    await here.make(PODS, a_pod(here, "first", gpus=4))
    (first,) = await bound(here, "first")
    assert first["metadata"]["finalizers"] == [MANAGED_FINALIZER]
    assert first["metadata"]["annotations"][ROLE_HASH]
    assert first["spec"]["nodeSelector"][GROUP] == here.name
    assert not first["spec"].get("schedulingGates")
    await here.make(PODS, a_pod(here, "second", gpus=4))
    await here.waits("second", "WaitingForQuota", GPU)
    second = await state(here, "second")
    assert {"name": ADMISSION_GATE} in second["spec"]["schedulingGates"]
    await here.remove(PODS, "first")
    await bound(here, "second")
    stranger = a_pod(here, "stranger")
    del stranger["metadata"]["labels"][QUEUE_NAME_LABEL]
    stranger["spec"]["nodeSelector"] = {GROUP: here.name}
    made = await here.make(PODS, stranger)
    assert "finalizers" not in made["metadata"]
    assert not made["spec"].get("schedulingGates")


async def test_a_group_goes_to_two_hosts_of_a_rack_and_a_replacement_takes_the_same_place(
    site: MakeSite, stage: Stage
) -> None:
    here = site("pod-group")
    await here.open({"b1": {"r1": 2}, "b2": {"r1": 1}})
    for index in range(3):
        await here.make(PODS, a_member(here, "ring", index, 4, gpus=2))

    async def started() -> bool:
        pods = [await state(here, f"ring-{index}") for index in range(3)]
        return any(not pod["spec"].get("schedulingGates") for pod in pods)

    await never("a member of an incomplete group starts", started)
    assert await workload(here, "ring") is None
    await here.make(PODS, a_member(here, "ring", 3, 4, gpus=2))
    names = [f"ring-{index}" for index in range(4)]
    pods = await bound(here, *names)
    assert await here.racks(pods) == {"b1/r1": 4}
    assert sorted(Counter(pod["spec"]["nodeName"] for pod in pods).values()) == [2, 2]
    for pod in pods:
        assert pod["spec"]["nodeSelector"][HOSTNAME_LABEL] == pod["spec"]["nodeName"]

    failed = pods[2]
    await here.kube.patch(
        PODS, "ring-2", {"status": {"phase": "Failed"}}, here.name, kind=PatchKind.MERGE, subresource="status"
    )

    async def short() -> bool:
        found = await workload(here, "ring")
        return found is not None and is_true(found.status.conditions, WAITING_FOR_REPLACEMENT_PODS)

    await eventually("the group waits for a replacement", short)
    await here.make(PODS, a_member(here, "ring", 2, 4, name="ring-2-again", gpus=2))
    (again,) = await bound(here, "ring-2-again")
    assert again["spec"]["nodeName"] == failed["spec"]["nodeName"]

    async def let_go() -> bool:
        return MANAGED_FINALIZER not in (await state(here, "ring-2"))["metadata"].get("finalizers", [])

    await eventually("the failed pod is let go", let_go)
    found = await workload(here, "ring")
    assert found is not None
    condition = find_condition(found.status.conditions, WAITING_FOR_REPLACEMENT_PODS)
    assert condition is not None
    assert condition.status == "False"
    assert is_true(found.status.conditions, ADMITTED)

    await here.make(PODS, a_member(here, "ring", 3, 4, name="ring-too-many", gpus=2))
    await here.gone(PODS, "ring-too-many")
    for name in ("ring-0", "ring-1", "ring-2-again", "ring-3"):
        await here.kube.patch(
            PODS, name, {"status": {"phase": "Succeeded"}}, here.name, kind=PatchKind.MERGE, subresource="status"
        )

    async def finished() -> bool:
        ended = await workload(here, "ring")
        return ended is not None and is_true(ended.status.conditions, FINISHED)

    await eventually("the group has finished", finished)
    await eventually("a finished pod is let go", lambda: _free(here, "ring-0"))


async def _free(here: Site, name: str) -> bool:
    return not (await state(here, name))["metadata"].get("finalizers")


async def test_a_pod_that_comes_after_its_group_has_finished_says_why_it_waits(site: MakeSite) -> None:
    """Nobody may replace the failed pod of this group, and one who tries it is told."""
    here = site("pod-group-ended")
    await here.open({"b1": {"r1": 1}})
    fixed = {RETRIABLE_IN_GROUP: "false"}
    await here.make(PODS, a_member(here, "once", 0, 1, more=fixed))
    await bound(here, "once-0")
    await here.kube.patch(
        PODS, "once-0", {"status": {"phase": "Failed"}}, here.name, kind=PatchKind.MERGE, subresource="status"
    )

    async def held() -> str:
        ended = await workload(here, "once")
        found = find_condition(ended.status.conditions, PODS_HELD) if ended else None
        return found.reason if found else ""

    async def finished() -> bool:
        ended = await workload(here, "once")
        return ended is not None and is_true(ended.status.conditions, FINISHED)

    await eventually("the group has finished", finished)
    assert not await held()
    await here.make(PODS, a_member(here, "once", 0, 1, name="again", more=fixed))

    async def told() -> bool:
        events = (await here.kube.list(EVENTS, here.name)).items
        about = [one["message"] for one in events if one["involvedObject"].get("name") == "again"]
        return any("its Workload has finished (Pods succeeded: 0/1.)" in message for message in about)

    await eventually("the new pod says why it waits", told)

    async def said() -> bool:
        return await held() == "PodGroupFinished"

    await eventually("the Workload says that it holds a pod", said)
    await here.kube.delete(PODS, "once-0", here.name)
    await bound(here, "again")  # the Workload has gone with the pods that owned it


async def test_an_evicted_group_is_ended_gives_its_place_and_comes_back_with_new_pods(site: MakeSite) -> None:
    here = site("pod-evicted")
    await here.open({"b1": {"r1": 1}})
    for index in range(2):
        await here.make(PODS, a_member(here, "old", index, 2, gpus=2))
    await bound(here, "old-0", "old-1")
    await here.change(WORKLOADS, "old", {"spec": {"active": False}})

    async def ended() -> bool:
        found = await workload(here, "old")
        return found is not None and found.status.admission is None

    await eventually("the quota is given back", ended)
    for index in range(2):
        pod = await state(here, f"old-{index}")
        assert pod["metadata"]["deletionTimestamp"]
        target = next(c for c in pod["status"]["conditions"] if c["type"] == "TerminationTarget")
        assert target["reason"] == "WorkloadEvictedDueToDeactivated"
    await here.make(PODS, a_pod(here, "between", gpus=4))
    await bound(here, "between")
    await here.change(WORKLOADS, "old", {"spec": {"active": True}})
    await here.waits("old-0", "Suspended", "pods need replacement")
    for index in range(2):
        await here.make(PODS, a_member(here, "old", index, 2, name=f"new-{index}", gpus=2))
        await here.gone(PODS, f"old-{index}")
    await here.waits("new-0", "TopologyPlacementFailed", "doesn't allow to fit any of 2 pod(s)")
    await here.remove(PODS, "between")
    await bound(here, "new-0", "new-1")


async def test_a_group_whose_pods_contradict_each_other_is_reported(site: MakeSite) -> None:
    here = site("pod-unlike")
    await here.open({"b1": {"r1": 1}})
    await here.make(PODS, a_member(here, "odd", 0, 2))
    other = a_member(here, "odd", 1, 2)
    other["metadata"]["labels"][QUEUE_NAME_LABEL] = "another"
    await here.make(PODS, other)

    async def told() -> bool:
        events = (await here.kube.list(EVENTS, here.name)).items
        return any(e["reason"] == "PodGroupInconsistent" and "another" in e["message"] for e in events)

    await eventually("an event tells which queues", told)
    assert await workload(here, "odd") is None


@pytest.mark.parametrize("stage", [pytest.param("real", marks=pytest.mark.e2e)], indirect=True)
async def test_opening_a_gate_erases_field_managers_unless_a_client_applies_the_pod(site: MakeSite) -> None:
    """A client that applies its pod keeps what it owns of it, so that its next apply still removes fields."""
    here = site("managers")
    await here.open({"b1": {"r1": 2}})
    created, applied = (a_member(here, "g", index, 2, gpus=4) for index in range(2))
    await here.make(PODS, created)
    body, name = {"apiVersion": "v1", "kind": "Pod", **applied}, applied["metadata"]["name"]
    await here.kube.patch(PODS, name, body, here.name, kind=PatchKind.APPLY, field_manager="tenant")
    first, second = await bound(here, "g-0", "g-1")
    assert "managedFields" not in first["metadata"]
    managers = {each["manager"]: each["operation"] for each in second["metadata"]["managedFields"]}
    assert managers["tenant"] == "Apply"


@pytest.mark.e2e
async def test_each_pod_of_a_deployment_queues_by_itself(site: MakeSite, stage: Stage) -> None:
    if stage.name == "embedded":
        pytest.skip("the embedded API server has no Deployment controller")
    here = site("deployment")
    await here.open({"b1": {"r1": 1}}, quota=2)
    template = here.template(1)
    template["metadata"]["labels"] = {"app": "web"}
    template["spec"]["restartPolicy"] = "Always"
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    metadata = {"name": "web", "namespace": here.name, "labels": {QUEUE_NAME_LABEL: "lq"}}
    await here.make(DEPLOYMENTS, {"metadata": metadata, "spec": spec})

    async def phases() -> Counter[str]:
        page = await here.kube.list(PODS, here.name, label_selector="app=web")
        return Counter(pod["status"]["phase"] for pod in page.items if not pod["metadata"].get("deletionTimestamp"))

    async def two_of_three() -> bool:
        return await phases() == {"Running": 2, "Pending": 1}

    await eventually("two run, one waits for quota", two_of_three)

    async def told() -> bool:
        page = await here.kube.list(EVENTS, here.name, field_selector="involvedObject.kind=Pod")
        return any("with maxSurge 0 a rollout replaces them" in event["message"] for event in page.items)

    await eventually("the waiting pod says why, and what helps", told)
    pods = (await here.kube.list(PODS, here.name, label_selector="app=web")).items
    assert all(not pod["metadata"].get("finalizers") for pod in pods)
    assert len((await here.kube.list(WORKLOADS, here.name)).items) == 3
    running = next(pod for pod in pods if pod["status"]["phase"] == "Running")
    await here.remove(PODS, running["metadata"]["name"])
    await eventually("its successor waits, the third runs", two_of_three)
    await here.change(DEPLOYMENTS, "web", {"spec": {"replicas": 2}})

    async def two() -> bool:
        workloads = (await here.kube.list(WORKLOADS, here.name)).items
        return await phases() == {"Running": 2} and len(workloads) == 2

    await eventually("two are left, with their Workloads", two)


@pytest.mark.e2e
async def test_a_rollout_whose_surge_waits_in_a_full_quota_says_so(site: MakeSite, stage: Stage) -> None:
    if stage.name == "embedded":
        pytest.skip("the embedded API server has no Deployment controller")
    here = site("rollout")
    await here.open({"b1": {"r1": 1}}, quota=2)
    template = here.template(1)
    template["metadata"]["labels"] = {"app": "web"}
    template["spec"]["restartPolicy"] = "Always"
    rolling = {"maxSurge": 1, "maxUnavailable": 0}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template, "strategy": strategy}
    metadata = {"name": "web", "namespace": here.name, "labels": {QUEUE_NAME_LABEL: "lq"}}
    await here.make(DEPLOYMENTS, {"metadata": metadata, "spec": spec})

    async def images() -> Counter[tuple[str, bool]]:
        """The pods by image, and whether they run."""
        pods = (await here.kube.list(PODS, here.name, label_selector="app=web")).items
        staying = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
        return Counter((p["spec"]["containers"][0]["image"], p["status"]["phase"] == "Running") for p in staying)

    async def are(*expected: tuple[str, bool]) -> bool:
        return await images() == Counter(expected)

    await eventually("both run", lambda: are(("pause", True), ("pause", True)))
    newer = {**template["spec"], "containers": [{**template["spec"]["containers"][0], "image": "pause:2"}]}
    await here.change(DEPLOYMENTS, "web", {"spec": {"template": {"spec": newer}}})
    await eventually("the surge waits", lambda: are(("pause", True), ("pause", True), ("pause:2", False)))

    async def told() -> bool:
        page = await here.kube.list(EVENTS, here.name, field_selector="involvedObject.kind=Pod")
        return any("with maxSurge 0 a rollout replaces them" in event["message"] for event in page.items)

    await eventually("its pod says why, and what helps", told)


async def test_a_pod_that_queues_by_itself_says_why_it_waits(site: MakeSite) -> None:
    here = site("pod-says-why")
    await here.open({"b1": {"r1": 1}}, quota=1)
    await here.make(PODS, a_pod(here, "large", gpus=2))

    async def told() -> bool:
        page = await here.kube.list(EVENTS, here.name, field_selector="involvedObject.kind=Pod")
        events = [event for event in page.items if event["involvedObject"]["name"] == "large"]
        return any("quota" in event["message"] and "maxSurge" not in event["message"] for event in events)

    await eventually("the pod says why it waits", told)


async def test_a_pod_of_a_missing_queue_says_so(site: MakeSite) -> None:
    here = site("pod-no-queue")
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    pod = a_pod(here, "lost")
    pod["metadata"]["labels"][QUEUE_NAME_LABEL] = "misspelt"
    await here.make(PODS, pod)

    async def told() -> bool:
        page = await here.kube.list(EVENTS, here.name, field_selector="involvedObject.name=lost")
        return any(event["message"] == "LocalQueue misspelt doesn't exist" for event in page.items)

    await eventually("the pod says that its queue is missing", told)


@pytest.mark.parametrize(
    ("labels", "annotations", "field", "text"),
    [
        pytest.param(
            {POD_GROUP_NAME: "g"},
            {POD_GROUP_TOTAL_COUNT: "many"},
            POD_GROUP_TOTAL_COUNT,
            "invalid syntax",
            id="count is a word",
        ),
        pytest.param(
            {POD_GROUP_NAME: "g"},
            {POD_GROUP_TOTAL_COUNT: "0"},
            POD_GROUP_TOTAL_COUNT,
            "greater than zero",
            id="count is 0",
        ),
        pytest.param(
            {POD_GROUP_NAME: "g"},
            {POD_GROUP_TOTAL_COUNT: "9" * 30},
            POD_GROUP_TOTAL_COUNT,
            "at most",
            id="count is huge",
        ),
        pytest.param({POD_GROUP_NAME: "g"}, {}, POD_GROUP_TOTAL_COUNT, "should be set", id="a name without a count"),
        pytest.param({}, {POD_GROUP_TOTAL_COUNT: "2"}, POD_GROUP_NAME, "should be set", id="a count without a name"),
        pytest.param(
            {POD_GROUP_NAME: "G_1"},
            {POD_GROUP_TOTAL_COUNT: "2"},
            POD_GROUP_NAME,
            "RFC 1123",
            id="the name is no DNS name",
        ),
        pytest.param({QUEUE_NAME_LABEL: "Q_1"}, {}, QUEUE_NAME_LABEL, "RFC 1123", id="the queue is no DNS name"),
        pytest.param({POD_GROUP_INDEX_LABEL: "-1"}, {}, POD_GROUP_INDEX_LABEL, "", id="an index below 0"),
        pytest.param(
            {}, {RETRIABLE_IN_GROUP: "no"}, RETRIABLE_IN_GROUP, "'true' or 'false'", id="retriable is no boolean"
        ),
        pytest.param({}, {REQUIRED_TOPOLOGY: "a b"}, REQUIRED_TOPOLOGY, "", id="the level is no label"),
    ],
)
async def test_a_malformed_pod_is_refused_with_the_field_and_what_is_allowed(
    site: MakeSite, labels: dict[str, str], annotations: dict[str, str], field: str, text: str
) -> None:
    here = site("pod-bad")
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    pod = a_pod(here, "bad", annotations=annotations)
    pod["metadata"]["labels"] |= labels
    with pytest.raises(ApiError) as refused:
        await here.kube.create(PODS, {"apiVersion": "v1", "kind": "Pod", **pod})
    assert field in str(refused.value)
    assert text in str(refused.value)


async def test_what_names_a_group_cannot_change(site: MakeSite) -> None:
    here = site("pod-fixed")
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    await here.make(PODS, a_member(here, "fixed", 0, 2))
    for body in (
        {"metadata": {"labels": {POD_GROUP_NAME: "another"}}},
        {"metadata": {"annotations": {POD_GROUP_TOTAL_COUNT: "none"}}},
        {"metadata": {"labels": {MANAGED_LABEL: "false"}}},
    ):
        with pytest.raises(ApiError):
            await here.kube.patch(PODS, "fixed-0", body, here.name, kind=PatchKind.MERGE)
