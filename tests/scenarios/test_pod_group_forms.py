"""What a plain pod or a group may say of itself: made beforehand, serving, admitted by its first pod, not to be retried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from api.kube.client import PatchKind
from api.kube.resources import EVENTS, PODS, WORKLOADS
from api.meta import find_condition, is_true
from api.names import (
    ADMITTED,
    EVICTED,
    FINISHED,
    POD_GROUP_FAST_ADMISSION,
    POD_GROUP_SERVING,
    PREBUILT_WORKLOAD,
    RETRIABLE_IN_GROUP,
    ROLE_HASH,
    WAITING_FOR_REPLACEMENT_PODS,
)
from tests.scenarios.site import Site, eventually, never
from tests.scenarios.test_plain_pods import a_member, a_pod, bound, state, workload

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True

MakeSite = Callable[[str], Site]


async def end(here: Site, name: str, phase: str) -> None:
    body = {"status": {"phase": phase}}
    await here.kube.patch(PODS, name, body, here.name, kind=PatchKind.MERGE, subresource="status")


async def gated(here: Site, *names: str) -> bool:
    return all([bool((await state(here, name))["spec"].get("schedulingGates")) for name in names])


async def is_so(here: Site, name: str, kind: str) -> bool:
    found = await workload(here, name)
    return found is not None and is_true(found.status.conditions, kind)


async def made_beforehand(here: Site, name: str, pod_sets: list[dict[str, Any]]) -> None:
    spec = {"queueName": "lq", "podSets": pod_sets}
    await here.make(WORKLOADS, {"metadata": {"name": name, "namespace": here.name}, "spec": spec})


def template(pod: dict[str, Any]) -> dict[str, Any]:
    spec = {key: value for key, value in pod["spec"].items() if key in ("containers", "restartPolicy")}
    return {"spec": spec}


async def test_a_pod_waits_for_its_prebuilt_workload(site: MakeSite) -> None:
    here = site("prebuilt-pod")
    await here.open({"b1": {"r1": 1}})
    pod = a_pod(here, "alone", annotations={PREBUILT_WORKLOAD: "made"})
    await here.make(PODS, pod)

    async def told() -> bool:
        events = (await here.kube.list(EVENTS, here.name)).items
        return any(e["reason"] == "PrebuiltWorkloadNotFound" and 'made"' in e["message"] for e in events)

    await eventually("an event tells which Workload is missing", told)
    assert await gated(here, "alone")
    await made_beforehand(here, "made", [{"name": "main", "count": 1, "template": template(pod)}])
    await bound(here, "alone")
    assert [w["metadata"]["name"] for w in (await here.kube.list(WORKLOADS, here.name)).items] == ["made"]
    await end(here, "alone", "Succeeded")
    await eventually("the Workload has finished", lambda: is_so(here, "made", FINISHED))


async def test_a_group_starts_with_the_workload_that_was_made_for_it(site: MakeSite) -> None:
    here = site("prebuilt-group")
    await here.open({"b1": {"r1": 1}})
    members = [a_member(here, "ring", index, 2, gpus=2, more={PREBUILT_WORKLOAD: "ring"}) for index in range(2)]
    await here.make(PODS, members[0])
    role = (await state(here, "ring-0"))["metadata"]["annotations"][ROLE_HASH]
    await made_beforehand(here, "ring", [{"name": role, "count": 2, "template": template(members[0])}])
    await here.make(PODS, members[1])
    await bound(here, "ring-0", "ring-1")
    for index in range(2):
        await end(here, f"ring-{index}", "Succeeded")
    await eventually("the Workload has finished", lambda: is_so(here, "ring", FINISHED))


async def test_a_serving_group_is_ended_by_no_success_and_replaces_what_fails(site: MakeSite) -> None:
    here = site("serving")
    await here.open({"b1": {"r1": 1}})
    for index in range(2):
        await here.make(PODS, a_member(here, "web", index, 2, more={POD_GROUP_SERVING: "true"}))
    await bound(here, "web-0", "web-1")
    await end(here, "web-0", "Succeeded")
    await end(here, "web-1", "Failed")
    await eventually("it waits for another", lambda: is_so(here, "web", WAITING_FOR_REPLACEMENT_PODS))
    await here.make(PODS, a_member(here, "web", 1, 2, name="web-1-again", more={POD_GROUP_SERVING: "true"}))
    await bound(here, "web-1-again")
    await end(here, "web-1-again", "Succeeded")
    await never("it has finished", lambda: is_so(here, "web", FINISHED))
    found = await workload(here, "web")
    assert found is not None
    assert found.status.reclaimable_pods == ()


async def test_the_first_pod_of_a_fast_group_stands_for_all(site: MakeSite) -> None:
    here = site("fast")
    await here.open({"b1": {"r1": 1}}, quota=4)
    fast = {POD_GROUP_FAST_ADMISSION: "true"}
    await here.make(PODS, a_member(here, "quick", 0, 3, more=fast))
    (first,) = await bound(here, "quick-0")
    found = await workload(here, "quick")
    assert found is not None
    assert [pod_set.count for pod_set in found.spec.pod_sets] == [3]
    await here.make(PODS, a_pod(here, "other", gpus=2))
    await here.waits("other", "WaitingForQuota", "")
    for index in (1, 2):
        await here.make(PODS, a_member(here, "quick", index, 3, more=fast))
    pods = await bound(here, "quick-1", "quick-2")
    assert Counter(pod["spec"]["nodeName"] for pod in pods) == {first["spec"]["nodeName"]: 2}


async def test_a_group_that_is_not_to_be_retried_is_over_when_all_have_ended(site: MakeSite) -> None:
    here = site("once")
    await here.open({"b1": {"r1": 1}})
    once = {RETRIABLE_IN_GROUP: "false"}
    for index in range(3):
        await here.make(PODS, a_member(here, "try", index, 3, more=once))
    await bound(here, "try-0", "try-1", "try-2")
    await end(here, "try-0", "Failed")
    await end(here, "try-1", "Succeeded")
    await never("it has finished", lambda: is_so(here, "try", FINISHED))
    await end(here, "try-2", "Failed")
    await eventually("it has finished", lambda: is_so(here, "try", FINISHED))
    found = await workload(here, "try")
    assert found is not None
    over = find_condition(found.status.conditions, FINISHED)
    assert over is not None
    assert over.message == "Pods succeeded: 1/3."
    assert is_true(found.status.conditions, ADMITTED)


async def test_a_group_that_may_be_retried_ends_once_its_last_pod_says_it_may_not(site: MakeSite) -> None:
    here = site("no-more")
    await here.open({"b1": {"r1": 1}})
    for index in range(2):
        await here.make(PODS, a_member(here, "try", index, 2))
    await bound(here, "try-0", "try-1")
    await end(here, "try-0", "Failed")
    await end(here, "try-1", "Failed")
    await eventually("it waits for others", lambda: is_so(here, "try", WAITING_FOR_REPLACEMENT_PODS))
    await here.change(PODS, "try-0", {"metadata": {"annotations": {RETRIABLE_IN_GROUP: "false"}}})
    await eventually("it has finished", lambda: is_so(here, "try", FINISHED))


async def test_a_fast_group_that_was_evicted_starts_again_with_one_pod(site: MakeSite) -> None:
    """Fewer pods than the group has replace its old one, which nothing holds then."""
    here = site("fast-again")
    await here.open({"b1": {"r1": 1}}, quota=4)
    fast = {POD_GROUP_FAST_ADMISSION: "true"}
    await here.make(PODS, a_member(here, "quick", 0, 3, more=fast))
    await bound(here, "quick-0")
    await here.change(WORKLOADS, "quick", {"spec": {"active": False}})
    await eventually("it is evicted", lambda: evicted(here, "quick"))
    await here.change(WORKLOADS, "quick", {"spec": {"active": True}})
    await here.make(PODS, a_member(here, "quick", 1, 3, more=fast))
    await bound(here, "quick-1")
    await here.gone(PODS, "quick-0")


async def evicted(here: Site, name: str) -> bool:
    found = await workload(here, name)
    return found is not None and is_true(found.status.conditions, EVICTED) and found.status.admission is None
