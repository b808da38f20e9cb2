"""What a tenant does to run beside the quota of his namespace, whose own queue is empty."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from api.errors import Forbidden
from api.kube.client import PatchKind
from api.kube.resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, NAMESPACES, PODS, WORKLOADS
from api.names import (
    ADMISSION_GATE,
    ELASTIC_JOB,
    GANG,
    GANG_BOUND,
    GANG_MEMBER,
    GANG_MINIMUM,
    GANG_NAME,
    GANG_TERMS,
    MANAGED_LABEL,
    MANAGED_NAMESPACE,
    POD_SUSPENDING_PARENT,
    QUEUE_NAME_LABEL,
    ROLE_HASH,
    TOPOLOGY_PODSET,
    TOPOLOGY_WORKLOAD,
)
from tests.attacks.conftest import Battlefield
from tests.scenarios.site import GPU, eventually

pytestmark = pytest.mark.asyncio(loop_scope="package")
TODAY = "2026-01-01T00:00:00Z"
CLOSED = "tenant-closed"
"""A ClusterQueue without quota, which is the default of the tenant's namespace."""


@pytest_asyncio.fixture(scope="module", loop_scope="package", autouse=True)
async def managed(battlefield: Battlefield) -> AsyncIterator[None]:
    """The tenant's namespace is managed, and a job that names no queue there waits."""
    site, name = battlefield.site, battlefield.namespace
    flavors = [{"name": site.name, "resources": [{"name": each, "nominalQuota": 0} for each in ("cpu", GPU)]}]
    spec = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu", GPU], "flavors": flavors}]}
    await site.make(CLUSTER_QUEUES, {"metadata": {"name": CLOSED}, "spec": spec})
    local = {"metadata": {"name": "default", "namespace": name}, "spec": {"clusterQueue": CLOSED}}
    await site.make(LOCAL_QUEUES, local)
    await _labelled(battlefield, "true")

    async def known() -> bool:
        probe = {"apiVersion": "v1", "kind": "Pod", **a_pod("probe"), "metadata": {"name": "probe", "namespace": name}}
        made = await battlefield.admin.create(PODS, probe, dry_run=True)
        return bool(made["metadata"].get("labels", {}).get(QUEUE_NAME_LABEL) == "default")

    await eventually("the webhook knows the default queue", known)
    yield
    await _labelled(battlefield, None)
    await site.remove(LOCAL_QUEUES, "default")


async def _labelled(battlefield: Battlefield, value: str | None) -> None:
    body = {"metadata": {"labels": {MANAGED_NAMESPACE: value}}}
    await battlefield.admin.patch(NAMESPACES, battlefield.namespace, body, kind=PatchKind.MERGE)


def a_pod(name: str, labels: dict[str, str] | None = None, **meta: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"metadata": {"name": name, "labels": labels or {}, **meta}, "spec": spec}


async def held(battlefield: Battlefield, name: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    """A pod of the tenant, which waits."""
    made = await battlefield.create(PODS, a_pod(name, labels))
    assert {"name": ADMISSION_GATE} in made["spec"]["schedulingGates"]
    return made


async def never_ran(battlefield: Battlefield, *names: str) -> None:
    """None of these pods is there without a gate; takes them away."""
    for pod in (await battlefield.admin.list(PODS, battlefield.namespace)).items:
        if pod["metadata"]["name"] in names:
            assert {"name": ADMISSION_GATE} in pod["spec"].get("schedulingGates", ()), pod["metadata"]["name"]
            await battlefield.site.remove(PODS, pod["metadata"]["name"])


async def refused(battlefield: Battlefield, name: str, body: dict[str, Any], field: str, resource: Any = PODS) -> None:
    """The tenant's merge patch, and the field that its refusal names."""
    with pytest.raises(Forbidden) as caught:
        await battlefield.tenant.patch(resource, name, body, battlefield.namespace, kind=PatchKind.MERGE)
    assert field in str(caught.value)


@pytest.mark.parametrize("queue", ["gangs", "sakkara"])
async def test_queues_that_count_nothing_are_not_named_by_hand(battlefield: Battlefield, queue: str) -> None:
    """B3."""
    named = {QUEUE_NAME_LABEL: queue}
    for labels in (named, named | {GANG_NAME: "by-hand", GANG_MINIMUM: "1"}):
        with pytest.raises(Forbidden, match="reserved"):
            await battlefield.create(PODS, a_pod(f"hand-{queue}", labels))
    job = battlefield.site.job(f"hand-{queue}", 1, queue=queue)
    with pytest.raises(Forbidden, match="reserved"):
        await battlefield.create(JOBS, job)
    await held(battlefield, f"turned-{queue}")
    await refused(battlefield, f"turned-{queue}", {"metadata": {"labels": named}}, "reserved")
    await never_ran(battlefield, f"turned-{queue}")
    queues = {
        each["metadata"]["name"] for each in (await battlefield.admin.list(LOCAL_QUEUES, battlefield.namespace)).items
    }
    assert queue not in queues


async def test_a_gang_without_a_queue_goes_by_the_namespaces_own(battlefield: Battlefield) -> None:
    """B3."""
    made = await held(battlefield, "no-queue", {GANG_NAME: "no-queue", GANG_MINIMUM: "1"})
    assert made["metadata"]["labels"][QUEUE_NAME_LABEL] == "default"
    await never_ran(battlefield, "no-queue")


async def test_forged_marks_of_a_gang_open_no_gate(battlefield: Battlefield) -> None:
    """Who is a gang's member, and whether it was bound whole, is told by no label of the pod's maker."""
    terms = {GANG: "forged", GANG_TERMS: '{"name":"forged","minimum":1}'}
    pod = a_pod("forged", {GANG_MEMBER: "true"}, annotations={**terms, GANG_BOUND: "True"})
    try:
        made = await battlefield.create(PODS, pod)
    except Forbidden:
        return
    assert {"name": ADMISSION_GATE} in made["spec"]["schedulingGates"]
    assert made["metadata"]["labels"][QUEUE_NAME_LABEL] == "default"

    async def waits() -> bool:
        found = (await battlefield.admin.list(WORKLOADS, battlefield.namespace)).items
        return any(owner["name"] == "forged" for w in found for owner in w["metadata"].get("ownerReferences", ()))

    await eventually("it waits in the queue of its namespace", waits)
    await never_ran(battlefield, "forged")


async def test_annotations_of_the_first_form_open_no_admission_gate(battlefield: Battlefield) -> None:
    """Pods name a Workload and a pod set; whether they count in a quota is not theirs to say."""
    named = {TOPOLOGY_WORKLOAD: "anybodys", TOPOLOGY_PODSET: "main"}
    made = await battlefield.create(PODS, a_pod("first-form", annotations=named))
    assert {"name": ADMISSION_GATE} in made["spec"]["schedulingGates"]
    assert made["metadata"]["labels"][QUEUE_NAME_LABEL] == "default"
    await never_ran(battlefield, "first-form")


async def test_a_tenant_does_not_tell_that_a_gang_was_bound_whole(battlefield: Battlefield) -> None:
    """The status of Workloads is not his."""
    if not battlefield.on_real_server:
        pytest.skip("the embedded server knows no rights")
    await held(battlefield, "unbound", {GANG_NAME: "unbound", GANG_MINIMUM: "1"})

    async def queued() -> bool:
        found = (await battlefield.admin.list(WORKLOADS, battlefield.namespace)).items
        return any(workload["metadata"]["name"] == "unbound" for workload in found)

    await eventually("the gang is queued", queued)
    bound = {"type": GANG_BOUND, "status": "True", "reason": "Bound", "message": "", "lastTransitionTime": TODAY}
    told = {"status": {"conditions": [bound]}}
    tell = partial(battlefield.tenant.patch, WORKLOADS, "unbound", told, battlefield.namespace, kind=PatchKind.MERGE)
    with pytest.raises(Forbidden):
        await tell(subresource="status")
    with pytest.raises(Forbidden):
        await tell()
    await never_ran(battlefield, "unbound")


@pytest.mark.parametrize(
    ("name", "part", "key", "value"),
    [
        ("role", "annotations", ROLE_HASH, "12345678"),
        ("no-role", "annotations", ROLE_HASH, None),
        ("gang", "annotations", GANG, "another"),
        ("terms", "annotations", GANG_TERMS, "{}"),
        ("parent", "annotations", POD_SUSPENDING_PARENT, "statefulset"),
        ("unmanaged", "labels", MANAGED_LABEL, None),
    ],
    ids=lambda each: str(each).rpartition("/")[2],
)
async def test_who_a_held_pod_is_stays(
    battlefield: Battlefield, name: str, part: str, key: str, value: str | None
) -> None:
    """B2."""
    await held(battlefield, name)
    await refused(battlefield, name, {"metadata": {part: {key: value}}}, f"[{key}]")
    await never_ran(battlefield, name)


async def test_a_pod_that_was_queued_stays_queued(battlefield: Battlefield) -> None:
    """Also where its gates go in the same update."""
    await held(battlefield, "leaver")
    leaving: dict[str, Any] = {"metadata": {"labels": {QUEUE_NAME_LABEL: None}}}
    for body in (leaving, leaving | {"spec": {"schedulingGates": []}}):
        await refused(battlefield, "leaver", body, QUEUE_NAME_LABEL)
    await never_ran(battlefield, "leaver")


async def test_a_job_that_was_queued_stays_queued(battlefield: Battlefield) -> None:
    """Also where it starts in the same update."""
    made = await battlefield.create(JOBS, battlefield.site.job("leaver", 1, queue=None))
    assert made["spec"]["suspend"]
    leaving: dict[str, Any] = {"metadata": {"labels": {QUEUE_NAME_LABEL: None}}}
    for body in (leaving, leaving | {"spec": {"suspend": False}}):
        await refused(battlefield, "leaver", body, QUEUE_NAME_LABEL, JOBS)
    assert (await battlefield.site.get_job("leaver"))["spec"]["suspend"]
    await battlefield.site.remove(JOBS, "leaver")


async def test_a_job_that_is_named_as_the_owner_must_own(battlefield: Battlefield) -> None:
    """A wrong UID, a Job that does not exist, and one's own that is suspended."""
    made = await battlefield.create(JOBS, battlefield.site.job("owner", 1, queue=None))
    selected = made["spec"]["selector"]["matchLabels"]
    for name, uid, said in (
        ("owner", "00000000-0000-0000-0000-000000000000", "the Job owner has another UID"),
        ("nobody", made["metadata"]["uid"], "the Job nobody does not exist"),
        ("owner", made["metadata"]["uid"], "the Job owner is suspended and has no pods"),
    ):
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}
        with pytest.raises(Forbidden, match=said):
            await battlefield.create(PODS, a_pod("child", dict(selected), ownerReferences=[owner]))
    await never_ran(battlefield, "child")
    await battlefield.site.remove(JOBS, "owner")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param(PatchKind.MERGE, {"spec": {"schedulingGates": None}}, id="all-gates"),
        pytest.param(
            PatchKind.STRATEGIC,
            {"spec": {"schedulingGates": [{"name": ADMISSION_GATE, "$patch": "delete"}]}},
            id="strategic",
        ),
        pytest.param(
            PatchKind.MERGE,
            {"metadata": {"annotations": {"example.com/note": "x"}}, "spec": {"schedulingGates": None}},
            id="beside-another-change",
        ),
    ],
)
async def test_a_tenant_opens_no_gate(battlefield: Battlefield, kind: PatchKind, body: dict[str, Any]) -> None:
    """The pod would be ended, but only after the grace period that it gives itself."""
    name = "opener"
    await held(battlefield, name)
    with pytest.raises(Forbidden, match=r"spec.schedulingGates: Forbidden: .* only Stowage removes this gate"):
        await battlefield.tenant.patch(PODS, name, body, battlefield.namespace, kind=kind)
    await never_ran(battlefield, name)


async def test_a_tenant_starts_no_job(battlefield: Battlefield) -> None:
    """Kubernetes would give the pods that started their own grace period, however soon the job is suspended again."""
    await battlefield.create(JOBS, battlefield.site.job("starter", 1, queue=None))
    for body in (
        {"spec": {"suspend": False}},
        {"spec": {"suspend": None}},
        {"spec": {"suspend": False, "parallelism": 2}},
    ):
        await refused(battlefield, "starter", body, "only Stowage starts it", JOBS)
    assert (await battlefield.site.get_job("starter"))["spec"]["suspend"]
    await battlefield.site.remove(JOBS, "starter")


async def test_a_running_job_gets_no_more_pods_than_were_admitted(battlefield: Battlefield) -> None:
    """A job that is admitted with one pod grows while it runs, or calls itself elastic first."""
    body = battlefield.site.job("grower", 1)
    body["spec"] |= {"completionMode": "NonIndexed", "completions": 4}
    await battlefield.create(JOBS, body)
    await battlefield.site.running("grower", 1)
    grown: dict[str, Any] = {"spec": {"parallelism": 4}}
    await refused(battlefield, "grower", grown, "more or other pods than were admitted", JOBS)
    elastic = {"metadata": {"annotations": {ELASTIC_JOB: "true"}}}
    await refused(battlefield, "grower", elastic, ELASTIC_JOB, JOBS)
    await refused(battlefield, "grower", elastic | grown, ELASTIC_JOB, JOBS)
    queued_anew = {"spec": {"parallelism": 2, "suspend": True}}
    await battlefield.tenant.patch(JOBS, "grower", queued_anew, battlefield.namespace, kind=PatchKind.MERGE)
    await battlefield.site.running("grower", 2)
    await battlefield.site.remove(JOBS, "grower")


async def test_pods_of_a_job_are_created_by_its_controller(battlefield: Battlefield) -> None:
    """A pod like those of one's own running job, with its UID, would run beside the quota."""
    await battlefield.create(JOBS, battlefield.site.job("parent", 1))
    (model,) = await battlefield.site.running("parent", 1)
    spec = dict((await battlefield.site.get_job("parent"))["spec"]["template"]["spec"])
    spec.pop("schedulingGates", None)
    kept = {key: model["metadata"][key] for key in ("labels", "annotations", "ownerReferences")}
    with pytest.raises(Forbidden, match=r"the Job parent is not controlled by .*attacker"):
        await battlefield.create(PODS, {"metadata": {"name": "cuckoo", **kept}, "spec": spec})
    await battlefield.site.remove(JOBS, "parent")
