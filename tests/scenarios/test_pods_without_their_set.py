"""A pod that bears the marks of a set, and is none of its pods, waits with a reason (issue 18; a wait is never silent).

Users can write these annotations: the webhook keeps them where an object in between, such as a ReplicaSet, makes the pods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.kube.resources import EVENTS, JOB_KINDS, PODS
from api.names import POD_SUSPENDING_PARENT, QUEUE_NAME_LABEL, SET_NAME
from tests.scenarios.site import Site, eventually
from tests.scenarios.test_scaled_kinds import HERD, Keeper, declared, herd, pods_of, running, runs, submit

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True
MakeSite = Callable[[str], Site]
Object = dict[str, Any]
FRAMEWORK = f"{HERD.resource.group}/{HERD.resource.kind.lower()}"


async def forged(here: Site, name: str, framework: str, of: str | None, queue: str = "lq") -> None:
    """A pod of a user's that bears the marks."""
    marks = {POD_SUSPENDING_PARENT: framework} | ({SET_NAME: of} if of is not None else {})
    meta = {"name": name, "namespace": here.name, "labels": {QUEUE_NAME_LABEL: queue}, "annotations": marks}
    await here.make(PODS, {"metadata": meta, "spec": here.template()["spec"]})


async def said_of(here: Site, pod: str) -> list[str]:
    events = (await here.kube.list(EVENTS, here.name)).items
    return [event["message"] for event in events if event["involvedObject"].get("name") == pod]


async def told(here: Site, pod: str, *words: str) -> None:
    async def check() -> bool:
        return any(all(word in said for word in words) for said in await said_of(here, pod))

    try:
        await eventually(f"{pod} is told why it waits", check, seconds=30)
    except AssertionError as late:
        found = await here.kube.get(PODS, pod, here.name)
        raise AssertionError(
            f"{late}; {await said_of(here, pod)}; {found['metadata']}; {found['spec'].get('schedulingGates')}"
        ) from None


@pytest.mark.parametrize("framework", [FRAMEWORK, "statefulset", "leaderworkerset", "nobody.example.com/none"])
@pytest.mark.parametrize("of", ["ghost", None], ids=["no such set", "no name"])
async def test_it_is_told_that_there_is_no_such_set(site: MakeSite, framework: str, of: str | None) -> None:
    here = site("marks-alone")
    await here.open({"b1": {"r1": 1}}, quota=4)
    await declared(here, HERD)
    await forged(here, "alone", framework, of)
    await told(here, "alone", "")


async def test_it_is_told_that_the_set_has_no_queue(site: MakeSite) -> None:
    here = site("marks-unqueued")
    await here.open({"b1": {"r1": 1}}, quota=4)
    await declared(here, HERD)
    body = herd(here, HERD, "free", 1, {})
    del body["metadata"]["labels"]
    await submit(here, HERD, body)
    await forged(here, "guest", FRAMEWORK, "free")
    await told(here, "guest", "")


async def test_it_is_told_once_its_kind_is_declared_no_more(site: MakeSite) -> None:
    here = site("marks-undeclared")
    await here.open({"b1": {"r1": 1}}, quota=1)
    await declared(here, HERD)
    async with running(Keeper(here.kube, HERD)):
        await submit(here, HERD, herd(here, HERD, "first", 1, {}))
        await runs(here, "first", 1)
        await submit(here, HERD, herd(here, HERD, "second", 1, {}))
        await here.waits("second", "WaitingForQuota", "")
        await here.kube.delete(JOB_KINDS, HERD.declaration["metadata"]["name"])
        await forged(here, "late", FRAMEWORK, "second")
        await told(here, "late", "")
        (pod,) = await pods_of(here, "second")
        assert pod["spec"]["schedulingGates"]
