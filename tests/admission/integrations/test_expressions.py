"""Expressions of a JobKind on jobs of any size: a tenant's long list neither holds a process nor hides pods."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.job_kind_errors import read
from admission.webhook.kinds.declared import kind_of
from admission.webhook.rules.review_rules import ReviewRules
from api.errors import InvalidObject
from tests.admission.integrations.test_job_kind_errors import GOOD, POD, Obj

EACH_ITEM = "object.spec.env.all(x, x >= 0)"
"""A step for each item of a list that the tenant writes."""
ROLES = 18
SIDECARS = 8


def kind(when: str | None = None, sidecar: str = "true", **spec: Any) -> DeclaredJob:
    made = copy.deepcopy(GOOD)
    sidecars = [{"name": f"s{n}", "when": sidecar, "requests": {"cpu": "1"}} for n in range(SIDECARS)]
    rule = {"each": "spec.roles{}", "template": "pod", "when": when, "sidecars": sidecars}
    made["spec"] |= {"podSets": [{key: value for key, value in rule.items() if value is not None}], **spec}
    return DeclaredJob(read(made).spec)


def job(items: int, status: Obj | None = None) -> Obj:
    roles = {f"r{number}": {"pod": POD} for number in range(ROLES)}
    spec = {"state": "Working", "env": [0] * items, "roles": roles}
    return {"metadata": {"name": "long"}, "spec": spec, "status": status or {}}


@pytest.mark.parametrize("declared_job", [kind(when=EACH_ITEM), kind(sidecar=EACH_ITEM)], ids=["pod sets", "sidecar"])
def test_a_job_too_long_for_its_expressions_is_an_error_and_does_not_count_less(declared_job: DeclaredJob) -> None:
    with pytest.raises(InvalidObject) as error:
        declared_job.pod_sets(job(30_000))
    assert str(error.value) == (
        f"long: spec: '{EACH_ITEM}': must be so small that this expression of its JobKind takes at most 20000 steps"
    )
    assert "takes at most 20000 steps" in declared_job.pod_fault({"spec": POD["spec"]}, job(30_000))


def test_each_expression_is_evaluated_once_for_all_pod_sets() -> None:
    """12,000 steps: twice would be too many, and there are 18 pod sets with 8 sidecars each."""
    found = kind(when=EACH_ITEM, sidecar=EACH_ITEM).pod_sets(job(12_000))
    assert [len(one.template["spec"]["containers"]) for one in found] == [SIDECARS + 1] * ROLES


def test_expressions_share_the_steps_of_one_evaluation() -> None:
    with pytest.raises(InvalidObject, match="at most 20000 steps"):
        kind(when=EACH_ITEM, sidecar=f"{EACH_ITEM} && true").pod_sets(job(12_000))


def test_a_job_whose_status_takes_too_long_to_read_keeps_its_quota() -> None:
    """It counts as active and not as ended, whichever side of `||` is found first."""
    test = {"expression": f"{EACH_ITEM} || true"}
    made = kind(status={"active": test, "ready": test, "succeeded": test, "failed": test})
    assert made.is_active(job(30_000))
    assert made.finished(job(30_000)) is None
    assert not made.pods_ready(job(30_000))


def test_the_webhook_refuses_it_with_its_expression() -> None:
    needs = {"path": "spec.env", "expression": EACH_ITEM, "message": "must be positive"}
    review = kind_of(kind(requires=[needs]))
    assert not review.create(job(10), (), ReviewRules())
    (error,) = review.create(job(30_000), (), ReviewRules())
    assert EACH_ITEM in str(error)
