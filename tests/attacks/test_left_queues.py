"""A tenant takes a waiting job out of its queue: it holds no quota, neither at once nor later, nor after its end."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from api.kube.client import PatchKind
from api.kube.resources import JOBS, JOBSETS, Resource
from api.names import QUEUE_NAME_LABEL
from tests.attacks.conftest import Battlefield
from tests.attacks.small_quota import GPUS, SMALL, Obj, charged, clean, is_charged, opened
from tests.scenarios.site import eventually, never
from tests.scenarios.test_declared_kinds import PYTORCH, train

pytestmark = pytest.mark.asyncio(loop_scope="package")


@pytest_asyncio.fixture(scope="module", loop_scope="package", autouse=True)
async def small(battlefield: Battlefield) -> AsyncIterator[None]:
    await battlefield.serve(PYTORCH)
    async with opened(battlefield):
        yield


def waiting(battlefield: Battlefield, resource: Resource) -> Obj:
    """A job of the kind with as many pods as the quota has GPUs."""
    if resource is JOBS:
        return battlefield.site.job("second", GPUS, queue=SMALL)
    if resource is JOBSETS:
        job = battlefield.site.jobset("second", {"work": (1, GPUS)}, {})
    else:
        job = train(battlefield.site, "second", GPUS - 1)
        job["metadata"]["annotations"] = {}
    job["metadata"]["labels"] = {QUEUE_NAME_LABEL: SMALL}
    return job


@pytest.mark.parametrize("value", [None, ""], ids=["removed", "empty"])
@pytest.mark.parametrize("resource", [JOBS, JOBSETS, PYTORCH], ids=lambda resource: resource.plural)
async def test_a_waiting_job_that_leaves_its_queue_never_holds_quota(
    battlefield: Battlefield, resource: Resource, value: str | None
) -> None:
    """Its Workload would be admitted later, and keep the quota for ever."""
    await battlefield.create(JOBS, battlefield.site.job("first", GPUS, queue=SMALL))
    await battlefield.site.running("first", GPUS)
    await is_charged(
        battlefield, GPUS
    )  # the status lags behind the pods: a zero from before would pass for the end below
    await battlefield.create(resource, waiting(battlefield, resource))
    await eventually("it has a Workload", lambda: battlefield.site.workload_of("second"))
    leaves = {"metadata": {"labels": {QUEUE_NAME_LABEL: value}}}
    await battlefield.tenant.patch(resource, "second", leaves, battlefield.namespace, kind=PatchKind.MERGE)

    async def gone() -> bool:
        return await battlefield.site.workload_of("second") is None

    await eventually("its Workload is gone", gone)
    await clean(battlefield, JOBS)
    await is_charged(battlefield, 0)  # the first job's pods have ended, and the queue's status says so

    async def holds() -> bool:
        return await charged(battlefield) > 0

    await never("a job without a queue holds quota", holds)
    await battlefield.create(JOBS, battlefield.site.job("first", GPUS, queue=SMALL))
    await battlefield.site.running("first", GPUS)
    await is_charged(battlefield, GPUS)
    await clean(battlefield, JOBS)
    if resource is not JOBS:
        await battlefield.site.remove(resource, "second")
