"""Pods that have ended give their quota back while others of their workload run, and take it again when they come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.embedded.workers.kubelet import RUN_FOR
from api.kube.client import PatchKind
from api.kube.resources import CLUSTER_QUEUES, JOBS, PODS
from api.names import ELASTIC_JOB, REQUIRE_TOPOLOGY, UNCONSTRAINED_TOPOLOGY
from tests.scenarios.site import GPU, RACK, Site, eventually, never

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True
MakeSite = Callable[[str], Site]
Obj = dict[str, Any]


async def used(here: Site) -> int:
    """GPUs of the queue's quota that are used, as its status says."""
    queue = await here.kube.get(CLUSTER_QUEUES, here.name)
    resources = [r for f in queue["status"].get("flavorsUsage") or [] for r in f["resources"]]
    return sum(int(r["total"]) for r in resources if r["name"] == GPU)


async def charged(here: Site, job: str, reclaimed: dict[str, int], gpus: int) -> None:
    """Waits until the Workload and the queue's status say so."""

    async def check() -> bool:
        workload = await here.workload_of(job)
        told = {pod.name: pod.count for pod in workload.status.reclaimable_pods} if workload else None
        return told == reclaimed and await used(here) == gpus

    await eventually(f"{reclaimed} of {job} are given back, {gpus} GPUs are charged", check)


async def ends(here: Site, pod: Obj, phase: str = "Succeeded") -> None:
    body: Obj = {"status": {"phase": phase}}
    subresource = "status"
    if phase == "Succeeded":
        body, subresource = {"metadata": {"annotations": {RUN_FOR: "1ms"}}}, ""
    name = pod["metadata"]["name"]
    await here.kube.patch(PODS, name, body, here.name, kind=PatchKind.MERGE, subresource=subresource)


async def test_a_job_with_more_parallelism_than_completions_gives_back_what_ended(site: MakeSite) -> None:
    here = site("wide")
    await here.open({"b1": {"r1": 3}}, quota=4)
    job = here.job("wide", 4, {UNCONSTRAINED_TOPOLOGY: "true"})
    job["spec"] |= {"parallelism": 10, "completions": 4}
    await here.submit(job)
    await ends(here, (await here.running("wide", 4))[0])
    await charged(here, "wide", {"main": 1}, 3)
    await here.submit(here.job("next", 2, {UNCONSTRAINED_TOPOLOGY: "true"}))
    await never("two more run on the quota of one", lambda: has_pods(here, "next"))


async def has_pods(here: Site, job: str) -> bool:
    return bool(await here.pods(job))


async def test_an_elastic_job_that_shrinks_after_pods_have_ended_is_charged_for_those_that_run(site: MakeSite) -> None:
    here = site("shrunk")
    await here.open({"b1": {"r1": 3}}, quota=8)
    job = here.job("train", 8, {ELASTIC_JOB: "true", UNCONSTRAINED_TOPOLOGY: "true"})
    job["spec"] |= {"completions": 8, "completionMode": "NonIndexed"}
    await here.submit(job)
    pods = await here.running("train", 8)
    for pod in pods[:5]:
        await ends(here, pod)
    await charged(here, "train", {"main": 5}, 3)
    await here.change(JOBS, "train", {"spec": {"parallelism": 4}})
    await charged(here, "train", {"main": 1}, 3)
    await here.change(JOBS, "train", {"spec": {"parallelism": 1}})
    await charged(here, "train", {}, 1)


async def test_a_jobset_that_restarts_is_charged_for_all_its_pods_again(site: MakeSite) -> None:
    here = site("anew")
    await here.open({"b1": {"r1": 3}}, quota=3)
    jobset = here.jobset("gang", {"driver": (1, 1), "workers": (2, 1)}, {UNCONSTRAINED_TOPOLOGY: "true"})
    jobset["spec"]["failurePolicy"] = {"maxRestarts": 3}
    await here.submit_jobset(jobset)
    pods = await here.running("gang", 3, jobset=True)
    (driver,) = [pod for pod in pods if "driver" in pod["metadata"]["name"]]
    await ends(here, driver)
    await charged(here, "gang", {"driver": 1}, 2)
    worker = next(pod for pod in pods if pod is not driver)
    await ends(here, worker, "Failed")
    await charged(here, "gang", {}, 3)
    await here.running("gang", 3, jobset=True)


async def test_the_hosts_of_a_pod_set_that_has_ended_are_free_while_the_others_run(site: MakeSite) -> None:
    here = site("free-hosts")
    await here.open({"b1": {"r1": 3}})
    jobset = here.jobset("gang", {"driver": (1, 1), "workers": (2, 1)}, {REQUIRE_TOPOLOGY: RACK})
    for job in jobset["spec"]["replicatedJobs"]:
        job["template"]["spec"]["template"] = here.template(4)
    await here.submit_jobset(jobset)
    (driver,) = [pod for pod in await here.running("gang", 3, jobset=True) if "driver" in pod["metadata"]["name"]]
    await here.submit(here.job("next", 1, {REQUIRE_TOPOLOGY: RACK}, gpus=4))
    await here.waits("next", "TopologyPlacementFailed", "")
    await ends(here, driver)
    (pod,) = await here.running("next", 1)
    assert pod["spec"]["nodeName"] == driver["spec"]["nodeName"]


async def test_an_elastic_job_that_grows_after_pods_have_ended_stays_within_the_quota(site: MakeSite) -> None:
    """Of five pods three have ended, and four GPUs that it gave up are another job's when it grows from one pod to four."""
    here = site("regrown")
    await here.open({"b1": {"r1": 3}}, quota=5)
    job = here.job("train", 5, {ELASTIC_JOB: "true", UNCONSTRAINED_TOPOLOGY: "true"})
    job["spec"] |= {"completions": 5, "completionMode": "NonIndexed"}
    await here.submit(job)
    for pod in (await here.running("train", 5))[:3]:
        await ends(here, pod)
    await charged(here, "train", {"main": 3}, 2)
    await here.change(JOBS, "train", {"spec": {"parallelism": 1}})
    await charged(here, "train", {}, 1)
    await here.submit(here.job("other", 4, {UNCONSTRAINED_TOPOLOGY: "true"}))
    await here.running("other", 4)
    await here.change(JOBS, "train", {"spec": {"parallelism": 4}})

    async def bound() -> int:
        pods = [*await here.pods("train"), *await here.pods("other")]
        return sum(
            bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") not in ("Succeeded", "Failed")
            for pod in pods
        )

    async def too_many() -> bool:
        return await bound() > 5

    await never("six pods run on a quota of five", too_many)
    assert await used(here) == 5
