"""A template in an object of a declared kind that is none: refused with its field, and no failure of the webhook."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.job_kind_errors import read
from admission.integrations.registry import KINDS
from admission.webhook.endpoints import MUTATE_DECLARED, VALIDATE_DECLARED
from admission.webhook.review_request import Request
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from admission.webhook.server.review import review
from api.names import QUEUE_NAME_LABEL
from tests.admission.integrations.test_job_kind_errors import GOOD, Obj, crane

REQUESTS = {"resources": {"requests": {"cpu": "lots"}}}


@pytest.fixture(autouse=True)
def _declared() -> Any:
    KINDS.declare(DeclaredJob(read(GOOD).spec))
    yield
    KINDS.withdraw(("example.com", "Crane"))


def reviewed(path: str, pod: Any) -> Obj:
    job = crane(teams=[{"name": "north", "shifts": 1, "crews": [{"name": "lift", "pod": pod}]}])
    meta = {"name": "c", "namespace": "default", "labels": {QUEUE_NAME_LABEL: "q"}}
    whole = {"apiVersion": "example.com/v1", "kind": "Crane", **job, "metadata": meta}
    request = Request("u", "CREATE", "c", "default", copy.deepcopy(whole))
    answer: Obj = review(path, request, Lookups(), ReviewRules())["response"]
    return answer


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        (None, "pod: Invalid value: null: must be a pod template"),
        ({"metadata": 3}, "pod.metadata: Invalid value: 3: must be a map"),
        ({"metadata": {"annotations": {"a": 3}}}, "pod.metadata.annotations.a: Invalid value: 3: must be a text"),
        ({"spec": {"schedulingGates": ["a"]}}, "must be a list of maps"),
        ({"spec": {"containers": 3}}, "pod.spec.containers: Invalid value: 3: Expected 'array', got 'int'"),
        ({"spec": {"containers": [{"name": "c", **REQUESTS}]}}, "requests[cpu] must be a quantity"),
    ],
    ids=str,
)
def test_it_is_refused_with_its_field(pod: Any, message: str) -> None:
    assert reviewed(MUTATE_DECLARED, pod)["allowed"] is True
    refused = reviewed(VALIDATE_DECLARED, pod)
    assert refused["allowed"] is False
    assert refused["status"]["message"].startswith("spec.teams[0].crews[0].pod")
    assert message in refused["status"]["message"]


def test_one_that_is_a_template_is_taken() -> None:
    pod = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    assert reviewed(VALIDATE_DECLARED, pod)["allowed"] is True
