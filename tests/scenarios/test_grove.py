"""Grove's gangs: a Workload that Grove made, and pods that say which of its pod sets they are.

Grove makes one Workload for each PodGang and stamps the pods: queue, group, prebuilt Workload, total count, and the pod set
as role hash. Its operator is not here: the scenario writes what it would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.errors import ApiError, NotFound
from api.kube.resources import CRDS, PODS, WORKLOADS, Resource
from api.meta import is_true
from api.names import (
    FINISHED,
    POD_GROUP_NAME,
    POD_GROUP_TOTAL_COUNT,
    PREBUILT_WORKLOAD,
    QUEUE_NAME_LABEL,
    QUOTA_RESERVED,
    RETRIABLE_IN_GROUP,
    ROLE_HASH,
)
from api.workloads import Workload
from tests.crds import crd_of
from tests.scenarios.site import RACK, Site, eventually, never

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True
MakeSite = Callable[[str], Site]
Object = dict[str, Any]
ROLES = {"prefill": 2, "decode": 2}
POD_GANGS = Resource("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang")


async def owned(here: Site, name: str) -> Object:
    """The reference to a PodGang of that name, which is made."""

    async def made() -> Object | None:
        try:
            return await here.make(POD_GANGS, {"metadata": {"name": name, "namespace": here.name}})
        except NotFound:
            return None

    await here.make(CRDS, crd_of(POD_GANGS))
    uid = (await eventually("PodGangs are served", made))["metadata"]["uid"]
    return {"apiVersion": POD_GANGS.api_version, "kind": POD_GANGS.kind, "name": name, "uid": uid, "controller": True}


async def gang(here: Site, name: str, *, least: tuple[str, ...] = (), level: str = RACK) -> Object:
    """The Workload of a PodGang, made: a pod set for each of its groups, all in one rack."""
    pod_sets = [
        {
            "name": role,
            "count": count,
            **({"minCount": 1} if role in least else {}),
            "template": {"metadata": {}, "spec": here.template()["spec"]},
            "topologyRequest": {"required": level, "podSetGroupName": "gang"},
        }
        for role, count in ROLES.items()
    ]
    meta = {"name": name, "namespace": here.name, "ownerReferences": [await owned(here, name)]}
    return await here.make(WORKLOADS, {"metadata": meta, "spec": {"queueName": "lq", "podSets": pod_sets}})


def pod(here: Site, name: str, role: str, number: int, run_for: str | None = None) -> Object:
    """As Grove stamps it."""
    template = here.template(run_for=run_for)
    labels = {QUEUE_NAME_LABEL: "lq", POD_GROUP_NAME: name, PREBUILT_WORKLOAD: name}
    said = {POD_GROUP_TOTAL_COUNT: str(sum(ROLES.values())), ROLE_HASH: role, RETRIABLE_IN_GROUP: "false"}
    annotations = {**(template["metadata"].get("annotations") or {}), **said}
    meta = {"name": f"{name}-{role}-{number}", "namespace": here.name, "labels": labels, "annotations": annotations}
    return {"metadata": meta, "spec": template["spec"]}


async def pods_of(here: Site, name: str) -> list[Object]:
    return list((await here.kube.list(PODS, here.name, label_selector=f"{POD_GROUP_NAME}={name}")).items)


async def make_pods(here: Site, name: str, run_for: str | None = None) -> None:
    for role, count in ROLES.items():
        for number in range(count):
            await here.make(PODS, pod(here, name, role, number, run_for))


async def run(here: Site, name: str) -> list[Object]:
    async def check() -> list[Object] | None:
        pods = [one for one in await pods_of(here, name) if one["status"].get("phase") == "Running"]
        return pods if len(pods) == sum(ROLES.values()) else None

    try:
        return await eventually(f"the pods of {name} run", check, seconds=15)
    except AssertionError as late:
        found = await here.kube.get(WORKLOADS, name, here.name)
        raise AssertionError(f"{late}; {found['metadata'].get('ownerReferences')} {found.get('status')}") from None


async def state(here: Site, name: str, condition: str) -> None:
    async def check() -> bool:
        found = Workload.from_wire(await here.kube.get(WORKLOADS, name, here.name))
        return is_true(found.status.conditions, condition)

    await eventually(f"{name} is {condition}", check)


async def test_a_gang_starts_whole_in_one_rack_by_the_workload_that_grove_made(site: MakeSite) -> None:
    here = site("grove")
    await here.open({"b1": {"r1": 1, "r2": 1}}, quota=4)
    # pods come before their Workload, and wait
    await make_pods(here, "serve-0")

    async def started() -> bool:
        return any(one["spec"].get("nodeName") for one in await pods_of(here, "serve-0"))

    await never("a pod starts without its Workload", started, seconds=1)
    await gang(here, "serve-0")
    assert len(await here.racks(await run(here, "serve-0"))) == 1
    # the quota is used up: the next gang has none, and no pod of it runs
    await gang(here, "serve-1")
    await make_pods(here, "serve-1", run_for="1ms")

    async def waits() -> bool:
        found = Workload.from_wire(await here.kube.get(WORKLOADS, "serve-1", here.name))
        said = [c for c in found.status.conditions if c.type == QUOTA_RESERVED]
        return bool(said) and said[0].status == "False" and "insufficient" in said[0].message

    await eventually("the second gang waits for quota", waits)
    for one in await pods_of(here, "serve-0"):
        await here.kube.delete(PODS, one["metadata"]["name"], here.name)
    await here.kube.delete(WORKLOADS, "serve-0", here.name)
    await state(here, "serve-1", FINISHED)
    assert {one["status"]["phase"] for one in await pods_of(here, "serve-1")} == {"Succeeded"}


async def test_a_least_number_holds_for_one_pod_set_and_is_refused_of_two(site: MakeSite) -> None:
    here = site("grove-least")
    await here.open({"b1": {"r1": 1}}, quota=4)
    with pytest.raises(ApiError) as error:
        await gang(here, "two", least=("prefill", "decode"))
    assert "at most one podSet can use minCount" in error.value.message
    await gang(here, "one", least=("decode",))
    await make_pods(here, "one")
    await run(here, "one")


async def test_a_pod_of_a_role_that_the_workload_lacks_never_starts(site: MakeSite) -> None:
    here = site("grove-role")
    await here.open({"b1": {"r1": 2}}, quota=5)
    await gang(here, "serve-0")
    await make_pods(here, "serve-0")
    await here.make(PODS, pod(here, "serve-0", "router", 0))
    await run(here, "serve-0")

    async def started() -> bool:
        return bool((await here.kube.get(PODS, "serve-0-router-0", here.name))["spec"].get("nodeName"))

    await never("the stranger starts", started)
