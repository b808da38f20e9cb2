"""A waiting job whose queue label its user removes is an ordinary job: its Workload goes at once, and holds no quota."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.errors import ApiError
from api.kube.client import PatchKind
from api.kube.resources import EVENTS, JOBS, JOBSETS, WORKLOADS, Resource
from api.names import PREBUILT_WORKLOAD, QUEUE_NAME_LABEL, REQUIRE_TOPOLOGY
from hack.controlplane.options import ClusterOptions
from tests.scenarios.site import RACK, Site, eventually, never
from tests.scenarios.test_declared_kinds import PYTORCH, SUSPEND, submitted, train

pytestmark = pytest.mark.asyncio(loop_scope="session")
CONTROL_PLANE = ClusterOptions(jobset=True)
MakeSite = Callable[[str], Site]

_PODS = 3
"""More than the quota of two."""
KINDS = [pytest.param(JOBS, id="job"), pytest.param(JOBSETS, id="jobset"), pytest.param(PYTORCH, id="pytorchjob")]


async def waiting(here: Site, resource: Resource, name: str) -> None:
    """A job of the kind that has a Workload and no quota."""
    if resource is JOBS:
        await here.submit(here.job(name, _PODS))
    elif resource is JOBSETS:
        await here.submit_jobset(here.jobset(name, {"work": (1, _PODS)}, {}))
    else:
        job = train(here, name, _PODS)
        job["metadata"]["annotations"] = {}
        await submitted(here, job)
    await eventually(f"{name} has a Workload", lambda: here.workload_of(name))


async def without_workload(here: Site, name: str) -> None:
    async def gone() -> bool:
        return await here.workload_of(name) is None

    await eventually(f"the Workload of {name} is gone", gone)


@pytest.mark.parametrize("value", [None, ""], ids=["removed", "empty"])
@pytest.mark.parametrize("resource", KINDS)
async def test_the_workload_goes_with_the_queue_label(site: MakeSite, resource: Resource, value: str | None) -> None:
    """Otherwise it would be admitted later, and keep quota for a job that never starts."""
    here = site(f"left-{resource.plural}-{'empty' if value == '' else 'removed'}")
    await here.open({"b1": {"r1": 1}}, quota=2)
    await waiting(here, resource, "leaver")
    await here.change(resource, "leaver", {"metadata": {"labels": {QUEUE_NAME_LABEL: value}}})
    await without_workload(here, "leaver")
    job = await here.get_job("leaver", resource)
    assert (job["spec"]["runPolicy"] if resource is PYTORCH else job["spec"])["suspend"], "its user starts it"
    await here.submit(here.job("next", 2))
    await here.running("next", 2)


async def test_a_job_that_comes_back_queues_again(site: MakeSite) -> None:
    here = site("left-and-back")
    await here.open({"b1": {"r1": 1}}, quota=2)
    await here.submit(here.job("holder", 2))
    await here.running("holder", 2)
    await here.submit(here.job("leaver", 2))
    await here.waits("leaver", "WaitingForQuota", "quota")
    await here.change(JOBS, "leaver", {"metadata": {"labels": {QUEUE_NAME_LABEL: None}}})
    await without_workload(here, "leaver")
    await here.remove(JOBS, "holder")

    async def runs() -> bool:
        return bool(await here.pods("leaver"))

    await never("a job without a queue is started", runs)
    await here.change(JOBS, "leaver", {"metadata": {"labels": {QUEUE_NAME_LABEL: "lq"}}})
    await here.running("leaver", 2)


async def test_the_gate_of_a_job_that_leaves_goes_with_its_queue(site: MakeSite) -> None:
    """Its pods would wait for ever: nothing opens a gate of a job that names no queue."""
    here = site("left-gated")
    await here.open({"b1": {"r1": 1}}, quota=2)
    await here.submit(here.job("leaver", _PODS, {REQUIRE_TOPOLOGY: RACK}))
    await eventually("it has a Workload", lambda: here.workload_of("leaver"))
    leaving: dict[str, Any] = {"metadata": {"labels": {QUEUE_NAME_LABEL: None}}}
    with pytest.raises(ApiError, match=r"spec.template.spec.schedulingGates: .* remove the gate in the same update"):
        await here.kube.patch(JOBS, "leaver", leaving, here.name, kind=PatchKind.MERGE)
    opened = leaving | {"spec": {"template": {"spec": {"schedulingGates": None}}}}
    await here.change(JOBS, "leaver", opened)
    await without_workload(here, "leaver")


@pytest.mark.parametrize("resource", KINDS)
async def test_a_job_that_names_anothers_workload_says_so(site: MakeSite, resource: Resource) -> None:
    """It stays suspended, and an event on the job names the owner."""
    here = site(f"taken-{resource.plural}")
    await here.open({"b1": {"r1": 1}}, quota=2)
    await here.submit(here.job("owner", 1))
    await here.running("owner", 1)
    [workload] = (await here.kube.list(WORKLOADS, here.name)).items
    if resource is JOBS:
        job = here.job("thief", 1)
    elif resource is JOBSETS:
        job = here.jobset("thief", {"work": (1, 1)}, {})
    else:
        job = train(here, "thief", 1)
    job["metadata"]["labels"][PREBUILT_WORKLOAD] = workload["metadata"]["name"]
    await (submitted(here, job) if resource is PYTORCH else here.make(resource, job))

    async def told() -> bool:
        events = (await here.kube.list(EVENTS, here.name)).items
        mine = [e for e in events if e["involvedObject"]["name"] == "thief"]
        return any(e["type"] == "Warning" and "belongs to the Job owner" in e["message"] for e in mine)

    await eventually("an event says whose Workload it is", told)
    assert SUSPEND, "the path by which a PyTorchJob is suspended"
    assert len(await here.running("owner", 1)) == 1
