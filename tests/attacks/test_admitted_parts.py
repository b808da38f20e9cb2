"""What a tenant does to the parts of an admitted job, and who claims to belong to one: no pod runs that nobody admitted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from api.errors import ApiError, Forbidden
from api.kube.client import PatchKind
from api.kube.resources import DEPLOYMENTS, EVENTS, JOBS, JOBSETS, PODS
from api.names import PODSET_LABEL, TOPOLOGY_GATE, UNCONSTRAINED_TOPOLOGY, WORKLOAD_ANNOTATION
from tests.attacks.conftest import Battlefield
from tests.scenarios.failures import down
from tests.scenarios.site import eventually

pytestmark = pytest.mark.asyncio(loop_scope="package")

NAME = "whole"
CHILD = f"{NAME}-work-0"


@pytest_asyncio.fixture(scope="module", loop_scope="package", autouse=True)
async def whole(battlefield: Battlefield) -> AsyncIterator[None]:
    """A JobSet of the tenant's, admitted with two pods of one Job."""
    jobset = battlefield.site.jobset(NAME, {"work": (1, 2)}, {UNCONSTRAINED_TOPOLOGY: "true"})
    await battlefield.create(JOBSETS, jobset)
    await running(battlefield, 2)
    yield
    await battlefield.site.remove(JOBSETS, NAME)


async def running(battlefield: Battlefield, pods: int) -> list[dict[str, Any]]:
    return await battlefield.site.running(NAME, pods, jobset=True)


async def refused(battlefield: Battlefield, body: Any, text: str) -> None:
    """The tenant's patch of the JobSet's Job is refused, and two pods run."""
    with pytest.raises(Forbidden, match=text):
        await battlefield.tenant.patch(JOBS, CHILD, body, battlefield.namespace, kind=PatchKind.MERGE)
    assert len(await running(battlefield, 2)) == 2


async def test_a_jobsets_job_is_not_raised(battlefield: Battlefield) -> None:
    """Its twelve pods would run, and two be charged."""
    await refused(battlefield, {"spec": {"parallelism": 12, "completions": 12}}, "has 2 pods in its Job")
    await refused(battlefield, {"metadata": {"ownerReferences": None}}, "ownerReferences")
    both = {"metadata": {"ownerReferences": None}, "spec": {"parallelism": 12}}
    await refused(battlefield, both, "ownerReferences")


async def test_a_jobsets_job_may_shrink_and_grow_again(battlefield: Battlefield) -> None:
    """Within what was admitted the tenant does as before."""
    for pods in (1, 2):
        body = {"spec": {"parallelism": pods}}
        await battlefield.tenant.patch(JOBS, CHILD, body, battlefield.namespace, kind=PatchKind.MERGE)
        await running(battlefield, pods)


async def identity(battlefield: Battlefield) -> dict[str, Any]:
    """The marks of a pod that was admitted, without its owner."""
    model = (await running(battlefield, 2))[0]["metadata"]
    annotations = {WORKLOAD_ANNOTATION: model["annotations"][WORKLOAD_ANNOTATION]}
    return {"labels": {PODSET_LABEL: model["labels"][PODSET_LABEL]}, "annotations": annotations}


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="by-hand"),
        pytest.param({"nodeName": "tenant-b1-r1-1"}, id="straight-onto-a-node"),
        pytest.param({"schedulingGates": [{"name": TOPOLOGY_GATE}]}, id="at-the-gate-of-those-that-wait"),
    ],
)
async def test_a_pod_by_hand_has_no_identity(battlefield: Battlefield, fields: dict[str, Any]) -> None:
    """It would count for the JobSet's Workload, which it does not belong to, or take the place of one of its pods."""
    spec = {**battlefield.site.template()["spec"], **fields}
    body = {"metadata": {"name": "forged", **await identity(battlefield)}, "spec": spec}
    with pytest.raises(Forbidden, match=WORKLOAD_ANNOTATION):
        await battlefield.create(PODS, body)


async def test_a_deployment_gives_its_pods_no_identity(battlefield: Battlefield) -> None:
    """Its ReplicaSet makes the pods, and is no queued job."""
    marks, labels = await identity(battlefield), {"app": "forged"}
    pod = {**battlefield.site.template()["spec"], "restartPolicy": "Always"}
    template = {"metadata": {**marks, "labels": {**marks["labels"], **labels}}, "spec": pod}
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    made = await battlefield.create(DEPLOYMENTS, {"metadata": {"name": "forged"}, "spec": spec})
    if battlefield.on_real_server:

        async def refusals() -> bool:
            told = (await battlefield.admin.list(EVENTS, battlefield.namespace)).items
            return any(e["reason"] == "FailedCreate" and "no owner of this pod is one" in e["message"] for e in told)

        await eventually("the ReplicaSet's pods are refused", refusals)
        assert not (await battlefield.admin.list(PODS, battlefield.namespace, label_selector="app=forged")).items
    else:  # it has no ReplicaSets: the pod as their controller would make it
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "forged", "uid": made["metadata"]["uid"]}
        metadata = {**template["metadata"], "name": "forged-1", "ownerReferences": [{**owner, "controller": True}]}
        with pytest.raises(Forbidden, match=WORKLOAD_ANNOTATION):
            await battlefield.create(PODS, {"metadata": metadata, "spec": pod})
    await battlefield.site.remove(DEPLOYMENTS, "forged")


async def test_a_job_without_a_queue_gives_its_pods_no_identity(battlefield: Battlefield) -> None:
    """The Job runs as any Job that names no queue, and its pods count as pods that nobody admitted."""
    job = battlefield.site.job("forged", 1, queue=None)
    marks = await identity(battlefield)
    job["spec"]["template"]["metadata"] = {**job["spec"]["template"].get("metadata", {}), **marks}
    made = await battlefield.create(JOBS, job)
    kept = made["spec"]["template"]["metadata"]
    assert PODSET_LABEL not in kept["labels"]
    assert WORKLOAD_ANNOTATION not in kept.get("annotations", {})
    await battlefield.site.remove(JOBS, "forged")


def without_marks(template: dict[str, Any]) -> bool:
    metadata = template.get("metadata") or {}
    return PODSET_LABEL not in (metadata.get("labels") or {}) and not (metadata.get("annotations") or {})


async def test_a_jobset_without_a_queue_gives_its_pods_no_identity(battlefield: Battlefield) -> None:
    """Its controller would write the marks into its Jobs, and the pods of these are not looked at."""
    marks = await identity(battlefield)
    jobset = battlefield.site.jobset("forged", {"work": (1, 2)}, {})
    jobset["metadata"]["labels"] = {}
    (job,) = jobset["spec"]["replicatedJobs"]
    job["template"]["spec"]["template"]["metadata"] = marks
    made = await battlefield.create(JOBSETS, jobset)
    (kept,) = made["spec"]["replicatedJobs"]
    assert without_marks(kept["template"]["spec"]["template"])
    for pod in await battlefield.site.running("forged", 2, jobset=True):
        assert PODSET_LABEL not in pod["metadata"]["labels"]
    await battlefield.site.remove(JOBSETS, "forged")


async def test_a_suspended_jobset_without_a_queue_gets_no_identity_later(battlefield: Battlefield) -> None:
    """While it is suspended the labels and annotations of its templates may change, and go to its Jobs when it starts."""
    marks = await identity(battlefield)
    jobset = battlefield.site.jobset("forged", {"work": (1, 2)}, {})
    jobset["metadata"]["labels"] = {}
    jobset["spec"]["suspend"] = True
    await battlefield.create(JOBSETS, jobset)
    there = await battlefield.tenant.get(JOBSETS, "forged", battlefield.namespace)
    (job,) = there["spec"]["replicatedJobs"]
    job["template"]["spec"]["template"]["metadata"] = marks
    body = {"spec": {"suspend": False, "replicatedJobs": [job]}}
    with pytest.raises(Forbidden, match="gets no marks of a Workload"):
        await battlefield.tenant.patch(JOBSETS, "forged", body, battlefield.namespace, kind=PatchKind.MERGE)
    await battlefield.site.remove(JOBSETS, "forged")


async def test_nobody_claims_to_be_a_part(battlefield: Battlefield) -> None:
    """A Job that names the tenant's own running JobSet as its owner, to run beside the quota."""
    jobset = await battlefield.admin.get(JOBSETS, NAME, battlefield.namespace)
    owner = {"apiVersion": JOBSETS.api_version, "kind": "JobSet", "name": NAME, "uid": jobset["metadata"]["uid"]}
    job = battlefield.site.job(f"{NAME}-work-1", 4, queue=None)
    job["metadata"] |= {"ownerReferences": [{**owner, "controller": True}]}
    job["spec"]["template"]["metadata"] = await identity(battlefield)
    with pytest.raises(Forbidden, match=f"the JobSet {NAME} "):
        await battlefield.create(JOBS, job)

    async def alone() -> bool:
        return len(await battlefield.site.pods(NAME, jobset=True)) == 2

    await eventually("no pod more", alone)


async def test_a_waiting_part_does_not_start_before_its_owner(battlefield: Battlefield) -> None:
    """The JobSet is suspended again; its Job, unsuspended by hand, would run uncounted."""
    await battlefield.create(
        JOBSETS, battlefield.site.jobset("late", {"work": (1, 40)}, {UNCONSTRAINED_TOPOLOGY: "true"})
    )

    async def there() -> bool:
        try:
            return bool((await battlefield.site.get_job("late-work-0"))["spec"]["suspend"])
        except ApiError:
            return False

    await eventually("its Job waits", there)
    for body in ({"spec": {"suspend": False}}, {"spec": {"suspend": False, "parallelism": 1}}):
        with pytest.raises(Forbidden, match="the JobSet late is suspended"):
            await battlefield.tenant.patch(JOBS, "late-work-0", body, battlefield.namespace, kind=PatchKind.MERGE)
    await battlefield.site.remove(JOBSETS, "late")


async def test_while_the_webhook_is_down_a_tenant_changes_no_part(battlefield: Battlefield) -> None:
    """What the owner's controller may write then, to start and stop its parts, is not the tenant's to write."""
    stage = battlefield.stage
    async with down(stage, "webhook"):
        for spec in ({"parallelism": 12, "completions": 12}, {"parallelism": 1}, {"suspend": True}):
            with pytest.raises(ApiError, match=r'failed calling webhook "vjob-part\.stowage\.dev"'):
                await battlefield.tenant.patch(JOBS, CHILD, {"spec": spec}, battlefield.namespace, kind=PatchKind.MERGE)
    battlefield.pids = stage.processes.pids
    assert len(await running(battlefield, 2)) == 2
