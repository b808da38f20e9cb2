"""Jobs that change their size while they run: they grow where there is capacity, and nothing of them is restarted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from api.errors import ApiError
from api.kube.resources import CLUSTER_QUEUES, JOBS, WORKLOADS
from api.meta import find_condition, is_true
from api.names import (
    ADMITTED,
    ELASTIC_JOB,
    EVICTED,
    FINISHED,
    QUOTA_RESERVED,
    REPLACEMENT_FOR,
    UNCONSTRAINED_TOPOLOGY,
    WORKLOAD_SLICE_NAME,
    FinishedReason,
)
from api.workloads import Workload
from tests.scenarios.failures import SHORT_LEASE
from tests.scenarios.site import GPU, Site, eventually, never
from tests.scenarios.stage import Stage
from tests.scenarios.test_node_failure import assigned, node_dies

pytestmark = pytest.mark.asyncio(loop_scope="session")
ENVIRONMENT = SHORT_LEASE

MakeSite = Callable[[str], Site]
ELASTIC = {ELASTIC_JOB: "true", UNCONSTRAINED_TOPOLOGY: "true"}
Obj = dict[str, Any]


def elastic(here: Site, name: str, pods: int, gpus: int = 1) -> Obj:
    """A Job that may change its parallelism."""
    job = here.job(name, pods, ELASTIC, gpus=gpus)
    job["spec"] |= {"completions": None, "completionMode": "NonIndexed", "backoffLimit": 20}
    return job


async def resize(here: Site, name: str, pods: int) -> None:
    """The user (or an autoscaler) asks for so many pods."""
    await here.change(JOBS, name, {"spec": {"parallelism": pods}})


async def slices(here: Site, job: str) -> list[Workload]:
    """The Workloads of the job that were not replaced, the one with quota first."""
    page = await here.kube.list(WORKLOADS, here.name)
    found = [Workload.from_wire(item) for item in page.items]
    mine = [w for w in found if any(owner.name == job for owner in w.metadata.owner_references)]
    live = [w for w in mine if not is_true(w.status.conditions, FINISHED)]
    return sorted(live, key=lambda w: not is_true(w.status.conditions, QUOTA_RESERVED))


async def used(here: Site) -> int:
    """GPUs of the queue's quota that are used, as its status says."""
    queue = await here.kube.get(CLUSTER_QUEUES, here.name)
    resources = [r for f in queue["status"].get("flavorsUsage") or [] for r in f["resources"]]
    return sum(int(r["total"]) for r in resources if r["name"] == GPU)


def uids(pods: list[Obj]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


def places(pods: list[Obj]) -> dict[str, str]:
    return {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods}


async def settled(here: Site, job: str, count: int) -> Workload:
    """The job's one Workload, once it is admitted for so many pods and the older ones are over."""

    async def check() -> Workload | None:
        found = await slices(here, job)
        if len(found) != 1 or not is_true(found[0].status.conditions, ADMITTED):
            return None
        assert found[0].status.admission is not None
        counted = min(found[0].status.admission.pod_set_assignments[0].count or 0, found[0].spec.pod_sets[0].count)
        return found[0] if counted == count else None

    return await eventually(f"{job} has one slice of {count} pods", check)


async def test_a_job_grows_and_shrinks_without_a_restart(site: MakeSite) -> None:
    """The pods that run stay where they are; quota follows at once."""
    here = site("elastic-grows")
    await here.open({"b1": {"r1": 2, "r2": 2}}, quota=12)
    await here.submit(elastic(here, "train", 4))
    before = places(await here.running("train", 4))
    first = await settled(here, "train", 4)
    await resize(here, "train", 9)
    grown = places(await here.running("train", 9))
    assert before.items() <= grown.items(), "a pod that ran was moved or restarted"
    second = await settled(here, "train", 9)
    assert second.metadata.annotations[REPLACEMENT_FOR] == first.key
    assert second.metadata.annotations[WORKLOAD_SLICE_NAME] == first.metadata.name
    assert assigned(second) == Counter(grown.values())
    old = Workload.from_wire(await here.kube.get(WORKLOADS, first.metadata.name, here.name))
    finished = find_condition(old.status.conditions, FINISHED)
    assert finished is not None
    assert finished.reason == FinishedReason.WORKLOAD_SLICE_REPLACED
    await resize(here, "train", 3)
    shrunk = places(await here.running("train", 3))
    assert shrunk.items() <= grown.items()

    async def given_back() -> bool:
        return await used(here) == 3

    await eventually("the quota is given back", given_back)
    await here.submit(here.job("other", 9, {UNCONSTRAINED_TOPOLOGY: "true"}))
    await here.running("other", 9)
    assert places(await here.running("train", 3)) == shrunk


@pytest.mark.parametrize(
    ("name", "quota", "hosts"), [pytest.param("quota", 7, 4, id="quota"), pytest.param("nodes", 1000, 2, id="nodes")]
)
async def test_a_job_that_asks_for_too_much_gets_what_fits(site: MakeSite, name: str, quota: int, hosts: int) -> None:
    """12 wanted, room for 7 (or for 8, on two hosts of four GPUs): the others are told why they wait, and come later."""
    here = site(f"elastic-{name}")
    await here.open({"b1": {"r1": hosts}}, quota=quota)
    fit = min(quota, hosts * here.gpus_per_host)
    await here.submit(elastic(here, "train", 5))
    before = places(await here.running("train", 5))
    await resize(here, "train", 12)
    grown = places(await here.running("train", fit))
    assert before.items() <= grown.items()

    async def told() -> Workload | None:
        found = await slices(here, "train")
        waits = find_condition(found[-1].status.conditions, QUOTA_RESERVED)
        said = len(found) == 2 and waits is not None and waits.status == "False" and waits.message
        return found[-1] if said else None

    waiting = await eventually("the missing pods wait with a reason", told)
    assert waiting.spec.pod_sets[0].count == 12
    await resize(here, "train", fit)
    await settled(here, "train", fit)
    assert places(await here.running("train", fit)) == grown
    await here.remove(JOBS, "train")


async def test_a_waiting_growth_goes_on_when_others_end(site: MakeSite) -> None:
    """As soon as there is capacity, and step by step."""
    here = site("elastic-later")
    await here.open({"b1": {"r1": 4}}, quota=10)
    await here.submit(elastic(here, "train", 4))
    await here.submit(here.job("other", 4, {UNCONSTRAINED_TOPOLOGY: "true"}))
    before = places(await here.running("train", 4))
    await here.running("other", 4)
    await resize(here, "train", 9)
    assert before.items() <= places(await here.running("train", 6)).items()
    await here.remove(JOBS, "other")
    assert before.items() <= places(await here.running("train", 9)).items()
    await settled(here, "train", 9)


async def test_an_evicted_job_starts_anew_in_its_new_size(site: MakeSite) -> None:
    """It is deactivated while it lacks pods: its next slice goes, and one Workload asks for all."""
    here = site("elastic-evicted")
    await here.open({"b1": {"r1": 3}}, quota=6)
    await here.submit(elastic(here, "train", 4))
    await here.running("train", 4)
    await resize(here, "train", 9)
    await here.running("train", 6)
    current = (await slices(here, "train"))[0]
    await here.change(WORKLOADS, current.metadata.name, {"spec": {"active": False}})

    async def stopped() -> bool:
        job = await here.get_job("train")
        return bool(job["spec"].get("suspend")) and not await here.pods("train")

    await eventually("stopped", stopped)
    await resize(here, "train", 5)
    await here.change(WORKLOADS, current.metadata.name, {"spec": {"active": True}})
    await here.running("train", 5)
    await settled(here, "train", 5)


async def test_the_controller_dies_between_the_slices(site: MakeSite, stage: Stage) -> None:
    """Killed as soon as the job has grown: quota counts once, and the older slice ends."""
    here = site("elastic-crash")
    await here.open({"b1": {"r1": 4}}, quota=16)
    await here.submit(elastic(here, "train", 4))
    before = places(await here.running("train", 4))
    await resize(here, "train", 9)

    async def admitted() -> bool:
        return any(w.metadata.annotations.get(REPLACEMENT_FOR) for w in await slices(here, "train"))

    await eventually("the next slice is there", admitted)
    await stage.processes.crash("controller")
    await stage.processes.restart("controller")
    assert before.items() <= places(await here.running("train", 9)).items()
    await settled(here, "train", 9)

    async def counted() -> bool:
        return await used(here) == 9

    await eventually("quota counts once", counted)


async def test_a_node_dies_under_a_job_that_has_grown(site: MakeSite) -> None:
    """Its pods come back on another node, the others run on."""
    here = site("elastic-node")
    await here.open({"b1": {"r1": 4}}, quota=16)
    await here.submit(elastic(here, "train", 2, gpus=4))
    await here.running("train", 2)
    await resize(here, "train", 3)
    before = places(await here.running("train", 3))
    dead = sorted(before.values())[0]
    await node_dies(here, dead)
    after = places(await here.running("train", 3))
    assert {uid: node for uid, node in before.items() if node != dead}.items() <= after.items()
    workload = await settled(here, "train", 3)
    assert find_condition(workload.status.conditions, EVICTED) is None
    assert assigned(workload) == Counter(after.values())


async def test_a_tenant_cannot_take_the_quota_of_another_by_hand(site: MakeSite) -> None:
    """A Workload of its own that names another job's slice waits, and the other runs on."""
    here = site("elastic-forged")
    await here.open({"b1": {"r1": 4}}, quota=6)
    await here.submit(elastic(here, "victim", 5))
    before = places(await here.running("victim", 5))
    victim = await settled(here, "victim", 5)
    await here.submit(here.job("thief", 6, {UNCONSTRAINED_TOPOLOGY: "true"}))
    waiting = await here.waits("thief", "WaitingForQuota", "insufficient")
    forged = {"metadata": {"annotations": {REPLACEMENT_FOR: victim.key, WORKLOAD_SLICE_NAME: victim.metadata.name}}}
    try:
        await here.change(WORKLOADS, waiting.metadata.name, forged)
    except ApiError:
        return

    await here.waits("thief", "Misconfigured", "must name a Workload of the same job")

    async def started() -> bool:
        return bool(await here.pods("thief"))

    await never("it started", started)
    assert places(await here.running("victim", 5)) == before


async def test_without_the_annotation_a_job_is_admitted_anew(site: MakeSite) -> None:
    """As before."""
    here = site("not-elastic")
    await here.open({"b1": {"r1": 4}}, quota=16)
    job = elastic(here, "train", 4)
    del job["metadata"]["annotations"][ELASTIC_JOB]
    await here.submit(job)
    before = uids(await here.running("train", 4))
    await resize(here, "train", 6)

    async def restarted() -> bool:
        pods = [p for p in await here.pods("train") if p["status"].get("phase") == "Running"]
        return len(pods) == 6 and not before & uids(pods)

    await eventually("six new pods", restarted)


async def test_a_job_that_has_shrunk_does_not_grow_into_what_it_gave_back(site: MakeSite) -> None:
    """Its quota and places went to another job: new pods wait until the next slice is admitted."""
    here = site("elastic-regrows")
    await here.open({"b1": {"r1": 2}}, quota=8)
    await here.submit(elastic(here, "train", 8))
    await here.running("train", 8)
    await resize(here, "train", 4)
    before = places(await here.running("train", 4))
    await here.submit(here.job("other", 4, {UNCONSTRAINED_TOPOLOGY: "true"}))
    await here.running("other", 4)
    await resize(here, "train", 8)

    async def told() -> bool:
        found = await slices(here, "train")
        return len(found) == 2 and len(await here.pods("train")) == 8

    await eventually("the next slice waits", told)

    async def opened() -> bool:
        return sum(not pod["spec"].get("schedulingGates") for pod in await here.pods("train")) > 4

    await never("a pod of the next slice starts", opened)
    await here.remove(JOBS, "other")
    assert before.items() <= places(await here.running("train", 8)).items()
