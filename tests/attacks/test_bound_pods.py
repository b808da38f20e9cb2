"""What a tenant does so that his pods run beside the quota: they are charged until they have ended, and nobody joins them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from api.errors import Forbidden, Invalid
from api.kube.client import PatchKind
from api.kube.resources import JOBS, PODS
from api.names import ELASTIC_JOB, UNCONSTRAINED_TOPOLOGY
from tests.attacks.conftest import Battlefield
from tests.attacks.small_quota import SMALL, clean, opened, there, within_the_quota

pytestmark = pytest.mark.asyncio(loop_scope="package")
HOLDS = "example.com/holds"
Obj = dict[str, Any]


@pytest_asyncio.fixture(scope="module", loop_scope="package", autouse=True)
async def small(battlefield: Battlefield) -> AsyncIterator[None]:
    async with opened(battlefield):
        yield


def job(battlefield: Battlefield, name: str) -> Obj:
    """Four pods that hold the whole quota, and that are slow to end."""
    made = battlefield.site.job(name, 4, queue=SMALL)
    made["spec"]["template"]["metadata"]["finalizers"] = [HOLDS]
    return made


async def left_behind(battlefield: Battlefield) -> None:
    await battlefield.tenant.delete(JOBS, "first", battlefield.namespace, propagation="Orphan")


async def deleted(battlefield: Battlefield) -> None:
    await battlefield.tenant.delete(JOBS, "first", battlefield.namespace, propagation="Background")


async def suspended(battlefield: Battlefield) -> None:
    await battlefield.tenant.patch(
        JOBS, "first", {"spec": {"suspend": True}}, battlefield.namespace, kind=PatchKind.MERGE
    )


async def relabelled(battlefield: Battlefield) -> None:
    await _on_each(battlefield, {"metadata": {"labels": {"batch.kubernetes.io/controller-uid": "nobody"}}})


async def disowned(battlefield: Battlefield) -> None:
    await _on_each(battlefield, {"metadata": {"ownerReferences": None}})


async def renamed(battlefield: Battlefield) -> None:
    await _on_each(battlefield, {"metadata": {"annotations": {"kueue.x-k8s.io/workload": "another"}}})


async def _on_each(battlefield: Battlefield, body: Obj) -> None:
    for pod in await there(battlefield):
        try:
            await battlefield.tenant.patch(
                PODS, pod["metadata"]["name"], body, battlefield.namespace, kind=PatchKind.MERGE
            )
        except (Forbidden, Invalid):
            continue


WAYS: tuple[Callable[[Battlefield], Awaitable[None]], ...]
WAYS = (left_behind, deleted, suspended, relabelled, disowned, renamed)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_no_more_runs_than_the_quota_whatever_the_tenant_does(
    battlefield: Battlefield, way: Callable[[Battlefield], Awaitable[None]]
) -> None:
    await battlefield.create(JOBS, job(battlefield, "first"))
    await battlefield.site.running("first", 4)
    await way(battlefield)
    await battlefield.create(JOBS, job(battlefield, "second"))
    await within_the_quota(battlefield)
    await clean(battlefield, JOBS)


async def test_an_elastic_job_that_shrinks_makes_no_room_before_its_pods_have_ended(battlefield: Battlefield) -> None:
    first = job(battlefield, "first")
    first["metadata"]["annotations"] = {ELASTIC_JOB: "true", UNCONSTRAINED_TOPOLOGY: "true"}
    first["spec"] |= {"completions": None, "completionMode": "NonIndexed"}
    await battlefield.create(JOBS, first)
    await battlefield.site.running("first", 4)
    fewer = {"spec": {"parallelism": 1}}
    await battlefield.tenant.patch(JOBS, "first", fewer, battlefield.namespace, kind=PatchKind.MERGE)
    await battlefield.create(JOBS, battlefield.site.job("second", 3, queue=SMALL))
    await within_the_quota(battlefield)
    await clean(battlefield, JOBS)
