"""A ClusterQueue of four GPUs for attacks on the quota: what runs there, what is charged, and the end of it all."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from api.errors import NotFound
from api.kube.client import PatchKind
from api.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, PODS, Resource
from tests.attacks.conftest import Battlefield
from tests.scenarios.site import GPU, eventually, never

SMALL = "tenant-small"
"""The ClusterQueue, and its LocalQueue."""
GPUS = 4
Obj = dict[str, Any]


@contextlib.asynccontextmanager
async def opened(battlefield: Battlefield) -> AsyncIterator[None]:
    """The tenant has a quota of four GPUs."""
    site, name = battlefield.site, battlefield.namespace
    quotas = [{"name": "cpu", "nominalQuota": 100}, {"name": GPU, "nominalQuota": GPUS}]
    groups = [{"coveredResources": ["cpu", GPU], "flavors": [{"name": site.name, "resources": quotas}]}]
    spec = {"namespaceSelector": {}, "resourceGroups": groups}
    await site.make(CLUSTER_QUEUES, {"metadata": {"name": SMALL}, "spec": spec})
    local = {"metadata": {"name": SMALL, "namespace": name}, "spec": {"clusterQueue": SMALL}}
    await site.make(LOCAL_QUEUES, local)
    yield
    await site.remove(LOCAL_QUEUES, SMALL)


async def there(battlefield: Battlefield) -> list[Obj]:
    """The tenant's bound pods of jobs `first` and `second` that have not ended."""
    found = (await battlefield.admin.list(PODS, battlefield.namespace)).items
    mine = (pod for pod in found if pod["metadata"]["name"].startswith(("first-", "second-")))
    return [
        pod for pod in mine if pod["spec"].get("nodeName") and pod["status"].get("phase") not in ("Succeeded", "Failed")
    ]


async def charged(battlefield: Battlefield) -> int:
    """GPUs in use, as the queue's status says."""
    queue = await battlefield.admin.get(CLUSTER_QUEUES, SMALL)
    flavors = (queue.get("status") or {}).get("flavorsUsage") or []
    return sum(int(r["total"]) for f in flavors for r in f["resources"] if r["name"] == GPU)


async def is_charged(battlefield: Battlefield, gpus: int) -> None:
    """Waits until the queue's status says so."""

    async def says() -> bool:
        return await charged(battlefield) == gpus

    try:
        await eventually(f"{gpus} GPUs are charged", says)
    except AssertionError as late:
        raise AssertionError(f"{late}; {await charged(battlefield)}") from None


async def within_the_quota(battlefield: Battlefield) -> None:
    """For some seconds no more runs than there is quota, and then all of it is charged."""

    async def too_many() -> bool:
        return len(await there(battlefield)) > GPUS

    async def says_so() -> bool:
        return await charged(battlefield) >= len(await there(battlefield))

    await never("more pods run than the quota has GPUs", too_many, 5.0)
    await eventually("what runs is charged", says_so)


async def clean(battlefield: Battlefield, resource: Resource) -> None:
    """The administrator ends everything."""
    for name in ("first", "second"):
        with contextlib.suppress(NotFound):
            await battlefield.admin.delete(resource, name, battlefield.namespace, propagation="Background")

    async def gone() -> bool:
        found = (await battlefield.admin.list(PODS, battlefield.namespace)).items
        mine = [pod["metadata"]["name"] for pod in found if pod["metadata"]["name"].startswith(("first-", "second-"))]
        for name in mine:
            with contextlib.suppress(NotFound):
                body = {"metadata": {"finalizers": None}}
                await battlefield.admin.patch(PODS, name, body, battlefield.namespace, kind=PatchKind.MERGE)
                await battlefield.admin.delete(PODS, name, battlefield.namespace, grace_seconds=0)
        return not mine and await charged(battlefield) == 0

    await eventually("nothing is left", gone)
