"""A kind of job that is only declared: PyTorchJob, from a queue to one rack, stopped, started anew and finished.

Kubeflow's operator is not installed: the scenario makes pods and statuses as it does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.paths import value_at
from admission.integrations.registry import BY_FRAMEWORK
from api.errors import ApiError, NotFound
from api.kube.client import PatchKind
from api.kube.resources import CRDS, PODS, WORKLOADS
from api.meta import is_true
from api.names import ADMITTED, FINISHED, QUEUE_NAME_LABEL, QUOTA_RESERVED, TOPOLOGY_GATE
from api.workloads import Workload
from tests.crds import crd_of
from tests.scenarios.site import RACK, Site, eventually, never

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True
MakeSite = Callable[[str], Site]

KIND = BY_FRAMEWORK["kubeflow.org/pytorchjob"]
assert isinstance(KIND, DeclaredJob)
PYTORCH = KIND.resource
SUSPEND, REPLICAS = KIND.suspend, ("spec", "pytorchReplicaSpecs")
Object = dict[str, Any]


def train(here: Site, name: str, workers: int, *, queue: str | None = "lq") -> Object:
    """A PyTorchJob of a master and workers that asks for one rack."""
    metadata = {
        "name": name,
        "namespace": here.name,
        "labels": {QUEUE_NAME_LABEL: queue} if queue else {},
        "annotations": {"kueue.x-k8s.io/require-topology": RACK},
    }
    template = here.template()
    if queue:  # then its pods come past the webhook, too
        template["metadata"]["labels"] = {QUEUE_NAME_LABEL: queue}
    replicas = {"Master": {"template": template}, "Worker": {"replicas": workers, "template": template}}
    return {"metadata": metadata, "spec": {"runPolicy": {}, "pytorchReplicaSpecs": replicas}}


async def submitted(here: Site, job: Mapping[str, Any]) -> Object:
    """The job, once its CRD is served."""
    await here.make(CRDS, crd_of(PYTORCH))

    async def made() -> Object | None:
        try:
            return await here.make(PYTORCH, job)
        except NotFound:
            return None

    return await eventually("PyTorchJobs are served", made)


async def suspended(here: Site, name: str, wanted: bool) -> Object:
    async def check() -> Object | None:
        job = await here.get_job(name, PYTORCH)
        return job if bool(value_at(job, SUSPEND)) is wanted else None

    return await eventually(f"{name} is {'suspended' if wanted else 'started'}", check)


def pod_of(job: Object, role: str, index: int) -> Object:
    """As the operator makes it."""
    meta, template = job["metadata"], value_at(job, REPLICAS)[role]["template"]
    owner = {
        "apiVersion": PYTORCH.api_version,
        "kind": PYTORCH.kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    own = {
        "training.kubeflow.org/job-name": meta["name"],
        "training.kubeflow.org/replica-type": role.lower(),
        "training.kubeflow.org/replica-index": str(index),
    }
    shape = template.get("metadata") or {}
    metadata = {
        "name": f"{meta['name']}-{role.lower()}-{index}",
        "namespace": meta["namespace"],
        "labels": {**(shape.get("labels") or {}), **own},
        "annotations": dict(shape.get("annotations") or {}),
        "ownerReferences": [owner],
    }
    spec = template["spec"]
    if role == "Worker":
        wait = {"name": "init-pytorch", "image": "busybox", "resources": {"requests": {"cpu": "50m", "memory": "10Mi"}}}
        spec = {**spec, "initContainers": [wait]}
    return {"metadata": metadata, "spec": spec}


async def says(here: Site, name: str, kind: str, active: int, *, of: str = "Worker") -> None:
    """The operator's word in the job's status."""
    condition = {"type": kind, "status": "True", "reason": kind, "message": f"{kind} it is"}
    status = {"status": {"conditions": [condition], "replicaStatuses": {of: {"active": active}}}}
    await here.kube.patch(PYTORCH, name, status, here.name, kind=PatchKind.MERGE, subresource="status")


async def run_pods(here: Site, job: Object) -> list[Object]:
    """The job's pods, once they run."""
    roles = value_at(job, REPLICAS)
    made = [pod_of(job, role, n) for role, part in roles.items() for n in range(part.get("replicas", 1))]
    for pod in made:
        await here.make(PODS, pod)

    async def running() -> list[Object] | None:
        pods = [await here.kube.get(PODS, pod["metadata"]["name"], here.name) for pod in made]
        return pods if all(pod["status"].get("phase") == "Running" for pod in pods) else None

    found = await eventually("the pods run", running)
    await says(here, job["metadata"]["name"], "Running", len(found))
    return found


async def workload(here: Site, name: str) -> Workload:
    async def check() -> Workload | None:
        return await here.workload_of(name)

    return await eventually(f"{name} has a Workload", check)


async def state(here: Site, name: str, condition: str, wanted: bool = True) -> None:
    async def check() -> bool:
        return is_true((await workload(here, name)).status.conditions, condition) is wanted

    await eventually(f"{condition} of {name} is {wanted}", check)


async def test_a_job_of_a_declared_kind_goes_to_one_rack_stops_starts_and_ends(site: MakeSite) -> None:
    here = site("declared")
    await here.open({"b1": {"r1": 1, "r2": 1}}, quota=4)
    await submitted(here, train(here, "first", 3))
    job = await suspended(here, "first", wanted=False)
    found = await workload(here, "first")
    assert {pod_set.name: pod_set.count for pod_set in found.spec.pod_sets} == {"master": 1, "worker": 3}
    pods = await run_pods(here, job)
    assert len(await here.racks(pods)) == 1
    # quota is used up, so another one waits and says why
    await submitted(here, train(here, "second", 3))
    await suspended(here, "second", wanted=True)
    await here.waits("second", "WaitingForQuota", "insufficient unused quota")

    # it stops: suspended first, its templates and quota when no pod is active any more
    await here.kube.patch(WORKLOADS, found.metadata.name, {"spec": {"active": False}}, here.name, kind=PatchKind.MERGE)
    job = await suspended(here, "first", wanted=True)
    assert value_at(job, REPLICAS)["Worker"]["template"]["spec"].get("nodeSelector"), "while its pods are active"
    for pod in pods:
        await here.kube.delete(PODS, pod["metadata"]["name"], here.name)
    await says(here, "first", "Suspended", 0)
    await state(here, "first", QUOTA_RESERVED, wanted=False)
    job = await here.get_job("first", PYTORCH)
    spec = value_at(job, REPLICAS)["Worker"]["template"]["spec"]
    assert "nodeSelector" not in spec
    assert "schedulingGates" not in spec or {"name": TOPOLOGY_GATE} in spec["schedulingGates"]
    second = await suspended(here, "second", wanted=False)
    pods = await run_pods(here, second)

    # when that one has finished the first one starts anew
    await here.kube.patch(WORKLOADS, found.metadata.name, {"spec": {"active": True}}, here.name, kind=PatchKind.MERGE)
    await says(here, "second", "Succeeded", 0)
    for pod in pods:
        await here.kube.delete(PODS, pod["metadata"]["name"], here.name)
    await state(here, "second", FINISHED)
    await suspended(here, "first", wanted=False)
    await state(here, "first", ADMITTED)


async def test_a_pod_that_a_declared_job_would_not_have_is_refused(site: MakeSite) -> None:
    """Who names a PyTorchJob as his pod's owner does not run beside the quota."""
    here = site("forged")
    await here.open({"b1": {"r1": 1}}, quota=4)
    await submitted(here, train(here, "mine", 1))
    job = await suspended(here, "mine", wanted=False)

    async def refused(pod: Object) -> str:
        with pytest.raises(ApiError) as error:
            await here.kube.create(PODS, {"apiVersion": "v1", "kind": "Pod", **pod})
        return error.value.message

    greedy = pod_of(job, "Worker", 7)
    main = {**greedy["spec"]["containers"][0], "resources": {"requests": {"cpu": "20"}}}
    greedy["spec"] = {**greedy["spec"], "containers": [main]}
    greedy["metadata"]["labels"] = {**greedy["metadata"]["labels"], QUEUE_NAME_LABEL: "lq"}
    assert "asks for 1 of cpu in each of its pods, not 20" in await refused(greedy)
    stranger = pod_of(job, "Worker", 8)
    stranger["metadata"]["labels"] = {QUEUE_NAME_LABEL: "lq"}
    assert "has only pods with the label training.kubeflow.org/job-name: mine" in await refused(stranger)


@pytest.mark.parametrize(
    ("replicas", "message"),
    [
        pytest.param({}, "must have at least one of Master, Worker", id="none"),
        pytest.param({"Chief": {"template": {}}}, "must be one of Master, Worker", id="unknown role"),
        pytest.param({"Worker": {"replicas": 1}}, "must be a pod template", id="no template"),
        pytest.param({"Worker": {"replicas": -1, "template": {"spec": {}}}}, "must be a whole number", id="replicas"),
    ],
)
async def test_a_malformed_job_is_refused_with_its_field(site: MakeSite, replicas: Object, message: str) -> None:
    here = site("malformed")
    await here.open({"b1": {"r1": 1}})
    await submitted(here, train(here, "good", 1, queue=None))
    job = train(here, "bad", 1)
    job["spec"]["pytorchReplicaSpecs"] = replicas
    with pytest.raises(ApiError) as error:
        await here.kube.create(PYTORCH, {"apiVersion": PYTORCH.api_version, "kind": PYTORCH.kind, **job})
    assert message in error.value.message
    assert "spec.pytorchReplicaSpecs" in error.value.message
    await never("a Workload of the bad job", lambda: _has(here, "bad"), seconds=0.5)


async def _has(here: Site, name: str) -> bool:
    return await here.workload_of(name) is not None
