"""What a tenant does to pods of an admitted job: no more of them run than were admitted, and they count for their Workload."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from api.errors import Forbidden
from api.kube.client import PatchKind
from api.kube.resources import JOBS, PODS, Resource
from api.names import (
    CONTROLLER_UID_LABEL,
    ELASTIC_GATE,
    ELASTIC_JOB,
    HOSTNAME_LABEL,
    PODSET_LABEL,
    TOPOLOGY_GATE,
    TOPOLOGY_PODSET,
    TOPOLOGY_WORKLOAD,
    UNCONSTRAINED_TOPOLOGY,
    WORKLOAD_ANNOTATION,
    WORKLOAD_SLICE_NAME,
)
from tests.attacks.conftest import Battlefield
from tests.scenarios.site import RACK, eventually

pytestmark = pytest.mark.asyncio(loop_scope="package")

JOB = "raised"
BINDINGS = Resource("", "v1", "bindings", "Binding")


@pytest_asyncio.fixture(scope="module", loop_scope="package", autouse=True)
async def raised(battlefield: Battlefield) -> AsyncIterator[None]:
    """An elastic job of the tenant's, raised from 4 to 16 pods where 8 have room: 8 run, and 8 wait at their gates."""
    job = battlefield.site.job(JOB, 4, {ELASTIC_JOB: "true", UNCONSTRAINED_TOPOLOGY: "true"})
    job["spec"] |= {"completions": None, "completionMode": "NonIndexed"}
    await battlefield.create(JOBS, job)
    await battlefield.site.running(JOB, 4)
    more = {"spec": {"parallelism": 16}}
    await battlefield.tenant.patch(JOBS, JOB, more, battlefield.namespace, kind=PatchKind.MERGE)
    await battlefield.site.running(JOB, 8)

    async def gated() -> bool:
        return len(await waiting(battlefield)) == 8

    await eventually("8 pods wait", gated)
    yield
    await battlefield.site.remove(JOBS, JOB)


async def waiting(battlefield: Battlefield) -> list[dict[str, Any]]:
    return [pod for pod in await battlefield.site.pods(JOB) if pod["spec"].get("schedulingGates")]


async def refused(battlefield: Battlefield, pod: dict[str, Any], body: Any, field: str, kind: PatchKind) -> None:
    """The tenant's patch of the pod is refused, and the refusal names the field."""
    with pytest.raises(Forbidden) as caught:
        await battlefield.tenant.patch(PODS, pod["metadata"]["name"], body, battlefield.namespace, kind=kind)
    assert field in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param(PatchKind.MERGE, {"spec": {"schedulingGates": None}}, id="all-gates"),
        pytest.param(
            PatchKind.STRATEGIC,
            {
                "spec": {
                    "schedulingGates": [{"name": name, "$patch": "delete"} for name in (ELASTIC_GATE, TOPOLOGY_GATE)]
                }
            },
            id="both-gates-by-name",
        ),
        pytest.param(PatchKind.MERGE, {"spec": {"schedulingGates": [{"name": TOPOLOGY_GATE}]}}, id="elastic-gate"),
        pytest.param(PatchKind.MERGE, {"spec": {"schedulingGates": [{"name": ELASTIC_GATE}]}}, id="topology-gate"),
        pytest.param(
            PatchKind.MERGE,
            {"metadata": {"labels": {PODSET_LABEL: None}}, "spec": {"schedulingGates": None}},
            id="with-the-identity",
        ),
    ],
)
async def test_gates_of_a_jobs_pods_are_not_patched_away(battlefield: Battlefield, kind: PatchKind, body: Any) -> None:
    """Of 16 pods on room for 8, all would run, and 8 would be charged."""
    pod = (await waiting(battlefield))[0]
    await refused(battlefield, pod, body, "only Stowage removes this gate", kind)
    assert len(await battlefield.site.running(JOB, 8)) == 8


@pytest.mark.parametrize("label", [HOSTNAME_LABEL, RACK])
async def test_a_waiting_pod_is_sent_nowhere_by_its_tenant(battlefield: Battlefield, label: str) -> None:
    """Labels of levels say where the pod was admitted; that of the flavor is in the template, and stays."""
    pod = (await waiting(battlefield))[0]
    body = {"spec": {"nodeSelector": {label: "elsewhere"}}}
    await refused(battlefield, pod, body, f"spec.nodeSelector[{label}]", PatchKind.MERGE)


@pytest.mark.parametrize("value", ["another", None], ids=["changed", "removed"])
@pytest.mark.parametrize(
    ("part", "key"),
    [
        ("labels", PODSET_LABEL),
        ("labels", CONTROLLER_UID_LABEL),
        ("labels", "controller-uid"),
        ("annotations", WORKLOAD_ANNOTATION),
        ("annotations", WORKLOAD_SLICE_NAME),
        ("annotations", TOPOLOGY_WORKLOAD),
        ("annotations", TOPOLOGY_PODSET),
    ],
    ids=lambda each: str(each).rpartition("/")[2],
)
@pytest.mark.parametrize("runs", [True, False], ids=["running", "gated"])
async def test_whose_pod_it_is_stays(
    battlefield: Battlefield, part: str, key: str, value: str | None, runs: bool
) -> None:
    """The pod would count for another Workload or for none, or its controller would replace it."""
    running, gated = await battlefield.site.running(JOB, 8), await waiting(battlefield)
    pod = (running if runs else gated)[0]
    await refused(battlefield, pod, {"metadata": {part: {key: value}}}, f"[{key}]", PatchKind.MERGE)


@pytest_asyncio.fixture(loop_scope="package")
async def stray(battlefield: Battlefield) -> AsyncIterator[str]:
    """A pod of the tenant's that no queue holds; he put the gate of queued pods into it himself."""
    spec = {**battlefield.site.template()["spec"], "schedulingGates": [{"name": TOPOLOGY_GATE}]}
    await battlefield.create(PODS, {"metadata": {"name": "stray"}, "spec": spec})
    yield "stray"
    await battlefield.site.remove(PODS, "stray")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"annotations": {TOPOLOGY_WORKLOAD: "{workload}", TOPOLOGY_PODSET: "main"}}, id="as-it-was"),
        pytest.param({"annotations": {WORKLOAD_ANNOTATION: "{workload}"}}, id="annotation"),
        pytest.param({"annotations": {WORKLOAD_SLICE_NAME: "{workload}"}}, id="slice"),
        pytest.param(
            {"annotations": {WORKLOAD_ANNOTATION: "{workload}"}, "labels": {PODSET_LABEL: "main"}}, id="with-its-label"
        ),
    ],
)
async def test_a_pod_without_a_queue_gets_no_place_of_an_admitted_job(
    battlefield: Battlefield, stray: str, body: Any
) -> None:
    """Its gate would be opened in place of one of the job's pods."""
    workload = (await waiting(battlefield))[0]["metadata"]["annotations"][WORKLOAD_ANNOTATION]
    marks = {key: text.format(workload=workload) for key, text in body["annotations"].items()}
    pod = {"metadata": {"name": stray}}
    await refused(battlefield, pod, {"metadata": {**body, "annotations": marks}}, next(iter(marks)), PatchKind.MERGE)


async def test_a_pod_of_an_admitted_job_keeps_its_owner(battlefield: Battlefield) -> None:
    """Its Job would replace the pod, and both would run."""
    pod = (await battlefield.site.running(JOB, 8))[0]
    body = {"metadata": {"ownerReferences": None}}
    await refused(battlefield, pod, body, "metadata.ownerReferences", PatchKind.MERGE)


async def test_what_is_the_tenants_own_stays_free(battlefield: Battlefield) -> None:
    """Labels without a prefix, labels that are new, and annotations."""
    pod = (await battlefield.site.running(JOB, 8))[0]
    body = {"metadata": {"labels": {"team": "red", "example.com/new": "x"}, "annotations": {"example.com/note": "x"}}}
    await battlefield.tenant.patch(PODS, pod["metadata"]["name"], body, battlefield.namespace, kind=PatchKind.MERGE)
    body = {"metadata": {"labels": {"team": "blue"}}}
    await battlefield.tenant.patch(PODS, pod["metadata"]["name"], body, battlefield.namespace, kind=PatchKind.MERGE)


@pytest.mark.parametrize("subresource", ["resize", "binding", "status"])
async def test_what_a_pod_uses_and_where_it_runs_is_not_the_tenants(battlefield: Battlefield, subresource: str) -> None:
    """The role `edit` does not include it."""
    if not battlefield.on_real_server:
        pytest.skip("the embedded server knows no rights")
    pod, tenant, where = (await waiting(battlefield))[0]["metadata"]["name"], battlefield.tenant, battlefield.namespace
    container = {"name": "main", "resources": {"requests": {"cpu": "64"}}}
    body = {"spec": {"containers": [container]}, "status": {"phase": "Succeeded"}}
    target = {"apiVersion": "v1", "kind": "Node", "name": "tenant-b1-r1-0"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod, "namespace": where}, "target": target}
    change = (
        tenant.create(BINDINGS, binding)
        if subresource == "binding"
        else tenant.patch(PODS, pod, body, where, kind=PatchKind.STRATEGIC, subresource=subresource)
    )
    with pytest.raises(Forbidden):
        await change
