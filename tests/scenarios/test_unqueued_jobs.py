"""manageJobsWithoutQueueName: jobs that name no queue wait until they do, in the namespaces that the selector names."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from api.kube.resources import JOBS, JOBSETS, NAMESPACES, PODS, WORKLOADS
from api.names import MANAGED_NAMESPACE, QUEUE_NAME_LABEL, REQUIRE_TOPOLOGY
from hack.controlplane.options import ClusterOptions
from tests.scenarios.site import RACK, Site, eventually, never
from tests.scenarios.test_plain_pods import a_pod

pytestmark = pytest.mark.asyncio(loop_scope="session")
CONTROL_PLANE = ClusterOptions(jobset=True)
ENVIRONMENT = {
    "STOWAGE_MANAGE_JOBS_WITHOUT_QUEUE_NAME": "true",
    "STOWAGE_MANAGED_JOBS_NAMESPACE_SELECTOR": json.dumps({"matchLabels": {"queued": "all"}}),
}
MakeSite = Callable[[str], Site]


async def opened(site: MakeSite, name: str, **labels: str) -> Site:
    here = site(name)
    # Jobs without a queue name reach the webhook only from a namespace that says so.
    meta = {"name": here.name, "labels": {"kueue.x-k8s.io/managed-namespace": "true", **labels}}
    await here.make(NAMESPACES, {"metadata": meta})
    await here.open({"b1": {"r1": 2}})
    return here


async def test_a_job_without_a_queue_waits_until_it_names_one(site: MakeSite) -> None:
    here = await opened(site, "unqueued", queued="all")
    await here.submit(here.job("job", 4, {REQUIRE_TOPOLOGY: RACK}, queue=None))
    assert (await here.get_job("job"))["spec"]["suspend"], "suspended before its first pod"
    await here.waits("job", "Misconfigured", "LocalQueue  doesn't exist")

    async def runs() -> bool:
        return bool(await here.pods("job"))

    await never("a job without a queue runs", runs)
    await here.change(JOBS, "job", {"metadata": {"labels": {QUEUE_NAME_LABEL: "lq"}}})
    assert await here.racks(await here.running("job", 4)) == {"b1/r1": 4}


async def test_a_namespace_that_nobody_marked_is_marked_and_holds_its_pods(site: MakeSite) -> None:
    here = site("unmarked")
    await here.make(NAMESPACES, {"metadata": {"name": here.name, "labels": {"queued": "all"}}})
    await here.make(
        NAMESPACES, {"metadata": {"name": f"{here.name}-out", "labels": {"queued": "all", MANAGED_NAMESPACE: "no"}}}
    )
    await here.open({"b1": {"r1": 2}})

    async def mark(name: str) -> Any:
        labels = (await here.kube.get(NAMESPACES, name))["metadata"]["labels"]
        return labels.get(MANAGED_NAMESPACE)

    async def is_marked() -> bool:
        return bool(await mark(here.name) == "true")

    await eventually("the namespace is marked", is_marked)
    pod = a_pod(here, "alone")
    del pod["metadata"]["labels"]
    await eventually("the webhook sees the mark", lambda: is_held(here, pod))
    await here.submit(here.job("job", 1, queue=None))
    assert (await here.get_job("job"))["spec"]["suspend"]
    assert await mark(f"{here.name}-out") == "no"


async def is_held(here: Site, pod: dict[str, Any]) -> bool:
    """Whether a new pod gets the admission gate; the API server reads a namespace's labels from a cache."""
    made = await here.make(PODS, {**pod, "metadata": {**pod["metadata"], "name": f"p-{uuid4()}"}})
    return bool(made["spec"].get("schedulingGates"))


async def test_the_jobs_of_a_jobset_are_its_own_affair(site: MakeSite) -> None:
    here = await opened(site, "unqueued-set", queued="all")
    jobset = here.jobset("js", {"driver": (1, 1), "workers": (1, 3)}, {})
    jobset["metadata"]["labels"] = {}
    await here.submit_jobset(jobset)

    async def waits() -> bool:
        return (await here.workload_of("js")) is not None

    await eventually("the JobSet has a Workload", waits)
    assert (await here.get_job("js", JOBSETS))["spec"]["suspend"]
    await here.change(JOBSETS, "js", {"metadata": {"labels": {QUEUE_NAME_LABEL: "lq"}}})
    await here.running("js", 4, jobset=True)
    made = (await here.kube.list(WORKLOADS, here.name)).items
    assert [w["metadata"]["ownerReferences"][0]["kind"] for w in made] == ["JobSet"], "none of a child job's own"


async def test_elsewhere_jobs_without_a_queue_run_as_ever(site: MakeSite) -> None:
    here = await opened(site, "strangers")
    await here.submit(here.job("job", 4, queue=None))
    await here.running("job", 4)
    assert await here.workload_of("job") is None
