"""Pods that do not get ready: the workload gives its place to others, comes back later, and at last no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.errors import NotFound
from api.kube.resources import WORKLOADS
from api.names import EVICTED, PODS_READY, REQUEUED
from tests.scenarios.site import Site, eventually
from tests.scenarios.test_lifecycle import says, stopped, told

pytestmark = pytest.mark.asyncio(loop_scope="module")

MakeSite = Callable[[str], Site]

ENVIRONMENT = {
    "STOWAGE_WAIT_FOR_PODS_READY__ENABLED": "true",
    "STOWAGE_WAIT_FOR_PODS_READY__TIMEOUT": "4s",
    "STOWAGE_WAIT_FOR_PODS_READY__BLOCK_ADMISSION": "true",
    "STOWAGE_WAIT_FOR_PODS_READY__REQUEUING_STRATEGY__BACKOFF_BASE_SECONDS": "2",
    "STOWAGE_WAIT_FOR_PODS_READY__REQUEUING_STRATEGY__BACKOFF_LIMIT_COUNT": "1",
    "STOWAGE_OBJECT_RETENTION_POLICIES__WORKLOADS__AFTER_FINISHED": "1s",
}


def stuck(job: dict[str, Any]) -> dict[str, Any]:
    """The job with pods that somebody else holds back."""
    job["spec"]["template"]["spec"]["schedulingGates"] = [{"name": "example.com/never"}]
    return job


async def test_pods_that_do_not_get_ready_in_time(site: MakeSite) -> None:
    here = site("pods-ready")
    await here.open({"b1": {"r1": 2}})
    await here.submit(stuck(here.job("stuck", 4)))
    first = await here.admitted("stuck")
    await says(here, "stuck", PODS_READY, "False", "WaitForStart")
    # One at a time: there is room, and yet the next one waits for the pods of the first.
    await here.submit(here.job("next", 4))
    await here.waits("next", "WaitingForPodsReady", "waiting for all admitted workloads to be in PodsReady condition")
    await here.running("next", 4)
    message = await told(here, first, "EvictedDueToPodsReadyTimeout")
    assert message == f"Exceeded the PodsReady timeout {first.key}"
    await says(here, "next", PODS_READY, "True", "Started")
    # It comes back after its backoff, and when that was in vain, too, it is out of service.
    back = await says(here, "stuck", REQUEUED, "True", "BackoffFinished")
    assert back.status.requeue_state is not None
    assert back.status.requeue_state.count == 1
    off = await says(here, "stuck", EVICTED, "True", "DeactivatedDueToRequeuingLimitExceeded")
    assert off.spec.active is False
    assert off.status.scheduling_stats is not None
    assert {(c.reason, c.underlying_cause): c.count for c in off.status.scheduling_stats.evictions} == {
        ("PodsReadyTimeout", "WaitForStart"): 1,
        ("Deactivated", "RequeuingLimitExceeded"): 1,
    }
    await stopped(here, "stuck")


async def test_a_finished_workload_goes_after_its_time_and_its_job_stays(site: MakeSite) -> None:
    here = site("retention")
    await here.open({"b1": {"r1": 1}})
    await here.submit(here.job("short", 4, run_for="1s"))
    workload = await here.admitted("short")

    async def gone() -> bool:
        try:
            await here.kube.get(WORKLOADS, workload.metadata.name, here.name)
        except NotFound:
            return True
        return False

    await eventually("the finished Workload is deleted", gone)
    job = await here.get_job("short")
    assert any(c["type"] == "Complete" and c["status"] == "True" for c in job["status"]["conditions"])
    assert await here.workload_of("short") is None
