"""Jobs that are parts of jobs: the topmost managed owner queues, its parts follow it, and nothing escapes quota.

The operators of TrainJob and RayJob are not here: the scenario makes their parts, with the labels that the operators give them:
KubeRay copies those of the RayJob, the trainer does not. Jobs and pods of JobSets are made by their controllers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from admission.cli.jobkind import roles_of
from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.declared.functions.trainjob import RUNTIMES
from admission.integrations.declared.referenced import REFERENCED
from api.errors import ApiError, NotFound
from api.job_kinds import JobKind
from api.kube.client import PatchKind
from api.kube.resources import CLUSTER_QUEUES, CRDS, JOB_KINDS, JOBS, JOBSETS, PODS, WORKLOADS, Resource
from api.meta import is_true
from api.names import QUEUE_NAME_LABEL, QUOTA_RESERVED
from api.workloads import Workload
from hack.controlplane.options import ClusterOptions
from tests.crds import adapter, crd_of
from tests.scenarios.site import GPU, RACK, Site, eventually, never
from tests.scenarios.test_job_kinds import CLUSTER_ROLES, active, kind

pytestmark = pytest.mark.asyncio(loop_scope="session")
CONTROL_PLANE = ClusterOptions(jobset=True)
MakeSite = Callable[[str], Site]
Object = dict[str, Any]


TRAIN, RAY_JOB, RAY = adapter("trainer.kubeflow.org/trainjob"), adapter("ray.io/rayjob"), adapter("ray.io/raycluster")


async def create(here: Site, resource: Resource, name: str, spec: Mapping[str, Any], **meta: Any) -> Object:
    """The object, once its kind is served."""
    metadata = {"name": name, "namespace": here.name, **meta}

    async def made() -> Object | None:
        try:
            return await here.make(resource, {"metadata": metadata, "spec": dict(spec)})
        except NotFound:
            return None

    return await eventually(f"{resource.plural} are served", made)


def queued(**meta: Any) -> Object:
    return {"labels": {QUEUE_NAME_LABEL: "lq"}, "annotations": {"kueue.x-k8s.io/require-topology": RACK}, **meta}


def part_of(owner: Object, resource: Resource, uid: str | None = None) -> list[Object]:
    """The reference that makes an object the owner's part."""
    meta = owner["metadata"]
    named = {"apiVersion": resource.api_version, "kind": resource.kind, "name": meta["name"]}
    return [{**named, "uid": uid or meta["uid"], "controller": True, "blockOwnerDeletion": True}]


async def suspended(here: Site, of: DeclaredJob, name: str, wanted: bool) -> Object:
    async def check() -> Object | None:
        job = await here.get_job(name, of.resource)
        return job if of.is_suspended(job) is wanted else None

    return await eventually(f"{name} is {'suspended' if wanted else 'started'}", check)


async def owners(here: Site) -> list[str]:
    """Kinds of the objects that the Workloads belong to."""
    found = [Workload.from_wire(one) for one in (await here.kube.list(WORKLOADS, here.name)).items]
    return sorted(owner.kind for one in found for owner in one.metadata.owner_references)


async def used(here: Site, gpus: int) -> None:
    async def check() -> bool:
        queue = await here.kube.get(CLUSTER_QUEUES, here.name)
        flavors = queue["status"].get("flavorsUsage") or []
        return [int(r["total"]) for f in flavors for r in f["resources"] if r["name"] == GPU] == [gpus]

    await eventually(f"{gpus} GPUs of the quota are used", check)


async def stop(here: Site, workload: Workload, *, active: bool = False) -> None:
    body = {"spec": {"active": active}}
    await here.kube.patch(WORKLOADS, workload.metadata.name, body, here.name, kind=PatchKind.MERGE)


async def quota(here: Site, name: str, wanted: bool) -> None:
    async def check() -> bool:
        found = await here.workload_of(name)
        return found is not None and is_true(found.status.conditions, QUOTA_RESERVED) is wanted

    await eventually(f"{name} has {'quota' if wanted else 'none'}", check)


async def train_job(here: Site, nodes: int, **meta: Any) -> Object:
    """A TrainJob that has quota."""
    step = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    node = {"name": "node", "template": {"metadata": {"labels": step}, "spec": {"template": here.template()}}}
    for resource in (RUNTIMES, TRAIN.resource):
        await here.make(CRDS, crd_of(resource))
    await create(here, RUNTIMES, "rt", {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [node]}}})
    spec = {"runtimeRef": {"kind": RUNTIMES.kind, "name": "rt"}, "trainer": {"numNodes": nodes}}
    await create(here, TRAIN.resource, "train", spec, **(meta or queued()))
    known = await here.kube.get(RUNTIMES, "rt", here.name)
    REFERENCED.keep(RUNTIMES, {f"{here.name}/rt": known})  # of this process, which reads pods from it
    return await suspended(here, TRAIN, "train", wanted=False)


def jobset_of(job: Object, template: Mapping[str, Any], nodes: int, **spec: Any) -> Object:
    """As the trainer makes it of a TrainJob, with what the start has written."""
    inner = {"spec": {"parallelism": nodes, "completions": nodes, "backoffLimit": 0, "template": dict(template)}}
    return {"replicatedJobs": [{"name": "node", "replicas": 1, "template": inner}], "suspend": False, **spec}


async def test_a_job_of_a_jobset_of_a_train_job_runs_on_its_quota(site: MakeSite) -> None:
    here = site("chain-train")
    await here.open({"b1": {"r1": 1, "r2": 1}}, quota=4)
    job = await train_job(here, 3)
    [entry] = TRAIN.entries(job)
    spec = jobset_of(job, TRAIN.template(job, entry), 3)
    await create(here, JOBSETS, "train", spec, ownerReferences=part_of(job, TRAIN.resource))
    pods = await here.running("train", 3, jobset=True)
    assert len(await here.racks(pods)) == 1
    assert await owners(here) == ["TrainJob"], "neither the JobSet nor its Job has a Workload"
    await used(here, 3)

    found = await here.workload_of("train")
    assert found is not None
    await stop(here, found)
    await suspended(here, TRAIN, "train", wanted=True)
    await here.change(JOBSETS, "train", {"spec": {"suspend": True}})  # the trainer suspends what it made

    async def gone() -> bool:
        return not await here.pods("train", jobset=True)

    await eventually("its pods are gone", gone)
    await quota(here, "train", wanted=False)
    await used(here, 0)


async def test_a_train_job_that_is_raised_while_it_runs_is_charged_for_what_runs_and_starts_anew(
    site: MakeSite,
) -> None:
    """Without a topology no gate holds the pods that the trainer adds."""
    here = site("chain-raised")
    await here.open({"b1": {"r1": 1}}, quota=4, levels=())
    job = await train_job(here, 1, labels={QUEUE_NAME_LABEL: "lq"})
    [entry] = TRAIN.entries(job)
    spec = jobset_of(job, TRAIN.template(job, entry), 1)
    await create(here, JOBSETS, "train", spec, ownerReferences=part_of(job, TRAIN.resource))
    await here.running("train", 1, jobset=True)
    await used(here, 1)
    await here.change(JOBS, "train-node-0", {"spec": {"parallelism": 3, "completions": 3}})
    await here.running("train", 3, jobset=True)
    await used(here, 3)

    await here.change(TRAIN.resource, "train", {"spec": {"trainer": {"numNodes": 3}}})
    await suspended(here, TRAIN, "train", wanted=True)
    await used(here, 3)
    await here.change(JOBSETS, "train", {"spec": {"suspend": True}})  # the trainer suspends what it made
    await suspended(here, TRAIN, "train", wanted=False)
    await used(here, 3)
    found = await here.workload_of("train")
    assert found is not None
    assert [pod_set.count for pod_set in found.spec.pod_sets] == [3]


async def test_a_ray_cluster_of_a_ray_job_runs_on_its_quota(site: MakeSite) -> None:
    here = site("chain-ray")
    await here.open({"b1": {"r1": 1}}, quota=4)
    for resource in (RAY_JOB.resource, RAY.resource):
        await here.make(CRDS, crd_of(resource))
    workers = [{"groupName": "work", "replicas": 2, "template": here.template()}]
    cluster = {"headGroupSpec": {"template": here.template()}, "workerGroupSpecs": workers}
    spec = {"shutdownAfterJobFinishes": True, "submissionMode": "HTTPMode", "rayClusterSpec": cluster}
    await create(here, RAY_JOB.resource, "ray", spec, **queued())
    job = await suspended(here, RAY_JOB, "ray", wanted=False)
    whole = queued(ownerReferences=part_of(job, RAY_JOB.resource))
    made = await create(here, RAY.resource, "ray-c", job["spec"]["rayClusterSpec"], **whole)
    for entry in RAY.entries(made):
        for number in range(RAY.pods_of(made, entry)):
            template = RAY.template(made, entry)
            labels = {**(template["metadata"].get("labels") or {}), "ray.io/cluster": "ray-c"}
            meta = {"name": f"ray-{entry.name}-{number}", "namespace": here.name, "labels": labels}
            meta["ownerReferences"] = part_of(made, RAY.resource)
            meta["annotations"] = template["metadata"].get("annotations") or {}
            await here.make(PODS, {"metadata": meta, "spec": template["spec"]})

    async def running() -> bool:
        found = (await here.kube.list(PODS, here.name)).items
        return len(found) == 3 and all(pod["status"].get("phase") == "Running" for pod in found)

    await eventually("its pods run", running)
    assert await owners(here) == ["RayJob"]
    await used(here, 3)
    found = await here.workload_of("ray")
    assert found is not None
    await stop(here, found)
    await suspended(here, RAY, "ray-c", wanted=True)


async def test_an_owner_that_is_managed_later_takes_its_part_over(site: MakeSite) -> None:
    """The part has queued by itself. Its Workload goes: quota counts once, and the part follows its owner."""
    here = site("chain-later")
    await here.open({"b1": {"r1": 2}}, quota=4)
    made = kind(
        "barges.example.com",
        "Barge",
        {"path": "spec.moored"},
        {"template": "spec.pod", "count": [{"path": "spec.size"}]},
    )
    made["spec"]["children"] = [{"group": "batch", "kind": "Job"}]
    of = DeclaredJob(JobKind.from_wire(made).spec)
    await here.make(CRDS, crd_of(of.resource))
    owner = await create(here, of.resource, "barge", {"size": 2, "pod": here.template()}, **queued())
    job = here.job("barge-1", 2)
    job["metadata"]["ownerReferences"] = part_of(owner, of.resource)
    await here.submit(job)
    await here.running("barge-1", 2)
    assert await owners(here) == ["Job"]

    for role in roles_of(JobKind.from_wire(made)):
        await here.make(CLUSTER_ROLES, role)
    await here.make(JOB_KINDS, made)
    await active(here, made, "True", "Managed")

    async def taken() -> bool:
        return await owners(here) == ["Barge"]

    await eventually("the owner alone has a Workload", taken)
    await suspended(here, of, "barge", wanted=False)
    await used(here, 2)
    await here.change(JOBS, "barge-1", {"spec": {"suspend": False}})  # as the Barge's controller does
    await here.running("barge-1", 2)
    found = await here.workload_of("barge")
    assert found is not None
    await stop(here, found)

    async def stopped() -> bool:
        return bool((await here.get_job("barge-1"))["spec"].get("suspend")) and not await here.pods("barge-1")

    await eventually("the part stops with its owner", stopped)
    await here.kube.delete(JOB_KINDS, made["metadata"]["name"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"uid": "0000"}, "the RayJob mine has another UID", id="another uid"),
        pytest.param(
            {}, "the RayJob mine is suspended, and its RayClusters with it", id="a suspended job of one's own"
        ),
        pytest.param({"name": "ghost"}, "the RayJob ghost does not exist", id="no such job"),
        pytest.param({"pods": 5}, "the RayJob mine has at most 1 pods in one pod set, not 5", id="more than it has"),
        pytest.param({"gpus": 4}, "the RayJob mine asks for 1 of nvidia.com/gpu in each of its pods", id="larger pods"),
    ],
)
async def test_a_forged_owner_is_refused(site: MakeSite, change: Object, message: str) -> None:
    here = site("chain-forged")
    mine = await waiting_ray_job(here)
    reference = part_of(mine, RAY_JOB.resource, change.get("uid"))
    reference[0] |= {"name": change.get("name", "mine")}
    meta = {"name": "forged", "namespace": here.name, **queued(ownerReferences=reference)}
    whole = {"apiVersion": RAY.resource.api_version, "kind": RAY.resource.kind, "metadata": meta}
    workers = [{"groupName": "work", "replicas": change.get("pods", 1), "template": here.template()}]
    spec = {"headGroupSpec": {"template": here.template(change.get("gpus", 1))}, "workerGroupSpecs": workers}
    with pytest.raises(ApiError) as error:
        await here.kube.create(RAY.resource, {**whole, "spec": spec})
    assert message in error.value.message


async def test_a_part_of_a_job_that_waits_stays_suspended(site: MakeSite) -> None:
    """It is let in suspended, whatever its maker does then, and has no Workload of its own."""
    here = site("chain-waits")
    mine = await waiting_ray_job(here)
    whole = queued(ownerReferences=part_of(mine, RAY_JOB.resource))
    await create(here, RAY.resource, "part", {**mine["spec"]["rayClusterSpec"], "suspend": True}, **whole)
    await here.change(RAY.resource, "part", {"spec": {"suspend": False}})
    await suspended(here, RAY, "part", wanted=True)

    async def own() -> bool:
        return await here.workload_of("part") is not None

    await never("it has a Workload of its own", own, 1.0)
    await here.finish("full")
    await suspended(here, RAY_JOB, "mine", wanted=False)
    await here.change(RAY.resource, "part", {"spec": {"suspend": False}})

    async def stopped() -> bool:
        return RAY.is_suspended(await here.get_job("part", RAY.resource))

    await never("it is suspended though its owner runs", stopped, 1.0)


async def waiting_ray_job(here: Site) -> Object:
    """A RayJob of one pod that waits for another job."""
    await here.open({"b1": {"r1": 1}}, quota=1)
    await here.submit(here.job("full", 1))
    await here.running("full", 1)
    for resource in (RAY_JOB.resource, RAY.resource):
        await here.make(CRDS, crd_of(resource))
    spec = {
        "shutdownAfterJobFinishes": True,
        "submissionMode": "HTTPMode",
        "rayClusterSpec": {"headGroupSpec": {"template": here.template()}},
    }
    made = await create(here, RAY_JOB.resource, "mine", spec, **queued())
    await here.waits("mine", "WaitingForQuota", "insufficient")
    return made
