"""`stowage doctor` on the embedded server: what it reads, in bounds, and how the command ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from typer.testing import CliRunner, Result

from admission.cli.install import install, manifests
from admission.cli.main import app
from admission.doctor import read
from admission.doctor.checks import ALL
from admission.doctor.question import Question
from admission.doctor.read import look
from admission.doctor.report import examined
from admission.doctor.view import View
from api.fake.server import FakeServer, FakeSettings
from api.kube.client import Kube
from api.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    JOBS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_FLAVORS,
    SECRETS,
    VALIDATING_WEBHOOKS,
    WORKLOADS,
    Resource,
)
from api.kube.settings import ClientSettings
from api.names import GROUP
from tests.admission.cli.test_endings import DEAD
from tests.admission.doctor import healthy
from tests.builders import pod_template

DEAD_WEBHOOK = "https://127.0.0.1:1"


@pytest_asyncio.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with FakeServer(FakeSettings()) as found:
        yield found


@pytest_asyncio.fixture
async def kube(server: FakeServer, tmp_path: Path) -> AsyncIterator[Kube]:
    settings = ClientSettings(kubeconfig=server.kubeconfig(tmp_path / "kubeconfig"), attempts=1)
    async with await Kube.connect(settings) as found:
        yield found


async def remove_webhooks(kube: Kube) -> None:
    """No process answers them here."""
    await kube.delete(MUTATING_WEBHOOKS, "stowage-mutating-webhook-configuration")
    await kube.delete(VALIDATING_WEBHOOKS, "stowage-validating-webhook-configuration")


async def create(kube: Kube, resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
    """Creates an object that does not say its kind."""
    return await kube.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind, **obj})


async def looked(kube: Kube) -> View:
    return await look(kube, healthy.OURS, healthy.shipped(), ALL)


async def test_an_empty_cluster_lacks_the_crds_and_all_checks_look(kube: Kube) -> None:
    report = examined(await looked(kube), ALL)
    assert not report.unread
    assert {"crds", "webhook-configurations", "leases"} <= {check.name for check, _ in report.findings}
    crds = next(some for check, some in report.findings if check.name == "crds")
    assert len(crds) == len(healthy.shipped().crds)


async def test_a_webhook_that_is_down_is_found_by_a_dry_run_that_leaves_nothing(kube: Kube) -> None:
    await install(kube, DEAD_WEBHOOK)
    view = await looked(kube)
    assert "webhook" in view.answers[Question.ADMISSION]
    assert not (await kube.list(RESOURCE_FLAVORS)).items


async def test_pods_are_read_in_pages_and_kept_as_facts(kube: Kube, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "_PAGE", 5)
    monkeypatch.setattr(read, "MOST", 20)
    await kube.create(NAMESPACES, {"metadata": {"name": "a"}})
    await kube.create(NODES, {"metadata": {"name": "n"}})
    body = {**pod_template()["spec"], "nodeName": "n"}
    for number in range(23):
        await kube.create(PODS, {"metadata": {"name": f"p{number}", "namespace": "a"}, "spec": body})
    view = await looked(kube)
    assert [pod.foreign for pod in view.pods] == [True] * 20
    report = examined(view, ALL)
    assert report.cut == ("pods: only the first 20 were looked at",)


async def test_of_large_objects_only_what_is_checked_is_kept(kube: Kube) -> None:
    """A cluster may have hundreds of CRDs, and a node names dozens of images."""
    await kube.create(
        NODES, {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1"}, "images": [{"names": ["i"]}]}}
    )
    schema = {"openAPIV3Schema": {"type": "object"}}
    names = {"kind": "Train", "plural": "trains", "singular": "train", "listKind": "TrainList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    await kube.create(CRDS, {"metadata": {"name": "trains.example.com"}, "spec": {**spec, "versions": versions}})
    view = await looked(kube)
    assert view.of(NODES)[0]["status"] == {"allocatable": {"cpu": "1"}}
    assert "schema" not in view.of(CRDS)[0]["spec"]["versions"][0]


@pytest.mark.parametrize(
    ("version", "kind", "known"),
    [
        ("jobset.x-k8s.io/v1alpha2", "JobSet", True),
        ("jobset.x-k8s.io/v1alpha2", "Job", False),
        ("example.com/v1", "Train", False),
        ("example.com/../../api/v1", "Pod", False),
    ],
)
async def test_a_kind_is_served_also_without_a_crd(version: str, kind: str, known: bool, kube: Kube) -> None:
    """The command of `leftover-workloads` deletes: it must not name a Workload of a kind that another API server serves."""
    await install(kube, DEAD_WEBHOOK)
    await remove_webhooks(kube)
    uid = (await kube.create(NAMESPACES, {"metadata": {"name": "a"}}))["metadata"]["uid"]  # one that exists: kept
    reference = {"apiVersion": version, "kind": kind, "name": "j", "uid": uid, "controller": True}
    metadata = {"name": "w", "namespace": "a", "ownerReferences": [reference]}
    pod_set = {"name": "main", "count": 1, "template": pod_template()}
    await create(kube, WORKLOADS, {"metadata": metadata, "spec": {"queueName": "q", "podSets": [pod_set]}})
    view = await looked(kube)
    assert not view.unread
    (found,) = view.owners.values()
    assert (found is not None) == known


async def test_owners_of_workloads_are_read_by_kind(kube: Kube) -> None:
    await install(kube, DEAD_WEBHOOK)
    await remove_webhooks(kube)
    await kube.create(NAMESPACES, {"metadata": {"name": "a"}})
    job = {"metadata": {"name": "j", "namespace": "a"}, "spec": {"template": pod_template(), "suspend": True}}
    uid = (await kube.create(JOBS, job))["metadata"]["uid"]
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": uid, "controller": True}
    metadata = {"name": "w", "namespace": "a", "ownerReferences": [reference]}
    pod_set = {"name": "main", "count": 1, "template": pod_template()}
    await create(kube, WORKLOADS, {"metadata": metadata, "spec": {"queueName": "q", "podSets": [pod_set]}})
    view = await looked(kube)
    assert view.owners == {("batch", "Job"): frozenset((uid,))}
    assert not view.of(WORKLOADS)[0]["spec"], "its pod templates are not kept"


def refusing(plural: str) -> FakeSettings:
    """A server that lets nobody read these objects."""

    async def refuse(request: web.Request) -> web.StreamResponse | None:
        if not request.path.endswith(f"/{plural}") or request.method != "GET":
            return None
        status = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403}
        return web.json_response({**status, "message": f"no {plural} for you"}, status=403)

    return replace(FakeSettings(), intercept=refuse)


async def test_a_kind_that_the_user_may_not_read_is_told_and_its_checks_do_not_pass(tmp_path: Path) -> None:
    async with FakeServer(refusing("nodes")) as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        async with await Kube.connect(ClientSettings(kubeconfig=kubeconfig, attempts=1)) as kube:
            report = examined(await looked(kube), ALL)
    assert "no nodes for you" in report.unread["nodes-without-levels"]
    assert "leases" not in report.unread


async def test_no_secret_is_read(server: FakeServer, kube: Kube) -> None:
    asked: list[str] = []
    await kube.create(NAMESPACES, {"metadata": {"name": healthy.OURS}})
    secret = {"metadata": {"name": "s", "namespace": healthy.OURS}, "data": {"key": "Q0FOQVJZ"}}
    await kube.create(SECRETS, secret)
    config = {"metadata": {"name": "c", "namespace": healthy.OURS}, "data": {"key": "CANARY"}}
    await kube.create(CONFIG_MAPS, config)
    send = kube._transport.send

    async def noted(call: Any) -> bytes:
        asked.append(call.path)
        return await send(call)

    kube._transport.send = noted  # type: ignore[method-assign]
    report = examined(await looked(kube), ALL)
    assert not [path for path in asked if "secrets" in path]
    assert "CANARY" not in repr(report)


# ---- the command


def doctor(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["doctor", *map(str, arguments)])


def test_without_a_cluster_it_cannot_look(tmp_path: Path) -> None:
    (tmp_path / "dead").write_text(DEAD)
    done = doctor("--kubeconfig", tmp_path / "dead")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("cannot look: the cluster does not answer")


async def test_findings_end_with_1_and_are_printed_with_reason_and_command(server: FakeServer, tmp_path: Path) -> None:
    kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
    done = await asyncio.to_thread(doctor, "--kubeconfig", kubeconfig)
    assert done.exit_code == 1
    assert "crds: The API server drops fields" in done.stdout
    assert f"kubectl --kubeconfig={kubeconfig} apply --server-side --force-conflicts -f " in done.stdout
    assert f"and {len(healthy.shipped().crds) - 10} more (--all)" in done.stdout
    wire = json.loads((await asyncio.to_thread(doctor, "--json", "--kubeconfig", kubeconfig)).stdout)
    assert wire["counts"]["crds"] == len(healthy.shipped().crds)
    assert sorted(wire["findings"][0]) == ["check", "command", "object", "what", "why"]


# ---- before a migration from Kueue

CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta1
kind: Configuration
fairSharing: {enable: true}
admissionFairSharing: {usageHalfLifeTime: 1h, usageSamplingInterval: 5m, resourceWeights: {cpu: 0}}
multiKueue: {gcInterval: 1m}
integrations: {frameworks: [batch/job, acme.io/rocket]}
"""


USUAL = """
apiVersion: config.kueue.x-k8s.io/v1beta1
kind: Configuration
health: {healthProbeBindAddress: ":8081"}
metrics: {bindAddress: ":8443", enableClusterQueueResources: true}
webhook: {port: 9443}
leaderElection: {leaderElect: true, resourceName: c1f6bfd2.kueue.x-k8s.io}
controller: {groupKindConcurrency: {Job.batch: 5}}
clientConnection: {qps: 50, burst: 100}
integrations: {frameworks: [batch/job, jobset.x-k8s.io/jobset, pod, deployment, statefulset]}
"""


async def kueue(kube: Kube, configuration: str) -> None:
    """A cluster with Kueue's CRDs, controller and Configuration."""
    for crd in (one for one in manifests() if one["kind"] == CRDS.kind and one["spec"]["group"] == GROUP):
        await kube.create(CRDS, {**crd, "spec": {**crd["spec"], "conversion": {"strategy": "None"}}})
    await kube.create(NAMESPACES, {"metadata": {"name": "kueue-system"}})
    metadata = {"name": "kueue-controller-manager", "namespace": "kueue-system", "labels": {"app": "kueue"}}
    template = {**pod_template(), "metadata": {"labels": {"app": "kueue"}}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "kueue"}}, "template": template}
    await kube.create(DEPLOYMENTS, {"metadata": metadata, "spec": spec})
    data = {"controller_manager_config.yaml": configuration}
    await kube.create(CONFIG_MAPS, {"metadata": {"name": "kueue-config", "namespace": "kueue-system"}, "data": data})


async def test_a_usual_kueue_is_ready_to_migrate(server: FakeServer, kube: Kube, tmp_path: Path) -> None:
    """Settings of its own process stand in no way."""
    await kueue(kube, USUAL)
    await create(kube, CLUSTER_QUEUES, healthy.queue("q", "f"))
    done = await asyncio.to_thread(doctor, "--preflight", "--kubeconfig", server.kubeconfig(tmp_path / "kubeconfig"))
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("ready to migrate: ")


async def test_preflight_that_could_not_read_everything_does_not_say_ready(tmp_path: Path) -> None:
    """Issue 20, build 2: the verdict is about all that a migration depends on."""
    async with FakeServer(refusing("workloads")) as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        async with await Kube.connect(ClientSettings(kubeconfig=kubeconfig, attempts=1)) as kube:
            await kueue(kube, USUAL)
        done = await asyncio.to_thread(doctor, "--preflight", "--kubeconfig", kubeconfig)
    assert done.exit_code == 2
    assert "kueue-kinds: not looked at: " in done.stdout
    assert done.stdout.splitlines()[-1].startswith("not known whether ready to migrate: ")


async def test_preflight_names_what_stands_in_the_way(server: FakeServer, kube: Kube, tmp_path: Path) -> None:
    await kueue(kube, CONFIGURATION)
    check = {"controllerName": "kueue.x-k8s.io/multikueue"}
    await create(kube, ADMISSION_CHECKS, {"metadata": {"name": "multi"}, "spec": check})
    scope = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    policy = {"migration": {"mode": "RetainFirstAdmission"}}
    queue = healthy.queue("q", "f", admissionScope=scope, concurrentAdmissionPolicy=policy)
    await create(kube, CLUSTER_QUEUES, queue)
    kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
    done = await asyncio.to_thread(doctor, "--preflight", "--json", "--kubeconfig", kubeconfig)
    findings = json.loads(done.stdout)["findings"]
    assert done.exit_code == 1
    assert {(each["check"], each["object"], each["what"].partition(":")[0]) for each in findings} == {
        ("kueue-settings", "ConfigMap kueue-system/kueue-config", "multiKueue"),
        ("kueue-settings", "ConfigMap kueue-system/kueue-config", "integrations.frameworks"),
        ("kueue-fields", "AdmissionCheck multi", "is of kueue.x-k8s.io/multikueue, which is not implemented"),
        ("kueue-fields", "ClusterQueue q", "spec.concurrentAdmissionPolicy has no effect"),
    }
    said = (await asyncio.to_thread(doctor, "--preflight", "--kubeconfig", kubeconfig)).stdout
    assert said.splitlines()[-1].startswith("not ready to migrate: ")
