"""Owner references are not believed. A pod counts as a Job's, and a Job as a JobSet's, only where it is one."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from msgspec import structs

from admission.webhook.owner_reads import owner_to_read
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from admission.webhook.server.review import decode, review
from api import names
from tests.admission.webhook.objects import QUEUE, job
from tests.admission.webhook.server.test_review import JOB_CONTROLLER, body

Obj = dict[str, Any]
POD, JOB = "/mutate-core-v1-pod", "/mutate-batch-v1-job"
SELECTED = {"batch.kubernetes.io/controller-uid": "u-job"}
DEFAULT_QUOTA = Lookups(elastic_quotas=lambda _: [("scheduling.x-k8s.io", "quota")])


def spec(**requests: str) -> Obj:
    return {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]}


def a_job(uid: str = "u-job", *, suspend: bool = False, **requests: str) -> Obj:
    inner = {"suspend": suspend, "selector": {"matchLabels": SELECTED}, "template": {"spec": spec(**requests)}}
    return {"metadata": {"name": "owner", "namespace": "ns", "uid": uid}, "spec": inner}


def a_pod(labels: Obj | None = None, kind: str = "batch/v1/Job", name: str = "owner", **requests: str) -> Obj:
    version, _, last = kind.rpartition("/")
    owner = {"apiVersion": version, "kind": last, "name": name, "uid": "u-job", "controller": True}
    meta = {"name": "p", "labels": SELECTED if labels is None else labels, "ownerReferences": [owner]}
    return {"metadata": meta, "spec": spec(**requests)}


def a_jobset(*, suspend: bool = False, uid: str = "u-set") -> Obj:
    inner = {"parallelism": 2, "template": {"spec": spec(cpu="1")}}
    replicated = [{"name": "w", "replicas": 2, "template": {"spec": inner}}]
    return {"metadata": {"name": "set", "uid": uid}, "spec": {"suspend": suspend, "replicatedJobs": replicated}}


def a_child(name: str = "set-w-1", *, pods: int = 2, cpu: str = "1", label: str = "set", suspend: bool = False) -> Obj:
    owner = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "name": "set",
        "uid": "u-set",
        "controller": True,
    }
    meta = {"name": name, "labels": {"jobset.sigs.k8s.io/jobset-name": label}, "ownerReferences": [owner]}
    return {"metadata": meta, "spec": {"parallelism": pods, "suspend": suspend, "template": {"spec": spec(cpu=cpu)}}}


def said(path: str, obj: Obj, owner: Obj | None, user: str = "tenant") -> str:
    """What is refused, empty for what is let in as it is."""
    request = structs.replace(decode(body(obj, user=user)), owner=owner)
    response = review(path, request, DEFAULT_QUOTA, ReviewRules())["response"]
    assert not (response["allowed"] and "patch" in response), "it is queued by itself"
    return "" if response["allowed"] else str(response["status"]["message"])


@pytest.mark.parametrize(
    ("pod", "owner", "text"),
    [
        pytest.param(a_pod(cpu="1"), a_job(cpu="1"), "", id="the-Jobs"),
        pytest.param(a_pod(memory="1Gi"), a_job(), "", id="with-a-default-of-a-LimitRange"),
        pytest.param(a_pod(), None, "[0].name: Forbidden: the Job owner does not exist", id="of-no-Job"),
        pytest.param(a_pod(), a_job("other"), "[0].uid: Forbidden: the Job owner has another UID", id="wrong-UID"),
        pytest.param(a_pod(), a_job(suspend=True), "is suspended and has no pods", id="of-a-suspended-Job"),
        pytest.param(a_pod({}), a_job(), "has only pods with the labels", id="not-of-its-selector"),
        pytest.param(a_pod(cpu="2"), a_job(cpu="1"), "asks for 1 of cpu in each of its pods, not 2", id="larger"),
        pytest.param(a_pod(gpu="1"), a_job(), "asks for 0 of gpu in each of its pods, not 1", id="of-other-resources"),
        pytest.param(a_pod(kind="jobset.x-k8s.io/v1alpha2/JobSet"), a_jobset(), "another UID", id="of-a-JobSet"),
    ],
)
def test_a_pod_is_a_jobs_only_where_the_job_would_have_made_it(pod: Obj, owner: Obj | None, text: str) -> None:
    found = said(POD, pod, owner)
    assert found == "" if not text else text in found
    assert not found or found.startswith("metadata.ownerReferences[0]")


@pytest.mark.parametrize(
    ("child", "owner", "text"),
    [
        pytest.param(a_child(), a_jobset(), "", id="the-JobSets"),
        pytest.param(a_child(suspend=True), a_jobset(suspend=True), "", id="rests-with-it"),
        pytest.param(a_child(), None, "the JobSet set does not exist", id="of-no-JobSet"),
        pytest.param(a_child(), a_jobset(uid="other"), "has another UID", id="wrong-UID"),
        pytest.param(a_child(), a_jobset(suspend=True), "is suspended, and its Jobs with it", id="runs-while-it-rests"),
        pytest.param(a_child("mine"), a_jobset(), "has no Job of the name mine", id="another-name"),
        pytest.param(a_child("set-w-2"), a_jobset(), "has no Job of the name set-w-2", id="one-too-many"),
        pytest.param(a_child("set-w-01"), a_jobset(), "has no Job of the name set-w-01", id="another-spelling"),
        pytest.param(a_child(label="x"), a_jobset(), "has only Jobs with the label", id="without-its-label"),
        pytest.param(a_child(pods=3), a_jobset(), "has 2 pods in its Job set-w-1, not 3", id="more-pods"),
        pytest.param(a_child(cpu="2"), a_jobset(), "asks for 1 of cpu", id="larger-pods"),
    ],
)
def test_a_job_is_a_jobsets_only_where_the_jobset_would_have_made_it(child: Obj, owner: Obj | None, text: str) -> None:
    found = said(JOB, child, owner)
    assert found == "" if not text else text in found


def a_clean_up(**cluster: Any) -> tuple[Obj, Obj]:
    """KubeRay's Job that removes a cluster's state from Redis, with the pods of the head, and the cluster."""
    gated = {**spec(cpu="200m"), "schedulingGates": [{"name": names.TOPOLOGY_GATE}, {"name": "example.com/other"}]}
    meta = {"labels": {names.PODSET_LABEL: "head"}, "annotations": {names.WORKLOAD_ANNOTATION: "w"}}
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "ray", "uid": "u-ray", "controller": True}
    labels = {names.RAY_NODE_TYPE: names.RAY_REDIS_CLEANUP}
    made = {
        "metadata": {"name": "ray-redis-cleanup", "labels": labels, "ownerReferences": [owner]},
        "spec": {"template": {"metadata": meta, "spec": gated}},
    }
    head = {"template": {"metadata": meta, "spec": {**gated, "containers": spec(cpu="1")["containers"]}}}
    return made, {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "ray", "namespace": "ns", "uid": "u-ray", "labels": QUEUE, **cluster},
        "spec": {"suspend": True, "headGroupSpec": head},
    }


def test_the_clean_up_of_a_deleted_ray_cluster_is_not_held() -> None:
    made, cluster = a_clean_up(deletionTimestamp="2026-01-01T00:00:00Z")
    request = structs.replace(decode(body(made, user="kuberay")), owner=cluster, ancestors=(cluster,))
    response = review(JOB, request, DEFAULT_QUOTA, ReviewRules())["response"]
    assert response["allowed"]
    patches = msgspec.json.decode(base64.b64decode(response["patch"]))
    assert {one["path"] for one in patches} >= {"/spec/template/spec/schedulingGates"}
    [gates] = [one["value"] for one in patches if one["path"] == "/spec/template/spec/schedulingGates"]
    assert gates == [{"name": "example.com/other"}]
    answer = review("/validate-batch-v1-job", request, DEFAULT_QUOTA, ReviewRules())["response"]
    assert answer["allowed"], answer
    made, cluster = a_clean_up()
    request = structs.replace(decode(body(made, user="kuberay")), owner=cluster)
    answer = review("/validate-batch-v1-job", request, DEFAULT_QUOTA, ReviewRules())["response"]
    assert "is suspended, and its Jobs with it" in answer["status"]["message"]


def test_the_controller_of_jobs_is_believed_and_asks_for_nothing() -> None:
    assert said(POD, a_pod(), None, user=JOB_CONTROLLER) == ""
    for user, read in ((JOB_CONTROLLER, False), ("system:kube-controller-manager", False), ("tenant", True)):
        assert (owner_to_read(POD, decode(body(a_pod(), user=user)), ReviewRules()) is not None) is read
    assert owner_to_read(JOB, decode(body(a_child(), user=JOB_CONTROLLER)), ReviewRules()) is not None
    assert owner_to_read(POD, decode(body(a_pod(kind="apps/v1/ReplicaSet"))), ReviewRules()) is None


def test_a_job_does_not_become_part_of_another_one() -> None:
    old = job(suspend=True)
    new = {**old, "metadata": {**old["metadata"], "ownerReferences": a_child()["metadata"]["ownerReferences"]}}
    request = decode(body(new, "UPDATE", old))
    answer = review("/validate-batch-v1-job", request, Lookups(), ReviewRules())["response"]
    assert "metadata.ownerReferences: Forbidden" in answer["status"]["message"]
    gone = review("/validate-batch-v1-job", decode(body(old, "UPDATE", new)), Lookups(), ReviewRules())["response"]
    assert gone["allowed"]
    assert names.QUEUE_NAME_LABEL in old["metadata"]["labels"]
