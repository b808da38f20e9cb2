"""Which updates start what waits, and which right a request takes beyond those of Kubernetes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from admission.webhook.owner_reads import owner_to_read
from admission.webhook.review_request import Request
from admission.webhook.rights import STARTS, sufficient_rights
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from admission.webhook.server.review import review
from api import names
from api.kube.resources import CLUSTER_QUEUES, JOBS, JOBSETS
from api.process.access import Right
from tests.admission.webhook.guards.test_owners import a_child, a_pod
from tests.admission.webhook.objects import QUEUE, job, jobset

Obj = dict[str, Any]
QUOTA = Lookups(elastic_quotas=lambda _: [("scheduling.x-k8s.io", "quota")])
ANYWHERE = Lookups()
RULES = ReviewRules()
JOB, JOBSET, POD, DECLARED = (
    "/validate-batch-v1-job",
    "/validate-jobset-x-k8s-io-v1alpha2-jobset",
    "/validate-core-v1-pod",
    "/validate-declared-job",
)


def pytorchjob(**spec: Any) -> Obj:
    replica = {"replicas": 2, "template": job()["spec"]["template"]}
    meta = {"name": "train", "namespace": "ns", "labels": QUEUE}
    inner = {"pytorchReplicaSpecs": {"Worker": replica}, **spec}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": meta, "spec": inner}


def pod(*gates: str) -> Obj:
    meta = {"name": "p", "labels": {**QUEUE, names.MANAGED_LABEL: "true"}}
    return {"metadata": meta, "spec": {"schedulingGates": [{"name": gate} for gate in gates]}}


def change(old: Obj, edit: Callable[[Obj], object]) -> tuple[Obj, Obj]:
    new = copy.deepcopy(old)
    edit(new)
    return old, new


def update(old: Obj, new: Obj) -> Request:
    return Request("u", "UPDATE", "train", "ns", new, old)


ELASTIC = {names.ELASTIC_JOB: "true"}
OWNED = [{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "uid": "1", "controller": True}]

STARTED = (
    pytest.param(JOB, job(suspend=True), lambda j: j["spec"].pop("suspend"), id="unsuspended"),
    pytest.param(JOB, job(suspend=False), lambda j: j["spec"].update(parallelism=5), id="more-pods"),
    pytest.param(
        JOB, job(suspend=False), lambda j: j["metadata"].update(annotations=ELASTIC), id="becomes-elastic-while-it-runs"
    ),
    pytest.param(
        JOBSET, jobset(None, w=(1, 1, {})), lambda j: j["spec"]["replicatedJobs"][0].update(replicas=2), id="jobset-grows"
    ),
    pytest.param(
        DECLARED,
        pytorchjob(runPolicy={"suspend": True}),
        lambda j: j["spec"]["runPolicy"].update(suspend=False),
        id="declared-unsuspended",
    ),
    pytest.param(
        DECLARED,
        pytorchjob(),
        lambda j: j["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0].update(
            resources={"requests": {"cpu": "9"}}
        ),
        id="declared-asks-for-more",
    ),
    pytest.param(
        DECLARED,
        pytorchjob(),
        lambda j: j["spec"]["pytorchReplicaSpecs"].update(Master=j["spec"]["pytorchReplicaSpecs"]["Worker"]),
        id="declared-gets-another-role",
    ),
)  # fmt: skip

NOT_STARTED = (
    pytest.param(JOB, job(suspend=True), lambda j: j["spec"].update(parallelism=9), id="suspended-grows"),
    pytest.param(JOB, job(suspend=False), lambda j: j["spec"].update(parallelism=9, suspend=True), id="queues-anew"),
    pytest.param(JOB, job(suspend=False), lambda j: j["spec"].update(parallelism=2), id="fewer-pods"),
    pytest.param(
        JOB, job(annotations=ELASTIC, suspend=False), lambda j: j["spec"].update(parallelism=9), id="elastic-grows"
    ),
    pytest.param(JOB, job(suspend=False), lambda j: j["metadata"].update(annotations={"a": "b"}), id="annotated"),
    pytest.param(
        JOB,
        job(suspend=True),
        lambda j: (j["metadata"].update(ownerReferences=OWNED), j["spec"].update(suspend=False)),
        id="part-of-a-jobset",
    ),
    pytest.param(JOB, job(labels={}, suspend=True), lambda j: j["spec"].update(suspend=False), id="queues-nowhere"),
)


@pytest.mark.parametrize(("path", "old", "edit"), STARTED)
def test_only_who_may_write_workloads_starts_what_waits(path: str, old: Obj, edit: Callable[[Obj], object]) -> None:
    """Also by giving a running job more pods than were admitted."""
    request = update(*change(old, edit))
    assert sufficient_rights(path, request, None, QUOTA, RULES) == (STARTS,)
    refused = review(path, structs.replace(request, entitled=False), QUOTA, RULES)["response"]
    assert not refused["allowed"]
    assert {cause["reason"] for cause in refused["status"]["details"]["causes"]} == {"FieldValueForbidden"}
    assert review(path, request, QUOTA, RULES)["response"]["allowed"]
    assert not sufficient_rights(path, request, None, ANYWHERE, RULES), "elsewhere a user may leave the queue"


@pytest.mark.parametrize(("path", "old", "edit"), NOT_STARTED)
def test_other_updates_take_no_right(path: str, old: Obj, edit: Callable[[Obj], object]) -> None:
    assert not sufficient_rights(path, update(*change(old, edit)), None, QUOTA, RULES)


@pytest.mark.parametrize(
    ("path", "obj", "right"),
    [
        pytest.param("/mutate-core-v1-pod", a_pod(), Right(JOBS, "status"), id="pod-of-a-job"),
        pytest.param("/mutate-batch-v1-job", a_child(), Right(JOBSETS, "status"), id="job-of-a-jobset"),
        pytest.param("/mutate-core-v1-pod", a_pod(kind="apps/v1/ReplicaSet"), None, id="pod-of-a-replica-set"),
        pytest.param("/mutate-batch-v1-job", job(), None, id="job-of-nobody"),
    ],
)
def test_an_owner_is_named_by_who_may_update_its_status(path: str, obj: Obj, right: Right | None) -> None:
    """Only the real controller counts."""
    request = Request("u", "CREATE", "p", "ns", obj)
    found = sufficient_rights(path, request, owner_to_read(path, request, RULES), QUOTA, RULES)
    assert found == (() if right is None else (right,))


def with_reclaimable(count: int) -> Obj:
    """A Workload of three pods with quota."""
    pods = {"name": "main", "count": 3, "template": {"spec": {"containers": [{"name": "c"}]}}}
    admission = {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 3}]}
    quota = {"type": names.QUOTA_RESERVED, "status": "True", "reason": "QuotaReserved"}
    reclaimed = [{"name": "main", "count": count}] if count else []
    status = {"admission": admission, "conditions": [quota], "reclaimablePods": reclaimed}
    return {
        "metadata": {"name": "w", "namespace": "ns"},
        "spec": {"queueName": "q", "podSets": [pods]},
        "status": status,
    }


@pytest.mark.parametrize("after", [0, 1])
def test_only_the_controller_says_that_pods_which_had_ended_have_come_back(after: int) -> None:
    """To others the API is as Kueue's: reclaimable pods do not become fewer, and never more than there are."""
    path, request = "/validate-kueue-x-k8s-io-v1beta2-workload", update(with_reclaimable(2), with_reclaimable(after))
    assert sufficient_rights(path, request, None, QUOTA, RULES) == (Right(CLUSTER_QUEUES, "status"),)
    assert review(path, request, QUOTA, RULES)["response"]["allowed"]
    assert not review(path, structs.replace(request, entitled=False), QUOTA, RULES)["response"]["allowed"]
    more = update(with_reclaimable(2), with_reclaimable(3))
    assert not sufficient_rights(path, more, None, QUOTA, RULES)
    assert review(path, more, QUOTA, RULES)["response"]["allowed"]
    absurd = review(path, update(with_reclaimable(2), with_reclaimable(4)), QUOTA, RULES)["response"]
    assert "should be less or equal to 3" in absurd["status"]["message"]
