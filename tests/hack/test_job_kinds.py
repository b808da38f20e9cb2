"""Each registered job kind has what is written outside its adapter: webhooks, rights, a sample (issue 17, 3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from admission.integrations.base import JobIntegration
from admission.integrations.registry import ADAPTERS
from admission.webhook.endpoints import MUTATE_DECLARED, MUTATING, VALIDATE_DECLARED, VALIDATING
from api.manifests import read

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
