"""GitOps tools and kubectl apply the manifest of a running job again, on the real control plane: nothing changes.

`docs/guides/gitops.md` says how. Argo CD and Flux apply on the server by force; kubectl without --server-side replaces lists of
custom resources whole.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from admission.controllers.jobs.plan.equivalence import normal
from admission.integrations.paths import value_at
from api.errors import NotFound
from api.kube.resources import (
    CRDS,
    DEPLOYMENTS,
    JOBS,
    JOBSETS,
    LEADER_WORKER_SETS,
    PODS,
    STATEFUL_SETS,
    Resource,
)
from api.meta import find_condition
from api.names import QUEUE_NAME_LABEL, QUOTA_RESERVED, REQUIRE_TOPOLOGY
from hack.controlplane.cluster import ControlPlane
from hack.controlplane.options import ClusterOptions
from tests.crds import adapter, crd_of
from tests.scenarios.site import RACK, Site, eventually
from tests.scenarios.stage import Stage, real

pytestmark = pytest.mark.asyncio(loop_scope="module")
CONTROL_PLANE = ClusterOptions(jobset=True, lws=True)
PYTORCH = adapter("kubeflow.org/pytorchjob").resource
SERVER = ("apply", "--server-side", "--force-conflicts", "-f", "-")
CLIENT = ("apply", "-f", "-")
Object = dict[str, Any]
TEMPLATE_OF = {
    JOBS: ("spec", "template"),
    JOBSETS: ("spec", "replicatedJobs", 0, "template", "spec", "template"),
    PYTORCH: ("spec", "pytorchReplicaSpecs", "Worker", "template"),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def here(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with real(cluster, tmp_path_factory.mktemp("gitops")) as stage:
        yield await _opened(stage)


async def _opened(stage: Stage) -> Site:
    found = Site(stage.kube, "gitops")
    await found.open({"b1": {"r1": 4, "r2": 4}})
    await found.make(CRDS, crd_of(PYTORCH))
    return found


def manifest(here: Site, resource: Resource, name: str) -> Object:
    """A job as it is in a repository: without `suspend`, with a selector and a toleration of its own."""
    template = here.template()
    template["spec"] |= {
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "team", "operator": "Exists"}],
        "restartPolicy": "Never",
    }
    pods: Object = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": template}
    spec: Object = {
        JOBS: pods,
        JOBSETS: {"replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": pods}}]},
        PYTORCH: {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": template}}},
    }[resource]
    meta = {"labels": {QUEUE_NAME_LABEL: "lq"}, "annotations": {REQUIRE_TOPOLOGY: RACK}}
    kind = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**kind, "metadata": {"name": name, "namespace": here.name, **meta}, "spec": spec}


@pytest.mark.parametrize("command", [SERVER, CLIENT], ids=["server-side by force", "client-side"])
@pytest.mark.parametrize("resource", [JOBS, JOBSETS, PYTORCH], ids=lambda resource: resource.kind)
async def test_the_manifest_of_a_running_job_is_applied_again(
    cluster: ControlPlane, here: Site, resource: Resource, command: tuple[str, ...]
) -> None:
    name = f"{resource.kind.lower()}-{'server' if command is SERVER else 'client'}"
    text = json.dumps(manifest(here, resource, name))
    cluster.kubectl(*command, stdin=text)

    async def started() -> Object | None:
        try:
            found = await here.get_job(name, resource)
        except NotFound:
            return None
        template = value_at(found, TEMPLATE_OF[resource])
        return found if "kueue.x-k8s.io/podset" in (template["metadata"].get("labels") or {}) and _runs(found) else None

    before = await eventually(f"{name} is started", started)
    for _ in range(2):
        cluster.kubectl(*command, stdin=text)
    after = await here.get_job(name, resource)
    assert after["spec"] == before["spec"]
    await here.remove(resource, name)


@pytest.mark.parametrize("command", [SERVER, CLIENT], ids=["server-side by force", "client-side"])
@pytest.mark.parametrize(
    "resource", [DEPLOYMENTS, STATEFUL_SETS, LEADER_WORKER_SETS], ids=lambda resource: resource.kind
)
async def test_the_manifest_of_running_sets_is_applied_again(
    cluster: ControlPlane, here: Site, resource: Resource, command: tuple[str, ...]
) -> None:
    """No new generation, so no rollout: their pods run on."""
    name = f"{resource.kind.lower()}-{'server' if command is SERVER else 'client'}"
    text = json.dumps(set_manifest(here, resource, name))
    cluster.kubectl(*command, stdin=text)

    async def running() -> set[str] | None:
        pods = (await here.kube.list(PODS, here.name, label_selector=f"app={name}")).items
        return {p["metadata"]["uid"] for p in pods} if [p["status"]["phase"] for p in pods] == ["Running"] * 2 else None

    before = await eventually(f"the pods of {name} run", running)
    stored = await here.get_job(name, resource)
    for _ in range(2):
        cluster.kubectl(*command, stdin=text)
    after = await here.get_job(name, resource)
    assert after["spec"] == stored["spec"]
    assert after["metadata"]["generation"] == stored["metadata"]["generation"]
    assert await eventually(f"the pods of {name} run", running) == before
    await here.remove(resource, name)


def set_manifest(here: Site, resource: Resource, name: str) -> Object:
    """Two pods of a Deployment, a StatefulSet, or one group of a LeaderWorkerSet."""
    template = here.template()
    template["metadata"] = {"labels": {"app": name}}
    template["spec"]["restartPolicy"] = "Always"
    spec: Object = {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": template}
    if resource is STATEFUL_SETS:
        spec["serviceName"] = name
    if resource is LEADER_WORKER_SETS:
        spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}}
    meta = {"name": name, "namespace": here.name, "labels": {QUEUE_NAME_LABEL: "lq"}}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, "spec": spec}


@pytest.mark.parametrize("command", [SERVER, CLIENT], ids=["server-side by force", "client-side"])
@pytest.mark.parametrize("resource", [JOBS, JOBSETS, PYTORCH], ids=lambda resource: resource.kind)
async def test_a_manifest_that_is_applied_again_while_the_job_waits_changes_nothing(
    cluster: ControlPlane, here: Site, resource: Resource, command: tuple[str, ...]
) -> None:
    name = f"waits-{resource.kind.lower()}-{'server' if command is SERVER else 'client'}"
    given = manifest(here, resource, name)
    value_at(given, TEMPLATE_OF[resource])["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "33"}}
    text = json.dumps(given)
    cluster.kubectl(*command, stdin=text)

    async def waits() -> bool:
        workload = await here.workload_of(name)
        found = find_condition(workload.status.conditions, QUOTA_RESERVED) if workload is not None else None
        return found is not None and found.reason == "TopologyPlacementFailed"

    await eventually(f"{name} waits", waits)
    before = await here.get_job(name, resource)
    for _ in range(2):
        cluster.kubectl(*command, stdin=text)
    after = await here.get_job(name, resource)
    assert normal(after["spec"]) == normal(before["spec"])
    assert not _runs(after)
    await here.remove(resource, name)


def _runs(job: Object) -> bool:
    found = value_at(job, ("spec", "suspend"))
    return not (value_at(job, ("spec", "runPolicy", "suspend")) if found is None else found)
