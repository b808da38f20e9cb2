"""What a tenant does so that pods that run count as pods that have ended: nobody starts on the quota that they use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from admission.integrations.paths import with_value
from api.embedded.workers.kubelet import RUN_FOR
from api.errors import Forbidden
from api.kube.client import PatchKind
from api.kube.resources import JOBS, JOBSETS, PODS, Resource
from api.meta import is_true
from api.names import ELASTIC_JOB, FINISHED, QUEUE_NAME_LABEL, UNCONSTRAINED_TOPOLOGY
from tests.attacks.conftest import Battlefield
from tests.attacks.small_quota import GPUS, SMALL, Obj, clean, is_charged, opened, there, within_the_quota
from tests.crds import adapter
from tests.scenarios.site import eventually

pytestmark = pytest.mark.asyncio(loop_scope="package")
ANYWHERE = {UNCONSTRAINED_TOPOLOGY: "true"}


@pytest_asyncio.fixture(scope="module", loop_scope="package", autouse=True)
async def small(battlefield: Battlefield) -> AsyncIterator[None]:
    async with opened(battlefield):
        yield


async def end(battlefield: Battlefield, *pods: Obj) -> None:
    """The tenant lets the pods succeed."""
    body = {"metadata": {"annotations": {RUN_FOR: "1ms"}}}
    for pod in pods:
        name = pod["metadata"]["name"]
        await battlefield.tenant.patch(PODS, name, body, battlefield.namespace, kind=PatchKind.MERGE)


async def change(battlefield: Battlefield, resource: Resource, body: Any) -> None:
    await battlefield.tenant.patch(resource, "first", body, battlefield.namespace, kind=PatchKind.MERGE)


async def follow(battlefield: Battlefield, pods: int) -> None:
    """Another job of the tenant's comes, with so many pods."""
    await battlefield.create(JOBS, battlefield.site.job("second", pods, ANYWHERE, queue=SMALL))


async def test_more_parallelism_than_completions_gives_back_what_has_ended(battlefield: Battlefield) -> None:
    """Of four pods one has ended: seven of four were given back, and four more ran beside the three."""
    job = battlefield.site.job("first", GPUS, ANYWHERE, queue=SMALL)
    job["spec"] |= {"parallelism": 10}
    await battlefield.create(JOBS, job)
    await end(battlefield, (await battlefield.site.running("first", GPUS))[0])
    await is_charged(battlefield, GPUS - 1)
    await follow(battlefield, GPUS)
    await within_the_quota(battlefield)
    assert await battlefield.site.pods("second") == []
    await clean(battlefield, JOBS)


async def test_a_jobset_that_restarts_takes_back_what_its_driver_gave(battlefield: Battlefield) -> None:
    """The driver has ended, a worker is deleted, and all four run again."""
    jobset = battlefield.site.jobset("first", {"driver": (1, 1), "work": (3, 1)}, ANYWHERE)
    jobset["metadata"]["labels"] = {QUEUE_NAME_LABEL: SMALL}
    jobset["spec"]["failurePolicy"] = {"maxRestarts": 3}
    await battlefield.create(JOBSETS, jobset)
    pods = await battlefield.site.running("first", GPUS, jobset=True)
    (driver,) = [pod for pod in pods if "driver" in pod["metadata"]["name"]]
    await end(battlefield, driver)
    await is_charged(battlefield, GPUS - 1)
    worker = next(pod["metadata"]["name"] for pod in pods if pod is not driver)
    await battlefield.tenant.delete(PODS, worker, battlefield.namespace)
    await follow(battlefield, 1)
    await within_the_quota(battlefield)
    await battlefield.admin.delete(JOBS, "second", battlefield.namespace, propagation="Background")
    await battlefield.site.running("first", GPUS, jobset=True)
    await is_charged(battlefield, GPUS)
    await clean(battlefield, JOBSETS)


async def test_an_elastic_job_that_grows_again_takes_no_quota_twice(battlefield: Battlefield) -> None:
    """Three of its four pods have ended; it shrinks to one, others take the rest, and it grows to four."""
    job = battlefield.site.job("first", GPUS, {ELASTIC_JOB: "true", **ANYWHERE}, queue=SMALL)
    job["spec"] |= {"completions": GPUS, "completionMode": "NonIndexed"}
    await battlefield.create(JOBS, job)
    await end(battlefield, *(await battlefield.site.running("first", GPUS))[1:])
    await is_charged(battlefield, 1)
    await change(battlefield, JOBS, {"spec": {"parallelism": 1}})
    await follow(battlefield, GPUS - 1)
    await battlefield.site.running("second", GPUS - 1)
    await change(battlefield, JOBS, {"spec": {"parallelism": GPUS}})
    await within_the_quota(battlefield)
    assert len(await there(battlefield)) == GPUS
    await is_charged(battlefield, GPUS)
    await clean(battlefield, JOBS)


# ---- kinds whose operators leave pods running at the end


def replicas(battlefield: Battlefield, kind: str, *roles: str) -> Obj:
    """So many roles that together ask for the whole quota."""
    template = battlefield.site.template(GPUS // len(roles))
    return {"runPolicy": {"cleanPodPolicy": "None"}, kind: {role: {"template": template} for role in roles}}


def ray(battlefield: Battlefield) -> Obj:
    head, worker = ({"rayStartParams": {}, "template": battlefield.site.template(GPUS // 2)} for _ in range(2))
    cluster = {"headGroupSpec": head, "workerGroupSpecs": [{"groupName": "w", "replicas": 1, **worker}]}
    times = {"shutdownAfterJobFinishes": True, "ttlSecondsAfterFinished": 3600}
    return {"entrypoint": "true", "submissionMode": "HTTPMode", **times, "rayClusterSpec": cluster}


def succeeded(first: str, second: str) -> Obj:
    conditions = [{"type": "Running", "status": "False"}, {"type": "Succeeded", "status": "True"}]
    return {"conditions": conditions, "replicaStatuses": {first: {"succeeded": 1}, second: {"active": 1}}}


ENDS = {
    "kubeflow.org/pytorchjob": succeeded("Master", "Worker"),
    "kubeflow.org/mpijob": succeeded("Launcher", "Worker"),
    "ray.io/rayjob": {
        "jobStatus": "SUCCEEDED",
        "jobDeploymentStatus": "Complete",
        "rayClusterStatus": {"state": "ready"},
    },
}
"""What the operators of these kinds write at the end while workers run on."""


def spec_of(battlefield: Battlefield, framework: str) -> Obj:
    if framework == "ray.io/rayjob":
        return ray(battlefield)
    master, field = {"pytorchjob": ("Master", "pytorchReplicaSpecs"), "mpijob": ("Launcher", "mpiReplicaSpecs")}[
        framework.rpartition("/")[2]
    ]
    return replicas(battlefield, field, master, "Worker")


@pytest.mark.parametrize("framework", ENDS)
async def test_a_job_that_ends_while_its_pods_run_is_charged_until_they_have_ended(
    battlefield: Battlefield, framework: str
) -> None:
    """The tenant asks for pods that stay; what its status says is not for the tenant to write."""
    kind = adapter(framework)
    await battlefield.serve(kind.resource)
    metadata = {"name": "first", "labels": {QUEUE_NAME_LABEL: SMALL}, "annotations": {}}
    await battlefield.create(kind.resource, {"metadata": metadata, "spec": spec_of(battlefield, framework)})

    async def started() -> bool:
        return not kind.is_suspended(await battlefield.site.get_job("first", kind.resource))

    await eventually("it starts", started)
    await is_charged(battlefield, GPUS)
    done = {"status": ENDS[framework]}
    write = (kind.resource, "first", done, battlefield.namespace)
    if battlefield.on_real_server:
        with pytest.raises(Forbidden):
            await battlefield.tenant.patch(*write, kind=PatchKind.MERGE, subresource="status")
    await battlefield.tenant.patch(*write, kind=PatchKind.MERGE)
    job = await battlefield.site.get_job("first", kind.resource)
    assert not job.get("status"), "an update of the object changes no status"
    await battlefield.admin.patch(*write, kind=PatchKind.MERGE, subresource="status")
    await follow(battlefield, 1)
    await within_the_quota(battlefield)
    await is_charged(battlefield, GPUS)
    assert await there(battlefield) == []
    for path, value in ((("replicaStatuses", "Worker", "active"), 0), (("rayClusterStatus", "state"), "suspended")):
        if path[0] in ENDS[framework]:
            over = {"status": with_value(ENDS[framework], path, value)}
            await battlefield.admin.patch(
                kind.resource, "first", over, battlefield.namespace, kind=PatchKind.MERGE, subresource="status"
            )
    await battlefield.site.running("second", 1)
    ended = await battlefield.site.workload_of("first")
    assert ended is not None
    assert is_true(ended.status.conditions, FINISHED)
    await battlefield.site.remove(kind.resource, "first")
    await clean(battlefield, JOBS)
