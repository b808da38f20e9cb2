"""An elastic quota is deleted while pods wait for it, or replaced."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from api.errors import NotFound
from api.kube.client import PatchKind
from api.kube.resources import CLUSTER_QUEUES, ELASTIC_QUOTAS, LOCAL_QUEUES, NAMESPACES, PODS, WORKLOADS
from api.names import QUEUE_NAME_LABEL
from hack.controlplane.options import ClusterOptions
from tests.scenarios.quota_tenants import Tenants
from tests.scenarios.site import Site, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")
CONTROL_PLANE = ClusterOptions(jobset=True)
ENVIRONMENT = {"STOWAGE_CONTROLLER__WAIT_REPORT_PERIOD": "0.5", "STOWAGE_CONTROLLER__QUEUE_STATUS_PERIOD": "0.5"}

MakeSite = Callable[[str], Site]


async def test_what_waits_for_a_quota_that_is_deleted_starts_without_one(site: MakeSite) -> None:
    """A Job, a pod, a gang and one that lacks a pod: what is created afterwards needs no quota. A new one counts them all."""
    story = Tenants(site("gone"))
    await story.open({"n": 9}, a=(1, 1))
    await story.run("a1", 1)
    corner = story.corners["a"]
    await story.submit("a2", 1)
    await story.waits("a2")
    await story.pod("a", "single")
    gang = {"pod-group.scheduling.x-k8s.io/name": "gang", "pod-group.scheduling.x-k8s.io/min-available": "2"}
    half = {key: value.replace("gang", "half") for key, value in gang.items()}
    for number in range(2):
        await story.pod("a", f"gang-{number}", gang)
    await story.pod("a", "half-0", half)
    await story.held("a", "single", "gang-0", "gang-1", "half-0")
    await corner.remove(ELASTIC_QUOTAS, "quota")
    await story.runs("a2", 1)
    for name in ("single", "gang-0", "gang-1"):
        await story.pod_runs("a", name)
    await story.pod("a", "half-1", half)
    await story.pod("a", "later")
    for name in ("half-0", "half-1", "later"):
        await story.pod_runs("a", name)
    assert QUEUE_NAME_LABEL not in (await story.kube.get(PODS, "later", corner.name))["metadata"].get("labels", {})
    await story.stays("a1")
    await story.tenant("a", 2, 2)
    await story.uses(a=8)
    await story.submit("a3", 1)
    await story.waits("a3")
    await corner.remove(ELASTIC_QUOTAS, "quota")
    for name in ("a1", "a2", "a3"):
        await story.ends(name)
    for name in ("single", "gang-0", "gang-1", "half-0", "half-1", "later"):
        await corner.remove(PODS, name)

    async def left() -> bool:
        queues = [*(await story.kube.list(CLUSTER_QUEUES)).items, *(await story.kube.list(LOCAL_QUEUES)).items]
        return not any(q["metadata"].get("labels", {}).get("stowage.dev/elastic-quota") == corner.name for q in queues)

    await eventually("queues gone", left)


async def test_a_quota_that_is_replaced_is_in_force_all_the_time(site: MakeSite) -> None:
    """`kubectl replace --force` deletes it and creates it again."""
    story = Tenants(site("replaced"))
    await story.open({"n": 4}, a=(1, 1))
    await story.run("a1", 1)
    await story.submit("a2", 1)
    await story.waits("a2")
    await story.corners["a"].remove(ELASTIC_QUOTAS, "quota")
    await story.tenant("a", 1, 1)
    await story.uses(a=1)
    await story.waits("a2")
    await story.stays("a1")


async def test_in_a_namespace_that_is_being_deleted_nothing_is_created(site: MakeSite) -> None:
    """Its quota and queue go while a pod is held and its Workload waits; a write that the API server refuses is logged again
    and again, which fails the stage.

    The namespace controller deletes all pods before anything else, and this pod stays: so the test deletes what follows.
    """
    story = Tenants(site("leaving"))
    await story.open({"n": 2}, a=(0, 0))
    corner = story.corners["a"]
    await story.pod("a", "single")
    await story.held("a", "single")
    held = {"metadata": {"finalizers": ["example.com/held"]}}
    await story.kube.patch(PODS, "single", held, corner.name, kind=PatchKind.MERGE)
    waits = await eventually("its Workload", lambda: corner.workload_of("single"))
    still = {"metadata": {"finalizers": [*waits.metadata.finalizers, "example.com/held"]}}
    await story.kube.patch(WORKLOADS, waits.metadata.name, still, corner.name, kind=PatchKind.MERGE)
    await story.kube.delete(NAMESPACES, corner.name)
    for resource, name in ((ELASTIC_QUOTAS, "quota"), (LOCAL_QUEUES, "elastic-quota")):
        with contextlib.suppress(NotFound):
            await story.kube.delete(resource, name, corner.name)
        await corner.gone(resource, name)

    async def left() -> bool:
        queues = [*(await story.kube.list(CLUSTER_QUEUES)).items, *(await story.kube.list(LOCAL_QUEUES)).items]
        return not any(q["metadata"].get("labels", {}).get("stowage.dev/elastic-quota") == corner.name for q in queues)

    await eventually("queues gone", left)
    for resource, name in ((WORKLOADS, waits.metadata.name), (PODS, "single")):
        with contextlib.suppress(NotFound):
            await story.kube.patch(
                resource, name, {"metadata": {"finalizers": None}}, corner.name, kind=PatchKind.MERGE
            )


async def test_what_waits_for_a_deleted_quota_says_so_where_the_namespace_has_a_default_queue(site: MakeSite) -> None:
    """It may not escape that queue, and is the user's to move."""
    story = Tenants(site("default-after"))
    await story.open({"n": 2}, a=(0, 0))
    corner = story.corners["a"]
    await story.pod("a", "single")
    await story.held("a", "single")
    local = {"metadata": {"name": "default", "namespace": corner.name}, "spec": {"clusterQueue": "of-the-team"}}
    await corner.make(LOCAL_QUEUES, local)
    await corner.remove(ELASTIC_QUOTAS, "quota")
    message = "LocalQueue elastic-quota doesn't exist: the namespace has no ElasticQuota"
    await story.pod_told("a", "single", message)
    await story.held("a", "single")
