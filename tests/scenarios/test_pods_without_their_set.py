"""A pod that carries the marks of a set, and is not one of its pods, waits with a reason.

Users can write these annotations: the webhook keeps them where an object in between, such as a ReplicaSet, makes the pods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.kube.resources import EVENTS, PODS
from api.names import POD_SUSPENDING_PARENT, QUEUE_NAME_LABEL, SET_NAME
from tests.scenarios.site import Site, eventually
from tests.scenarios.test_scaled_kinds import HERD, declared, herd, submit

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


async def test_it_is_told_that_there_is_no_such_set(site: MakeSite) -> None:
    here = site("marks-alone")
    await here.open({"b1": {"r1": 1}}, quota=4)
    await declared(here, HERD)
    wanted = {
        (FRAMEWORK, "ghost"): f"a pod of Herd {here.name}/ghost, which does not exist",
        (FRAMEWORK, None): "a pod of a Herd and names none",
        ("statefulset", "ghost"): "a pod of a StatefulSet and names none",
        ("leaderworkerset.x-k8s.io/leaderworkerset", "ghost"): "a pod of a LeaderWorkerSet and names none",
    }
    for number, (framework, of) in enumerate(wanted):
        await forged(here, f"alone-{number}", framework, of)
    for number, said in enumerate(wanted.values()):
        await told(here, f"alone-{number}", said)


async def test_it_is_told_that_the_set_has_no_queue(site: MakeSite) -> None:
    here = site("marks-unqueued")
    await here.open({"b1": {"r1": 1}}, quota=4)
    await declared(here, HERD)
    body = herd(here, HERD, "free", 1, {})
    del body["metadata"]["labels"]
    await submit(here, HERD, body)
    await forged(here, "guest", FRAMEWORK, "free")
    await told(here, "guest", f"a pod of Herd {here.name}/free, which")
