"""The table of more_pods.py, cell by cell: the tenant's request is refused by the rule that the cell names."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from msgspec import structs

from admission.integrations.base import JobIntegration
from admission.webhook.owner_reads import needs_ancestors, owner_of_part, owner_to_read
from admission.webhook.review_request import CREATE, Request, RequestUser
from admission.webhook.rights import sufficient_rights
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from admission.webhook.server.review import review
from api import names
from api.kube.resources import PODS
from tests.attacks.more_pods import SET_RESOURCES, Attempt, Way, path_of, table

QUEUED = Lookups(elastic_quotas=lambda _: [("scheduling.x-k8s.io", "quota")])
RULES = ReviewRules()


@pytest.fixture
def unharmed() -> None:
    """These cells need no processes: the stage's check after each attack is left out."""


def _cell(kind: JobIntegration, way: Way, attempts: list[Attempt]) -> Any:
    return pytest.param(attempts, id=f"{kind.framework.rpartition('/')[2]}: {way.name}")


CELLS = [_cell(kind, way, attempts) for kind, way, attempts in table() if attempts]


def answered(attempt: Attempt) -> str:
    """The refusal of a tenant's request, as handlers.py asks; empty if it is allowed."""
    request = Request(
        "u", attempt.operation, "o", "ns", attempt.new, attempt.old, RequestUser("system:serviceaccount:ns:tenant")
    )
    claimed = owner_to_read(attempt.path, request, RULES)
    rights = sufficient_rights(attempt.path, request, claimed, QUEUED, RULES)
    if rights:
        request = structs.replace(request, entitled=False)
        claimed = claimed or owner_of_part(attempt.path, request, RULES)
    if claimed is not None:
        request = structs.replace(request, owner=attempt.owner)
    if needs_ancestors(attempt.path, request, RULES):
        request = structs.replace(request, ancestors=(attempt.owner,) if attempt.owner else ())
    answer = review(attempt.path, request, QUEUED, RULES)["response"]
    return "" if answer["allowed"] else str(answer["status"]["message"])


@pytest.mark.parametrize("attempts", CELLS)
def test_no_way_runs_more_pods_than_were_admitted(attempts: list[Attempt]) -> None:
    for attempt in attempts:
        if attempt.operation == CREATE and "ownerReferences" not in attempt.new["metadata"]:
            # Where all is queued, such a pod would wait by itself.
            answer = review(attempt.path, Request("u", CREATE, "p", "ns", attempt.new), Lookups(), RULES)["response"]
            assert attempt.refusal in str(answer.get("status"))
        else:
            assert attempt.refusal in answered(attempt)


@pytest.mark.parametrize("resource", SET_RESOURCES, ids=lambda each: each.kind)
def test_each_pod_of_a_set_waits_at_a_gate_of_its_own(resource: Any) -> None:
    """Scaled by hand, by `kubectl scale` or by another template: a pod that names a queue waits, no matter who makes it."""
    owner = {"apiVersion": resource.api_version, "kind": resource.kind, "name": "o", "uid": "u", "controller": True}
    meta = {"name": "p", "namespace": "ns", "labels": {names.QUEUE_NAME_LABEL: "q"}, "ownerReferences": [owner]}
    pod = {"metadata": meta, "spec": {"containers": [{"name": "c"}]}}
    request = Request("u", CREATE, "p", "ns", pod, user_info=RequestUser("system:serviceaccount:kube-system:any"))
    answer = review(path_of(PODS, "mutate"), request, Lookups(), RULES)["response"]
    assert answer["allowed"]
    assert "patch" in answer
    assert names.ADMISSION_GATE in base64.b64decode(answer["patch"]).decode()


def test_every_kind_has_an_answer_to_every_way() -> None:
    """Cells without a request are those of kinds that have no such thing, and no others."""
    empty = {(kind.framework, way.name) for kind, way, attempts in table() if not attempts}
    parts = {name for _, name in empty if "part" in name}
    assert {kind for kind, name in empty if name in parts} <= {"batch/job"}
    assert {way for _, way in empty} - parts <= {"the owner is raised while it runs"}
