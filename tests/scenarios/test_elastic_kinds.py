"""Kinds that declare a number of pods which changes while the job runs: RayCluster, PyTorchJob.

Their operators are not installed: the scenario makes and deletes pods, and writes statuses, as these do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from admission.integrations.declared.declared import DeclaredJob
from api.errors import ApiError, NotFound
from api.kube.client import PatchKind
from api.kube.resources import CLUSTER_QUEUES, CRDS, PODS
from api.meta import find_condition, is_true
from api.names import (
    ADMITTED,
    ELASTIC_JOB,
    QUEUE_NAME_LABEL,
    QUOTA_RESERVED,
    REQUIRE_TOPOLOGY,
    UNCONSTRAINED_TOPOLOGY,
)
from api.workloads import Workload
from tests.crds import adapter, crd_of
from tests.scenarios.site import GPU, RACK, Site, eventually
from tests.scenarios.test_elastic_jobs import slices

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True
MakeSite = Callable[[str], Site]
Object = dict[str, Any]


RAY, PYTORCH = adapter("ray.io/raycluster"), adapter("kubeflow.org/pytorchjob")
SERVICE, RAYJOB = adapter("ray.io/rayservice"), adapter("ray.io/rayjob")
STATUS = {
    RAY: {"state": "ready"},
    PYTORCH: {"conditions": [{"type": "Running", "status": "True", "reason": "Running", "message": ""}]},
}


def spec_of(here: Site, of: DeclaredJob, workers: int, least: int, most: int) -> Object:
    """A head (or master) and so many workers."""
    if of is RAY:
        group = {"groupName": "work", "replicas": workers, "minReplicas": least, "maxReplicas": most}
        workers_of = [{**group, "template": here.template()}]
        return {"headGroupSpec": {"template": here.template()}, "workerGroupSpecs": workers_of}
    roles = {"Master": {"template": here.template()}, "Worker": {"replicas": workers, "template": here.template()}}
    return {"runPolicy": {}, "elasticPolicy": {"minReplicas": least, "maxReplicas": most}, "pytorchReplicaSpecs": roles}


async def submitted(here: Site, of: DeclaredJob, spec: Object, **annotations: str) -> None:
    """The job `train`, once its CRD is served."""
    await here.make(CRDS, crd_of(of.resource))
    asked = annotations or {UNCONSTRAINED_TOPOLOGY: "true"}
    meta: Object = {"name": "train", "namespace": here.name, "labels": {QUEUE_NAME_LABEL: "lq"}}
    meta["annotations"] = {ELASTIC_JOB: "true", **asked}

    async def made() -> bool:
        try:
            await here.make(of.resource, {"metadata": meta, "spec": spec})
        except NotFound:
            return False
        return True

    await eventually(f"{of.resource.plural} are served", made)


async def resize(here: Site, of: DeclaredJob, workers: int) -> None:
    """The autoscaler (or the user) asks for so many workers."""
    job = await here.get_job("train", of.resource)
    body: Object
    if of is RAY:
        group = {**job["spec"]["workerGroupSpecs"][0], "replicas": workers}
        body = {"spec": {"workerGroupSpecs": [group]}}
    else:
        body = {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": workers}}}}
    await here.change(of.resource, "train", body)


async def operate(here: Site, of: DeclaredJob) -> None:
    """One round of the operator: as many pods as the job asks for. Of pods with ranks the last ones are deleted, else those
    that wait and the first of those that run, as KubeRay may do: then the places of the last ones stay taken."""

    async def started() -> Object | None:
        job = await here.get_job("train", of.resource)
        return None if of.is_suspended(job) else job

    job = await eventually("train is started", started)
    wanted: set[str] = set()
    there = {pod["metadata"]["name"]: bool(pod["spec"].get("nodeName")) for pod in await pods(here)}
    for entry in of.entries(job):
        count = of.pods_of(job, entry)
        bound = {number: there[name] for number in range(100) if (name := f"train-{entry.name}-{number}") in there}
        ranked = of.spec.rank_label is not None
        mine = sorted(bound) if ranked else sorted(bound, key=lambda number: (not bound[number], -number))
        for number in (mine + [number for number in range(100) if number not in bound])[:count]:
            pod = _pod(of, job, entry.name, number, of.template(job, entry))
            wanted.add(pod["metadata"]["name"])
            if pod["metadata"]["name"] not in there:
                await here.make(PODS, pod)
    for pod in await pods(here):
        if pod["metadata"]["name"] not in wanted:
            await here.kube.delete(PODS, pod["metadata"]["name"], here.name)
    status = {"status": STATUS[of]}
    await here.kube.patch(of.resource, "train", status, here.name, kind=PatchKind.MERGE, subresource="status")


def _pod(of: DeclaredJob, job: Object, pod_set: str, number: int, template: Any) -> Object:
    meta, shape = job["metadata"], template.get("metadata") or {}
    owner = {"apiVersion": of.resource.api_version, "kind": of.resource.kind, "name": "train", "uid": meta["uid"]}
    label = of.spec.pods.name_label or "job"
    labels = {**(shape.get("labels") or {}), label: "train", "of": "train"}
    if of.spec.rank_label:
        labels[of.spec.rank_label] = str(number)
    metadata = {
        "name": f"train-{pod_set}-{number}",
        "namespace": meta["namespace"],
        "labels": labels,
        "annotations": dict(shape.get("annotations") or {}),
        "ownerReferences": [{**owner, "controller": True}],
    }
    return {"metadata": metadata, "spec": template["spec"]}


async def pods(here: Site) -> list[Object]:
    """Those that are not on their way out."""
    found = (await here.kube.list(PODS, here.name, label_selector="of=train")).items
    return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]


async def running(here: Site, count: int) -> dict[str, str]:
    """Node by uid of the pods that run, once there are so many."""

    async def check() -> dict[str, str] | None:
        found = [pod for pod in await pods(here) if pod.get("status", {}).get("phase") == "Running"]
        return {p["metadata"]["uid"]: p["spec"]["nodeName"] for p in found} if len(found) == count else None

    return await eventually(f"{count} pods run", check)


async def used(here: Site, gpus: int) -> None:
    async def check() -> bool:
        queue = await here.kube.get(CLUSTER_QUEUES, here.name)
        amounts = [
            r["total"] for f in queue["status"].get("flavorsUsage") or [] for r in f["resources"] if r["name"] == GPU
        ]
        return [int(amount) for amount in amounts] == [gpus]

    await eventually(f"{gpus} GPUs of the quota are used", check)


async def waiting(here: Site, workers: int) -> Workload:
    """The slice that asks for more, once it says why it waits."""

    async def check() -> Workload | None:
        found = await slices(here, "train")
        said = find_condition(found[-1].status.conditions, QUOTA_RESERVED) if len(found) == 2 else None
        asks = {p.name: p.count for p in found[-1].spec.pod_sets}.values() if found else ()
        return found[-1] if said is not None and said.status == "False" and said.message and workers in asks else None

    return await eventually(f"a slice that asks for {workers} workers waits", check)


KINDS = pytest.mark.parametrize("of", [RAY, PYTORCH], ids=lambda of: of.resource.kind)


@KINDS
@pytest.mark.parametrize(("quota", "hosts"), [pytest.param(8, 4, id="quota"), pytest.param(1000, 2, id="nodes")])
async def test_a_job_that_grows_gets_what_fits_up_to_its_maximum(
    site: MakeSite, of: DeclaredJob, quota: int, hosts: int
) -> None:
    """5 workers that would be 12, with room for 7: no pod restarts. It gives back at once what it shrinks by."""
    here = site(f"elastic-{of.resource.kind.lower()}-{hosts}")
    await here.open({"b1": {"r1": hosts}}, quota=quota)
    await submitted(here, of, spec_of(here, of, 5, 2, 12))
    await operate(here, of)
    before = await running(here, 6)
    await resize(here, of, 40)
    await operate(here, of)
    grown = await running(here, 8)
    assert before.items() <= grown.items(), "a pod that ran was moved or restarted"
    assert len(await pods(here)) == 13, "beyond its maximum there are no pods"
    await waiting(here, 12)
    await used(here, 8)

    await resize(here, of, 3)
    await operate(here, of)
    shrunk = await running(here, 4)
    assert shrunk.items() <= grown.items()
    await used(here, 4)
    await here.submit(here.job("other", 4, {UNCONSTRAINED_TOPOLOGY: "true"}))
    await here.running("other", 4)
    assert await running(here, 4) == shrunk


@KINDS
async def test_a_job_starts_with_what_fits_above_its_minimum(site: MakeSite, of: DeclaredJob) -> None:
    """12 workers are wanted, 5 are enough, 7 fit; the others come when there is room."""
    here = site(f"least-{of.resource.kind.lower()}")
    await here.open({"b1": {"r1": 4}}, quota=14)
    await here.submit(here.job("other", 6, {UNCONSTRAINED_TOPOLOGY: "true"}))
    await here.running("other", 6)
    await submitted(here, of, spec_of(here, of, 12, 5, 12))
    await operate(here, of)
    first = await running(here, 8)
    await waiting(here, 12)
    await here.finish("other")
    assert first.items() <= (await running(here, 13)).items()

    async def whole() -> bool:
        found = await slices(here, "train")
        placed = Counter((await running(here, 13)).values())
        return len(found) == 1 and is_true(found[0].status.conditions, ADMITTED) and sum(placed.values()) == 13

    await eventually("one Workload counts for all", whole)
    await used(here, 13)


async def test_several_groups_start_with_what_fits_of_each(site: MakeSite) -> None:
    """Of 6 and 6 workers, of which 2 and 1 are enough, as many start as there is room for beside the head."""
    here = site("least-of-two")
    await here.open({"b1": {"r1": 4}}, quota=8)
    spec = spec_of(here, RAY, 6, 2, 6)
    spec["workerGroupSpecs"].append({**spec["workerGroupSpecs"][0], "groupName": "more", "minReplicas": 1})
    await submitted(here, RAY, spec)
    await operate(here, RAY)
    first = await running(here, 8)
    await used(here, 8)
    groups = Counter(pod["metadata"]["name"].split("-")[1] for pod in await pods(here) if pod["spec"].get("nodeName"))
    assert groups["head"] == 1
    assert groups["work"] >= 2
    assert groups["more"] >= 1
    quota = [{"name": name, "nominalQuota": 13} for name in ("cpu", GPU)]
    flavors = [{"name": here.name, "resources": quota}]
    body = {"spec": {"resourceGroups": [{"coveredResources": ["cpu", GPU], "flavors": flavors}]}}
    await here.change(CLUSTER_QUEUES, here.name, body, cluster=True)
    assert first.items() <= (await running(here, 13)).items()


@pytest.mark.parametrize("of", [SERVICE, RAYJOB], ids=lambda of: of.resource.kind)
async def test_a_job_follows_the_replicas_that_the_autoscaler_gives_its_cluster(
    site: MakeSite, of: DeclaredJob
) -> None:
    """KubeRay passes the label and the annotations of a RayJob or RayService on to the RayCluster that it makes of it."""
    here = site(f"part-{of.resource.kind.lower()}")
    await here.open({"b1": {"r1": 4}}, quota=7)
    cluster = spec_of(here, RAY, 2, 1, 12)
    inner = "rayClusterConfig" if of is SERVICE else "rayClusterSpec"
    own: Object = {} if of is SERVICE else {"shutdownAfterJobFinishes": True, "submissionMode": "HTTPMode"}
    await submitted(here, of, {inner: cluster, **own})

    async def started() -> Object | None:
        job = await here.get_job("train", of.resource)
        return None if of.is_suspended(job) else job

    job = await eventually("it is started", started)
    meta = {key: job["metadata"][key] for key in ("name", "namespace", "labels", "annotations")}
    owner = {"apiVersion": of.resource.api_version, "kind": of.resource.kind, "name": "train", "controller": True}
    meta["ownerReferences"] = [{**owner, "uid": job["metadata"]["uid"]}]
    await here.make(CRDS, crd_of(RAY.resource))

    async def made() -> bool:
        try:
            await here.make(RAY.resource, {"metadata": meta, "spec": {**job["spec"][inner], "suspend": False}})
        except NotFound:
            return False
        return True

    await eventually("its cluster is made", made)
    await operate(here, RAY)
    before = await running(here, 3)
    await resize(here, RAY, 9)
    await operate(here, RAY)
    assert before.items() <= (await running(here, 7)).items()
    await waiting(here, 9)
    await resize(here, RAY, 1)
    await operate(here, RAY)
    await used(here, 2)


async def test_a_job_waits_for_its_minimum(site: MakeSite) -> None:
    here = site("least-waits")
    await here.open({"b1": {"r1": 4}}, quota=8)
    await submitted(here, RAY, spec_of(here, RAY, 12, 8, 12))
    await here.waits("train", "ExceedsMaxQuota", "> maximum capacity (8)")
    job = await here.get_job("train", RAY.resource)
    assert RAY.is_suspended(job)


@pytest.mark.parametrize(
    ("spec", "annotations", "message"),
    [
        pytest.param(
            (3, 5, 2), {}, "spec.workerGroupSpecs[0].maxReplicas: Invalid value: 2: must be at least 5", id="bounds"
        ),
        pytest.param((3, 1, 5), {REQUIRE_TOPOLOGY: RACK}, "required topology", id="topology"),
    ],
)
async def test_what_an_elastic_job_cannot_be_is_refused(
    site: MakeSite, spec: tuple[int, int, int], annotations: dict[str, str], message: str
) -> None:
    here = site("elastic-bad")
    await here.open({"b1": {"r1": 1}})
    with pytest.raises(ApiError) as error:
        await submitted(here, RAY, spec_of(here, RAY, *spec), **annotations)
    assert message in error.value.message
