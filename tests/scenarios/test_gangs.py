"""Gangs of every dialect: all of a group starts, or none of it. The stories that must hold, and what happens to members."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from api.errors import ApiError, NotFound
from api.kube.client import PatchKind
from api.kube.resources import (
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    SIGS_POD_GROUPS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from api.meta import is_true, parse_time
from api.names import (
    ADMITTED,
    GANG_LABEL,
    GANG_MINIMUM,
    GANG_NAME,
    KOORDINATOR_GROUPS,
    KOORDINATOR_MINIMUM,
    KOORDINATOR_NAME,
    PRIORITY_CLASS_LABEL,
    SIGS_GANG,
    SIGS_GANG_GROUPS,
    SIGS_GANG_MINIMUM,
    SIGS_GANG_NAME,
    SIGS_MATCH_POLICY,
)
from api.workloads import Workload
from tests.scenarios.gangs import (
    Texts,
    a_pod,
    create,
    end,
    expect_events_on_members,
    expect_group_phase,
    expect_phases,
    expect_reason,
    expect_same_phases,
    phases,
    said,
)
from tests.scenarios.site import Site, eventually
from tests.scenarios.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")
NOBODY = "nobody"
ENVIRONMENT = {"STOWAGE_SCHEDULERS__KEPT": f'["{NOBODY}"]'}
"""A scheduler that is said to run, and does not."""

MakeSite = Callable[[str], Site]


# ---- the stories


async def test_a_parameter_server_and_its_workers_never_hold_half_of_the_gpus_for_nothing(site: MakeSite) -> None:
    here = site("deadlock")
    await here.open({"b1": {"r1": 1}})
    await create(
        here, a_pod(here, "loose-server", {}, gpus=0), *(a_pod(here, f"loose-worker-{i}", {}) for i in range(4))
    )
    await expect_phases(here, "loose-worker", Running=2, Pending=2)
    await expect_same_phases(here, "loose-worker", Running=2, Pending=2)
    for name in ("loose-server", *(f"loose-worker-{i}" for i in range(4))):
        await here.remove(PODS, name)

    gang = said("train", 5)
    await create(here, a_pod(here, "server", gang, gpus=0), *(a_pod(here, f"worker-{i}", gang) for i in range(3)))
    await expect_reason(here, "train", "4 of 5 pods exist")
    await create(here, a_pod(here, "worker-3", gang))
    await expect_reason(here, "train", "allows to fit only")
    await expect_same_phases(here, "", Gated=5)
    await expect_events_on_members(here, "gang train waits: ", "allows to fit only", members=5)
    await here.add_nodes({"b1": {"r2": 1}})
    await expect_phases(here, "", Running=5)
    group = await expect_group_phase(here, "train", "Running")
    assert (group["status"]["running"], group["status"]["scheduled"]) == (5, 5)
    assert group["status"]["scheduleStartTime"]


@pytest.mark.parametrize("dialect", ["labels", "annotations", "pod-group", "queued"])
async def test_the_minimum_of_a_gang_starts_and_the_rest_follows_when_there_is_room(
    site: MakeSite, dialect: str
) -> None:
    """Six pods, a minimum of three, room for four: two that came early wait, and one by one they join."""
    here = site(f"some-{dialect}")
    await here.open({"b1": {"r1": 1}})
    labels, annotations, queue = said("six", 3), Texts(), None
    if dialect == "annotations":
        labels, annotations = {}, {KOORDINATOR_NAME: "six", KOORDINATOR_MINIMUM: "3"}
    elif dialect == "pod-group":
        labels = {GANG_LABEL: "six"}
        await here.make(POD_GROUPS, {"metadata": {"name": "six", "namespace": here.name}, "spec": {"minMember": 3}})
    elif dialect == "queued":
        queue = "lq"
    await create(here, *(a_pod(here, f"six-{i}", labels, annotations, gpus=1, queue=queue) for i in range(6)))
    await expect_phases(here, "six-", Running=4, Gated=2)
    await expect_same_phases(here, "six-", Running=4, Gated=2)
    await here.add_nodes({"b1": {"r2": 1}})
    await expect_phases(here, "six-", Running=6)


async def test_no_member_runs_while_a_gate_of_somebody_else_holds_one_that_the_minimum_needs(site: MakeSite) -> None:
    here = site("foreign-gate")
    await here.open({"b1": {"r1": 1}})
    held = a_pod(here, "late-2", said("late", 3), gpus=1)
    held["spec"]["schedulingGates"] = [{"name": "example.com/later"}]
    await create(here, held, *(a_pod(here, f"late-{i}", said("late", 3), gpus=1) for i in range(2)))
    await expect_reason(here, "late", "pod late-2 has the scheduling gate example.com/later")
    await expect_same_phases(here, "late-", Gated=3)
    gone = {"spec": {"schedulingGates": [{"name": "example.com/later", "$patch": "delete"}]}}
    await here.kube.patch(PODS, "late-2", gone, here.name, kind=PatchKind.STRATEGIC)
    await expect_phases(here, "late-", Running=3)


async def test_pods_that_join_a_waiting_gang_do_not_keep_it_from_starting(site: MakeSite) -> None:
    here = site("joined-before")
    await here.open({"b1": {"r1": 1}})
    await create(here, a_pod(here, "first", {}, gpus=2))
    await expect_phases(here, "first", Running=1)
    await create(here, *(a_pod(here, f"six-{i}", said("six", 3), gpus=1) for i in range(3)))
    await expect_reason(here, "six", "allows to fit only 2 out of 3")
    await create(here, *(a_pod(here, f"six-{i}", said("six", 3), gpus=1) for i in range(3, 6)))
    await expect_reason(here, "six", "6 pod(s)")
    await end(here, ["first"])
    await expect_phases(here, "six-", Running=4, Gated=2)


async def test_without_gangs_two_jobs_submitted_pod_by_pod_hold_half_of_the_nodes_each_for_nothing(
    site: MakeSite,
) -> None:
    here = site("interleaved-loose")
    await here.open({"b1": {"r1": 2}})
    for i in range(3):
        await create(here, a_pod(here, f"a-{i}", {}), a_pod(here, f"b-{i}", {}))
    await expect_phases(here, "", Running=4, Pending=2)
    await expect_same_phases(here, "a-", Running=2, Pending=1)
    await expect_same_phases(here, "b-", Running=2, Pending=1)


async def test_of_two_gangs_submitted_pod_by_pod_one_runs_then_the_other(site: MakeSite) -> None:
    here = site("interleaved")
    await here.open({"b1": {"r1": 2}})
    for i in range(3):
        await create(here, a_pod(here, f"a-{i}", said("a", 3)), a_pod(here, f"b-{i}", said("b", 3)))
    await expect_phases(here, "", Running=3, Gated=3)
    first = "a" if (await phases(here, "a-"))["Running"] else "b"
    second = "b" if first == "a" else "a"
    await expect_phases(here, f"{first}-", Running=3)
    await expect_same_phases(here, f"{second}-", Gated=3)
    await end(here, [f"{first}-{i}" for i in range(3)])
    await expect_phases(here, f"{second}-", Running=3)
    await expect_group_phase(here, first, "Finished")


async def test_roles_of_one_job_start_together_or_not_at_all_across_queues(site: MakeSite) -> None:
    here = site("roles")
    await here.open({"b1": {"r1": 1}})
    both = json.dumps([f"{here.name}/master", f"{here.name}/workers"])
    group = {SIGS_GANG_GROUPS: both}
    await create(here, a_pod(here, "master-0", said("master", 1), group, gpus=1, queue="lq"))
    await here.waits("master-0", "WaitingForGangs", f"gang {here.name}/workers of the group has too few pods yet")
    await create(here, *(a_pod(here, f"worker-{i}", said("workers", 2), group) for i in range(2)))
    await expect_same_phases(here, "", Gated=3)
    await here.add_nodes({"b1": {"r2": 1}})
    await expect_phases(here, "", Running=3)


async def test_a_gang_waits_for_one_that_does_not_name_it_back(site: MakeSite) -> None:
    here = site("one-sided")
    await here.open({"b1": {"r1": 1}})
    group = {KOORDINATOR_NAME: "a", KOORDINATOR_MINIMUM: "1", KOORDINATOR_GROUPS: json.dumps([f"{here.name}/b"])}
    await create(here, a_pod(here, "b-0", said("b", 1), gpus=1), a_pod(here, "a-0", {}, group, gpus=1))
    await expect_phases(here, "b-", Running=1)
    await expect_reason(here, "a", f"gang {here.name}/b of the group does not name it back")
    await expect_same_phases(here, "a-", Gated=1)


# ---- the dialects


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [
        pytest.param({GANG_NAME: "g", GANG_MINIMUM: "2"}, {}, id="coscheduling"),
        pytest.param({SIGS_GANG_NAME: "g", SIGS_GANG_MINIMUM: "2"}, {}, id="older"),
        pytest.param({SIGS_GANG: "g", SIGS_GANG_MINIMUM: "2"}, {}, id="older-bare"),
        pytest.param({}, {KOORDINATOR_NAME: "g", KOORDINATOR_MINIMUM: "2"}, id="koordinator"),
    ],
)
async def test_a_gang_in_each_dialect_gets_a_pod_group_that_goes_with_its_last_pod(
    site: MakeSite, labels: Texts, annotations: Texts, request: pytest.FixtureRequest
) -> None:
    here = site(
        f"dialect-{request.node.callspec.id.rpartition('-')[2]}-{len(labels)}{len(annotations)}{len(str(labels))}"
    )
    await here.open({"b1": {"r1": 1}})
    await create(here, a_pod(here, "p-0", labels, annotations, gpus=1))
    await expect_reason(here, "g", "1 of 2 pods exist")
    await expect_same_phases(here, "", Gated=1)
    await create(here, a_pod(here, "p-1", labels, annotations, gpus=1))
    await expect_phases(here, "", Running=2)
    for index in range(2):
        await here.remove(PODS, f"p-{index}")

    async def gone() -> bool:
        try:
            await here.kube.get(POD_GROUPS, "g", here.name)
        except NotFound:
            return True
        return False

    await eventually("the PodGroup goes with the last pod", gone)


@pytest.mark.parametrize("resource", [POD_GROUPS, SIGS_POD_GROUPS], ids=["x-k8s", "sigs"])
async def test_the_minimum_of_a_pod_group_may_be_raised_and_lowered_while_its_pods_wait(
    site: MakeSite, resource: Any
) -> None:
    here = site(f"minimum-{resource.group.split('.')[1]}")
    await here.open({"b1": {"r1": 1}})
    group = {"metadata": {"name": "g", "namespace": here.name}, "spec": {"minMember": 3}}
    await create(here, *(a_pod(here, f"p-{i}", {GANG_LABEL: "g"}, gpus=1) for i in range(2)))
    await expect_same_phases(here, "", Gated=2)
    await here.make(resource, group)
    await expect_reason(here, "g", "2 of 3 pods exist", resource)
    await here.change(resource, "g", {"spec": {"minMember": 5}})
    await create(here, a_pod(here, "p-2", {GANG_LABEL: "g"}, gpus=1))
    await expect_reason(here, "g", "3 of 5 pods exist", resource)
    await here.change(resource, "g", {"spec": {"minMember": 3}})
    await expect_phases(here, "", Running=3)
    await expect_group_phase(here, "g", "Running", resource)


async def test_a_pod_group_deleted_under_its_pods_stops_none_of_them(site: MakeSite) -> None:
    here = site("group-gone")
    await here.open({"b1": {"r1": 1}})
    group = {"metadata": {"name": "g", "namespace": here.name}, "spec": {"minMember": 2}}
    await here.make(POD_GROUPS, group)
    await create(here, *(a_pod(here, f"p-{i}", {GANG_LABEL: "g"}, gpus=1) for i in range(2)))
    await expect_phases(here, "", Running=2)
    await here.remove(POD_GROUPS, "g")
    await expect_same_phases(here, "", Running=2)
    await create(here, a_pod(here, "p-2", {GANG_LABEL: "g"}, gpus=1))
    await expect_same_phases(here, "p-2", Gated=1)
    await here.make(POD_GROUPS, group)
    await expect_phases(here, "", Running=3)


# ---- members


async def test_late_members_join_one_by_one_while_there_is_room(site: MakeSite) -> None:
    here = site("late")
    await here.open({"b1": {"r1": 2}}, quota=4)
    await create(here, *(a_pod(here, f"p-{i}", said("g", 2), gpus=1, queue="lq") for i in range(2)))
    await expect_phases(here, "", Running=2)
    await create(here, *(a_pod(here, f"late-{i}", said("g", 2), gpus=1, queue="lq") for i in range(3)))
    await expect_phases(here, "late-", Running=2, Gated=1)
    await expect_same_phases(here, "p-", Running=2)
    await end(here, ["p-0"])
    await expect_phases(here, "late-", Running=3)


async def test_with_only_waiting_late_members_wait_for_each_other(site: MakeSite) -> None:
    here = site("late-waiting")
    await here.open({"b1": {"r1": 1}})
    labels = {**said("g", 2), SIGS_MATCH_POLICY: "only-waiting"}
    await create(here, *(a_pod(here, f"p-{i}", labels, gpus=1) for i in range(2)))
    await expect_phases(here, "", Running=2)
    await create(here, a_pod(here, "late-0", labels, gpus=1))
    await expect_same_phases(here, "late-", Gated=1)
    await create(here, a_pod(here, "late-1", labels, gpus=1))
    await expect_phases(here, "", Running=4)


async def test_pods_deleted_one_by_one_while_gated_leave_nothing_behind(site: MakeSite) -> None:
    here = site("dwindling")
    await here.open({"b1": {"r1": 1}})
    await create(here, *(a_pod(here, f"p-{i}", said("g", 3), gpus=4) for i in range(3)))
    await expect_reason(here, "g", "allows to fit only")
    await here.remove(PODS, "p-0")
    await expect_reason(here, "g", "2 of 3 pods exist")
    await here.remove(PODS, "p-1")
    await here.remove(PODS, "p-2")

    async def empty() -> bool:
        workloads = (await here.kube.list(WORKLOADS, here.name)).items
        groups = (await here.kube.list(POD_GROUPS, here.name)).items
        return not groups and not any(is_true(Workload.from_wire(w).status.conditions, ADMITTED) for w in workloads)

    await eventually("nothing is left that waits", empty)


async def test_pods_that_come_in_the_place_of_all_that_were_deleted_stay_when_the_workload_is_collected(
    site: MakeSite,
) -> None:
    here = site("exchanged")
    await here.open({"b1": {"r1": 1}})
    await create(here, *(a_pod(here, f"old-{i}", said("g", 2), gpus=3, queue="lq") for i in range(2)))
    await here.waits("old-0", "TopologyPlacementFailed", "fit")
    # Held, so that the new pods surely come while the collector has it.
    (first,) = (await here.kube.list(WORKLOADS, here.name)).items
    held = [*first["metadata"]["finalizers"], "example.com/held"]
    await here.change(WORKLOADS, "g", {"metadata": {"finalizers": held}})
    for index in range(2):
        await here.remove(PODS, f"old-{index}")
    await here.kube.delete(WORKLOADS, "g", here.name)  # as the collector does; the embedded API server has none
    await create(here, *(a_pod(here, f"new-{i}", said("g", 2), queue="lq") for i in range(2)))
    await expect_same_phases(here, "new-", Gated=2)
    await here.change(WORKLOADS, "g", {"metadata": {"finalizers": None}})
    await expect_phases(here, "new-", Running=2)


async def test_a_gang_that_is_not_bound_in_time_goes_back_whole(site: MakeSite) -> None:
    here = site("overdue")
    await here.open({"b1": {"r1": 1}})
    group = {"metadata": {"name": "g", "namespace": here.name}, "spec": {"minMember": 2, "scheduleTimeoutSeconds": 3}}
    await here.make(POD_GROUPS, group)
    pods = [a_pod(here, f"p-{i}", {GANG_LABEL: "g"}, gpus=1) for i in range(2)]
    # the queue cannot know of a rule that only the scheduler goes by
    pods[1]["spec"]["schedulerName"] = NOBODY
    await create(here, *pods)
    await expect_phases(here, "p-0", Running=1)

    async def back() -> bool:
        events = (await here.kube.list(EVENTS, here.name)).items
        return any("1 of 2 pods were bound within 3s" in e["message"] for e in events)

    await eventually("an event tells why", back)
    await expect_phases(here, "p-")


async def test_gangs_and_plain_pods_of_one_queue_start_by_priority_then_by_time(site: MakeSite) -> None:
    """Regular pods stand between gangs as the document says."""
    here = site("between")
    await here.open({"b1": {"r1": 1}}, quota=2, queueingStrategy="StrictFIFO")
    await here.make(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "between"}, "value": 5})
    await create(here, *(a_pod(here, f"first-{i}", said("first", 2), gpus=1, queue="lq") for i in range(2)))
    await expect_phases(here, "first-", Running=2)
    urgent = {PRIORITY_CLASS_LABEL: "between"}

    async def second_later(name: str) -> None:
        """Creation is told in whole seconds."""
        made = parse_time((await here.kube.get(PODS, name, here.name))["metadata"]["creationTimestamp"]) or 0.0

        async def later() -> bool:
            return time.time() >= made + 1.5

        await eventually("a second later", later)

    await create(here, *(a_pod(here, f"second-{i}", said("second", 2), gpus=1, queue="lq") for i in range(2)))
    await second_later("second-1")
    await create(here, a_pod(here, "third", {}, gpus=1, queue="lq"))
    await second_later("third")
    await create(here, *(a_pod(here, f"fourth-{i}", said("fourth", 2), gpus=1, queue="lq") for i in range(2)))
    await second_later("fourth-1")
    await create(here, a_pod(here, "urgent", urgent, gpus=1, queue="lq"))
    waiting = {"second-": 2, "third": 1, "fourth-": 2, "urgent": 1}

    async def known() -> bool:
        return len((await here.kube.list(WORKLOADS, here.name)).items) == 5

    await eventually("all are queued", known)
    for gone, then in pairwise(("first-", "urgent", "second-", "third", "fourth-")):
        for pod in (await here.kube.list(PODS, here.name)).items:
            if pod["metadata"]["name"].startswith(gone):
                await here.kube.delete(PODS, pod["metadata"]["name"], here.name)
        await expect_phases(here, then, Running=waiting.pop(then))
        for prefix, count in waiting.items():
            assert await phases(here, prefix) == Counter(Gated=count), f"{prefix} waits behind {then}"


# ---- what happens to a gang that has run


def a_gang(here: Site, kind: str, labels: Texts, annotations: Texts, count: int) -> tuple[Resource, dict[str, Any]]:
    """A Job or a Deployment whose pods are the gang, each with a GPU."""
    pod = a_pod(here, "template", {**labels, "app": "g"}, annotations, gpus=1)
    template = {"metadata": {key: pod["metadata"][key] for key in ("labels", "annotations")}, "spec": pod["spec"]}
    metadata = {"name": "p", "namespace": here.name}
    if kind == "Job":
        spec = {"parallelism": count, "completions": count, "backoffLimit": 1, "template": template}
        return JOBS, {"metadata": metadata, "spec": {**spec, "completionMode": "Indexed"}}
    template["spec"]["restartPolicy"] = "Always"
    selector = {"matchLabels": {"app": "g"}}
    return DEPLOYMENTS, {"metadata": metadata, "spec": {"replicas": count, "selector": selector, "template": template}}


async def test_a_job_whose_gang_goes_back_again_and_again_spends_nothing_of_its_backoff_limit(
    site: MakeSite, stage: Stage
) -> None:
    """Three pods end at each try, the Job allows one to fail; the tries come later each time."""
    if stage.name == "embedded":
        pytest.skip("pods that the embedded API server's Job controller makes pass no webhooks")
    here = site("job-overdue")
    await here.open({"b1": {"r1": 1}})
    spec = {"minMember": 3, "scheduleTimeoutSeconds": 2}
    await here.make(POD_GROUPS, {"metadata": {"name": "g", "namespace": here.name}, "spec": spec})
    resource, job = a_gang(here, "Job", {GANG_LABEL: "g"}, {}, 3)
    # Stowage opens its gates, and no scheduler binds the pods.
    job["spec"]["template"]["spec"]["schedulerName"] = NOBODY
    await here.make(resource, job)

    async def stops() -> int:
        events = (await here.kube.list(EVENTS, here.name)).items
        return sum(e.get("count") or 1 for e in events if e["reason"] == "EvictedDueToGangTimeout")

    moments: list[float] = []

    async def thrice() -> bool:
        if await stops() > len(moments):
            moments.append(time.monotonic())
        return len(moments) >= 3

    await eventually("the gang is stopped three times", thrice)
    assert 9 < moments[1] - moments[0] < moments[2] - moments[1] - 5, moments
    await expect_phases(here, "p-", Gated=3)
    status = (await here.get_job("p"))["status"]
    assert not status.get("failed")
    assert not any(c["type"] in ("Failed", "FailureTarget") for c in status.get("conditions") or ())


@pytest.mark.parametrize(
    ("labels", "annotations", "field", "text"),
    [
        pytest.param({GANG_NAME: "A_b"}, {}, GANG_NAME, "DNS subdomain", id="coscheduling name"),
        pytest.param({GANG_NAME: "a", GANG_MINIMUM: "0"}, {}, GANG_MINIMUM, "whole number", id="coscheduling minimum"),
        pytest.param({GANG_MINIMUM: "2"}, {}, GANG_MINIMUM, "only together with the name", id="minimum of no gang"),
        pytest.param({SIGS_GANG_NAME: "A_b"}, {}, SIGS_GANG_NAME, "DNS subdomain", id="older name"),
        pytest.param(
            {SIGS_GANG: "a", SIGS_GANG_MINIMUM: "x"}, {}, SIGS_GANG_MINIMUM, "whole number", id="older minimum"
        ),
        pytest.param({GANG_LABEL: "a.."}, {}, GANG_LABEL, "DNS subdomain", id="PodGroup name"),
        pytest.param({}, {KOORDINATOR_NAME: "A b"}, KOORDINATOR_NAME, "DNS subdomain", id="Koordinator name"),
        pytest.param(
            {},
            {KOORDINATOR_NAME: "a", KOORDINATOR_MINIMUM: "-1"},
            KOORDINATOR_MINIMUM,
            "whole number",
            id="Koordinator minimum",
        ),
        pytest.param(
            {},
            {KOORDINATOR_NAME: "a", KOORDINATOR_GROUPS: "a,b"},
            KOORDINATOR_GROUPS,
            "JSON list",
            id="Koordinator groups",
        ),
        pytest.param(
            {GANG_NAME: "a", SIGS_MATCH_POLICY: "never"}, {}, SIGS_MATCH_POLICY, "once-satisfied", id="match policy"
        ),
        pytest.param({GANG_NAME: "a", SIGS_GANG: "b"}, {}, SIGS_GANG, "the same as", id="two gangs"),
    ],
)
async def test_a_malformed_gang_is_refused_with_the_field_and_what_is_allowed(
    site: MakeSite, labels: Texts, annotations: Texts, field: str, text: str
) -> None:
    here = site("gang-bad")
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    with pytest.raises(ApiError) as refused:
        await here.kube.create(PODS, {"apiVersion": "v1", "kind": "Pod", **a_pod(here, "bad", labels, annotations)})
    assert field in str(refused.value)
    assert text in str(refused.value)


async def test_a_pod_that_contradicts_its_gang_is_refused_with_the_name_of_another(site: MakeSite) -> None:
    here = site("gang-unlike")
    await here.make(NAMESPACES, {"metadata": {"name": here.name}})
    await create(here, a_pod(here, "first", said("g", 5)))
    urgent = a_pod(here, "urgent", said("g", 5))
    urgent["spec"]["priorityClassName"] = "system-node-critical"
    for pod, text in ((a_pod(here, "other", said("g", 4)), "pod first of gang g: 5"), (urgent, "pod first of gang g")):

        async def refused(pod: Any = pod, text: str = text) -> bool:
            try:
                await here.kube.create(PODS, {"apiVersion": "v1", "kind": "Pod", **pod}, dry_run=True)
            except ApiError as error:
                return text in str(error)
            return False

        await eventually(f"refused: {text}", refused)
