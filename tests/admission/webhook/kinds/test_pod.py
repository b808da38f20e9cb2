"""Plain pods and Deployments at the webhook: what they are given, what they may say, and whose pods are left alone."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from admission.webhook.rules.lookups import Lookups
from api import names
from api.queues import WorkloadPriorityClass
from tests.admission.webhook.objects import lookups
from tests.admission.webhook.server.test_review import JOB_CONTROLLER, answer, body, patched

MUTATE, VALIDATE = "/mutate-core-v1-pod", "/validate-core-v1-pod"
MUTATE_DEPLOYMENT, VALIDATE_DEPLOYMENT = "/mutate-apps-v1-deployment", "/validate-apps-v1-deployment"
GATES = [{"name": names.ADMISSION_GATE}, {"name": names.TOPOLOGY_GATE}]
Obj = dict[str, Any]


def a_pod(
    labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, owner: str = "", **spec: Any
) -> Obj:
    queue = {names.QUEUE_NAME_LABEL: "team"}
    meta: Obj = {"name": "p", "labels": queue if labels is None else labels, "annotations": annotations or {}}
    if owner:
        version, kind = owner.rsplit("/", 1)
        meta["ownerReferences"] = [{"apiVersion": version, "kind": kind, "name": "o", "uid": "u", "controller": True}]
    return {"metadata": meta, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def made(
    path: str, obj: Obj, cached: Lookups | None = None, operation: str = "CREATE", old: Any = None, user: str = ""
) -> Obj:
    """The object after its defaults."""
    response = answer(path, body(obj, operation, old, user), cached)
    assert response["allowed"], response
    patch = msgspec.json.decode(base64.b64decode(response["patch"])) if "patch" in response else []
    found: Obj = patched(obj, patch)
    return found


def refused(path: str, obj: Obj, operation: str = "CREATE", old: Any = None) -> str:
    response = answer(path, body(obj, operation, old))
    assert not response["allowed"]
    assert response["status"]["code"] == 403
    return str(response["status"]["message"])


def test_a_pod_of_a_queue_is_held_kept_marked_and_has_its_role_written_down() -> None:
    found = made(MUTATE, a_pod())
    assert found["spec"]["schedulingGates"] == GATES
    assert found["metadata"]["finalizers"] == [names.MANAGED_FINALIZER]
    assert found["metadata"]["labels"][names.MANAGED_LABEL] == "true"
    assert len(found["metadata"]["annotations"][names.ROLE_HASH]) == 8


@pytest.mark.parametrize(("named", "wanted"), [(None, "default"), ("high", "high")])
def test_the_class_called_default_is_for_those_that_name_none(named: str | None, wanted: str) -> None:
    """As in Kueue (WorkloadPriorityClassDefaulting)."""
    known = {"default": WorkloadPriorityClass.from_wire({"metadata": {"name": "default"}, "value": 5})}
    labels = {names.QUEUE_NAME_LABEL: "team", **({names.PRIORITY_CLASS_LABEL: named} if named else {})}
    with_class = replace(lookups(), workload_priority_classes=known)
    pod, none = made(MUTATE, a_pod(labels), with_class), made(MUTATE, a_pod(labels), lookups())
    assert pod["metadata"]["labels"][names.PRIORITY_CLASS_LABEL] == wanted
    assert none["metadata"]["labels"].get(names.PRIORITY_CLASS_LABEL) == named
    job = {"metadata": {"name": "j", "labels": labels}, "spec": {"template": {"spec": {"containers": []}}}}
    path = "/mutate-batch-v1-job"
    assert made(path, job, with_class)["metadata"]["labels"][names.PRIORITY_CLASS_LABEL] == wanted


def test_a_role_that_the_maker_of_the_group_tells_stays() -> None:
    """The pod sets of a prebuilt Workload have names of its maker's; a pod on its own has no role to tell."""
    role = {names.ROLE_HASH: "worker"}
    group = {names.POD_GROUP_NAME: "g", names.POD_GROUP_TOTAL_COUNT: "2"}
    assert made(MUTATE, a_pod(annotations={**role, **group}))["metadata"]["annotations"][names.ROLE_HASH] == "worker"
    assert made(MUTATE, a_pod(annotations=role))["metadata"]["annotations"][names.ROLE_HASH] != "worker"
    bad = a_pod(annotations={**group, names.ROLE_HASH: "no role"})
    assert "must be the name of a pod set" in refused(MUTATE, bad)


def test_gates_and_finalizers_of_others_stay() -> None:
    pod = a_pod(schedulingGates=[{"name": "example.com/mine"}, GATES[0]])
    pod["metadata"]["finalizers"] = ["example.com/mine"]
    found = made(MUTATE, pod)
    assert found["spec"]["schedulingGates"] == [{"name": "example.com/mine"}, *GATES]
    assert found["metadata"]["finalizers"] == ["example.com/mine", names.MANAGED_FINALIZER]


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod(labels={}), id="names no queue"),
        pytest.param(a_pod(owner="batch/v1/Job"), id="of a Job"),
    ],
)
def test_whose_pods_stay_as_they_are(pod: Obj) -> None:
    assert made(MUTATE, pod, user=JOB_CONTROLLER) == pod


def test_a_pod_of_an_unmanaged_kind_queues_by_itself() -> None:
    assert made(MUTATE, a_pod(owner="apps/v1/ReplicaSet"))["spec"]["schedulingGates"] == GATES


def test_the_index_is_taken_from_the_label_that_is_named() -> None:
    labels = {names.QUEUE_NAME_LABEL: "team", "apps/index": "3"}
    found = made(MUTATE, a_pod(labels, {names.POD_GROUP_INDEX_SOURCE: "apps/index"}))
    assert found["metadata"]["labels"][names.POD_GROUP_INDEX_LABEL] == "3"


@pytest.mark.parametrize(
    ("labels", "annotations", "message"),
    [
        pytest.param({names.POD_GROUP_NAME: "g"}, {}, "total-count]: Required value", id="no count"),
        pytest.param({names.POD_GROUP_NAME: "g"}, {names.POD_GROUP_TOTAL_COUNT: "x"}, 'parsing "x"', id="no number"),
        pytest.param(
            {names.POD_GROUP_NAME: "g"}, {names.POD_GROUP_TOTAL_COUNT: "-1"}, "greater than zero", id="below 0"
        ),
        pytest.param({names.POD_GROUP_NAME: "g"}, {names.POD_GROUP_TOTAL_COUNT: "9" * 99}, "at most", id="huge"),
        pytest.param({}, {names.POD_GROUP_FAST_ADMISSION: "yes"}, "'true' or 'false'", id="no boolean"),
        pytest.param({}, {names.POD_GROUP_INDEX_SOURCE: "a b"}, "pod-index-label", id="no label key"),
        pytest.param({}, {names.PLACEMENT_CONSTRAINTS: "{"}, "placement-constraints", id="constraints are no JSON"),
    ],
)
def test_a_new_pod_is_judged_in_the_call_that_completes_it(
    labels: dict[str, str], annotations: dict[str, str], message: str
) -> None:
    assert message in refused(MUTATE, a_pod({names.QUEUE_NAME_LABEL: "team", **labels}, annotations))


def test_a_pod_that_runs_keeps_its_queue() -> None:
    ours = {names.MANAGED_LABEL: "true", names.QUEUE_NAME_LABEL: "team"}
    other = ours | {names.QUEUE_NAME_LABEL: "another"}
    assert "queue-name" in refused(VALIDATE, a_pod(other), "UPDATE", a_pod(ours))
    gated = a_pod(other, schedulingGates=GATES)
    assert answer(VALIDATE, body(gated, "UPDATE", a_pod(ours, schedulingGates=GATES)))["allowed"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(a_pod(owner="batch/v1/Job"), a_pod({names.POD_GROUP_NAME: "G_1"}), id="a Job's pod"),
        pytest.param(
            a_pod({names.MANAGED_LABEL: "true", names.POD_GROUP_NAME: "G_1"}),
            a_pod({names.MANAGED_LABEL: "true", names.POD_GROUP_NAME: "G_1"}, nodeName="n"),
            id="nothing that we judge changes",
        ),
    ],
)
def test_updates_that_are_none_of_our_business_pass(old: Obj, new: Obj) -> None:
    assert answer(VALIDATE, body(new, "UPDATE", old))["allowed"]


def test_a_jobs_pod_is_not_judged() -> None:
    pod = a_pod(annotations={names.POD_GROUP_TOTAL_COUNT: "x"}, owner="batch/v1/Job")
    assert made(MUTATE, pod, user=JOB_CONTROLLER) == pod


# ---- Deployments


def a_deployment(queue: str = "team", ready: int = 0, labels: dict[str, str] | None = None) -> Obj:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    own = {**({names.QUEUE_NAME_LABEL: queue} if queue else {}), **(labels or {})}
    status = {"status": {"readyReplicas": ready}} if ready else {}
    return {"metadata": {"name": "web", "labels": own}, "spec": {"template": template}, **status}


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_a_deployment_hands_queue_and_class_to_its_pods(operation: str) -> None:
    found = made(
        MUTATE_DEPLOYMENT, a_deployment(labels={names.PRIORITY_CLASS_LABEL: "high"}), operation=operation, old={}
    )
    meta = found["spec"]["template"]["metadata"]
    assert meta["labels"] == {
        "app": "web",
        names.MANAGED_LABEL: "true",
        names.QUEUE_NAME_LABEL: "team",
        names.PRIORITY_CLASS_LABEL: "high",
    }
    pod = made(MUTATE, {"metadata": {"name": "p", **meta}, "spec": found["spec"]["template"]["spec"]})
    assert pod["spec"]["schedulingGates"] == GATES
    assert "finalizers" not in pod["metadata"]


def of_an_earlier_release() -> Obj:
    deployment = a_deployment()
    deployment["spec"]["template"]["metadata"] = {
        "labels": {"app": "web", names.QUEUE_NAME_LABEL: "team"},
        "annotations": {names.POD_SUSPENDING_PARENT: "deployment"},
    }
    return deployment


def test_a_deployment_of_an_earlier_release_is_marked_for_kueue_with_its_next_rollout() -> None:
    """A change of the template for the mark alone would restart all of its pods."""
    stored, asked = of_an_earlier_release(), of_an_earlier_release()
    asked["metadata"]["annotations"] = {"team": "ours"}
    assert made(MUTATE_DEPLOYMENT, asked, operation="UPDATE", old=stored) == asked
    asked["spec"]["template"]["spec"]["containers"][0]["image"] = "new"
    template = made(MUTATE_DEPLOYMENT, asked, operation="UPDATE", old=stored)["spec"]["template"]
    assert template["metadata"]["labels"][names.MANAGED_LABEL] == "true"


def test_a_deployments_mark_is_kept_when_a_manifest_without_it_is_applied() -> None:
    stored = made(MUTATE_DEPLOYMENT, a_deployment())
    again = made(MUTATE_DEPLOYMENT, a_deployment(), operation="UPDATE", old=stored)
    assert again["spec"]["template"] == stored["spec"]["template"]


@pytest.mark.parametrize("annotations", [{names.POD_SUSPENDING_PARENT: "deployment"}, {}])
def test_kueue_can_take_over_a_pod_of_any_deployment(annotations: dict[str, str]) -> None:
    """It passes over pods without the managed label; with `{}` the namespace's default queue made the pod queue."""
    labels = {names.QUEUE_NAME_LABEL: "team"} if annotations else {}
    pod = made(MUTATE, a_pod(labels, annotations, owner="apps/v1/ReplicaSet"), lookups(default_queue=True))
    assert pod["metadata"]["labels"][names.MANAGED_LABEL] == "true"
    assert "finalizers" not in pod["metadata"]


def test_a_member_of_a_gang_is_kept_after_its_end_though_its_deployment_makes_another() -> None:
    """Whether the gang had been bound whole stands in the members that were lost."""
    deployment = a_deployment()
    deployment["spec"]["template"]["metadata"]["labels"] |= {names.GANG_NAME: "g", names.GANG_MINIMUM: "2"}
    template = made(MUTATE_DEPLOYMENT, deployment)["spec"]["template"]
    pod = made(MUTATE, {"metadata": {"name": "p", **template["metadata"]}, "spec": template["spec"]})
    assert (pod["metadata"]["labels"][names.QUEUE_NAME_LABEL], pod["spec"]["schedulingGates"]) == ("team", GATES)
    assert pod["metadata"]["finalizers"] == [names.MANAGED_FINALIZER]


def test_a_deployment_without_a_queue_stays_as_it_is() -> None:
    assert made(MUTATE_DEPLOYMENT, a_deployment(queue="")) == a_deployment(queue="")


@pytest.mark.parametrize(("ready", "allowed"), [(0, True), (1, False)])
def test_a_deployments_queue_is_fixed_once_a_pod_is_ready(ready: int, allowed: bool) -> None:
    response = answer(VALIDATE_DEPLOYMENT, body(a_deployment("other"), "UPDATE", a_deployment(ready=ready)))
    assert response["allowed"] is allowed


@pytest.mark.parametrize("ready", [0, 1])
def test_a_deployments_queue_is_not_removed(ready: int) -> None:
    """As in Kueue."""
    text = refused(VALIDATE_DEPLOYMENT, a_deployment(""), "UPDATE", a_deployment(ready=ready))
    assert text == f'metadata.labels[{names.QUEUE_NAME_LABEL}]: Invalid value: "": field is immutable'


def test_a_deployments_queue_is_a_name() -> None:
    assert "RFC 1123" in refused(VALIDATE_DEPLOYMENT, a_deployment("Q_1"))


def test_levels_of_the_queue_are_no_reason_to_refuse_a_pod_that_names_one_of_them() -> None:
    pod = a_pod(annotations={names.REQUIRED_TOPOLOGY: "cloud.com/rack"})
    assert made(MUTATE, pod, lookups())["spec"]["schedulingGates"] == GATES
