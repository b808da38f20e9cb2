"""Kinds of job that nobody has seen: managed by YAML alone, installed while the controller runs.

Their controllers are not there: the scenario makes pods and statuses as they would. Templates stand in a map, in a list inside
a list, and at one place with a count that is a product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from admission.cli.jobkind import roles_of
from admission.integrations.declared.declared import DeclaredJob
from api.errors import ApiError, NotFound
from api.job_kinds import JobKind
from api.kube.client import PatchKind
from api.kube.resources import CRDS, JOB_KINDS, PODS, WORKLOADS, Resource
from api.meta import find_condition, is_true
from api.names import ADMITTED, FINISHED, QUEUE_NAME_LABEL, QUOTA_RESERVED
from api.workloads import Workload
from tests.crds import crd_of
from tests.scenarios.site import RACK, Site, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHARES_STAGE = True
MakeSite = Callable[[str], Site]
Object = dict[str, Any]
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)

STATUS = {
    "active": {"expression": "object.?status.?running.orValue(0) > 0"},
    "ready": {"path": "status.phase", "values": ["Working", "Done"]},
    "succeeded": {"path": "status.phase", "values": ["Done"]},
    "failed": {"path": "status.phase", "values": ["Broken"]},
    "message": "status.text",
}


def kind(group: str, name: str, suspend: Object, *pod_sets: Object) -> Object:
    plural = f"{name.lower()}s"
    spec = {
        "group": group,
        "version": "v1",
        "plural": plural,
        "kind": name,
        "suspend": suspend,
        "podSets": list(pod_sets),
        "status": STATUS,
    }
    return {"metadata": {"name": f"{plural}.{group}"}, "spec": spec}


def by_role(here: Site) -> tuple[Object, Object]:
    """Templates in a map, whose keys are free; pods of two roles."""
    made = kind("ships.example.com", "Ship", {"path": "spec.anchored"}, {"each": "spec.decks{}", "template": "crew"})
    decks = {name: {"crew": here.template()} for name in ("bow", "stern")}
    return made, {"decks": decks}


def nested(here: Site) -> tuple[Object, Object]:
    """Templates in a list inside a list, and a word that suspends."""
    suspend = {"path": "spec.state", "suspended": "Parked", "running": "Working"}
    rule = {"each": "spec.teams[].crews[]", "template": "pod", "count": [{"path": "size"}]}
    crews = [{"name": "lift", "size": 2, "pod": here.template()}, {"name": "load", "pod": here.template()}]
    return kind("cranes.example.com", "Crane", suspend, rule), {"teams": [{"name": "north", "crews": crews}]}


def product(here: Site) -> tuple[Object, Object]:
    """One template, and a count that is a product of three numbers."""
    count = [{"path": "spec.rows"}, {"path": "spec.columns"}, {"path": "spec.depth", "least": 1}]
    made = kind(
        "grids.example.com", "Grid", {"path": "spec.paused"}, {"template": "spec.cell", "name": "cell", "count": count}
    )
    return made, {"rows": 2, "columns": 2, "depth": 0, "cell": here.template()}


COUNTS = {"Ship": {"bow": 1, "stern": 1}, "Crane": {"north-lift": 2, "north-load": 1}, "Grid": {"cell": 4}}


async def declared(here: Site, obj: Object) -> DeclaredJob:
    """The kind, once its JobKind says that it is active: first without its CRD, then with it, and with its rights."""
    adapter = DeclaredJob(JobKind.from_wire(obj).spec)
    for role in roles_of(JobKind.from_wire(obj)):
        await here.make(CLUSTER_ROLES, role)
    await here.make(JOB_KINDS, obj)
    await active(here, obj, "False", "NotServed", "CannotRead")
    await here.make(CRDS, crd_of(adapter.resource))
    await active(here, obj, "True", "Managed")
    return adapter


async def active(here: Site, obj: Object, status: str, *reasons: str) -> None:
    async def check() -> bool:
        found = JobKind.from_wire(await here.kube.get(JOB_KINDS, obj["metadata"]["name"]))
        said = find_condition(found.status.conditions, "Active")
        return said is not None and said.status == status and said.reason in reasons

    await eventually(f"Active of {obj['metadata']['name']} is {status}", check)


async def submit(here: Site, adapter: DeclaredJob, name: str, spec: Mapping[str, Any]) -> None:
    labels, annotations = {QUEUE_NAME_LABEL: "lq"}, {"kueue.x-k8s.io/require-topology": RACK}
    meta = {"name": name, "namespace": here.name, "labels": labels, "annotations": annotations}

    async def made() -> bool:
        try:
            await here.make(adapter.resource, {"metadata": meta, "spec": dict(spec)})
        except NotFound:
            return False
        return True

    await eventually(f"{adapter.resource.plural} are served", made)


async def suspended(here: Site, adapter: DeclaredJob, name: str, wanted: bool) -> Object:
    async def check() -> Object | None:
        job = await here.get_job(name, adapter.resource)
        return job if adapter.is_suspended(job) is wanted else None

    return await eventually(f"{name} is {'suspended' if wanted else 'started'}", check)


def pods_of(adapter: DeclaredJob, job: Object) -> list[Object]:
    """As the kind's controller makes them."""
    meta = job["metadata"]
    owner = {
        "apiVersion": adapter.resource.api_version,
        "kind": adapter.resource.kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }
    found = []
    for entry in adapter.entries(job):
        template = adapter.template(job, entry)
        shape = template.get("metadata") or {}
        for number in range(adapter.pods_of(job, entry)):
            metadata = {
                "name": f"{meta['name']}-{entry.name}-{number}",
                "namespace": meta["namespace"],
                "labels": dict(shape.get("labels") or {}),
                "annotations": dict(shape.get("annotations") or {}),
                "ownerReferences": [owner],
            }
            found.append({"metadata": metadata, "spec": template["spec"]})
    return found


async def run(here: Site, adapter: DeclaredJob, job: Object) -> list[Object]:
    """The job's pods, once they run."""
    made = pods_of(adapter, job)
    for pod in made:
        await here.make(PODS, pod)

    async def running() -> list[Object] | None:
        pods = [await here.kube.get(PODS, pod["metadata"]["name"], here.name) for pod in made]
        return pods if all(pod["status"].get("phase") == "Running" for pod in pods) else None

    return await eventually("the pods run", running)


async def says(here: Site, adapter: DeclaredJob, name: str, phase: str, running: int) -> None:
    body = {"status": {"phase": phase, "running": running, "text": f"{phase} it is"}}
    await here.kube.patch(adapter.resource, name, body, here.name, kind=PatchKind.MERGE, subresource="status")


async def state(here: Site, name: str, condition: str, wanted: bool = True) -> Workload:
    async def check() -> Workload | None:
        found = await here.workload_of(name)
        return found if found and is_true(found.status.conditions, condition) is wanted else None

    return await eventually(f"{condition} of {name} is {wanted}", check)


@pytest.mark.parametrize("shape", [by_role, nested, product], ids=["map", "list in a list", "product"])
async def test_a_kind_that_yaml_declares_is_managed_from_queue_to_end(
    site: MakeSite, shape: Callable[[Site], tuple[Object, Object]]
) -> None:
    here = site(f"kind-{shape.__name__.replace('_', '-')}")
    made, spec = shape(here)
    await here.open({"b1": {"r1": 1, "r2": 1}}, quota=4)
    adapter = await declared(here, made)
    counts = COUNTS[adapter.resource.kind]
    await submit(here, adapter, "first", spec)
    job = await suspended(here, adapter, "first", wanted=False)
    found = await state(here, "first", ADMITTED)
    assert {pod_set.name: pod_set.count for pod_set in found.spec.pod_sets} == counts
    pods = await run(here, adapter, job)
    assert len(pods) == sum(counts.values())
    assert len(await here.racks(pods)) == 1
    await says(here, adapter, "first", "Working", len(pods))

    # quota is used up: two more of it wait, and say why
    await submit(here, adapter, "second", spec)
    if sum(counts.values()) * 2 > 4:
        await here.waits("second", "WaitingForQuota", "insufficient unused quota")

    # it is stopped and started anew; its template and quota go back when no pod is active
    await here.kube.patch(WORKLOADS, found.metadata.name, {"spec": {"active": False}}, here.name, kind=PatchKind.MERGE)
    await suspended(here, adapter, "first", wanted=True)
    for pod in pods:
        await here.kube.delete(PODS, pod["metadata"]["name"], here.name)
    await says(here, adapter, "first", "Idle", 0)
    await state(here, "first", QUOTA_RESERVED, wanted=False)
    await suspended(here, adapter, "second", wanted=False)
    await says(here, adapter, "second", "Done", 0)
    await state(here, "second", FINISHED)
    await here.kube.patch(WORKLOADS, found.metadata.name, {"spec": {"active": True}}, here.name, kind=PatchKind.MERGE)
    await suspended(here, adapter, "first", wanted=False)

    # a malformed one is refused with its field
    bad = {**spec}
    bad.update((key, "none") for key in ("decks", "teams", "cell") if key in spec)
    with pytest.raises(ApiError) as error:
        await submit(here, adapter, "bad", bad)
    assert "spec." in error.value.message

    # without its JobKind nothing of the kind is managed any more, and what runs goes on
    await here.kube.delete(JOB_KINDS, made["metadata"]["name"])

    async def unmanaged() -> bool:
        name = f"free-{len(await _list(here, adapter))}"
        await submit(here, adapter, name, spec)
        return not adapter.is_suspended(await here.get_job(name, adapter.resource))

    await eventually("objects of the kind are no longer suspended", unmanaged)
    assert not adapter.is_suspended(await here.get_job("first", adapter.resource))


async def _list(here: Site, adapter: DeclaredJob) -> list[Object]:
    return list((await here.kube.list(adapter.resource, here.name)).items)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"suspend": {"path": ""}}, "spec.suspend.path", id="no path"),
        pytest.param({"status": {"active": {"expression": "object.("}}}, "spec.status.active.expression", id="no CEL"),
        pytest.param({"podSets": [{"each": "spec.a[", "template": "t"}]}, "spec.podSets[0].each", id="no form"),
        pytest.param({"kind": "Job", "group": "batch", "plural": "jobs"}, "metadata.name", id="another name"),
    ],
)
async def test_a_malformed_job_kind_is_refused_with_its_field(site: MakeSite, change: Object, message: str) -> None:
    here = site("bad-kind")
    made, _ = product(here)
    made = {
        "metadata": {"name": "bads.example.com"},
        "spec": {**made["spec"], "group": "example.com", "plural": "bads"},
    }
    with pytest.raises(ApiError) as error:
        await here.kube.create(
            JOB_KINDS,
            {"apiVersion": JobKind.API_VERSION, "kind": "JobKind", **made, "spec": {**made["spec"], **change}},
        )
    assert message in error.value.message
