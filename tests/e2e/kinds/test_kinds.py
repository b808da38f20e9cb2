"""Each kind of job with its real operator: suspended, admitted into one rack, bound, ended, preempted and started anew (18)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from admission.integrations.paths import value_at
from api.errors import ApiError
from api.kube.client import PatchKind
from api.kube.resources import CONFIG_MAPS, JOBS, PODS, WORKLOADS
from api.meta import is_true
from api.names import FINISHED, QUOTA_RESERVED
from api.workloads import Workload
from hack.controlplane.operators import OPERATORS
from hack.controlplane.options import ClusterOptions
from tests.e2e.kinds.conftest import KindStage
from tests.e2e.kinds.dashboard import Dashboard
from tests.e2e.kinds.samples import PODS as COUNT
from tests.e2e.kinds.samples import SAMPLES, Object, Sample
from tests.e2e.kinds.spark_drivers import RUN_FOR
from tests.scenarios import sakkara
from tests.scenarios.site import GPU, Site, eventually, never
from tests.scenarios.tenants import prioritized

pytestmark = pytest.mark.asyncio(loop_scope="module")
CONTROL_PLANE = ClusterOptions(jobset=True, operators=tuple(name for name in OPERATORS if name != "argo"))
KINDS = pytest.mark.parametrize("kind", SAMPLES)
RACKS = {"b1": {"r1": 2, "r2": 2}}


async def pods_of(here: Site, sample: Sample, name: str) -> list[Object]:
    """Those that have not ended and are not going."""
    page = await here.kube.list(PODS, here.name, label_selector=f"{sample.name_label}={name}")
    live = [pod for pod in page.items if not pod["metadata"].get("deletionTimestamp")]
    return [pod for pod in live if pod["status"].get("phase") not in ("Failed", "Succeeded")]


async def story(here: Site, sample: Sample, name: str) -> str:
    """What became of the object, for the message of a failure."""
    job = await here.get_job(name, sample.resource)
    pods = [(pod["metadata"]["name"], pod["status"].get("phase"), pod["spec"].get("schedulingGates"))
            for pod in await pods_of(here, sample, name)]  # fmt: skip
    suspend = value_at(job, sample.suspend)
    return f"suspend: {suspend}; status: {job.get('status')}; pods: {pods}; {await here.story(name)}"


async def running(here: Site, sample: Sample, name: str) -> list[Object]:
    """Its pods, once all are bound and run."""

    async def check() -> list[Object] | None:
        pods = [pod for pod in await pods_of(here, sample, name) if pod["status"].get("phase") == "Running"]
        return pods if len(pods) == COUNT and all(pod["spec"].get("nodeName") for pod in pods) else None

    try:
        return await eventually(f"{COUNT} pods of {name} run", check, seconds=90)
    except AssertionError as late:
        raise AssertionError(f"{late}; {await story(here, sample, name)}") from None


async def suspended(here: Site, sample: Sample, name: str) -> None:
    """It is suspended and has no pod."""

    async def check() -> bool:
        job = await here.get_job(name, sample.resource)
        return value_at(job, sample.suspend) is True and not await pods_of(here, sample, name)

    try:
        await eventually(f"{name} is suspended without pods", check, seconds=90)
    except AssertionError as late:
        raise AssertionError(f"{late}; {await story(here, sample, name)}") from None


async def workload(here: Site, sample: Sample, name: str) -> Workload:
    """The one Workload whose owner is of the sample's kind."""

    async def check() -> Workload | None:
        found = [Workload.from_wire(item) for item in (await here.kube.list(WORKLOADS, here.name)).items]
        mine = [
            w
            for w in found
            if any(o.kind == sample.resource.kind and o.name == name for o in w.metadata.owner_references)
        ]
        return mine[0] if mine else None

    return await eventually(f"{name} has a Workload", check)


async def is_so(here: Site, sample: Sample, name: str, condition: str, wanted: bool = True) -> None:
    async def check() -> bool:
        return is_true((await workload(here, sample, name)).status.conditions, condition) is wanted

    try:
        await eventually(f"{condition} of {name} is {wanted}", check, seconds=90)
    except AssertionError as late:
        raise AssertionError(f"{late}; {await story(here, sample, name)}") from None


async def opened(here: Site, **queue: Any) -> None:
    """Four pods' worth of quota, and memory enough."""
    quota = {"cpu": COUNT, GPU: COUNT, "memory": "1Ti"}
    resources = [{"name": name, "nominalQuota": amount} for name, amount in quota.items()]
    groups = [{"coveredResources": list(quota), "flavors": [{"name": here.name, "resources": resources}]}]
    await here.open(RACKS, resourceGroups=groups, **queue)


async def create(here: Site, sample: Sample, name: str) -> Object:
    """The sample, after what it refers to."""
    if (beside := sample.beside(here, name)) is not None:
        await here.make(*beside)
    return await here.kube.create(sample.resource, sample.job(here, name))


async def end(here: Site, sample: Sample, name: str, pods: Sequence[Object], dashboard: Dashboard) -> None:
    """Its pods succeed, or it is deleted where a kind runs until then. Of a RayJob only the pod that submits ends."""
    if not sample.ends:
        await here.remove(sample.resource, name)
        return
    if sample.resource.kind == "RayJob":
        dashboard.end((await here.get_job(name, sample.resource))["status"]["rayClusterName"])
        pods = [pod for pod in pods if "ray.io/cluster" not in pod["metadata"]["labels"]]
    if sample.resource.kind == "SparkApplication":
        pods = [pod for pod in pods if pod["metadata"]["labels"]["spark-role"] == "driver"]
    body = {"metadata": {"annotations": {RUN_FOR: "1ms"}}}
    await asyncio.gather(
        *(here.kube.patch(PODS, pod["metadata"]["name"], body, here.name, kind=PatchKind.MERGE) for pod in pods)
    )
    await is_so(here, sample, name, FINISHED)


@KINDS
async def test_a_job_waits_runs_in_one_rack_and_gives_its_quota_back(stage_in: KindStage, kind: str) -> None:
    sample, here = SAMPLES[kind], Site(stage_in.stage.kube, f"life-{kind.lower()}")
    await opened(here)
    made = await create(here, sample, "first")
    assert value_at(made, sample.suspend) is True
    pods = await running(here, sample, "first")
    assert len(await here.racks(pods)) == 1
    # the quota is used up: the next one waits, says why, and has no pod
    await create(here, sample, "second")
    await here.waits("second", "WaitingForQuota", "insufficient unused quota")
    await suspended(here, sample, "second")
    await end(here, sample, "first", pods, stage_in.dashboard)
    assert len(await here.racks(await running(here, sample, "second"))) == 1
    # Jobs, clusters and sets that the operator made of it did not queue by themselves
    owners = {
        item["metadata"]["ownerReferences"][0]["kind"] for item in (await here.kube.list(WORKLOADS, here.name)).items
    }
    assert owners == {sample.resource.kind}


@KINDS
async def test_a_preempted_job_starts_anew(stage_in: KindStage, kind: str) -> None:
    sample, here = SAMPLES[kind], Site(stage_in.stage.kube, f"preempted-{kind.lower()}")
    await opened(here, preemption={"withinClusterQueue": "LowerPriority"})
    await create(here, sample, "victim")
    before = {pod["metadata"]["uid"] for pod in await running(here, sample, "victim")}
    await here.submit(await prioritized(here, here.job("urgent", COUNT), 100))
    await here.running("urgent", COUNT)
    await suspended(here, sample, "victim")
    await is_so(here, sample, "victim", QUOTA_RESERVED, wanted=False)
    await here.remove(JOBS, "urgent")
    pods = await running(here, sample, "victim")
    assert len(await here.racks(pods)) == 1
    assert not before & {pod["metadata"]["uid"] for pod in pods}
    await is_so(here, sample, "victim", FINISHED, wanted=False)


@KINDS
async def test_a_malformed_job_is_refused_with_its_field(stage_in: KindStage, kind: str) -> None:
    sample, here = SAMPLES[kind], Site(stage_in.stage.kube, f"malformed-{kind.lower()}")
    await here.open({"b1": {"r1": 1}})
    with pytest.raises(ApiError) as error:
        await here.kube.create(sample.resource, sample.malformed(here, "bad"))
    assert sample.said in error.value.message

    async def queued() -> bool:
        return await here.workload_of("bad") is not None

    await never("a Workload of the bad job", queued, seconds=0.5)


async def test_a_wrapped_job_of_no_queue_runs_again_when_its_group_was_evicted(stage_in: KindStage) -> None:
    """The AppWrapper counts no failure, no retry and no missing part, and succeeds in the end."""
    kind, here = SAMPLES["AppWrapper"].resource, Site(stage_in.stage.kube, "wrapped-group")
    async with sakkara.tree(here, {"r0": [4, 4]}):
        await here.make(CONFIG_MAPS, sakkara.a_group(here, "low", 8))
        job = sakkara.a_job(here, "low", 8)
        del job["spec"]["backoffLimit"]  # 6: fewer than the pods that are evicted
        wrapped = {"template": {"apiVersion": JOBS.api_version, "kind": JOBS.kind, **job}}
        metadata = {"name": "low", "namespace": here.name}
        await here.make(kind, {"metadata": metadata, "spec": {"components": [wrapped]}})
        await sakkara.are(here, "low-", Running=8)
        uid = (await here.get_job("low"))["metadata"]["uid"]
        await here.make(CONFIG_MAPS, sakkara.a_group(here, "high", 8, priority="5"))
        await sakkara.create(here, "high", 8)
        await sakkara.are(here, "high-", Running=8)
        await sakkara.are(here, "low-", Gated=8)
        for number in range(8):
            await here.kube.delete(PODS, f"high-{number}", here.name)
        await sakkara.are(here, "low-", Running=8)
        found = await here.get_job("low")
        assert (found["metadata"]["uid"], found["status"].get("failed", 0)) == (uid, 0)
        await here.finish("low")

        async def succeeded() -> bool:
            status = (await here.get_job("low", kind)).get("status", {})
            assert not status.get("retries"), status
            assert status.get("phase") in ("Running", "Succeeded"), status
            return bool(status["phase"] == "Succeeded")

        await eventually("the AppWrapper succeeds", succeeded, seconds=90)
