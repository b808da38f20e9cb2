"""Parts of jobs that are admitted as a whole, and marks on what nobody admitted: what only the owner's controller may write."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from admission.integrations.registry import DECLARED
from admission.webhook.owner_reads import needs_ancestors, owner_of_part
from admission.webhook.review_request import Request, RequestUser
from admission.webhook.rights import STARTS, sufficient_rights
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from admission.webhook.server.review import review
from api import names
from api.kube.resources import JOBSETS
from api.process.access import Right
from tests.admission.webhook.guards.test_owners import a_child, a_jobset
from tests.admission.webhook.objects import lookups

Obj = dict[str, Any]
Edit = Callable[[Obj], object]
RULES, ANYWHERE = ReviewRules(), Lookups()
VALIDATE_JOB, MUTATE_JOB, MUTATE_POD = "/validate-batch-v1-job", "/mutate-batch-v1-job", "/mutate-core-v1-pod"
QUEUE = {names.QUEUE_NAME_LABEL: "q"}
JOBSET = ("JobSet", "jobset.x-k8s.io/v1alpha2")
GATE = {"schedulingGates": [{"name": names.TOPOLOGY_GATE}]}
MARKS = {names.WORKLOAD_ANNOTATION: "w"}
GARBAGE_COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"


def part(**spec: Any) -> Obj:
    """A running Job of the JobSet `set`, with the gate and marks that its template got at the start."""
    made = a_child()
    template = made["spec"]["template"]
    template["metadata"] = {"labels": {names.PODSET_LABEL: "w"}, "annotations": dict(MARKS)}
    template["spec"] |= {**GATE, "nodeSelector": {"pool": "a"}}
    made["spec"] |= spec
    return made


def updated(old: Obj, edit: Edit, user: str = "tenant") -> Request:
    new = copy.deepcopy(old)
    edit(new)
    return Request("u", "UPDATE", "set-w-1", "ns", new, old, RequestUser(user), ancestors=(queued(*JOBSET, **QUEUE),))


def refusal(request: Request, owner: Obj | None) -> str:
    """What a tenant is told, as handlers.py asks."""
    if not sufficient_rights(VALIDATE_JOB, request, None, ANYWHERE, RULES):
        return ""
    assert owner_of_part(VALIDATE_JOB, request, RULES) is not None
    answer = review(VALIDATE_JOB, structs.replace(request, entitled=False, owner=owner), ANYWHERE, RULES)["response"]
    return "" if answer["allowed"] else str(answer["status"]["message"])


def requests(cpu: str) -> Edit:
    return lambda job: job["spec"]["template"]["spec"]["containers"][0].update(resources={"requests": {"cpu": cpu}})


@pytest.mark.parametrize(
    ("old", "edit", "text"),
    [
        pytest.param(part(), lambda j: j["spec"].update(parallelism=12), "has 2 pods in its Job", id="more-pods"),
        pytest.param(part(), requests("4"), "asks for 1 of cpu", id="larger-pods"),
        pytest.param(part(), lambda j: j["spec"]["template"]["spec"].pop("schedulingGates"), "Gates", id="no-gate"),
        pytest.param(
            part(), lambda j: j["spec"]["template"]["spec"].pop("nodeSelector"), "nodeSelector", id="no-place"
        ),
        pytest.param(
            part(), lambda j: j["spec"]["template"]["metadata"].pop("annotations"), "template.metadata", id="no-marks"
        ),
        pytest.param(part(), lambda j: j["metadata"].pop("ownerReferences"), "ownerReferences", id="no-owner"),
        pytest.param(
            part(),
            lambda j: (j["metadata"].pop("ownerReferences"), j["spec"].update(parallelism=12)),
            "has 2 pods in its Job",
            id="no-owner-and-more-pods",
        ),
    ],
)
def test_a_part_is_no_larger_than_its_owner_says(old: Obj, edit: Edit, text: str) -> None:
    assert text in refusal(updated(old, edit), a_jobset())


@pytest.mark.parametrize(
    ("old", "edit"),
    [
        pytest.param(part(), lambda j: j["spec"].update(parallelism=1), id="fewer-pods"),
        pytest.param(part(parallelism=1), lambda j: j["spec"].update(parallelism=2), id="as-many-as-admitted-again"),
        pytest.param(part(), lambda j: j["spec"].update(suspend=True), id="stopped"),
        pytest.param(part(suspend=True), lambda j: j["spec"].update(suspend=False), id="started-while-its-owner-runs"),
        pytest.param(part(), lambda j: j["metadata"].update(annotations={"a": "b"}), id="annotated"),
    ],
)
def test_a_part_changes_within_what_was_admitted(old: Obj, edit: Edit) -> None:
    assert refusal(updated(old, edit), a_jobset()) == ""


def test_a_part_stays_suspended_as_long_as_its_owner() -> None:
    request = updated(part(suspend=True), lambda j: j["spec"].update(suspend=False))
    assert "is suspended, and its Jobs with it" in refusal(request, a_jobset(suspend=True))
    assert "does not exist any more" in refusal(request, None)
    assert "does not exist any more" in refusal(request, a_jobset(uid="another"))


@pytest.mark.parametrize("entitled", [True, False])
def test_a_part_of_a_job_that_names_no_queue_gets_no_marks(entitled: bool) -> None:
    """Its owner's controller writes into it what a user wrote into the owner; its pods are not looked at."""
    plain = part(suspend=True)
    marked = plain["spec"]["template"].pop("metadata")
    request = updated(
        plain, lambda j: j["spec"].update(suspend=False, template={**j["spec"]["template"], "metadata": marked})
    )
    assert needs_ancestors(VALIDATE_JOB, request, RULES)
    request = structs.replace(request, entitled=entitled, ancestors=(queued(*JOBSET),), owner=a_jobset())
    answer = review(VALIDATE_JOB, request, ANYWHERE, RULES)["response"]
    assert "marks for queued jobs" in answer["status"]["message"]
    labelled = updated(part(), lambda j: j["metadata"].update(labels={"a": "b"}))
    assert not needs_ancestors(VALIDATE_JOB, labelled, RULES), "no other write is judged by it"


@pytest.mark.parametrize(
    ("labels", "entitled", "message"),
    [
        pytest.param(QUEUE, True, "", id="of-a-queued-job"),
        pytest.param(QUEUE, False, "metadata.ownerReferences[0]", id="by-a-tenant"),
        pytest.param({}, True, "marks for queued jobs", id="of-a-job-that-names-no-queue"),
    ],
)
def test_a_jobset_with_marks_is_made_by_the_controller_of_a_queued_job(
    labels: Obj, entitled: bool, message: str
) -> None:
    """A TrainJob's, for which the webhook does not read the runtime: what the JobSet may be is its controller's to say."""
    owner = {**queued("TrainJob", "trainer.kubeflow.org/v1alpha1", **labels), "spec": {"runtimeRef": {"name": "rt"}}}
    owner["metadata"] |= {"uid": "u-train", "name": "train"}
    template = {"metadata": {"annotations": dict(MARKS)}, "spec": {"containers": [{"name": "c"}]}}
    jobset = a_jobset()
    jobset["metadata"] = {"name": "train", "namespace": "ns"}
    jobset["metadata"]["ownerReferences"] = [
        {"apiVersion": owner["apiVersion"], "kind": "TrainJob", "name": "train", "uid": "u-train", "controller": True}
    ]
    jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"] = template
    request = Request("u", "CREATE", "train", "ns", jobset, user_info=RequestUser("x"), ancestors=(owner,))
    request = structs.replace(request, owner=owner, entitled=entitled)
    answer = review("/validate-jobset-x-k8s-io-v1alpha2-jobset", request, ANYWHERE, RULES)["response"]
    assert answer["allowed"] is (message == "")
    assert message in answer.get("status", {}).get("message", "")


def test_the_owners_controller_may_write_its_parts() -> None:
    request = updated(part(), lambda j: j["spec"].update(parallelism=12))
    assert sufficient_rights(VALIDATE_JOB, request, None, ANYWHERE, RULES) == (STARTS, Right(JOBSETS, "status"))
    assert review(VALIDATE_JOB, request, ANYWHERE, RULES)["response"]["allowed"]
    orphaned = updated(part(), lambda j: j["metadata"].pop("ownerReferences"), GARBAGE_COLLECTOR)
    assert not sufficient_rights(VALIDATE_JOB, orphaned, None, ANYWHERE, RULES)


@pytest.mark.parametrize("kind", DECLARED, ids=lambda kind: kind.framework)
def test_jobs_of_every_declared_kind_are_parts(kind: Any) -> None:
    """A child of any kind of owner is judged: here one that has no such child, so that any growth is refused."""
    reference = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "name": "o", "controller": True}
    old = part()
    old["metadata"]["ownerReferences"] = [{**reference, "uid": "u-set"}]
    request = updated(old, lambda j: j["spec"].update(parallelism=12))
    assert Right(kind.resource, "status") in sufficient_rights(VALIDATE_JOB, request, None, ANYWHERE, RULES)
    assert f"the {kind.resource.kind} o " in refusal(request, {"metadata": {"uid": "u-set"}, "spec": {}})


# ---- marks


def queued(kind: str, version: str, **labels: str) -> Obj:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "o", "labels": labels}}


def a_marked_pod(**spec: Any) -> Obj:
    meta = {"name": "p", "labels": {names.PODSET_LABEL: "main"}, "annotations": dict(MARKS)}
    return {"metadata": meta, "spec": {"containers": [{"name": "c"}], **spec}}


def created(path: str, obj: Obj, *ancestors: Obj, user: str = "tenant") -> dict[str, Any]:
    request = Request("u", "CREATE", "p", "ns", obj, user_info=RequestUser(user), ancestors=ancestors)
    answer: dict[str, Any] = review(path, request, ANYWHERE, RULES)["response"]
    return answer


PYTORCH = ("PyTorchJob", "kubeflow.org/v1")


@pytest.mark.parametrize(
    ("ancestors", "allowed"),
    [
        pytest.param((), False, id="by-hand"),
        pytest.param((queued("ReplicaSet", "apps/v1"), queued("Deployment", "apps/v1")), False, id="of-a-deployment"),
        pytest.param((queued(*PYTORCH),), False, id="of-a-job-that-names-no-queue"),
        pytest.param((queued(*PYTORCH, **QUEUE),), True, id="of-a-queued-job"),
        pytest.param(
            (queued("Pod", "v1"), queued("SparkApplication", "sparkoperator.k8s.io/v1beta2", **QUEUE)),
            True,
            id="executor",
        ),
    ],
)
def test_a_new_pod_names_a_workload_only_as_part_of_a_queued_job(ancestors: tuple[Obj, ...], allowed: bool) -> None:
    answer = created(MUTATE_POD, a_marked_pod(), *ancestors)
    assert answer["allowed"] is allowed
    if not allowed:
        assert f"metadata.annotations[{names.WORKLOAD_ANNOTATION}]" in answer["status"]["message"]


@pytest.mark.parametrize(
    ("ancestors", "allowed"),
    [
        pytest.param((), False, id="by-hand"),
        pytest.param((queued("ConfigMap", "v1"),), False, id="of-anything"),
        pytest.param((queued("ReplicaSet", "apps/v1"),), False, id="of-a-set"),
        pytest.param((queued("Pod", "v1"), queued(*PYTORCH, **QUEUE)), True, id="of-a-pod-of-a-queued-job"),
    ],
)
def test_a_new_pod_at_a_gate_names_a_workload_only_as_part_of_a_queued_job(
    ancestors: tuple[Obj, ...], allowed: bool
) -> None:
    """The ungater would give it the place of one of the job's own pods."""
    pod = a_marked_pod(**GATE)
    if ancestors:
        pod["metadata"]["ownerReferences"] = [{**queued("Pod", "v1"), "name": "o", "uid": "u", "controller": True}]
    assert needs_ancestors(MUTATE_POD, Request("u", "CREATE", "p", "ns", pod), RULES)
    answer = created(MUTATE_POD, pod, *ancestors)
    assert answer["allowed"] is allowed
    assert allowed or f"metadata.annotations[{names.WORKLOAD_ANNOTATION}]" in answer["status"]["message"]


def test_a_new_pod_that_names_a_workload_names_its_pod_set() -> None:
    nameless = a_marked_pod(**GATE)
    nameless["metadata"]["labels"].clear()
    answer = created(MUTATE_POD, nameless)
    assert "names its pod set" in answer["status"]["message"]


# ---- sets inside a job


def an_app_wrapper(**spec: Any) -> Obj:
    """Admitted with a Deployment of two pods of one cpu each."""
    wrapped = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 2, "template": a_template("1")}}
    job = queued("AppWrapper", "workload.codeflare.dev/v1beta2", **QUEUE)
    return {**job, "spec": {"suspend": False, "components": [{"template": wrapped}], **spec}}


def a_template(cpu: str) -> Obj:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"labels": {}}, "spec": {"containers": [container]}}


def a_set(kind: str, replicas: int | None = 2) -> Obj:
    spec = {"template": a_template("1"), **({} if replicas is None else {"replicas": replicas})}
    return {**queued(kind, "apps/v1"), "spec": spec}


def of_a_set(cpu: str = "1") -> Obj:
    return a_marked_pod(containers=a_template(cpu)["spec"]["containers"])


@pytest.mark.parametrize(
    ("pod", "between", "job", "text"),
    [
        pytest.param(of_a_set(), [a_set("StatefulSet")], an_app_wrapper(), "", id="as-admitted"),
        pytest.param(of_a_set(), [a_set("StatefulSet", None)], an_app_wrapper(), "", id="one-by-default"),
        pytest.param(of_a_set(), [a_set("StatefulSet", 20)], an_app_wrapper(), "at most 2 pods", id="scaled"),
        pytest.param(
            of_a_set(), [a_set("ReplicaSet"), a_set("Deployment", 3)], an_app_wrapper(), "not 3", id="deployment-scaled"
        ),
        pytest.param(
            of_a_set(),
            [a_set("ReplicaSet", 3), a_set("Deployment")],
            an_app_wrapper(),
            "not 3",
            id="replica-set-scaled",
        ),
        pytest.param(of_a_set("2"), [a_set("StatefulSet")], an_app_wrapper(), "asks for 1 of cpu", id="larger"),
        pytest.param(of_a_set(), [a_set("StatefulSet")], an_app_wrapper(suspend=True), "is suspended", id="suspended"),
    ],
)
def test_a_set_inside_a_job_has_no_more_pods_than_were_admitted(
    pod: Obj, between: list[Obj], job: Obj, text: str
) -> None:
    """A Deployment can be scaled through its subresource `scale`, which nobody reviews: its pods are."""
    answer = created(MUTATE_POD, pod, *between, job)
    assert answer["allowed"] is (not text)
    assert text in str(answer.get("status"))


def test_a_pod_of_a_queued_job_takes_no_default_queue() -> None:
    """It was admitted with the job, however many owners are between the two."""
    known = Lookups(local_queues=lookups(default_queue=True).local_queues)
    above = (a_set("ReplicaSet"), a_set("Deployment"), an_app_wrapper())
    for gate in ({}, GATE):
        pod = of_a_set()
        pod["spec"] |= gate
        request = Request("u", "CREATE", "p", "ns", pod, ancestors=above)
        answer = review(MUTATE_POD, request, known, RULES)["response"]
        assert answer["allowed"]
        assert "patch" not in answer


@pytest.mark.parametrize("user", ["system:serviceaccount:kube-system:job-controller", "system:kube-controller-manager"])
def test_owners_are_read_for_few_pods(user: str) -> None:
    """None of Jobs, whose templates are judged, none at a gate that name a job directly, and none without marks."""
    assert needs_ancestors(MUTATE_POD, Request("u", "CREATE", "p", "ns", a_marked_pod()), RULES)
    of_a_job = a_marked_pod(**GATE)
    reference = {"apiVersion": PYTORCH[1], "kind": PYTORCH[0], "name": "o", "uid": "u", "controller": True}
    of_a_job["metadata"]["ownerReferences"] = [reference]
    for pod, by in ((a_marked_pod(**GATE), user), (of_a_job, "t"), ({"metadata": {}, "spec": {}}, "t")):
        assert not needs_ancestors(MUTATE_POD, Request("u", "CREATE", "p", "ns", pod, user_info=RequestUser(by)), RULES)


def test_a_job_that_names_no_queue_has_no_marks() -> None:
    """Not at its creation, and not by an update."""
    job = part()
    job["metadata"] = {"name": "free"}
    answer = created(MUTATE_JOB, job)
    assert answer["allowed"]
    assert "patch" in answer, "the marks are removed"
    bare = copy.deepcopy(job)
    bare["spec"]["template"]["metadata"] = {}
    request = updated(bare, lambda j: j["spec"]["template"].update(metadata=job["spec"]["template"]["metadata"]))
    answer = review(VALIDATE_JOB, structs.replace(request, entitled=False), ANYWHERE, RULES)["response"]
    assert "gets no marks of a Workload" in answer["status"]["message"]


def test_a_part_has_marks_where_a_queued_job_is_above() -> None:
    request = Request("u", "CREATE", "set-w-1", "ns", part(), owner=a_jobset())
    assert needs_ancestors(MUTATE_JOB, request, RULES)
    for above, allowed in ((QUEUE, True), ({}, False)):
        top = queued("JobSet", "jobset.x-k8s.io/v1alpha2", **above)
        answer = review(MUTATE_JOB, structs.replace(request, ancestors=(top,)), ANYWHERE, RULES)["response"]
        assert answer["allowed"] is allowed
