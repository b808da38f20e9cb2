"""Every registered job kind is complete: endpoints, informers, owners, rights, webhook configurations, samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from admission.app import _Controller
from admission.integrations.base import JobIntegration
from admission.integrations.owners import is_managed_kind
from admission.integrations.registry import ADAPTERS, REFERENCED_KINDS
from admission.settings import AdmissionSettings
from admission.webhook.endpoints import MUTATE_DECLARED, MUTATING, VALIDATE_DECLARED, VALIDATING
from admission.webhook.rules.review_rules import JOB, ReviewRules
from admission.world.jobs import job_kinds
from api.embedded.server import EmbeddedServer, EmbeddedSettings
from api.kube.client import Kube
from api.kube.resources import CRDS
from api.kube.settings import ClientSettings
from api.text.manifests import read
from tests.crds import crd_of

CONFIG = Path(__file__).resolve().parents[2] / "config"
KINDS = pytest.mark.parametrize("kind", ADAPTERS, ids=lambda kind: kind.framework)


def documents(name: str) -> list[Any]:
    return read(CONFIG / name)


def verbs(file: str, kind: JobIntegration) -> set[str]:
    """What the cluster roles of the file allow on the kind's objects."""
    rules = [rule for document in documents(file) for rule in document.get("rules") or ()]
    of_kind = [r for r in rules if kind.resource.group in r["apiGroups"] and kind.resource.plural in r["resources"]]
    return {verb for rule in of_kind for verb in rule["verbs"]}


@KINDS
@pytest.mark.parametrize("verb", ["mutate", "validate"])
def test_its_webhooks_are_served_and_configured(kind: JobIntegration, verb: str) -> None:
    paths = MUTATING if verb == "mutate" else VALIDATING
    declared = MUTATE_DECLARED if verb == "mutate" else VALIDATE_DECLARED
    served = {path for path, endpoint in paths.items() if endpoint.resource == kind.resource} or {declared}
    (configuration,) = documents("webhook/mutating.yaml" if verb == "mutate" else "webhook/validating.yaml")
    for_kind = {
        webhook["clientConfig"]["service"]["path"]
        for webhook in configuration["webhooks"]
        for rule in webhook.get("rules", [])
        if kind.resource.group in rule["apiGroups"] and kind.resource.plural in rule["resources"]
    }
    assert len(served) == 1
    assert served <= for_kind


@KINDS
def test_the_roles_allow_what_is_done_with_it(kind: JobIntegration) -> None:
    assert verbs("rbac/controller.yaml", kind) >= {"get", "list", "watch", "patch"}
    assert "get" in verbs("rbac/webhook.yaml", kind)
    assert "delete" in verbs("retention/rbac.yaml", kind)


@KINDS
def test_there_is_a_sample(kind: JobIntegration) -> None:
    names = {p.name for p in (CONFIG / "samples").glob("*.yaml")} - {"kustomization.yaml"}
    kinds = {document["kind"] for name in names for document in documents(f"samples/{name}")}
    assert kind.resource.kind in kinds


@KINDS
def test_its_objects_own_their_parts(kind: JobIntegration) -> None:
    """A Workload of such an owner is admitted, and pods or jobs that it controls are not queued themselves."""
    group_kind = (kind.resource.group, kind.resource.kind)
    assert is_managed_kind(group_kind)
    assert ReviewRules().is_managed_owner(group_kind) is (group_kind != JOB), "a Job may be part of another job"


@KINDS
def test_commands_without_a_controller_know_it(kind: JobIntegration) -> None:
    assert job_kinds()[kind.resource] is kind


@KINDS
@pytest.mark.parametrize("name", ["mutating", "validating"])
def test_the_development_configuration_has_its_webhooks(kind: JobIntegration, name: str) -> None:
    (configuration,) = documents(f"webhook/{name}.yaml")
    (patch,) = documents(f"development/{name}.yaml")
    addresses = {operation["path"]: operation["value"] for operation in patch}
    of_kind = {
        f"/webhooks/{index}/clientConfig": webhook["clientConfig"]["service"]["path"]
        for index, webhook in enumerate(configuration["webhooks"])
        for rule in webhook.get("rules", [])
        if kind.resource.group in rule["apiGroups"] and kind.resource.plural in rule["resources"]
    }
    assert of_kind
    assert {path: addresses[path]["url"].partition(":9443")[2] for path in of_kind} == of_kind


async def test_the_controller_watches_each_kind_and_what_it_refers_to(tmp_path: Path) -> None:
    async with EmbeddedServer(EmbeddedSettings()) as server:
        file = server.kubeconfig(tmp_path / "kubeconfig")
        async with await Kube.connect(ClientSettings(kubeconfig=file)) as kube:
            parts = _Controller(kube, kube, AdmissionSettings()).parts
            watched = {informer.resource for part in parts for informer in part.informers}
    assert {kind.resource for kind in ADAPTERS} | set(REFERENCED_KINDS) <= watched


async def test_the_embedded_server_serves_each_kind(tmp_path: Path) -> None:
    async with EmbeddedServer(EmbeddedSettings()) as server:
        file = server.kubeconfig(tmp_path / "kubeconfig")
        async with await Kube.connect(ClientSettings(kubeconfig=file)) as kube:
            for kind in ADAPTERS:
                if kind.resource.group != "batch":
                    await kube.create(CRDS, crd_of(kind.resource))
                assert not (await kube.list(kind.resource)).items
