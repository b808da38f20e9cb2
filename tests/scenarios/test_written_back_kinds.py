"""Kinds whose start is not written into a template: TrainJob, AppWrapper, SparkApplication, RayJob.

Their operators are not installed here: the CRDs have no schema, and no pods are made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.declared.functions.trainjob import RUNTIMES
from admission.integrations.paths import value_at
from api.errors import ApiError, NotFound
from api.kube.client import PatchKind
from api.kube.resources import CRDS, WORKLOADS, Resource
from api.names import QUEUE_NAME_LABEL
from tests.crds import adapter, crd_of
from tests.scenarios.site import GPU, RACK, Site, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True
MakeSite = Callable[[str], Site]
Object = dict[str, Any]


TRAIN, WRAPPER = adapter("trainer.kubeflow.org/trainjob"), adapter("workload.codeflare.dev/appwrapper")
SPARK, RAY_JOB = adapter("sparkoperator.k8s.io/sparkapplication"), adapter("ray.io/rayjob")


async def made(here: Site, resource: Resource, name: str, spec: Object, *, queue: bool = True) -> Object:
    """The object, once its CRD is served."""
    await here.make(CRDS, crd_of(resource))
    labels = {QUEUE_NAME_LABEL: "lq"} if queue else {}
    annotations = {"kueue.x-k8s.io/require-topology": RACK} if queue else {}
    meta = {"name": name, "namespace": here.name, "labels": labels, "annotations": annotations}

    async def create() -> Object | None:
        try:
            return await here.make(resource, {"metadata": meta, "spec": spec})
        except NotFound:
            return None

    return await eventually(f"{resource.plural} are served", create)


def spec_of(here: Site, of: DeclaredJob) -> Object:
    template = here.template()
    if of is TRAIN:
        return {"runtimeRef": {"kind": RUNTIMES.kind, "name": "rt"}, "trainer": {"numNodes": 2}}
    if of is WRAPPER:
        inner = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": 2, "template": template}}
        return {"components": [{"template": inner}]}
    if of is SPARK:
        return {"type": "Scala", "mode": "cluster", "driver": {"memory": "1m"}, "executor": {"instances": 1}}
    head = {"headGroupSpec": {"template": template}}
    return {"shutdownAfterJobFinishes": True, "rayClusterSpec": head}


WRITTEN: dict[DeclaredJob, tuple[str | int, ...]] = {
    TRAIN: ("spec", "runtimePatches", 0, "trainingRuntimeSpec", "template", "spec", "replicatedJobs", 0, "template"),
    WRAPPER: ("spec", "components", 0, "podSetInfos", 0, "nodeSelector"),
    SPARK: ("spec", "executor", "nodeSelector"),
    RAY_JOB: ("spec", "submitterPodTemplate", "spec", "nodeSelector"),
}


async def open_queue(here: Site) -> None:
    """A queue that covers memory too: the submitter of a RayJob and the pods of a SparkApplication request it."""
    covered = {"cpu": 16, GPU: 16, "memory": "64Gi"}
    resources = [{"name": name, "nominalQuota": amount} for name, amount in covered.items()]
    group = {"coveredResources": list(covered), "flavors": [{"name": here.name, "resources": resources}]}
    await here.open({"b1": {"r1": 4, "r2": 4}}, resourceGroups=[group])


async def runtime(here: Site) -> None:
    step = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    node = {
        "name": "node",
        "template": {"metadata": {"labels": step}, "spec": {"template": here.template()}},
    }
    spec = {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [node]}}}
    await made(here, RUNTIMES, "rt", spec, queue=False)


async def state(here: Site, of: DeclaredJob, *, suspended: bool) -> Object:
    async def check() -> Object | None:
        job = await here.get_job("one", of.resource)
        written = value_at(job, WRITTEN[of]) is not None
        return job if of.is_suspended(job) is suspended and written is not suspended else None

    return await eventually(f"the {of.resource.kind} is {'suspended' if suspended else 'started'}", check)


@pytest.mark.parametrize("of", WRITTEN, ids=lambda of: of.resource.kind)
async def test_a_start_is_written_where_the_kind_reads_it_and_taken_back_at_a_stop(
    site: MakeSite, of: DeclaredJob
) -> None:
    here = site(f"written-{of.resource.kind.lower()}")
    await open_queue(here)
    if of is TRAIN:
        await runtime(here)
    created = await made(here, of.resource, "one", spec_of(here, of))
    await state(here, of, suspended=False)
    found = await here.workload_of("one")
    assert found is not None
    patch = {"spec": {"active": False}}
    await here.kube.patch(WORKLOADS, found.metadata.name, patch, here.name, kind=PatchKind.MERGE)
    job = await state(here, of, suspended=True)
    assert job["spec"] == created["spec"], "nothing of the start is left"
    assert await here.workload_of("one") is not None


async def test_a_train_job_without_its_runtime_waits_until_that_is_there(site: MakeSite) -> None:
    here = site("no-runtime")
    await open_queue(here)
    await made(here, TRAIN.resource, "one", spec_of(here, TRAIN))
    assert await here.workload_of("one") is None
    await runtime(here)
    await state(here, TRAIN, suspended=False)


async def test_a_ray_job_that_kuberay_finds_invalid_gives_its_quota_back(site: MakeSite) -> None:
    here = site("invalid-ray")
    await open_queue(here)
    await made(here, RAY_JOB.resource, "one", spec_of(here, RAY_JOB))
    await state(here, RAY_JOB, suspended=False)
    status = {"status": {"jobDeploymentStatus": "ValidationFailed"}}
    await here.kube.patch(RAY_JOB.resource, "one", status, here.name, kind=PatchKind.MERGE, subresource="status")
    await here.waits("one", "OnHold", "")


@pytest.mark.parametrize(
    ("of", "change", "message"),
    [
        pytest.param(
            RAY_JOB, {"shutdownAfterJobFinishes": False}, "spec.shutdownAfterJobFinishes", id="keeps its cluster"
        ),
        pytest.param(SPARK, {"dynamicAllocation": {"enabled": True}}, "spec.dynamicAllocation.enabled", id="elastic"),
        pytest.param(SPARK, {"executor": {"instances": -1}}, "spec.executor.instances", id="instances"),
        pytest.param(WRAPPER, {"components": []}, "spec.components", id="wraps nothing"),
        pytest.param(TRAIN, {"runtimeRef": {"kind": "Secret", "name": "x"}}, "spec.runtimeRef", id="no runtime"),
    ],
)
async def test_what_cannot_be_queued_is_refused_with_its_field(
    site: MakeSite, of: DeclaredJob, change: Object, message: str
) -> None:
    here = site("refused-kinds")
    await here.open({"b1": {"r1": 1}})
    good = spec_of(here, of)
    await made(here, of.resource, "unqueued", good, queue=False)
    meta = {"name": "bad", "namespace": here.name, "labels": {QUEUE_NAME_LABEL: "lq"}}
    body = {
        "apiVersion": of.resource.api_version,
        "kind": of.resource.kind,
        "metadata": meta,
        "spec": {**good, **change},
    }
    with pytest.raises(ApiError) as error:
        await here.kube.create(of.resource, body)
    assert message in error.value.message
