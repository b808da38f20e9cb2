"""ElasticQuotas at the webhook: what is refused, and which jobs are given to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from admission.webhook.kinds import elastic_quotas as elastic
from admission.webhook.rules.lookups import Lookups
from api import names
from api.queues import ClusterQueue, LocalQueue
from tests.admission.webhook.objects import job, lookups
from tests.admission.webhook.rules.test_jobs import defaulted, lines
from tests.admission.webhook.server.test_review import answer, body

X, SIGS = "scheduling.x-k8s.io", "scheduling.sigs.k8s.io"
PATHS = {
    X: "/validate-scheduling-x-k8s-io-v1alpha1-elasticquota",
    SIGS: "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota",
}
GPU = "nvidia.com/gpu"


def quota(name: str = "quota", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": spec}


def knowing(*quotas: tuple[str, str]) -> Lookups:
    """There are elastic quotas in the namespace `ns`."""
    return Lookups(elastic_quotas=lambda namespace: quotas if namespace == "ns" else ())


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, [], id="nothing"),
        pytest.param({"min": None, "max": None}, [], id="nulls"),
        pytest.param({"min": {"cpu": 1}, "max": {"cpu": "1000m"}}, [], id="equal-in-other-words"),
        pytest.param({"min": {"cpu": 5}, "max": {GPU: 1}}, [], id="different-resources"),
        pytest.param({"min": {"cpu": 0}, "max": {"cpu": 0}}, [], id="zero"),
        pytest.param(
            {"min": {"cpu": "-1"}, "max": {"cpu": -2}},
            [
                'spec.min[cpu]: Invalid value: "-1": must be greater than or equal to 0',
                'spec.max[cpu]: Invalid value: "-2": must be greater than or equal to 0',
            ],
            id="negative",
        ),
        pytest.param(
            {"min": {GPU: 3, "cpu": 1}, "max": {GPU: 2, "cpu": 4}},
            [f'spec.min[{GPU}]: Invalid value: "3": must be less than or equal to spec.max[{GPU}], which is 2'],
            id="min-above-max",
        ),
    ],
)
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
@pytest.mark.parametrize("group", PATHS)
def test_amounts(group: str, operation: str, spec: dict[str, Any], want: list[str]) -> None:
    said = answer(PATHS[group], body(quota(**spec), operation, quota()))
    assert said["allowed"] is not bool(want)
    found = [
        f"{cause['field']}: {cause['message']}" for cause in said.get("status", {}).get("details", {}).get("causes", ())
    ]
    assert found == want


@pytest.mark.parametrize("group", PATHS)
@pytest.mark.parametrize("other", PATHS)
def test_a_second_one_in_a_namespace_is_refused_whichever_its_group(group: str, other: str) -> None:
    want = f'metadata.namespace: Forbidden: namespace "ns" has the ElasticQuota "first" ({other}): there is one for a namespace'
    assert lines(elastic.validate_create(quota(), group, "ns", knowing((other, "first")))) == [want]
    assert elastic.validate_create(quota(), group, "elsewhere", knowing((other, "first"))) == []


def test_the_same_one_again_is_for_the_server_to_refuse() -> None:
    assert elastic.validate_create(quota(), X, "ns", knowing((X, "quota"))) == []
    assert elastic.validate_create(quota(), SIGS, "ns", knowing((X, "quota"))) != []


def test_one_of_two_that_are_there_already_may_be_changed() -> None:
    known = knowing((X, "quota"), (SIGS, "quota"))
    assert answer(PATHS[X], body(quota(max={"cpu": 1}), "UPDATE", quota()), known)["allowed"]


# ---- jobs without a queue name


def queue_of(obj: dict[str, Any]) -> str | None:
    label: str | None = obj["metadata"]["labels"].get(names.QUEUE_NAME_LABEL)
    return label


def test_a_job_without_a_queue_goes_by_the_elastic_quota_of_its_namespace() -> None:
    made = defaulted(job(labels={}), cached=knowing((X, "quota")))
    assert queue_of(made) == "elastic-quota"
    assert made["spec"]["suspend"] is True


@pytest.mark.parametrize(
    ("cohort", "label", "want"),
    [
        pytest.param("elastic-quota", "ns", "elastic-quota", id="in-force"),
        pytest.param(None, "ns", None, id="deleted"),
        pytest.param(None, None, "elastic-quota", id="of-a-user"),
    ],
)
def test_the_queue_of_a_deleted_quota_takes_nothing_new(
    cohort: str | None, label: str | None, want: str | None
) -> None:
    labels = {names.ELASTIC_QUOTA_LABEL: "ns"}
    local = {"metadata": {"name": "elastic-quota", "labels": labels}, "spec": {"clusterQueue": "cq"}}
    queue = {"metadata": {"name": "cq", "labels": labels if label else {}}, "spec": {"cohortName": cohort}}
    known = Lookups(
        local_queues={"ns/elastic-quota": LocalQueue.from_wire(local)},
        cluster_queues={"cq": ClusterQueue.from_wire(queue)},
    )
    assert defaulted(job(labels={}), cached=known)["metadata"].get("labels", {}).get(names.QUEUE_NAME_LABEL) == want


def test_elsewhere_it_stays_as_it_is() -> None:
    given = job(labels={})
    assert defaulted(given, cached=knowing((X, "quota")), namespace="elsewhere") == given


def test_a_queue_that_it_names_and_the_default_queue_go_first() -> None:
    quotas = knowing((X, "quota")).elastic_quotas
    assert queue_of(defaulted(job(), cached=replace(lookups(), elastic_quotas=quotas))) == "team"
    known = replace(lookups(default_queue=True), elastic_quotas=quotas)
    assert queue_of(defaulted(job(labels={}), cached=known)) == "default"
