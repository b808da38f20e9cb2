"""StatefulSets and LeaderWorkerSets at the webhook: what their templates are given, what may change when, what is refused."""

from __future__ import annotations

import base64
import copy
from typing import Any

import msgspec
import pytest
from msgspec import structs

from admission.webhook.kinds import leaderworkerset
from admission.webhook.owner_reads import owner_to_read
from admission.webhook.rules.lookups import Lookups
from admission.webhook.rules.review_rules import ReviewRules
from admission.webhook.server.review import decode, review
from api import names
from tests.admission.webhook.kinds.test_pod import GATES, made, refused
from tests.admission.webhook.objects import lookups
from tests.admission.webhook.server.test_review import answer, body, patched

MUTATE_POD = "/mutate-core-v1-pod"
STS = "-apps-v1-statefulset"
LWS = "-leaderworkerset-x-k8s-io-v1-leaderworkerset"
Obj = dict[str, Any]
Strings = dict[str, str] | None


def a_template(*, image: str = "i", cpu: str = "1", annotations: Strings = None, marks: Strings = None) -> Obj:
    container = {"name": "c", "image": image, "resources": {"requests": {"cpu": cpu}}}
    metadata = {"labels": {"app": "a", **(marks or {})}, "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"containers": [container]}}


def a_set(
    replicas: int | None = 3, *, queue: str = "team", ready: int = 0, pods: int = 0, labels: Any = None, **template: Any
) -> Obj:
    own = {**({names.QUEUE_NAME_LABEL: queue} if queue else {}), **(labels or {})}
    spec = {"template": a_template(**template), **({} if replicas is None else {"replicas": replicas})}
    return {
        "metadata": {"name": "s", "labels": own},
        "spec": spec,
        "status": {"replicas": pods, "readyReplicas": ready},
    }


def a_group_set(
    size: int = 4,
    *,
    replicas: int = 2,
    queue: str = "team",
    leader: Obj | None = None,
    ready: int = 0,
    pods: int = 2,
    **worker: Any,
) -> Obj:
    given: Obj = {"size": size, "workerTemplate": a_template(**worker)}
    if leader is not None:
        given["leaderTemplate"] = leader
    labels = {names.QUEUE_NAME_LABEL: queue} if queue else {}
    return {
        "metadata": {"name": "l", "labels": labels},
        "spec": {"replicas": replicas, "leaderWorkerTemplate": given},
        "status": {"replicas": pods, "readyReplicas": ready},
    }


MARK = {names.POD_SUSPENDING_PARENT: "statefulset"}


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_a_statefulset_marks_its_template_as_kueue_does(operation: str) -> None:
    asked = a_set(labels={names.PRIORITY_CLASS_LABEL: "high"}, annotations={names.REQUIRED_TOPOLOGY: "rack"})
    meta = made(f"/mutate{STS}", asked, operation=operation, old=a_set())["spec"]["template"]["metadata"]
    assert meta == {"labels": {"app": "a"}, "annotations": {names.REQUIRED_TOPOLOGY: "rack", **MARK}}


EARLIER = {
    "labels": {"app": "a", names.QUEUE_NAME_LABEL: "team", names.PRIORITY_CLASS_LABEL: "high"},
    "annotations": {
        **MARK,
        names.POD_GROUP_FAST_ADMISSION: "true",
        names.POD_GROUP_SERVING: "true",
        names.POD_GROUP_INDEX_SOURCE: names.STATEFULSET_POD_INDEX,
    },
}
OF_OLD_KUEUE = {
    "labels": {"app": "a", names.QUEUE_NAME_LABEL: "team", names.POD_GROUP_NAME: "statefulset-s-12345"},
    "annotations": {**MARK, names.POD_GROUP_TOTAL_COUNT: "3", names.POD_GROUP_FAST_ADMISSION: "true"},
}


@pytest.mark.parametrize(
    "marked",
    [
        pytest.param({"labels": {"app": "a"}, "annotations": MARK}, id="Kueue"),
        pytest.param(OF_OLD_KUEUE, id="an earlier Kueue"),
        pytest.param(EARLIER, id="an earlier release"),
    ],
)
def test_a_marked_template_stays_as_it_is_since_a_change_would_restart_all_pods(marked: Obj) -> None:
    stored = a_set(labels={names.PRIORITY_CLASS_LABEL: "high"})
    stored["spec"]["template"]["metadata"] = marked
    asked = copy.deepcopy(stored)
    asked["metadata"]["annotations"] = {"team": "ours"}
    assert made(f"/mutate{STS}", asked, operation="UPDATE", old=stored) == asked


def test_a_group_written_into_a_stored_template_goes() -> None:
    stored = a_set(annotations=MARK)
    asked = a_set(annotations={**MARK, names.POD_GROUP_TOTAL_COUNT: "9"}, marks={names.POD_GROUP_NAME: "other"})
    meta = made(f"/mutate{STS}", asked, operation="UPDATE", old=stored)["spec"]["template"]["metadata"]
    assert meta == {"labels": {"app": "a"}, "annotations": MARK}


STORED: Obj = {"metadata": {"name": "s", "uid": "set-uid", "labels": {names.QUEUE_NAME_LABEL: "team"}}}
GROUPS: Obj = {"metadata": {"name": "l", "uid": "any", "labels": {names.QUEUE_NAME_LABEL: "team"}}}
OF_GROUP = {names.POD_SUSPENDING_PARENT: "leaderworkerset.x-k8s.io/leaderworkerset"}


def a_pod(marks: dict[str, str], labels: dict[str, str]) -> Obj:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "set-uid", "controller": True}
    meta = {"name": "s-2", "namespace": "ns", "labels": labels, "annotations": marks, "ownerReferences": [owner]}
    return {"metadata": meta, "spec": {"containers": [{"name": "c"}]}}


@pytest.mark.parametrize(
    ("pod", "stored", "queue"),
    [
        pytest.param(a_pod(MARK, {}), STORED, "team", id="StatefulSet"),
        pytest.param(a_pod(OF_GROUP, {names.LWS_NAME: "l"}), GROUPS, "team", id="LeaderWorkerSet of an earlier Kueue"),
        pytest.param(a_pod(MARK, {}), {"metadata": {**STORED["metadata"], "uid": "new"}}, None, id="another set now"),
        pytest.param(a_pod(MARK, {}), {"metadata": {"name": "s", "uid": "set-uid"}}, None, id="a set without a queue"),
        pytest.param(a_pod(MARK, {}), None, None, id="no set"),
    ],
)
def test_a_pod_of_a_marked_template_gets_its_sets_queue_and_is_held(pod: Obj, stored: Any, queue: str | None) -> None:
    request = decode(body(pod))
    claimed = owner_to_read(MUTATE_POD, request, ReviewRules())
    assert claimed is not None
    assert claimed.name in ("s", "l")
    reply = review(MUTATE_POD, structs.replace(request, owner=stored), Lookups(), ReviewRules())["response"]
    assert reply["allowed"]
    patch = msgspec.json.decode(base64.b64decode(reply["patch"])) if "patch" in reply else []
    held = patched(pod, patch)
    assert held["metadata"]["labels"].get(names.QUEUE_NAME_LABEL) == queue
    assert held["spec"].get("schedulingGates") == (GATES if queue else None)
    assert "finalizers" not in held["metadata"]


def test_a_pod_that_names_its_queue_itself_asks_for_no_set() -> None:
    pod = a_pod(MARK, {names.QUEUE_NAME_LABEL: "team"})
    assert owner_to_read(MUTATE_POD, decode(body(pod)), ReviewRules()) is None
    assert made(MUTATE_POD, pod)["spec"]["schedulingGates"] == GATES


def test_what_another_sets_group_left_in_a_template_goes() -> None:
    stale = {names.POD_GROUP_NAME: "statefulset-other-12345"}
    left = {names.POD_GROUP_TOTAL_COUNT: "9", names.ROLE_HASH: "main", names.PREBUILT_WORKLOAD: "w"}
    meta = made(f"/mutate{STS}", a_set(marks=stale, annotations=left))["spec"]["template"]["metadata"]
    assert not {*stale, *left} & {*meta["labels"], *meta["annotations"]}


def test_a_template_that_names_a_gang_keeps_to_it() -> None:
    gang = {names.GANG_NAME: "crew", names.GANG_MINIMUM: "3"}
    meta = made(f"/mutate{STS}", a_set(marks=gang))["spec"]["template"]["metadata"]
    assert meta["labels"] == {"app": "a", **gang, names.QUEUE_NAME_LABEL: "team"}
    assert meta["annotations"] == {}


def test_a_leaderworkerset_marks_both_templates_and_workers_begin_at_1() -> None:
    templates = made(f"/mutate{LWS}", a_group_set(leader=a_template()))["spec"]["leaderWorkerTemplate"]
    marks = {**OF_GROUP, names.POD_GROUP_SERVING: "true"}
    for part in ("leaderTemplate", "workerTemplate"):
        assert templates[part]["metadata"]["labels"][names.QUEUE_NAME_LABEL] == "team"
    assert templates["leaderTemplate"]["metadata"]["annotations"] == marks
    assert templates["workerTemplate"]["metadata"]["annotations"] == {**marks, names.POD_INDEX_OFFSET: "1"}


@pytest.mark.parametrize(
    ("leader", "annotations"),
    [
        pytest.param(None, {}, id="one template for all"),
        pytest.param(a_template(), {names.PODSET_GROUP_NAME: "g"}, id="in one group with their leader"),
    ],
)
def test_workers_that_follow_their_leader_have_no_offset(leader: Obj | None, annotations: dict[str, str]) -> None:
    asked = a_group_set(leader=leader, annotations=annotations)
    worker = made(f"/mutate{LWS}", asked)["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    assert names.POD_INDEX_OFFSET not in worker["metadata"]["annotations"]
    assert worker["metadata"]["labels"][names.QUEUE_NAME_LABEL] == "team"


@pytest.mark.parametrize(
    ("path", "obj"),
    [
        pytest.param(STS, a_set(queue=""), id="StatefulSet"),
        pytest.param(LWS, a_group_set(queue=""), id="LeaderWorkerSet"),
    ],
)
def test_without_a_queue_it_stays_as_it_is_and_may_change(path: str, obj: Obj) -> None:
    assert made(f"/mutate{path}", obj) == obj
    other = copy.deepcopy(obj)
    other["spec"]["replicas"] = 77
    assert answer(f"/validate{path}", body(other, "UPDATE", obj))["allowed"]


QUEUE = f"metadata.labels[{names.QUEUE_NAME_LABEL}]"
ANNOTATIONS = "spec.template.metadata.annotations"
WORKER = "spec.leaderWorkerTemplate.workerTemplate"
LEADER = "spec.leaderWorkerTemplate.leaderTemplate"


@pytest.mark.parametrize(
    ("path", "obj", "message"),
    [
        pytest.param(STS, a_set(queue="Q_1"), f'{QUEUE}: Invalid value: "Q_1": ', id="queue"),
        pytest.param(
            STS,
            a_set(annotations={names.REQUIRED_TOPOLOGY: "rack", names.PREFERRED_TOPOLOGY: "rack"}),
            f"{ANNOTATIONS}: Invalid value: must not contain more than one topology annotation",
            id="two requests",
        ),
        pytest.param(
            STS,
            a_set(annotations={names.SLICE_REQUIRED_TOPOLOGY: "rack"}),
            f"{ANNOTATIONS}[{names.SLICE_SIZE}]: Required value: must be set when",
            id="slices without a size",
        ),
        pytest.param(
            STS,
            a_set(2, annotations={names.SLICE_REQUIRED_TOPOLOGY: "rack", names.SLICE_SIZE: "3"}),
            f'{ANNOTATIONS}[{names.SLICE_SIZE}]: Invalid value: "3": must not be greater than pod set count 2',
            id="a slice larger than the set",
        ),
        pytest.param(
            STS,
            a_set(annotations={names.UNCONSTRAINED_TOPOLOGY: "yes"}),
            f'{ANNOTATIONS}[{names.UNCONSTRAINED_TOPOLOGY}]: Invalid value: "yes": must be a boolean value',
            id="no boolean",
        ),
        pytest.param(
            STS,
            a_set(labels={names.MAX_EXEC_TIME_LABEL: "0"}),
            f"metadata.labels[{names.MAX_EXEC_TIME_LABEL}]: Invalid value: 0: should be greater than 0",
            id="no time to run",
        ),
        pytest.param(
            LWS,
            a_group_set(replicas=10_001),
            "spec.replicas: Invalid value: 10001: must be at most 10000",
            id="groups without end",
        ),
        pytest.param(
            LWS,
            a_group_set(annotations={names.PODSET_GROUP_NAME: "g", names.REQUIRED_TOPOLOGY: "rack"}),
            f"{WORKER}.metadata.annotations[{names.PODSET_GROUP_NAME}]: Invalid value: "
            '"g": can only define groups of at least 2 pod sets, got: 1 pod set(s)',
            id="a placement group of one",
        ),
        pytest.param(
            LWS,
            a_group_set(
                leader=a_template(annotations={names.PODSET_GROUP_NAME: "g", names.REQUIRED_TOPOLOGY: "block"}),
                annotations={names.PODSET_GROUP_NAME: "g", names.REQUIRED_TOPOLOGY: "rack"},
            ),
            f"{LEADER}.metadata.annotations: Invalid value: must specify '{names.REQUIRED_TOPOLOGY}'",
            id="a placement group on two levels",
        ),
        pytest.param(
            LWS,
            a_group_set(
                3, leader=a_template(), annotations={names.SLICE_REQUIRED_TOPOLOGY: "r", names.SLICE_SIZE: "3"}
            ),
            f"{WORKER}.metadata.annotations[{names.SLICE_SIZE}]: Invalid value: "
            '"3": must not be greater than pod set count 2',
            id="a slice larger than the workers",
        ),
    ],
)
def test_malformed_ones_are_refused_with_the_field_and_what_is_allowed(path: str, obj: Obj, message: str) -> None:
    assert message in refused(f"/validate{path}", obj)


def test_a_slice_is_no_reason_against_scaling_to_zero() -> None:
    slices = {names.SLICE_REQUIRED_TOPOLOGY: "rack", names.SLICE_SIZE: "3"}
    old, new = a_set(3, pods=3, ready=3, annotations=slices), a_set(0, pods=3, ready=3, annotations=slices)
    assert answer(f"/validate{STS}", body(new, "UPDATE", old))["allowed"]


IMMUTABLE = "field is immutable"


@pytest.mark.parametrize(
    ("path", "old", "new", "message"),
    [
        pytest.param(STS, a_set(3, pods=3), a_set(5), f"spec.replicas: Invalid value: 5: {IMMUTABLE}", id="up"),
        pytest.param(STS, a_set(3, pods=3), a_set(1), f"spec.replicas: Invalid value: 1: {IMMUTABLE}", id="down"),
        pytest.param(
            STS, a_set(None), a_set(2), f"spec.replicas: Invalid value: 2: {IMMUTABLE}", id="from the default"
        ),
        pytest.param(STS, a_set(3, pods=3), a_set(0), "", id="to zero"),
        pytest.param(STS, a_set(0), a_set(5), "", id="from zero"),
        pytest.param(
            STS,
            a_set(0, pods=1),
            a_set(5),
            "spec.replicas: Forbidden: scaling down is still in progress",
            id="too soon",
        ),
        pytest.param(STS, a_set(), a_set(queue="other"), "", id="another queue while it waits"),
        pytest.param(
            STS,
            a_set(ready=1),
            a_set(queue="other"),
            f'{QUEUE}: Invalid value: "other": {IMMUTABLE}',
            id="while it runs",
        ),
        pytest.param(STS, a_set(), a_set(queue=""), f'{QUEUE}: Invalid value: "": {IMMUTABLE}', id="no queue any more"),
        pytest.param(STS, a_set(queue=""), a_set(), "", id="into a queue"),
        pytest.param(
            STS, a_set(queue="", ready=1), a_set(), f'{QUEUE}: Invalid value: "team": {IMMUTABLE}', id="into it running"
        ),
        pytest.param(STS, a_set(pods=3), a_set(image="new"), "", id="another image"),
        pytest.param(
            STS, a_set(pods=3), a_set(cpu="2"), f"spec.template.spec: Invalid value: {IMMUTABLE}", id="other requests"
        ),
        pytest.param(STS, a_set(0), a_set(0, cpu="2"), "", id="other requests of none"),
        pytest.param(LWS, a_group_set(), a_group_set(replicas=9), "", id="more groups"),
        pytest.param(
            LWS,
            a_group_set(4),
            a_group_set(5),
            f"spec.leaderWorkerTemplate.size: Invalid value: 5: {IMMUTABLE}",
            id="larger groups",
        ),
        pytest.param(LWS, a_group_set(), a_group_set(image="new"), "", id="another image of workers"),
        pytest.param(
            LWS, a_group_set(), a_group_set(cpu="2"), f"{WORKER}.spec: Invalid value: {IMMUTABLE}", id="of workers"
        ),
        pytest.param(
            LWS,
            a_group_set(leader=a_template()),
            a_group_set(leader=a_template(cpu="2")),
            f"{LEADER}.spec: Invalid value: {IMMUTABLE}",
            id="other requests of leaders",
        ),
        pytest.param(
            LWS, a_group_set(), a_group_set(leader=a_template()), f"{LEADER}: Invalid value: {IMMUTABLE}", id="a leader"
        ),
        pytest.param(LWS, a_group_set(replicas=0, pods=0), a_group_set(leader=a_template()), "", id="a leader of none"),
        pytest.param(
            LWS, a_group_set(ready=1), a_group_set(queue="o"), f'{QUEUE}: Invalid value: "o": {IMMUTABLE}', id="queue"
        ),
    ],
)
def test_what_may_change_when(path: str, old: Obj, new: Obj, message: str) -> None:
    new = {**new, "status": old["status"]}
    if not message:
        assert answer(f"/validate{path}", body(new, "UPDATE", old))["allowed"]
    else:
        assert message in refused(f"/validate{path}", new, "UPDATE", old)


@pytest.mark.parametrize(
    ("before", "after", "ready", "message"),
    [
        pytest.param("a", "b", 1, "", id="changed"),
        pytest.param("a", "", 0, "WorkloadPriorityClass cannot be removed from a workload", id="removed"),
        pytest.param("", "a", 0, "", id="added while it waits"),
        pytest.param("", "a", 1, "cannot be added to a non-suspended workload", id="added while it runs"),
    ],
)
def test_the_priority_class_may_change_but_not_go(before: str, after: str, ready: int, message: str) -> None:
    old, new = (
        a_set(labels={names.PRIORITY_CLASS_LABEL: name} if name else {}, ready=ready) for name in (before, after)
    )
    response = answer(f"/validate{STS}", body(new, "UPDATE", old))
    assert response["allowed"] is not bool(message)
    assert message in response.get("status", {}).get("message", "")


@pytest.mark.parametrize(
    ("stored", "queue"),
    [pytest.param(False, "default", id="a new one"), pytest.param(True, None, id="one that ran before")],
)
def test_a_leaderworkerset_without_a_queue_gets_the_namespaces_own_when_it_is_made(
    stored: bool, queue: str | None
) -> None:
    """Its pods would go by that queue one by one."""
    asked = a_group_set(queue="")
    if stored:
        asked["metadata"]["uid"] = "u"
    leaderworkerset.set_defaults(asked, {}, "ns", lookups(default_queue=True), ReviewRules())
    assert asked["metadata"]["labels"].get(names.QUEUE_NAME_LABEL) == queue
    template = asked["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"]
    assert template["labels"].get(names.QUEUE_NAME_LABEL) == queue
