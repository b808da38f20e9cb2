"""Pods that do not get ready: the workload gives its place to others, comes back later, and at last no more."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from api.errors import NotFound
from api.kube.informers.informer import Informer
from api.kube.informers.store import Change
from api.kube.resources import CLUSTER_QUEUES, WORKLOADS
from api.names import EVICTED, PODS_READY, QUOTA_RESERVED, REQUEUED
from api.workloads import Workload
from tests.scenarios.site import DEADLINE, Site, eventually
from tests.scenarios.tenants import prioritized
from tests.scenarios.test_lifecycle import says, stopped, told
from tests.tasks import running

pytestmark = pytest.mark.asyncio(loop_scope="session")

MakeSite = Callable[[str], Site]

ENVIRONMENT = {
    "STOWAGE_WAIT_FOR_PODS_READY__ENABLED": "true",
    "STOWAGE_WAIT_FOR_PODS_READY__TIMEOUT": "6s",
    "STOWAGE_WAIT_FOR_PODS_READY__BLOCK_ADMISSION": "true",
    "STOWAGE_WAIT_FOR_PODS_READY__REQUEUING_STRATEGY__BACKOFF_BASE_SECONDS": "1",
    "STOWAGE_WAIT_FOR_PODS_READY__REQUEUING_STRATEGY__BACKOFF_LIMIT_COUNT": "1",
    "STOWAGE_OBJECT_RETENTION_POLICIES__WORKLOADS__AFTER_FINISHED": "1s",
}


def stuck(job: dict[str, Any]) -> dict[str, Any]:
    """The job with pods that somebody else holds back."""
    job["spec"]["template"]["spec"]["schedulingGates"] = [{"name": "example.com/never"}]
    return job


class ReadyHistory:
    """What the conditions of a site's Workloads have ever said: some of it is true for seconds only."""

    def __init__(self, here: Site) -> None:
        self.informer = Informer(here.kube, WORKLOADS, Workload, namespace=here.name)
        self.informer.add_handler(self._changed)
        self._said: dict[tuple[str, str, str, str], tuple[str, Workload]] = {}

    def _changed(self, change: Change[Workload]) -> None:
        workload = change.object
        for c in workload.status.conditions:
            job = workload.metadata.owner_references[0].name
            self._said.setdefault((job, c.type, c.status, c.reason), (c.message, workload))

    async def said(self, job: str, kind: str, status: str, reason: str) -> tuple[str, Workload]:
        """Waits until it has said so, be it for a moment; the first message, and the Workload at that moment."""

        async def check() -> tuple[str, Workload] | None:
            return self._said.get((job, kind, status, reason))

        return await eventually(f"{job}: {kind}={status} {reason}", check)


@contextlib.asynccontextmanager
async def remembered(here: Site) -> AsyncIterator[ReadyHistory]:
    """From here to the end."""
    history = ReadyHistory(here)
    async with running(history.informer.run()):
        await history.informer.synced(DEADLINE)
        yield history


async def hold(here: Site, policy: str) -> None:
    await here.change(CLUSTER_QUEUES, here.name, {"spec": {"stopPolicy": policy}}, cluster=True)


async def test_pods_that_do_not_get_ready_in_time(site: MakeSite) -> None:
    here = site("pods-ready")
    await here.open({"b1": {"r1": 2}})
    await hold(here, "Hold")
    async with remembered(here) as history:
        # Both are there when the queue opens, and the first has the higher priority.
        await here.submit(await prioritized(here, stuck(here.job("stuck", 4)), 1))
        await here.submit(here.job("next", 4))
        for job in ("stuck", "next"):
            await history.said(job, QUOTA_RESERVED, "False", "Suspended")
        await hold(here, "None")
        await history.said("stuck", PODS_READY, "False", "WaitForStart")
        # One at a time: there is room, and yet the next one waits for the pods of the first.
        message, _ = await history.said("next", QUOTA_RESERVED, "False", "WaitingForPodsReady")
        assert message == "waiting for all admitted workloads to be in PodsReady condition"
        await here.running("next", 4)
        await history.said("next", PODS_READY, "True", "Started")
        # It comes back after its backoff, and when that was in vain, too, it is out of service.
        _, back = await history.said("stuck", REQUEUED, "True", "BackoffFinished")
        assert back.status.requeue_state is not None
        assert back.status.requeue_state.count == 1
        assert await told(here, back, "EvictedDueToPodsReadyTimeout") == f"Exceeded the PodsReady timeout {back.key}"
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
