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

from admission.cli.local_cluster.install import install, manifests
from admission.cli.main import app
from admission.doctor import read, unmanaged
from admission.doctor.checks import ALL
from admission.doctor.question import Question
from admission.doctor.read import look
from admission.doctor.report import examined
from admission.doctor.view import View
from api.embedded.server import EmbeddedServer, EmbeddedSettings
from api.kube.client import Kube
from api.kube.resources import (
    CONFIG_MAPS,
    CRDS,
    JOB_KINDS,
    JOBS,
    JOBSETS,
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
from api.names import QUEUE_NAME_LABEL
from tests.admission.cli.test_endings import DEAD
from tests.admission.doctor import healthy
from tests.builders import pod_template
from tests.crds import crd_of

DEAD_WEBHOOK = "https://127.0.0.1:1"


@pytest_asyncio.fixture
async def server() -> AsyncIterator[EmbeddedServer]:
    async with EmbeddedServer(EmbeddedSettings()) as found:
        yield found


@pytest_asyncio.fixture
async def kube(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[Kube]:
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
    assert [(pod.node, pod.owner) for pod in view.pods] == [("n", None)] * 20
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
    ("version", "kind", "served"),
    [
        ("jobset.x-k8s.io/v1alpha2", "JobSet", True),
        ("jobset.x-k8s.io/v1alpha2", "Job", False),
        ("example.com/v1", "Train", False),
        ("example.com/../../api/v1", "Pod", False),
    ],
)
async def test_a_kind_is_served_also_without_a_crd(version: str, kind: str, served: bool, kube: Kube) -> None:
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
    assert (found is not None) == served


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
    assert view.of(WORKLOADS)[0]["spec"] == {"podSets": [{"name": "main", "count": 1}], "queueName": "q"}, (
        "its pod templates are not kept"
    )


TRAINS = Resource("example.com", "v1", "trains", "Train")


async def trains(kube: Kube, *, owned: int = 0, own: int = 1) -> None:
    """A custom kind with objects that name a queue: parts that a controller made, then those of users."""
    await kube.create(CRDS, crd_of(TRAINS))
    await kube.create(NAMESPACES, {"metadata": {"name": "a"}})
    labels = {QUEUE_NAME_LABEL: "q"}
    uid = (await create(kube, TRAINS, {"metadata": {"name": "x", "namespace": "a"}}))["metadata"]["uid"]
    owner = {"apiVersion": "example.com/v1", "kind": "Train", "name": "x", "uid": uid, "controller": True}
    for number in range(owned):
        meta = {"name": f"a-part-{number}", "namespace": "a", "labels": labels, "ownerReferences": [owner]}
        await create(kube, TRAINS, {"metadata": meta})
    for number in range(own):
        await create(kube, TRAINS, {"metadata": {"name": f"train-{number}", "namespace": "a", "labels": labels}})


async def test_parts_of_a_kind_do_not_hide_what_a_user_made(kube: Kube, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unmanaged, "_PAGE", 5)
    await trains(kube, owned=23)
    assert [one.name for one in (await looked(kube)).unmanaged] == ["train-0"]


async def test_of_many_objects_of_a_kind_some_are_named_and_the_bound_is_told(
    kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unmanaged, "_PAGE", 5)
    monkeypatch.setattr(unmanaged, "_MOST_PAGES", 2)
    await trains(kube, owned=12, own=30)
    view = await looked(kube)
    assert not view.unmanaged
    report = examined(view, ALL)
    assert "only the first 10 objects were looked at: trains.example.com" in report.unread["kinds-without-declaration"]
    monkeypatch.setattr(unmanaged, "_MOST_PAGES", 10)
    assert len((await looked(kube)).unmanaged) == 20


async def test_a_kind_that_a_jobkind_declares_is_no_finding(kube: Kube) -> None:
    """Its command would take a job out of its queue."""
    await trains(kube)
    await kube.create(CRDS, next(one for one in manifests() if one["metadata"]["name"] == "jobkinds.stowage.dev"))
    assert [one.name for one in (await looked(kube)).unmanaged] == ["train-0"]
    spec = {"group": "example.com", "version": "v1", "plural": "trains", "kind": "Train"}
    status = {"active": {"path": "status.active"}, "succeeded": {"path": "status.done"}}
    fields = {"suspend": {"path": "spec.suspend"}, "podSets": [{"template": "spec.template"}], "status": status}
    kind = {"apiVersion": JOB_KINDS.api_version, "kind": JOB_KINDS.kind, "metadata": {"name": "trains.example.com"}}
    await kube.create(JOB_KINDS, {**kind, "spec": {**spec, **fields}})
    assert not (await looked(kube)).unmanaged


async def test_a_custom_kind_that_the_user_may_not_list_is_told(tmp_path: Path) -> None:
    async with EmbeddedServer(refusing("trains")) as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        async with await Kube.connect(ClientSettings(kubeconfig=kubeconfig, attempts=1)) as kube:
            await kube.create(CRDS, crd_of(TRAINS))
            report = examined(await looked(kube), ALL)
    assert "these kinds could not be listed: trains.example.com" in report.unread["kinds-without-declaration"]


async def workload(kube: Kube, name: str, version: str, kind: str, uid: str) -> None:
    reference = {"apiVersion": version, "kind": kind, "name": "j", "uid": uid, "controller": True}
    metadata = {"name": name, "namespace": "a", "ownerReferences": [reference]}
    pod_set = {"name": "main", "count": 1, "template": pod_template()}
    await create(kube, WORKLOADS, {"metadata": metadata, "spec": {"queueName": "q", "podSets": [pod_set]}})


async def test_owners_of_which_not_all_are_known_are_not_taken_for_gone(
    kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command of `leftover-workloads` deletes."""
    monkeypatch.setattr(read, "_PAGE", 2)
    monkeypatch.setattr(read, "MOST", 4)
    await install(kube, DEAD_WEBHOOK)
    await remove_webhooks(kube)
    uid = (await kube.create(NAMESPACES, {"metadata": {"name": "a"}}))["metadata"]["uid"]
    for number in range(6):
        job = {
            "metadata": {"name": f"j{number}", "namespace": "a"},
            "spec": {"template": pod_template(), "suspend": True},
        }
        await kube.create(JOBS, job)
    await workload(kube, "w", "batch/v1", "Job", uid)
    view = await looked(kube)
    assert ("batch", "Job") not in view.owners
    assert "jobs: only the first 4 were looked at" in examined(view, ALL).cut


async def test_a_kind_that_is_served_in_another_version_is_not_taken_for_gone(kube: Kube) -> None:
    await install(kube, DEAD_WEBHOOK)
    await remove_webhooks(kube)
    uid = (await kube.create(NAMESPACES, {"metadata": {"name": "a"}}))["metadata"]["uid"]
    newer = replace(JOBSETS, version="v2")
    await kube.create(CRDS, crd_of(newer))
    await workload(kube, "w", newer.api_version, newer.kind, uid)
    view = await looked(kube)
    assert not view.unread
    assert not view.owners


async def test_made_up_kinds_are_asked_about_in_bounds_and_the_others_are_not_called_gone(
    kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a user of Workloads could have doctor name those of a kind that another API server serves."""
    monkeypatch.setattr(read, "MOST_KINDS", 2)
    await install(kube, DEAD_WEBHOOK)
    await remove_webhooks(kube)
    uid = (await kube.create(NAMESPACES, {"metadata": {"name": "a"}}))["metadata"]["uid"]
    for number in range(4):
        await workload(kube, f"w{number}", f"e{number}.example.com/v1", "Train", uid)
    view = await looked(kube)
    assert view.owners == {("e0.example.com", "Train"): None, ("e1.example.com", "Train"): None}
    report = examined(view, ALL)
    assert "owners of Workloads: only 2 of 4 kinds that no CRD declares were looked at" in report.cut


def refusing(plural: str) -> EmbeddedSettings:
    """A server that lets nobody read these objects."""

    async def refuse(request: web.Request) -> web.StreamResponse | None:
        if not request.path.endswith(f"/{plural}") or request.method != "GET":
            return None
        status = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403}
        return web.json_response({**status, "message": f"no {plural} for you"}, status=403)

    return replace(EmbeddedSettings(), intercept=refuse)


async def test_a_kind_that_the_user_may_not_read_is_told_and_its_checks_do_not_pass(tmp_path: Path) -> None:
    async with EmbeddedServer(refusing("nodes")) as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        async with await Kube.connect(ClientSettings(kubeconfig=kubeconfig, attempts=1)) as kube:
            report = examined(await looked(kube), ALL)
    assert "no nodes for you" in report.unread["nodes-without-levels"]
    assert "leases" not in report.unread


async def test_no_secret_is_read(server: EmbeddedServer, kube: Kube) -> None:
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


async def test_findings_end_with_1_and_are_printed_with_reason_and_command(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
    done = await asyncio.to_thread(doctor, "--kubeconfig", kubeconfig)
    assert done.exit_code == 1
    assert "crds: The API server drops fields" in done.stdout
    assert f"kubectl --kubeconfig={kubeconfig} apply --server-side --force-conflicts -f " in done.stdout
    assert f"and {len(healthy.shipped().crds) - 10} more (--all)" in done.stdout
    wire = json.loads((await asyncio.to_thread(doctor, "--json", "--kubeconfig", kubeconfig)).stdout)
    assert wire["counts"]["crds"] == len(healthy.shipped().crds)
    assert sorted(wire["findings"][0]) == ["check", "command", "object", "what", "why"]
