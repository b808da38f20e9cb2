"""What is due for a set of pods: its Workloads through its life, and which pod is told which group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from admission.controllers.jobs.context import JobContext, JobOptions
from admission.controllers.pods.pod_indexes import keys_of
from admission.controllers.pods.sets.setactions import JoinPod, SetPlan
from admission.controllers.pods.sets.setplan import plan_gone, plan_set
from admission.controllers.state import conditions
from admission.controllers.state.actions import CreateWorkload, DeleteWorkload, PatchWorkload, SetStatus
from admission.controllers.watch.caches import owner_uid
from admission.integrations.pods.pod import QueuedPod
from admission.integrations.sets.leaderworkerset import MOST_GROUPS, LeaderWorkerSet
from admission.integrations.sets.sets import SetKind
from admission.integrations.sets.statefulset import StatefulSet
from api import names
from api.meta import ObjectMeta, OwnerReference, find_condition, is_true
from api.queues import WorkloadPriorityClass
from api.workloads import Admission, PodSetAssignment, ReclaimablePod, Workload
from tests.admission.integrations.pods import read, wire

NOW = 1_767_225_700.0
HIGH = WorkloadPriorityClass.from_wire({"metadata": {"name": "high"}, "value": 7})
AROUND = JobContext(workload_priority_classes={"high": HIGH})
STS, LWS = StatefulSet(), LeaderWorkerSet()
Obj = dict[str, Any]


def a_template(cpu: str = "1") -> Obj:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {}, "spec": {"containers": [container]}}


def a_set(replicas: int | None = 3, queue: str = "q", priority: str = "") -> Obj:
    spec = {"template": a_template(), **({} if replicas is None else {"replicas": replicas})}
    given = {names.QUEUE_NAME_LABEL: queue, names.PRIORITY_CLASS_LABEL: priority}
    own = {key: name for key, name in given.items() if name}
    return {"metadata": {"name": "s", "namespace": "ns", "uid": "set-uid", "labels": own}, "spec": spec}


def a_group_set(replicas: int = 2, size: int = 4, *, leader: bool = True) -> Obj:
    given: Obj = {"size": size, "workerTemplate": a_template()}
    if leader:
        given["leaderTemplate"] = a_template("3")
    meta = {"name": "l", "namespace": "ns", "uid": "set-uid", "labels": {names.QUEUE_NAME_LABEL: "q"}}
    return {"metadata": meta, "spec": {"replicas": replicas, "leaderWorkerTemplate": given}}


def a_pod(ordinal: int = 0, *, joined: bool = False, **more: Any) -> QueuedPod:
    """Of the StatefulSet."""
    marks = {names.POD_SUSPENDING_PARENT: STS.framework}
    if joined:
        marks[names.POD_GROUP_NAME] = "w"
    pod = wire(f"s-{ordinal}", annotations=marks, **more)
    pod["metadata"]["ownerReferences"] = [{"name": "s", "controller": True}]
    pod["metadata"]["finalizers"] = []
    return read(pod)


def a_member(group: int, rank: int, **more: Any) -> QueuedPod:
    """Of the LeaderWorkerSet."""
    labels = {names.LWS_NAME: "l", names.LWS_GROUP_INDEX: str(group), names.LWS_WORKER_INDEX: str(rank)}
    marks = {names.POD_SUSPENDING_PARENT: LWS.framework}
    return read(wire(f"l-{group}-{rank}", labels=labels, annotations=marks, **more))


def planned(
    obj: Obj, workloads: Iterable[Workload] = (), pods: Iterable[QueuedPod] = (), around: JobContext = AROUND
) -> SetPlan:
    kind: SetKind = STS if "template" in obj["spec"] else LWS
    return plan_set(kind, obj, list(workloads), pods, around, NOW)


def created(obj: Obj) -> list[Workload]:
    return [action.workload for action in planned(obj).actions if isinstance(action, CreateWorkload)]


def only(obj: Obj) -> Workload:
    (workload,) = created(obj)
    return workload


def admitted(workload: Workload) -> Workload:
    sets = tuple(PodSetAssignment(name=p.name, count=p.count, flavors={"cpu": "f"}) for p in workload.spec.pod_sets)
    admission = Admission(cluster_queue="cq", pod_set_assignments=sets)
    return with_status(workload, conditions.synced_admitted(conditions.reserved(workload.status, admission, NOW), NOW))


def with_status(workload: Workload, status: Any) -> Workload:
    return workload.model_copy(update={"status": status})


def evicted(workload: Workload) -> Workload:
    return with_status(workload, conditions.evicted(workload.status, names.EvictedReason.PREEMPTED, "for another", NOW))


def going(workload: Workload) -> Workload:
    meta = workload.metadata.model_copy(update={"deletion_timestamp": "2026-01-01T00:00:00Z"})
    return workload.model_copy(update={"metadata": meta})


def held(workload: Workload) -> Workload:
    return with_status(workload, conditions.on_hold(workload.status, NOW))


# ---- Workloads are made


@pytest.mark.parametrize(("replicas", "count"), [(3, 3), (None, 1)])
def test_a_statefulset_is_one_workload_of_all_its_pods(replicas: int | None, count: int) -> None:
    found = only(a_set(replicas))
    assert found.metadata.name.startswith("statefulset-s-")
    assert found.metadata.namespace == "ns"
    (owner,) = found.metadata.owner_references
    assert owner.to_wire() == {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "set-uid"}
    assert found.metadata.finalizers == (names.IN_USE_FINALIZER,)
    assert found.metadata.labels == {names.JOB_UID_LABEL: "set-uid"}
    assert found.metadata.annotations == {
        names.IS_GROUP_WORKLOAD: "true",
        names.JOB_OWNER_GVK: "apps/v1, Kind=StatefulSet",
        names.JOB_OWNER_NAME: "s",
        names.COMPONENT_INDEX: "0",
    }
    assert found.spec.queue_name == "q"
    (pods,) = found.spec.pod_sets
    assert (pods.name, pods.count) == ("main", count)
    assert pods.topology_request is not None
    assert pods.topology_request.pod_index_label == names.STATEFULSET_POD_INDEX


def test_each_group_of_a_leaderworkerset_is_a_workload() -> None:
    one, two = created(a_group_set(2))
    assert one.metadata.name.startswith("leaderworkerset-l-0-")
    assert two.metadata.name.startswith("leaderworkerset-l-1-")
    assert [w.metadata.annotations[names.COMPONENT_INDEX] for w in (one, two)] == ["0", "1"]
    leader, worker = one.spec.pod_sets
    assert [(p.name, p.count) for p in (leader, worker)] == [("leader", 1), ("worker", 3)]
    assert leader.topology_request is None
    assert worker.topology_request is not None
    assert worker.topology_request.pod_index_label == names.LWS_WORKER_INDEX
    assert leader.template["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "3"}


@pytest.mark.parametrize(
    ("size", "leader", "pod_sets"),
    [
        pytest.param(4, False, [("main", 4)], id="no template for leaders"),
        pytest.param(1, True, [("leader", 1)], id="a leader alone"),
        pytest.param(1, False, [("main", 1)], id="one pod"),
    ],
)
def test_groups_by_their_templates(size: int, leader: bool, pod_sets: list[tuple[str, int]]) -> None:
    found = only(a_group_set(1, size, leader=leader))
    assert [(p.name, p.count) for p in found.spec.pod_sets] == pod_sets


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(a_set(0), id="no pods are asked for"),
        pytest.param(a_set(queue=""), id="no queue"),
        pytest.param({**a_set(), "metadata": {**a_set()["metadata"], "deletionTimestamp": "x"}}, id="it goes"),
        pytest.param(a_group_set(0), id="no groups"),
    ],
)
def test_no_workload_is_made(obj: Obj) -> None:
    assert planned(obj).actions == ()


def test_in_an_unmanaged_namespace_nothing_is_created() -> None:
    around = JobContext(options=JobOptions(namespace_managed=lambda _: False))
    assert planned(a_set(), around=around).actions == ()


def test_a_workload_just_made_is_waited_for() -> None:
    made = plan_set(STS, a_set(), [], [], AROUND, NOW, lambda _: True)
    assert made.actions == ()
    assert made.again_in is not None


def test_a_missing_class_is_reported() -> None:
    made = planned(a_set(priority="none"))
    assert made.actions == ()
    assert [event.reason for event in made.events] == ["WorkloadPriorityClassNotFound"]


def test_groups_without_end_are_reported_and_not_counted() -> None:
    made = planned(a_group_set(MOST_GROUPS + 1))
    assert made.actions == ()
    assert [event.reason for event in made.events] == ["ErrWorkloadCompose"]


# ---- pods are told their group


def test_pods_get_their_group_once_its_workload_exists() -> None:
    obj, pods = a_set(), [a_pod(0), a_pod(1, joined=True), a_pod(2, deleted=True), a_pod(3, gated=False)]
    workload = only(obj)
    assert not planned(obj, [], pods).joins()
    (join,) = planned(obj, [workload], pods).actions
    assert isinstance(join, JoinPod)
    assert join.pod.metadata.name == "s-0"
    name = workload.metadata.name
    assert join.patch["metadata"] == {
        "uid": "uid-s-0",
        "labels": {
            names.MANAGED_LABEL: "true",
            names.QUEUE_NAME_LABEL: "q",
            names.POD_GROUP_NAME: name,
            names.PREBUILT_WORKLOAD: name,
        },
        "annotations": {
            names.POD_GROUP_NAME: name,
            names.PREBUILT_WORKLOAD: name,
            names.POD_GROUP_TOTAL_COUNT: "3",
            names.POD_GROUP_FAST_ADMISSION: "true",
            names.POD_GROUP_SERVING: "true",
            names.ROLE_HASH: "main",
            names.POD_GROUP_INDEX_SOURCE: names.STATEFULSET_POD_INDEX,
        },
    }


def test_a_name_too_long_for_a_label_goes_into_the_annotation() -> None:
    obj = a_set()
    obj["metadata"]["name"] = "s" * 70
    (join,) = planned(obj, [only(obj)], [a_pod()]).joins()
    assert not {names.POD_GROUP_NAME, names.PREBUILT_WORKLOAD} & join.patch["metadata"]["labels"].keys()
    assert join.patch["metadata"]["annotations"][names.POD_GROUP_NAME].startswith("statefulset-sss")


def test_pods_of_a_group_follow_their_set_to_another_queue() -> None:
    workload = only(a_set(queue="other"))
    marks = {names.POD_SUSPENDING_PARENT: STS.framework, names.POD_GROUP_NAME: workload.metadata.name}
    pod = read(wire("s-0", labels={names.QUEUE_NAME_LABEL: "q"}, annotations=marks))
    (join,) = planned(a_set(queue="other"), [workload], [pod]).joins()
    assert join.patch["metadata"] == {"uid": "uid-s-0", "labels": {names.QUEUE_NAME_LABEL: "other"}}


# ---- what Kueue or an earlier release made


def of_kueue(workload: Workload, *pods: str, index: bool = False, name: str = "") -> Workload:
    """As Kueue writes it: each of its pods is an owner too."""
    meta = workload.metadata
    owners = (*meta.owner_references, *(OwnerReference(api_version="v1", kind="Pod", name=p, uid=p) for p in pods))
    annotations = {key: value for key, value in meta.annotations.items() if index or key != names.COMPONENT_INDEX}
    update = {"owner_references": owners, "annotations": annotations, "name": name or meta.name}
    return workload.model_copy(update={"metadata": meta.model_copy(update=update)})


def of_an_earlier_release(workload: Workload) -> Workload:
    (owner,) = workload.metadata.owner_references
    owner = owner.model_copy(update={"controller": True, "block_owner_deletion": True})
    update = {"owner_references": (owner,), "annotations": {names.COMPONENT_INDEX: "0"}}
    return workload.model_copy(update={"metadata": workload.metadata.model_copy(update=update)})


def after(workload: Workload, patch: PatchWorkload) -> Workload:
    meta = patch.patch["metadata"]
    merged = workload.metadata.to_wire()
    merged |= {key: meta[key] for key in ("ownerReferences",) if key in meta}
    merged["annotations"] = {**merged.get("annotations", {}), **meta.get("annotations", {})}
    return workload.model_copy(update={"metadata": ObjectMeta.from_wire(merged)})


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(of_kueue(only(a_set()), "s-0", "s-1"), id="Kueue"),
        pytest.param(of_kueue(only(a_set()), name="statefulset-s-legacy"), id="an earlier Kueue, with another name"),
        pytest.param(of_an_earlier_release(only(a_set())), id="an earlier release"),
    ],
)
def test_a_stored_workload_of_a_set_is_taken_over_and_gets_todays_marks(stored: Workload) -> None:
    (patch,) = planned(a_set(), [admitted(stored)], []).actions
    assert isinstance(patch, PatchWorkload)
    assert patch.patch.keys() == {"metadata"}
    then = after(admitted(stored), patch)
    fresh = only(a_set()).metadata
    assert then.metadata.annotations == fresh.annotations
    assert then.metadata.owner_references[0].to_wire() == fresh.owner_references[0].to_wire()
    assert then.metadata.owner_references[1:] == stored.metadata.owner_references[1:]
    assert planned(a_set(), [then], []).actions == ()


def test_each_group_of_kueues_leaderworkerset_keeps_its_workload_and_a_new_one_gets_its_own() -> None:
    stored = [of_kueue(workload, index=True) for workload in created(a_group_set(2))]
    (new,) = planned(a_group_set(3), [admitted(workload) for workload in stored]).actions
    assert isinstance(new, CreateWorkload)
    assert new.workload.metadata.annotations[names.COMPONENT_INDEX] == "2"


@pytest.mark.parametrize("stored", [of_kueue(only(a_set()), "s-0"), only(a_set())], ids=["Kueue", "ours"])
def test_a_sets_workload_is_its_own_and_no_pod_groups(stored: Workload) -> None:
    assert owner_uid(stored) == "set-uid"
    assert keys_of(stored) == []


def test_ordinals_with_another_start_are_reported() -> None:
    obj = a_set()
    obj["spec"]["ordinals"] = {"start": 7}
    (join,) = planned(obj, [only(obj)], [a_pod(7)]).joins()
    assert join.patch["metadata"]["annotations"][names.POD_INDEX_OFFSET] == "7"


@pytest.mark.parametrize(
    ("leader", "roles"),
    [
        (True, {"l-0-0": "leader", "l-0-1": "worker", "l-1-0": "leader"}),
        (False, dict.fromkeys(("l-0-0", "l-0-1", "l-1-0"), "main")),
    ],
)
def test_leaders_and_workers_join_the_group_of_their_index(leader: bool, roles: dict[str, str]) -> None:
    obj = a_group_set(leader=leader)
    pods = [a_member(0, 0), a_member(0, 1), a_member(1, 0)]
    joins = planned(obj, created(obj), pods).joins()
    told = {join.pod.metadata.name: join.patch["metadata"]["annotations"] for join in joins}
    assert {name: said[names.ROLE_HASH] for name, said in told.items()} == roles
    assert len({said[names.POD_GROUP_NAME] for said in told.values()}) == 2
    assert {said[names.POD_GROUP_TOTAL_COUNT] for said in told.values()} == {"4"}


def test_a_pod_that_does_not_say_its_index_yet_waits() -> None:
    obj = a_group_set()
    pod = read(wire("l-0", labels={names.LWS_NAME: "l"}, annotations={names.POD_SUSPENDING_PARENT: LWS.framework}))
    assert not planned(obj, created(obj), [pod]).joins()


# ---- while it waits


def test_a_workload_that_waits_follows_its_set() -> None:
    workload = only(a_set())
    (patch,) = planned(a_set(5, "other", priority="high"), [workload]).actions
    assert isinstance(patch, PatchWorkload)
    spec = patch.patch["spec"]
    assert spec["podSets"][0]["count"] == 5
    assert (spec["queueName"], spec["priority"]) == ("other", 7)


def test_one_that_is_as_it_should_be_is_left_alone() -> None:
    workload = only(a_set())
    assert planned(a_set(), [workload]).actions == ()
    assert planned(a_set(), [admitted(workload)]).actions == ()


# ---- on hold


def test_scaled_to_zero_its_quota_returns_once_no_pod_runs() -> None:
    workload = admitted(only(a_set()))
    running = a_pod(joined=True, gated=False, phase="Running", node="n", deleted=True)
    assert planned(a_set(0), [workload], [running]).actions == ()
    (action,) = planned(a_set(0), [workload]).actions
    assert isinstance(action, SetStatus)
    found = find_condition(action.status.conditions, names.QUOTA_RESERVED)
    assert found is not None
    assert (found.status, found.reason, found.message) == ("False", "OnHold", "Job is on hold")
    assert action.status.admission is None
    assert not is_true(action.status.conditions, names.ADMITTED)
    assert planned(a_set(0), [with_status(workload, action.status)]).actions == ()


def test_scaled_up_again_it_comes_off_hold_with_its_new_number() -> None:
    patch, status = planned(a_set(5), [held(only(a_set()))]).actions
    assert isinstance(patch, PatchWorkload)
    assert patch.patch["spec"]["podSets"][0]["count"] == 5
    assert isinstance(status, SetStatus)
    assert not conditions.is_on_hold(status.status)


# ---- with quota


def test_evicted_without_pods_its_quota_returns() -> None:
    workload = evicted(admitted(only(a_set())))
    assert planned(a_set(), [workload], [a_pod(joined=True)]).actions == ()
    (action,) = planned(a_set(), [workload]).actions
    assert isinstance(action, SetStatus)
    assert action.status.admission is None


def test_admitted_it_follows_only_its_class() -> None:
    workload = only(a_set(priority="high"))
    low = WorkloadPriorityClass.from_wire({"metadata": {"name": "low"}, "value": 1})
    around = JobContext(workload_priority_classes={"high": HIGH, "low": low})
    asked = a_set(priority="low")
    (patch,) = planned(asked, [admitted(workload)], around=around).actions
    assert isinstance(patch, PatchWorkload)
    assert patch.patch == {"spec": {"priority": 1, "priorityClassRef": {"name": "low"}}}


def test_admitted_it_says_that_its_new_class_is_missing_and_keeps_the_old_one() -> None:
    """The event is also what makes the controller look again when the class comes."""
    made = planned(a_set(priority="later"), [admitted(only(a_set(priority="high")))])
    assert made.actions == ()
    assert [(event.reason, event.message) for event in made.events] == [
        ("WorkloadPriorityClassNotFound", 'WorkloadPriorityClass "later" not found')
    ]


def test_scaled_down_past_the_webhook_the_quota_of_those_that_went_returns() -> None:
    workload, left = admitted(only(a_set(3))), [a_pod(0, joined=True, gated=False, node="n")]
    assert planned(a_set(1), [workload], [*left, a_pod(1, joined=True, gated=False, node="n")]).actions == ()
    (action,) = planned(a_set(1), [workload], left).actions
    assert isinstance(action, SetStatus)
    assert action.status.reclaimable_pods == (ReclaimablePod(name="main", count=2),)
    assert planned(a_set(1), [with_status(workload, action.status)], left).actions == ()


@pytest.mark.parametrize("reclaimed", [0, 1])
def test_scaled_up_past_the_webhook_it_is_admitted_again(reclaimed: int) -> None:
    workload = admitted(only(a_set(3)))
    done = (ReclaimablePod(name="main", count=reclaimed),) if reclaimed else ()
    workload = with_status(workload, workload.status.model_copy(update={"reclaimable_pods": done}))
    (action,) = planned(a_set(4 - reclaimed), [workload]).actions
    assert isinstance(action, DeleteWorkload)


# ---- the end


def test_a_group_that_is_not_asked_for_goes_with_its_last_pod() -> None:
    first, second = created(a_group_set(2))
    runs = a_member(1, 0, gated=False, phase="Running", node="n")
    assert planned(a_group_set(1), [first, second], [runs]).actions == ()
    ended = a_member(1, 0, gated=False, phase="Running", node="n", deleted=True)
    assert planned(a_group_set(1), [first, second], [ended]).actions == ()
    release, delete = planned(a_group_set(1), [first, second]).actions
    assert isinstance(release, PatchWorkload)
    assert isinstance(delete, DeleteWorkload)
    assert delete.workload.metadata.name == second.metadata.name


def test_a_group_beyond_the_replicas_that_a_rollout_makes_has_its_workload() -> None:
    obj = a_group_set(1)
    surge = a_member(1, 0)
    (create,) = planned(obj, created(obj), [surge]).actions
    assert isinstance(create, CreateWorkload)
    assert create.workload.metadata.annotations[names.COMPONENT_INDEX] == "1"


def test_a_workload_that_was_deleted_is_let_go_once_no_pod_runs() -> None:
    workload = going(admitted(only(a_set())))
    runs = a_pod(joined=True, gated=False, phase="Running", node="n")
    assert planned(a_set(), [workload], [runs]).actions == ()
    (release,) = planned(a_set(), [workload]).actions
    assert isinstance(release, PatchWorkload)
    assert release.patch == {"metadata": {"finalizers": None}}


def test_of_a_set_that_is_gone_the_workload_ends_once_no_pod_runs() -> None:
    workload = admitted(only(a_set()))
    assert plan_gone([workload], [a_pod(joined=True, gated=False, node="n")], NOW).actions == ()
    finish, release = plan_gone([workload], [], NOW).actions
    assert isinstance(finish, SetStatus)
    assert is_true(finish.status.conditions, names.FINISHED)
    assert isinstance(release, PatchWorkload)
    assert [type(action) for action in plan_gone([going(workload)], [], NOW).actions] == [PatchWorkload]
