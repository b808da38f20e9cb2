"""The life of a workload as its user and the owner of the queue steer it: drained, deactivated, checked, out of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from admission.controllers.state.conditions import with_condition
from api.kube.client import PatchKind
from api.kube.resources import ADMISSION_CHECKS, CLUSTER_QUEUES, EVENTS, LOCAL_QUEUES, WORKLOADS
from api.meta import find_condition, is_true, rfc3339
from api.names import (
    COMPLETIONS_EQUAL_PARALLELISM,
    EVICTED,
    FINISHED,
    MAX_EXEC_TIME_LABEL,
    MIN_PARALLELISM,
    QUOTA_RESERVED,
    REQUEUED,
    REQUIRE_TOPOLOGY,
)
from api.workloads import Workload
from tests.scenarios.site import RACK, Site, eventually, never

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True

MakeSite = Callable[[str], Site]

RACK_OF_TWO = {"b1": {"r1": 2}}


async def stopped(here: Site, job: str) -> None:
    """Waits until the job is suspended, has no pods, and its Workload no quota."""

    async def check() -> bool:
        workload = await here.workload_of(job)
        rests = workload is not None and not is_true(workload.status.conditions, QUOTA_RESERVED)
        return rests and bool((await here.get_job(job))["spec"]["suspend"]) and not await here.pods(job)

    await eventually(f"{job} stopped", check)


async def says(here: Site, job: str, kind: str, status: str, reason: str) -> Workload:
    """Waits until the job's Workload has that condition."""

    async def check() -> Workload | None:
        workload = await here.workload_of(job)
        found = find_condition(workload.status.conditions, kind) if workload else None
        return workload if found is not None and (found.status, found.reason) == (status, reason) else None

    return await eventually(f"{job}: {kind}={status} {reason}", check)


async def told(here: Site, workload: Workload, reason: str) -> str:
    """Waits for the event about the Workload; its message."""

    async def check() -> str | None:
        for event in (await here.kube.list(EVENTS, here.name)).items:
            if event["involvedObject"]["name"] == workload.metadata.name and event["reason"] == reason:
                return str(event["message"])
        return None

    return await eventually(f"event {reason}", check)


async def counts(here: Site) -> tuple[int, int, int]:
    """Pending, reserving and admitted in the ClusterQueue's status."""
    status = (await here.kube.get(CLUSTER_QUEUES, here.name))["status"]
    return status["pendingWorkloads"], status["reservingWorkloads"], status["admittedWorkloads"]


async def counted(here: Site, wanted: tuple[int, int, int]) -> None:
    async def check() -> bool:
        return await counts(here) == wanted

    await eventually(f"pending, reserving, admitted {wanted}", check)


async def test_a_queue_is_drained_and_comes_back(site: MakeSite) -> None:
    here = site("drain")
    await here.open(RACK_OF_TWO)
    jobs = ("a", "b")
    for job in jobs:
        await here.submit(here.job(job, 4, {REQUIRE_TOPOLOGY: RACK}))
    for job in jobs:
        await here.running(job, 4)
    await here.a_second_after(*jobs)
    await here.submit(here.job("late", 4, {REQUIRE_TOPOLOGY: RACK}))
    await counted(here, (1, 2, 2))
    await here.change(CLUSTER_QUEUES, here.name, {"spec": {"stopPolicy": "Hold"}}, cluster=True)
    await here.waits("late", "Suspended", f"ClusterQueue {here.name} is inactive")
    assert len(await here.pods("a")) == 4, "Hold leaves alone what runs"
    await here.change(CLUSTER_QUEUES, here.name, {"spec": {"stopPolicy": "HoldAndDrain"}}, cluster=True)
    for job in jobs:
        await stopped(here, job)
        workload = await says(here, job, EVICTED, "True", "ClusterQueueStopped")
        assert await told(here, workload, "EvictedDueToClusterQueueStopped") == "The ClusterQueue is stopped"
    await counted(here, (3, 0, 0))
    await here.change(CLUSTER_QUEUES, here.name, {"spec": {"stopPolicy": "None"}}, cluster=True)
    for job in jobs:
        await here.running(job, 4)
        await says(here, job, REQUEUED, "True", "ClusterQueueRestarted")
        await says(here, job, EVICTED, "False", "QuotaReserved")
    await here.change(LOCAL_QUEUES, "lq", {"spec": {"stopPolicy": "HoldAndDrain"}})
    for job in jobs:
        await stopped(here, job)
        await says(here, job, REQUEUED, "False", "LocalQueueStopped")


async def test_a_workload_is_deactivated_and_reactivated(site: MakeSite) -> None:
    here = site("deactivate")
    await here.open(RACK_OF_TWO)
    await here.submit(here.job("job", 8, {REQUIRE_TOPOLOGY: RACK}))
    await here.running("job", 8)
    before = (await here.get_job("job"))["spec"]["template"]
    workload = await here.admitted("job")
    await here.change(WORKLOADS, workload.metadata.name, {"spec": {"active": False}})
    await stopped(here, "job")
    await says(here, "job", EVICTED, "True", "Deactivated")
    off = await here.waits("job", "Deactivated", "The workload is deactivated")
    assert off.status.admission is None
    assert await told(here, workload, "EvictedDueToDeactivated") == "The workload is deactivated"
    await here.submit(here.job("other", 8, {REQUIRE_TOPOLOGY: RACK}, run_for="1s"))
    await says(here, "other", FINISHED, "True", "Succeeded")
    await here.change(WORKLOADS, workload.metadata.name, {"spec": {"active": True}})
    await here.running("job", 8)
    back = await says(here, "job", REQUEUED, "True", "Reactivated")
    assert back.status.scheduling_stats is not None
    assert [(c.reason, c.count) for c in back.status.scheduling_stats.evictions] == [("Deactivated", 1)]
    assert (await here.get_job("job"))["spec"]["template"] == before


async def test_a_job_whose_admission_is_taken_back_stops_and_is_itself_again(site: MakeSite) -> None:
    """Nobody was evicted; somebody cleared the reservation, as Kueue's own controllers can."""
    here = site("unreserve")
    await here.open(RACK_OF_TWO)
    said = {MIN_PARALLELISM: "2", COMPLETIONS_EQUAL_PARALLELISM: "true", REQUIRE_TOPOLOGY: RACK}
    asked = await here.submit(here.job("job", 12, said))
    await here.running("job", 8)
    workload = await here.admitted("job")
    await here.change(CLUSTER_QUEUES, here.name, {"spec": {"stopPolicy": "Hold"}}, cluster=True)
    lost = workload.status.model_copy(update={"admission": None})
    lost = with_condition(lost, QUOTA_RESERVED, False, "Test", "taken back", time.time())
    body = {"status": {"admission": None, "conditions": lost.to_wire()["conditions"]}}
    await here.kube.patch(
        WORKLOADS, workload.metadata.name, body, here.name, kind=PatchKind.MERGE, subresource="status"
    )
    await stopped(here, "job")

    async def is_itself_again() -> bool:
        spec = (await here.get_job("job"))["spec"]
        return all(spec[field] == asked["spec"][field] for field in ("parallelism", "completions", "template"))

    await eventually("its own template and parallelism", is_itself_again)
    waiting = await here.waits("job", "Suspended", f"ClusterQueue {here.name} is inactive")
    assert find_condition(waiting.status.conditions, EVICTED) is None
    assert [(p.count, p.min_count) for p in waiting.spec.pod_sets] == [(12, 2)]
    await counted(here, (1, 0, 0))
    await here.change(CLUSTER_QUEUES, here.name, {"spec": {"stopPolicy": "None"}}, cluster=True)
    await here.running("job", 8)


async def answer(here: Site, job: str, state: str, **more: Any) -> None:
    """What the user's controller of the check writes, from the Workload as it is."""

    async def write() -> bool:
        workload = await here.workload_of(job)
        assert workload is not None
        checks = [check.to_wire() for check in workload.status.admission_checks]
        if not checks:
            return False
        checks[0].update({"state": state, "message": f"says {state}", "lastTransitionTime": rfc3339(0), **more})
        body: Mapping[str, Any] = {
            "metadata": {"resourceVersion": workload.metadata.resource_version},
            "status": {"admissionChecks": checks},
        }
        meta = workload.metadata
        await here.kube.patch(WORKLOADS, meta.name, body, meta.namespace, kind=PatchKind.MERGE, subresource="status")
        return True

    await eventually(f"check of {job} answered {state}", write)


async def pending_check(here: Site, job: str) -> Workload:
    """Waits until the job has quota and its check waits for an answer."""

    async def check() -> Workload | None:
        workload = await here.workload_of(job)
        if workload is None or not is_true(workload.status.conditions, QUOTA_RESERVED):
            return None
        return workload if [c.state for c in workload.status.admission_checks] == ["Pending"] else None

    try:
        return await eventually(f"{job} waits for its check", check)
    except AssertionError as late:
        raise AssertionError(f"{late}; {await here.story(job)}") from None


async def test_a_users_controller_decides_on_its_check(site: MakeSite) -> None:
    here = site("checks")
    check = {"metadata": {"name": here.name}, "spec": {"controllerName": "example.com/budget"}}
    await here.make(ADMISSION_CHECKS, check)
    active = {"type": "Active", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": rfc3339(0)}
    await here.kube.patch(
        ADMISSION_CHECKS, here.name, {"status": {"conditions": [active]}}, kind=PatchKind.MERGE, subresource="status"
    )
    rule = {"name": here.name, "onFlavors": [here.name]}
    await here.open(RACK_OF_TWO, admissionChecksStrategy={"admissionChecks": [rule]})
    await here.submit(here.job("job", 4))
    workload = await pending_check(here, "job")
    assert (await here.get_job("job"))["spec"]["suspend"]
    # Ready: it starts with what the check adds
    await answer(here, "job", "Ready", podSetUpdates=[{"name": "main", "labels": {"budget": "blue"}}])
    pods = await here.running("job", 4)
    assert {pod["metadata"]["labels"]["budget"] for pod in pods} == {"blue"}
    await told(here, workload, "Admitted")
    # Retry: it goes, and comes again
    await answer(here, "job", "Retry", requeueAfterSeconds=1)
    await told(here, workload, "EvictedDueToAdmissionCheck")
    await says(here, "job", REQUEUED, "True", "BackoffFinished")
    again = await pending_check(here, "job")
    [state] = again.status.admission_checks
    assert (state.retry_count, state.pod_set_updates) == (1, ())
    assert await here.pods("job") == []
    template = (await here.get_job("job"))["spec"]["template"]
    assert "budget" not in template["metadata"].get("labels", {}), "the template is the user's again"
    # Rejected: out of service
    await answer(here, "job", "Rejected")
    await says(here, "job", EVICTED, "True", "DeactivatedDueToAdmissionCheck")
    off = await here.waits("job", "Deactivated", "The workload is deactivated")
    assert off.spec.active is False
    assert "says Rejected" in await told(here, workload, "AdmissionCheckRejected")


async def test_a_job_that_runs_longer_than_it_may_gives_its_place_to_the_next(site: MakeSite) -> None:
    here = site("overtime")
    await here.open({"b1": {"r1": 1}})
    job = here.job("long", 4)
    job["metadata"]["labels"][MAX_EXEC_TIME_LABEL] = "2"
    await here.submit(job)
    # Its time is short: perhaps nobody sees it run, but it has to be the first.
    first = await eventually("its Workload", lambda: here.workload_of("long"))
    await told(here, first, "Admitted")
    await here.submit(here.job("next", 4))
    off = await says(here, "long", EVICTED, "True", "DeactivatedDueToMaximumExecutionTimeExceeded")
    assert off.spec.active is False
    message = await told(here, off, "EvictedDueToDeactivatedDueToMaximumExecutionTimeExceeded")
    assert message == "The workload is deactivated due to exceeding the maximum execution time"
    await here.running("next", 4)
    await stopped(here, "long")

    async def runs() -> bool:
        return bool(await here.pods("long"))

    await never("a deactivated job runs again", runs, seconds=1.0)
