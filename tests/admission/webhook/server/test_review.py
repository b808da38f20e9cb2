"""AdmissionReviews in, answers out; and the JSON patch that carries a change."""

from __future__ import annotations

import base64
import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given as holds_for
from hypothesis import strategies as st

from admission.webhook.endpoints import MUTATING, VALIDATING
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from admission.webhook.server.patch import json_patch
from admission.webhook.server.review import BadReview, decode, review
from api import names
from tests.admission.webhook.objects import BLOCK, RACK, job, jobset, lookups

MUTATE_JOB, VALIDATE_JOB = "/mutate-batch-v1-job", "/validate-batch-v1-job"
COHORT = "/validate-kueue-x-k8s-io-v1beta2-cohort"
ELASTIC_QUOTA = "/validate-scheduling-x-k8s-io-v1alpha1-elasticquota"


JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"


def body(obj: Any, operation: str = "CREATE", old: Any = None, user: str = "") -> bytes:
    request = {
        "uid": "u-1",
        "operation": operation,
        "name": "train",
        "namespace": "ns",
        "object": obj,
        "oldObject": old,
        "userInfo": {"username": user, "groups": []},
    }
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def answer(path: str, data: bytes, cached: Lookups | None = None, rules: ReviewRules | None = None) -> dict[str, Any]:
    reply = review(path, decode(data), cached or Lookups(), rules or ReviewRules())
    assert reply["apiVersion"] == "admission.k8s.io/v1"
    assert reply["response"]["uid"] == "u-1"
    response: dict[str, Any] = reply["response"]
    return response


def patched(obj: Any, patch: list[dict[str, Any]]) -> Any:
    """RFC 6902 for the operations that we write."""
    whole = {"root": copy.deepcopy(obj)}
    for operation in patch:
        steps = ["root", *(s.replace("~1", "/").replace("~0", "~") for s in operation["path"].split("/")[1:])]
        target: Any = whole
        for step in steps[:-1]:
            target = target[int(step) if isinstance(target, list) else step]
        last = steps[-1]
        if isinstance(target, list):
            if last == "-":
                target.append(operation["value"])
            else:
                target[int(last)] = operation["value"]
        elif operation["op"] == "remove":
            del target[last]
        else:
            target[last] = operation["value"]
    return whole["root"]


def test_a_job_is_patched_at_creation() -> None:
    given = job(annotations={names.REQUIRE_TOPOLOGY: RACK})
    response = answer(MUTATE_JOB, body(given))
    assert response["allowed"]
    assert response["patchType"] == "JSONPatch"
    made = patched(given, msgspec.json.decode(base64.b64decode(response["patch"])))
    assert made["spec"]["suspend"] is True
    assert made["spec"]["template"]["spec"]["schedulingGates"] == [{"name": names.TOPOLOGY_GATE}]


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE"])
def test_only_creation_is_patched(operation: str) -> None:
    response = answer(MUTATE_JOB, body(job(), operation, old=job()))
    assert response == {"uid": "u-1", "allowed": True}


@pytest.mark.parametrize("path", [MUTATE_JOB, VALIDATE_JOB], ids=["in the call that completes it", "by itself"])
def test_a_refusal_names_every_field(path: str) -> None:
    bad = job(labels={names.QUEUE_NAME_LABEL: "No"}, annotations={names.REQUIRE_TOPOLOGY: "auto"})
    response = answer(path, body(bad))
    status = response["status"]
    assert not response["allowed"]
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["message"].startswith(f'[metadata.labels[{names.QUEUE_NAME_LABEL}]: Invalid value: "No": a lowercase')
    assert [c["field"] for c in status["details"]["causes"]] == [
        f"metadata.labels[{names.QUEUE_NAME_LABEL}]",
        f"metadata.annotations[{names.REQUIRE_TOPOLOGY}]",
    ]
    assert status["details"]["causes"][1]["message"].startswith('Invalid value: "auto": must name a level')


def test_levels_are_looked_up_when_they_are_asked_for_and_not_on_every_change() -> None:
    known = lookups(BLOCK)
    asked = job(annotations={names.REQUIRE_TOPOLOGY: RACK})
    assert not answer(VALIDATE_JOB, body(asked), known)["allowed"]
    assert not answer(VALIDATE_JOB, body(asked, "UPDATE", old=job()), known)["allowed"]
    assert answer(VALIDATE_JOB, body(asked, "UPDATE", old=asked), known)["allowed"]


def test_a_deletion_is_always_allowed() -> None:
    assert answer(VALIDATE_JOB, body(None, "DELETE", old=job(annotations={names.REQUIRE_TOPOLOGY: "auto"})))["allowed"]


def test_an_object_of_the_wrong_shape_is_refused_in_words() -> None:
    bad = job(annotations={names.REQUIRE_TOPOLOGY: RACK})
    bad["spec"]["parallelism"] = "many"
    response = answer(VALIDATE_JOB, body(bad))
    assert response["status"]["code"] == 400
    assert response["status"]["message"].startswith('Job "train" cannot be read: ValueError')


_GROUP = {"coveredResources": {"cpu": 1}, "flavors": [{"resources": [{"name": "cpu"}]}]}


@pytest.mark.parametrize(
    ("path", "obj"),
    [
        pytest.param(COHORT, {"spec": {"resourceGroups": [_GROUP]}}, id="map-for-a-list"),
        pytest.param(ELASTIC_QUOTA, {"spec": {"min": {"cpu": None}, "max": {"cpu": 1}}}, id="null-for-a-quantity"),
        pytest.param(VALIDATE_JOB, {"metadata": {"ownerReferences": ["x"]}, "spec": {}}, id="text-for-an-owner"),
    ],
)
def test_an_unreadable_field_is_refused_and_not_a_failure_of_ours(path: str, obj: dict[str, Any]) -> None:
    response = answer(path, body(obj))
    assert not response["allowed"]
    assert response["status"]["code"] in (400, 403)


def test_warnings_do_not_refuse() -> None:
    pod_set = {"name": "main", "count": 1, "topologyRequest": {"subGroupCount": -1}}
    response = answer("/validate-kueue-x-k8s-io-v1beta2-workload", body({"spec": {"podSets": [pod_set]}}))
    assert response["allowed"]
    assert len(response["warnings"]) == 1


def test_a_pod_of_a_job_that_is_marked_as_one_on_its_own_is_let_in_with_a_warning() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "controller": True}
    meta = {"name": "p", "labels": {names.MANAGED_LABEL: "true"}, "ownerReferences": [owner]}
    pod = {"metadata": meta, "spec": {"containers": []}}
    created = answer("/mutate-core-v1-pod", body(pod, user=JOB_CONTROLLER))
    assert created["allowed"]
    assert "pod owner is managed" in created["warnings"][0]
    assert "warnings" not in answer("/mutate-core-v1-pod", body(pod | {"metadata": meta | {"labels": {}}}))


@pytest.mark.parametrize("kind", ["clusterqueue", "resourceflavor"])
def test_a_removed_finalizer_is_restored(kind: str) -> None:
    path = f"/mutate-kueue-x-k8s-io-v1beta2-{kind}"
    response = answer(path, body({"metadata": {"name": "x"}}))
    assert "patch" in response


@pytest.mark.parametrize(
    ("data", "want"),
    [
        pytest.param(b"not json", "the body is not an AdmissionReview: JSON is malformed", id="no-json"),
        pytest.param(b"{}", "the body is not an AdmissionReview: Object missing required field", id="empty"),
        pytest.param(
            b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}',
            "admission.k8s.io/v1beta1 AdmissionReview: only admission.k8s.io/v1 AdmissionReview is understood",
            id="old-version",
        ),
        pytest.param(
            b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}',
            "the AdmissionReview has no request",
            id="no-request",
        ),
    ],
)
def test_what_is_no_review(data: bytes, want: str) -> None:
    with pytest.raises(BadReview, match="^" + want):
        decode(data)


def test_paths_follow_one_scheme() -> None:
    assert {MUTATE_JOB, "/mutate-jobset-x-k8s-io-v1alpha2-jobset"} <= MUTATING.keys()
    kinds = ("workload", "clusterqueue", "localqueue", "cohort", "resourceflavor", "topology")
    assert {VALIDATE_JOB, *(f"/validate-kueue-x-k8s-io-v1beta2-{kind}" for kind in kinds)} <= VALIDATING.keys()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["a", "b/c", "~d"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b/c", "~d"]), inner, max_size=3),
    max_leaves=12,
)


@holds_for(VALUES, VALUES)
def test_a_patch_makes_the_new_of_the_old(old: Any, new: Any) -> None:
    patch = json_patch({"x": old}, {"x": new})
    made = patched({"x": old}, patch)
    # bool and int are equal in Python but not in JSON; the patch compares as Python does.
    assert made == {"x": new}


def _annotated(obj: dict[str, Any], key: str, text: str) -> dict[str, Any]:
    made = copy.deepcopy(obj)
    made["metadata"]["annotations"] = {**(made["metadata"].get("annotations") or {}), key: text}
    return made


_POD = {
    "metadata": {"name": "p", "namespace": "ns", "labels": {names.QUEUE_NAME_LABEL: "q", names.MANAGED_LABEL: "true"}},
    "spec": {"containers": [], "schedulingGates": [{"name": names.ADMISSION_GATE}]},
}
_WORKLOAD = {
    "metadata": {"name": "w", "namespace": "ns"},
    "spec": {"podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": []}}}]},
}
_CLUSTER_QUEUE = {"metadata": {"name": "cq"}, "spec": {"namespaceSelector": {}, "resourceGroups": []}}


@pytest.mark.parametrize(
    ("path", "obj", "key"),
    [
        pytest.param(VALIDATE_JOB, job(), names.PLACEMENT_PROFILE, id="job"),
        pytest.param(
            "/validate-jobset-x-k8s-io-v1alpha2-jobset", jobset(None, w=(1, 1, {})), names.SPARE_HOSTS, id="jobset"
        ),
        pytest.param("/validate-core-v1-pod", _POD, names.REQUIRED_TOPOLOGY, id="pod"),
        pytest.param("/validate-kueue-x-k8s-io-v1beta2-workload", _WORKLOAD, names.PLACEMENT_PROFILE, id="workload"),
        pytest.param(
            "/validate-kueue-x-k8s-io-v1beta2-clusterqueue", _CLUSTER_QUEUE, names.BACKFILL, id="cluster-queue"
        ),
    ],
)
def test_annotations_are_judged_on_update_only_where_they_changed(path: str, obj: dict[str, Any], key: str) -> None:
    """The object may be older than the rule, or than the webhook."""
    old = _annotated(obj, key, "]bad")
    assert not answer(path, body(old))["allowed"]
    assert answer(path, body(_annotated(old, "mine", "x"), "UPDATE", old))["allowed"]
    assert not answer(path, body(_annotated(old, key, "]worse"), "UPDATE", old))["allowed"]
    assert not answer(path, body(old, "UPDATE", obj))["allowed"]
