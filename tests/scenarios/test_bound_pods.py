"""What runs is what is charged: bound pods count until they have ended, no matter who owns them and what the owner says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from api.errors import NotFound
from api.kube.client import PatchKind
from api.kube.resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, PODS, WORKLOADS
from api.meta import find_condition, is_true
from api.names import (
    BEYOND_ADMISSION,
    CONTROLLER_UID_LABEL,
    ELASTIC_JOB,
    FINISHED,
    PODSET_LABEL,
    UNCONSTRAINED_TOPOLOGY,
    WORKLOAD_ANNOTATION,
)
from api.workloads import Workload
from tests.scenarios.failures import SHORT_LEASE
from tests.scenarios.site import GPU, Site, eventually, never

pytestmark = pytest.mark.asyncio(loop_scope="session")
ENVIRONMENT = SHORT_LEASE
KEPT = "example.com/still-there"
"""A finalizer by which a pod is still there, as with a long grace period, until the test says that it has ended."""

MakeSite = Callable[[str], Site]
Obj = dict[str, Any]


def lasting(job: Obj) -> Obj:
    """The job; its pods take long to end."""
    job["spec"]["template"]["metadata"]["finalizers"] = [KEPT]
    return job


def elastic(here: Site, name: str, pods: int) -> Obj:
    job = here.job(name, pods, {ELASTIC_JOB: "true", UNCONSTRAINED_TOPOLOGY: "true"})
    job["spec"] |= {"completions": None, "completionMode": "NonIndexed", "backoffLimit": 20}
    return job


async def usage(here: Site) -> set[int]:
    """GPUs in use and reserved, as ClusterQueue and LocalQueue say."""
    found: set[int] = set()
    for queue in (
        await here.kube.get(CLUSTER_QUEUES, here.name),
        await here.kube.get(LOCAL_QUEUES, "lq", here.name),
    ):
        for field in ("flavorsUsage", "flavorsReservation"):
            flavors = queue["status"].get(field) or []
            found.add(sum(int(r["total"]) for f in flavors for r in f["resources"] if r["name"] == GPU))
    return found


async def charged(here: Site, gpus: int) -> None:
    """Waits until both queues say so, for usage and reservation."""

    async def says() -> bool:
        return await usage(here) == {gpus}

    try:
        await eventually(f"{gpus} GPUs are charged", says)
    except AssertionError as late:
        raise AssertionError(f"{late}; {await usage(here)}") from None


async def pods_of(here: Site, job: str) -> list[Obj]:
    found = (await here.kube.list(PODS, here.name)).items
    return [pod for pod in found if pod["metadata"]["name"].startswith(f"{job}-")]


async def end(here: Site, pods: list[Obj]) -> None:
    """The pods have ended."""
    for pod in pods:
        name = pod["metadata"]["name"]
        try:
            await here.kube.patch(PODS, name, {"metadata": {"finalizers": None}}, here.name, kind=PatchKind.MERGE)
            await here.kube.delete(PODS, name, here.name, grace_seconds=0)
        except NotFound:
            continue


async def suspended(here: Site, name: str) -> None:
    await here.change(JOBS, name, {"spec": {"suspend": True, "parallelism": 3, "completions": 3}})


async def deleted(here: Site, name: str) -> None:
    await here.kube.delete(JOBS, name, here.name, propagation="Background")


async def deactivated(here: Site, name: str) -> None:
    found = [Workload.from_wire(item) for item in (await here.kube.list(WORKLOADS, here.name)).items]
    mine = next(w for w in found if any(owner.name == name for owner in w.metadata.owner_references))
    body = {"spec": {"active": False}}
    await here.kube.patch(WORKLOADS, mine.metadata.name, body, here.name, kind=PatchKind.MERGE)


@pytest.mark.parametrize("stop", [suspended, deleted, deactivated], ids=lambda stop: stop.__name__)
async def test_pods_that_terminate_slowly_count_until_they_have_ended(
    site: MakeSite, stop: Callable[[Site, str], Awaitable[None]]
) -> None:
    here = site(f"slow-{stop.__name__}")
    await here.open({"b1": {"r1": 2}}, quota=4)
    await here.submit(lasting(here.job("first", 4)))
    old = await here.running("first", 4)
    await charged(here, 4)
    await stop(here, "first")
    await here.submit(here.job("second", 4))
    names = {pod["metadata"]["name"] for pod in old}

    async def going() -> bool:
        there = [pod for pod in await pods_of(here, "first") if pod["metadata"]["name"] in names]
        return all(pod["metadata"].get("deletionTimestamp") for pod in there)

    await eventually("the first job's pods terminate", going)

    async def started() -> bool:
        return any(pod["metadata"]["name"] not in names for pod in (await here.kube.list(PODS, here.name)).items)

    await never("another pod is there while they run", started, 3.0)
    await charged(here, 4)
    await end(here, old[:2])
    await charged(here, 2 if stop is deactivated else 4)
    await end(here, old)
    await here.running("second", 4)


async def test_pods_of_a_job_that_shrinks_count_until_they_have_ended(site: MakeSite) -> None:
    here = site("slow-shrunk")
    await here.open({"b1": {"r1": 2}}, quota=4)
    await here.submit(lasting(elastic(here, "first", 4)))
    await here.running("first", 4)
    await here.change(JOBS, "first", {"spec": {"parallelism": 1}})
    await here.submit(here.job("second", 3))

    async def going() -> list[Obj] | None:
        found = [pod for pod in await pods_of(here, "first") if pod["metadata"].get("deletionTimestamp")]
        return found if len(found) == 3 else None

    old = await eventually("three pods terminate", going)

    async def started() -> bool:
        return bool(await pods_of(here, "second"))

    await never("the second job starts while they run", started, 3.0)
    await charged(here, 4)
    await end(here, old)
    await here.running("second", 3)
    await charged(here, 4)


async def test_a_job_that_leaves_its_pods_behind_is_charged_until_they_have_ended(site: MakeSite) -> None:
    """kubectl delete job --cascade=orphan"""
    here = site("left-behind")
    await here.open({"b1": {"r1": 2}}, quota=4)
    await here.submit(here.job("first", 4))
    old = await here.running("first", 4)
    await here.kube.delete(JOBS, "first", here.name, propagation="Orphan")
    await here.submit(here.job("second", 4))

    async def started() -> bool:
        return bool(await pods_of(here, "second"))

    await never("the second job starts beside them", started, 4.0)
    await charged(here, 4)
    assert len(await pods_of(here, "first")) == 4
    await end(here, old)
    await here.running("second", 4)
    await charged(here, 4)

    async def over() -> bool:
        found = [Workload.from_wire(item) for item in (await here.kube.list(WORKLOADS, here.name)).items]
        ended = [w for w in found if w.metadata.name.startswith("job-first")]
        return all(is_true(w.status.conditions, FINISHED) and not w.metadata.finalizers for w in ended)

    await eventually("the first job's Workload has ended", over)


# ---- more than was admitted: here the administrator does it, since Stowage lets no tenant


async def strays(here: Site, pod: Obj, workload: str, *names: str) -> None:
    """Pods of nobody's on the node of the pod, each with one GPU; who may update Workloads gives them the marks of one."""
    marks = {"annotations": {WORKLOAD_ANNOTATION: workload}, "labels": {PODSET_LABEL: "main"}}
    for name in names:
        spec = {**here.template()["spec"], "nodeName": pod["spec"]["nodeName"]}
        await here.make(PODS, {"metadata": {"name": name, "namespace": here.name}, "spec": spec})
        await here.change(PODS, name, {"metadata": marks})


async def told(here: Site, workload: str, text: str) -> None:
    """Waits until the Workload says so, and then until it says that it is over."""

    async def says(status: str, message: str) -> bool:
        found = Workload.from_wire(await here.kube.get(WORKLOADS, workload, here.name))
        condition = find_condition(found.status.conditions, BEYOND_ADMISSION)
        return condition is not None and condition.status == status and message in condition.message

    await eventually(f"{workload} says: {text}", partial(says, "True", text))
    await eventually(f"{workload} says that it is over", partial(says, "False", "no more pods run"))


async def left(here: Site) -> set[str]:
    return {pod["metadata"]["name"] for pod in (await here.kube.list(PODS, here.name)).items}


async def made_by_hand(here: Site) -> None:
    await here.open({"b1": {"r1": 2}}, quota=4)
    await here.submit(here.job("first", 2))
    own = await here.running("first", 2)
    workload = own[0]["metadata"]["annotations"][WORKLOAD_ANNOTATION]
    await strays(here, own[0], workload, "stray-1", "stray-2")
    await charged(here, 4)
    await told(here, workload, "4 pods of pod set main run, 2 were admitted")
    await charged(here, 2)
    assert await left(here) == {pod["metadata"]["name"] for pod in own}, "the Job's own pods run on"


async def taken_from_their_job(here: Site) -> None:
    """The Job replaces a pod that is relabelled, and both run: without a topology no gate holds the new one."""
    await here.open({"b1": {"r1": 2}}, quota=4, levels=())
    await here.submit(here.job("first", 2))
    (taken, kept) = [pod["metadata"] for pod in await here.running("first", 2)]
    labels = dict.fromkeys((CONTROLLER_UID_LABEL, "controller-uid"), "nobody")
    await here.change(PODS, taken["name"], {"metadata": {"ownerReferences": None, "labels": labels}})
    await charged(here, 3)
    await told(here, taken["annotations"][WORKLOAD_ANNOTATION], "3 pods of pod set main run, 2 were admitted")
    await charged(here, 2)
    names = await left(here)
    assert taken["name"] not in names
    assert kept["name"] in names
    assert len(names) == 2


async def of_a_workload_that_waits(here: Site) -> None:
    """Nothing of it was admitted, so nothing of it stays; its queue pays meanwhile."""
    await here.open({"b1": {"r1": 2}}, quota=2)
    await here.submit(here.job("first", 2))
    own = await here.running("first", 2)
    await here.submit(here.job("second", 1))
    await here.waits("second", "WaitingForQuota", "")
    waiting = await here.workload_of("second")
    assert waiting is not None
    await strays(here, own[0], waiting.metadata.name, "stray-1")
    await charged(here, 3)
    await told(here, waiting.metadata.name, "1 pods of pod set main run, 0 were admitted")
    await charged(here, 2)
    assert await left(here) == {pod["metadata"]["name"] for pod in own}
    await here.remove(JOBS, "first")
    await here.running("second", 1)


SURPLUS: tuple[Callable[[Site], Coroutine[Any, Any, None]], ...] = (
    made_by_hand,
    taken_from_their_job,
    of_a_workload_that_waits,
)


async def test_pods_beyond_the_admission_are_charged_told_and_ended(site: MakeSite) -> None:
    """All ways at once, in a namespace each: their owners have half a minute before the pods are ended."""
    async with asyncio.TaskGroup() as group:
        for way in SURPLUS:
            name = way.__name__.replace("_", "-")
            group.create_task(way(site(f"surplus-{name}")), name=name)
