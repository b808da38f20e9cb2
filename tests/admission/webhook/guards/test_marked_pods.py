"""Pods with gates or marks: which of their updates take a right, and which are everybody's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from admission.webhook.review_request import Request, RequestUser
from admission.webhook.rights import STARTS, sufficient_rights
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from admission.webhook.server.review import review
from api import names
from api.kube.resources import JOBS, JOBSETS
from api.process.access import Right
from api.topology import ResourceFlavor

Obj = dict[str, Any]
Edit = Callable[[Obj], object]
PATH = "/validate-core-v1-pod"
RULES = ReviewRules()
FLAVOR = ResourceFlavor.from_wire(
    {"metadata": {"name": "f"}, "spec": {"nodeLabels": {"pool": "a"}, "topology": {"levels": ["rack"]}}}
)
KNOWN = Lookups(flavors={"f": FLAVOR})
JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"
GATES = (names.TOPOLOGY_GATE, names.ELASTIC_GATE)


def owner(kind: str = "Job", version: str = "batch/v1") -> Obj:
    return {"apiVersion": version, "kind": kind, "name": "train", "uid": "u", "controller": True}


def a_pod(*gates: str, owners: tuple[Obj, ...] = (owner(),), labels: dict[str, str] | None = None) -> Obj:
    marks = {names.WORKLOAD_ANNOTATION: "job-train", names.TOPOLOGY_WORKLOAD: "job-train"}
    own = {names.PODSET_LABEL: "main", names.CONTROLLER_UID_LABEL: "u", "team": "red", **(labels or {})}
    meta = {"name": "p", "namespace": "ns", "labels": own, "annotations": marks, "ownerReferences": list(owners)}
    return {"metadata": meta, "spec": {"schedulingGates": [{"name": gate} for gate in gates]}}


def queued() -> Obj:
    pod = a_pod(names.ADMISSION_GATE, names.TOPOLOGY_GATE, owners=())
    pod["metadata"] |= {"labels": {names.QUEUE_NAME_LABEL: "q", names.MANAGED_LABEL: "true"}, "annotations": {}}
    return pod


def without_pod_set(*gates: str) -> Obj:
    """As made by an older version: its annotations alone name its Workload."""
    pod = a_pod(*gates)
    del pod["metadata"]["labels"][names.PODSET_LABEL]
    return pod


def unmarked(*gates: str) -> Obj:
    """A user's own pod, which no queue holds."""
    return {
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"schedulingGates": [{"name": gate} for gate in gates]},
    }


def updated(old: Obj, edit: Edit, user: str = "tenant") -> Request:
    new = copy.deepcopy(old)
    edit(new)
    return Request("u", "UPDATE", "p", "ns", new, old, RequestUser(user))


def refusal(request: Request) -> str:
    """What a user without a right is told; empty if no right is needed."""
    if not sufficient_rights(PATH, request, None, KNOWN, RULES):
        return ""
    answer = review(PATH, structs.replace(request, entitled=False), KNOWN, RULES)["response"]
    assert not answer["allowed"]
    assert review(PATH, request, KNOWN, RULES)["response"]["allowed"], "who has the right may do it"
    return str(answer["status"]["message"])


def labelled(labels: dict[str, str]) -> Edit:
    return lambda pod: pod["metadata"]["labels"].update(labels)


TAKE_A_RIGHT = (
    pytest.param(a_pod(*GATES), lambda p: p["spec"].pop("schedulingGates"), "schedulingGates", id="both-gates"),
    pytest.param(a_pod(*GATES), lambda p: p["spec"]["schedulingGates"].pop(), "elastic-job", id="one-gate"),
    pytest.param(a_pod(names.TOPOLOGY_GATE, owners=()), lambda p: p["spec"].pop("schedulingGates"), "Gates", id="no-owner"),
    pytest.param(queued(), lambda p: p["spec"].pop("schedulingGates"), "schedulingGates", id="gates-of-a-plain-pod"),
    pytest.param(a_pod(), lambda p: p["metadata"]["labels"].pop(names.PODSET_LABEL), "podset", id="no-pod-set"),
    pytest.param(a_pod(), labelled({names.CONTROLLER_UID_LABEL: "v"}), names.CONTROLLER_UID_LABEL, id="other-selector"),
    pytest.param(a_pod(labels={"ray.io/cluster": "a"}), labelled({"ray.io/cluster": "b"}), "ray.io/cluster", id="of-ray"),
    pytest.param(a_pod(), lambda p: p["metadata"].pop("ownerReferences"), "ownerReferences", id="no-owner-any-more"),
    pytest.param(a_pod(), lambda p: p["metadata"]["annotations"].clear(), names.WORKLOAD_ANNOTATION, id="no-workload"),
    pytest.param(
        a_pod(owners=()),
        lambda p: p["metadata"]["annotations"].update({names.WORKLOAD_SLICE_NAME: "x"}),
        names.WORKLOAD_SLICE_NAME,
        id="a-mark-that-is-new",
    ),
    pytest.param(
        without_pod_set(), labelled({names.CONTROLLER_UID_LABEL: "v"}), names.CONTROLLER_UID_LABEL, id="older-selector"
    ),
    pytest.param(
        without_pod_set(), lambda p: p["metadata"].pop("ownerReferences"), "ownerReferences", id="older-no-owner"
    ),
    pytest.param(
        unmarked(),
        lambda p: p["metadata"].update(annotations={names.WORKLOAD_ANNOTATION: "w"}),
        names.WORKLOAD_ANNOTATION,
        id="a-mark-on-a-stranger",
    ),
    pytest.param(unmarked(names.TOPOLOGY_GATE), lambda p: p["spec"].pop("schedulingGates"), "Gates", id="gate-of-a-stranger"),
    pytest.param(a_pod(*GATES), lambda p: p["spec"].update(nodeSelector={"rack": "r"}), "nodeSelector[rack]", id="level"),
    pytest.param(a_pod(*GATES), lambda p: p["spec"].update(nodeSelector={"pool": "b"}), "nodeSelector[pool]", id="flavor"),
)  # fmt: skip

TAKE_NONE = (
    pytest.param(a_pod("other/gate", *GATES), lambda p: p["spec"]["schedulingGates"].pop(0), id="gate-of-others"),
    pytest.param(a_pod(*GATES), lambda p: p["spec"].update(nodeSelector={"arch": "arm"}), id="selector-of-others"),
    pytest.param(a_pod(), labelled({"team": "blue"}), id="label-without-prefix"),
    pytest.param(a_pod(), labelled({"example.com/new": "x"}), id="label-that-is-new"),
    pytest.param(a_pod(), labelled({names.PRIORITY_CLASS_LABEL: "high"}), id="priority"),
    pytest.param(a_pod(), lambda p: p["metadata"]["annotations"].update({"a": "b"}), id="annotation"),
    pytest.param(
        a_pod(owners=(), labels={"app.kubernetes.io/name": "a"}),
        labelled({"app.kubernetes.io/name": "b"}),
        id="nobodys",
    ),
    pytest.param(
        a_pod(owners=(owner("ReplicaSet", "apps/v1"),), labels={"app.kubernetes.io/name": "a"}),
        labelled({"app.kubernetes.io/name": "b"}),
        id="its-replacement-is-admitted-by-itself",
    ),
    pytest.param(
        {**a_pod(*GATES), "metadata": {**a_pod()["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}},
        lambda p: p["spec"].pop("schedulingGates"),
        id="gate-of-a-pod-that-goes",
    ),
)


@pytest.mark.parametrize(("old", "edit", "field"), TAKE_A_RIGHT)
def test_what_was_admitted_is_changed_by_nobody_else(old: Obj, edit: Edit, field: str) -> None:
    """In any namespace, whatever the pod's other labels."""
    assert field in refusal(updated(old, edit))


@pytest.mark.parametrize(("old", "edit"), TAKE_NONE)
def test_the_rest_of_a_pod_is_its_users(old: Obj, edit: Edit) -> None:
    assert refusal(updated(old, edit)) == ""


def test_kubernetes_controllers_release_their_pods_and_open_no_gate() -> None:
    """Deleting a job with orphans takes the owner references away."""
    release: Edit = lambda p: p["metadata"].pop("ownerReferences")  # noqa: E731
    assert refusal(updated(a_pod(), release, JOB_CONTROLLER)) == ""
    opened: Edit = lambda p: p["spec"].pop("schedulingGates")  # noqa: E731
    assert "only Stowage" in refusal(updated(a_pod(*GATES), opened, JOB_CONTROLLER))


@pytest.mark.parametrize(
    ("reference", "resource"),
    [
        pytest.param(owner(), JOBS, id="job"),
        pytest.param(owner("JobSet", "jobset.x-k8s.io/v1alpha2"), JOBSETS, id="jobset"),
    ],
)
def test_the_controller_of_the_owner_has_the_right(reference: Obj, resource: Any) -> None:
    request = updated(a_pod(owners=(reference,)), lambda p: p["metadata"].pop("ownerReferences"))
    assert sufficient_rights(PATH, request, None, KNOWN, RULES) == (STARTS, Right(resource, "status"))
