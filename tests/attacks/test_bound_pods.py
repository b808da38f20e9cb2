"""What a tenant does so that his pods run beside the quota: they are charged until they have ended, and nobody joins them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from api.errors import Forbidden, Invalid, NotFound
from api.kube.client import PatchKind
from api.kube.resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, PODS
from api.names import ELASTIC_JOB, QUEUE_NAME_LABEL, UNCONSTRAINED_TOPOLOGY
from tests.attacks.conftest import Battlefield
from tests.scenarios.site import GPU, eventually, never

pytestmark = pytest.mark.asyncio(loop_scope="package")
SMALL = "tenant-small"
"""A ClusterQueue of four GPUs, and its LocalQueue."""
HOLDS = "example.com/holds"
Obj = dict[str, Any]


@pytest_asyncio.fixture(scope="module", loop_scope="package", autouse=True)
async def small(battlefield: Battlefield) -> AsyncIterator[None]:
    """The tenant has a quota of four GPUs."""
    site, name = battlefield.site, battlefield.namespace
    quotas = [{"name": "cpu", "nominalQuota": 100}, {"name": GPU, "nominalQuota": 4}]
    groups = [{"coveredResources": ["cpu", GPU], "flavors": [{"name": site.name, "resources": quotas}]}]
    spec = {"namespaceSelector": {}, "resourceGroups": groups}
    await site.make(CLUSTER_QUEUES, {"metadata": {"name": SMALL}, "spec": spec})
    local = {"metadata": {"name": SMALL, "namespace": name}, "spec": {"clusterQueue": SMALL}}
    await site.make(LOCAL_QUEUES, local)
    yield
    await site.remove(LOCAL_QUEUES, SMALL)


def job(battlefield: Battlefield, name: str) -> Obj:
    """Four pods that hold the whole quota, and that are slow to end."""
    made = battlefield.site.job(name, 4, queue=SMALL)
    made["spec"]["template"]["metadata"]["finalizers"] = [HOLDS]
    return made


async def there(battlefield: Battlefield) -> list[Obj]:
    """The tenant's bound pods of the attack that have not ended."""
    found = (await battlefield.admin.list(PODS, battlefield.namespace)).items
    mine = (pod for pod in found if pod["metadata"]["name"].startswith(("first-", "second-")))
    return [
        pod for pod in mine if pod["spec"].get("nodeName") and pod["status"].get("phase") not in ("Succeeded", "Failed")
    ]


async def charged(battlefield: Battlefield) -> int:
    queue = await battlefield.admin.get(CLUSTER_QUEUES, SMALL)
    flavors = (queue.get("status") or {}).get("flavorsUsage") or []
    return sum(int(r["total"]) for f in flavors for r in f["resources"] if r["name"] == GPU)


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
    await _within_the_quota(battlefield)
    await _clean(battlefield)


async def test_an_elastic_job_that_shrinks_makes_no_room_before_its_pods_have_ended(battlefield: Battlefield) -> None:
    first = job(battlefield, "first")
    first["metadata"]["annotations"] = {ELASTIC_JOB: "true", UNCONSTRAINED_TOPOLOGY: "true"}
    first["spec"] |= {"completions": None, "completionMode": "NonIndexed"}
    await battlefield.create(JOBS, first)
    await battlefield.site.running("first", 4)
    fewer = {"spec": {"parallelism": 1}}
    await battlefield.tenant.patch(JOBS, "first", fewer, battlefield.namespace, kind=PatchKind.MERGE)
    await battlefield.create(JOBS, battlefield.site.job("second", 3, queue=SMALL))
    await _within_the_quota(battlefield)
    await _clean(battlefield)


async def test_a_waiting_job_that_leaves_its_queue_never_holds_quota(battlefield: Battlefield) -> None:
    """Its Workload would be admitted later, and keep the quota for ever."""
    await battlefield.create(JOBS, battlefield.site.job("first", 4, queue=SMALL))
    await battlefield.site.running("first", 4)
    await battlefield.create(JOBS, battlefield.site.job("second", 4, queue=SMALL))
    await eventually("it has a Workload", lambda: battlefield.site.workload_of("second"))
    leaves = {"metadata": {"labels": {QUEUE_NAME_LABEL: None}}}
    await battlefield.tenant.patch(JOBS, "second", leaves, battlefield.namespace, kind=PatchKind.MERGE)

    async def gone() -> bool:
        return await battlefield.site.workload_of("second") is None

    await eventually("its Workload is gone", gone)
    await _clean(battlefield)


async def _within_the_quota(battlefield: Battlefield) -> None:
    async def too_many() -> bool:
        return len(await there(battlefield)) > 4

    async def says_so() -> bool:
        return await charged(battlefield) >= len(await there(battlefield))

    await never("more pods run than the quota has GPUs", too_many, 5.0)
    await eventually("what runs is charged", says_so)


async def _clean(battlefield: Battlefield) -> None:
    """The administrator ends everything."""
    for name in ("first", "second"):
        try:
            await battlefield.admin.delete(JOBS, name, battlefield.namespace, propagation="Background")
        except NotFound:
            continue

    async def gone() -> bool:
        found = (await battlefield.admin.list(PODS, battlefield.namespace)).items
        mine = [pod["metadata"]["name"] for pod in found if pod["metadata"]["name"].startswith(("first-", "second-"))]
        for name in mine:
            try:
                body = {"metadata": {"finalizers": None}}
                await battlefield.admin.patch(PODS, name, body, battlefield.namespace, kind=PatchKind.MERGE)
                await battlefield.admin.delete(PODS, name, battlefield.namespace, grace_seconds=0)
            except NotFound:
                continue
        return not mine and await charged(battlefield) == 0

    await eventually("nothing is left", gone)
