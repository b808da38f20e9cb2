"""What is planned for a job in each state, and that a plan rests once it is carried out."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from admission.controllers import conditions
from admission.controllers.actions import PatchWorkload, SetStatus
from admission.controllers.jobs.actions import Action, DeleteJob, JobPlan, PatchJob
from admission.controllers.jobs.context import JobContext, JobOptions
from admission.controllers.jobs.plan import plan
from admission.controllers.jobs.pods_ready import with_pods_ready
from admission.controllers.jobs.workload import composed
from admission.engine.reasons import Reason
from admission.integrations.base import JobIntegration
from admission.integrations.job import BatchJob
from admission.integrations.jobset import JobSet
from api import names
from api.assignment import encode
from api.meta import OwnerReference, find_condition, is_true, rfc3339
from api.queues import WorkloadPriorityClass
from api.topology import ResourceFlavor
from api.topology_assignment import TopologyAssignment
from api.workloads import Admission, PodSetAssignment, UnhealthyNode, Workload
from tests.admission.integrations.samples import batch_job, jobset, merged

Object = dict[str, Any]
JOB, JOBSET = BatchJob(), JobSet()
FLAVOR = ResourceFlavor.from_wire({"metadata": {"name": "tas"}, "spec": {"nodeLabels": {"pool": "tas"}}})
AROUND = JobContext(flavors={"tas": FLAVOR})
FAST = replace(AROUND, options=JobOptions(open_templates=True))
ACTIVE: Object = {"active": 3, "startTime": "t", "conditions": [{"type": "Suspended", "status": "False"}]}
GATE = "kueue.x-k8s.io/topology"
HOST = "kubernetes.io/hostname"
LOW = {"metadata": {"name": "low"}, "value": 1}


def workload_of(job: Object, kind: JobIntegration = JOB) -> Workload:
    made = composed(job, kind, AROUND)
    return made.model_copy(update={"metadata": made.metadata.model_copy(update={"resource_version": "1"})})


def admitted(workload: Workload, *, flavor: str = "tas", topology: bool = False) -> Workload:
    extra = {"topology_assignment": TopologyAssignment(levels=("rack",))} if topology else {}
    assignments = tuple(
        PodSetAssignment(name=p.name, flavors={"cpu": flavor}, count=p.count, **extra) for p in workload.spec.pod_sets
    )
    admission = Admission(cluster_queue="cq", pod_set_assignments=assignments)
    return with_status(
        workload, lambda status: conditions.synced_admitted(conditions.reserved(status, admission, 0.0), 0.0)
    )


def evicted(workload: Workload, reason: str = "Preempted") -> Workload:
    return with_status(workload, lambda status: conditions.evicted(status, reason, "make room", 0.0))


def cleared(workload: Workload) -> Workload:
    """Somebody took the admission back, and evicted nothing."""

    def change(status: Any) -> Any:
        without = status.model_copy(update={"admission": None})
        return conditions.waiting(without, Reason.PENDING_EVALUATION, "taken back", {}, 0.0)

    return with_status(workload, change)


def finished(workload: Workload) -> Workload:
    return with_status(workload, lambda status: conditions.finished(status, "Succeeded", "", 0.0))


def deleting(workload: Workload) -> Workload:
    meta = workload.metadata.model_copy(update={"deletion_timestamp": "2026-01-01T00:00:00Z"})
    return workload.model_copy(update={"metadata": meta})


def placed(workload: Workload, levels: tuple[str, ...], domains: Sequence[tuple[str, ...]]) -> Workload:
    """The admitted Workload with its pods in these domains."""
    admission = workload.status.admission
    assert admission is not None
    assignment = encode(levels, [(values, 1) for values in domains])
    got = tuple(p.model_copy(update={"topology_assignment": assignment}) for p in admission.pod_set_assignments)
    now = admission.model_copy(update={"pod_set_assignments": got})
    return with_status(workload, lambda status: status.model_copy(update={"admission": now}))


def with_status(workload: Workload, change: Callable[[Any], Any]) -> Workload:
    return workload.model_copy(update={"status": change(workload.status)})


def started(
    job: Object, workload: Workload, kind: JobIntegration = JOB, around: JobContext = AROUND, **status: Any
) -> Object:
    """The job as our own start makes it, with the status given."""
    patches = [a.patch for a in plan(job, kind, [workload], around, 0.0).actions if isinstance(a, PatchJob)]
    running: Object = merged(job, patches[0])
    return running | {"status": status}


def words(actions: Sequence[Action]) -> list[str]:
    """The actions in short: their kind, and what of the job or of the status they change."""
    return [_word(action) for action in actions]


def _word(action: Action) -> str:
    if isinstance(action, PatchJob):
        return "job:" + "+".join(sorted(action.patch["spec"]))
    if isinstance(action, SetStatus):
        before = {c.type: c.status for c in action.workload.status.conditions}
        changed = [c for c in action.status.conditions if before.get(c.type) != c.status]
        return "status:" + ",".join(f"{c.type}={c.status}/{c.reason}" for c in changed)
    if isinstance(action, PatchWorkload):
        return "workload:" + "+".join(sorted(action.patch.get("spec", action.patch.get("metadata", {}))))
    return type(action).__name__


def waiting_job() -> Object:
    return batch_job()


def hand_started() -> Object:
    return batch_job(suspend=False) | {"status": ACTIVE}


WAITING = workload_of(waiting_job())
RUNNING: Object = started(waiting_job(), admitted(WAITING)) | {"status": ACTIVE}
STOPPING: Object = merged(RUNNING, {"spec": {"suspend": True}})
STOPPED = STOPPING | {"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}
DONE = RUNNING | {"status": {"conditions": [{"type": "Complete", "status": "True", "message": "m"}]}}
RELEASED = "status:QuotaReserved=False/PendingEvaluation,Admitted=False/NoReservation,Requeued=True/Preempted"


@pytest.mark.parametrize(
    ("job", "workloads", "wanted"),
    [
        pytest.param(waiting_job(), [], ["CreateWorkload"], id="new"),
        pytest.param(hand_started(), [], ["job:suspend", "CreateWorkload"], id="runs without a Workload"),
        pytest.param(DONE, [], [], id="ended before we saw it"),
        pytest.param(waiting_job(), [WAITING], [], id="waits"),
        pytest.param(hand_started(), [WAITING], ["job:suspend"], id="unsuspended by hand"),
        pytest.param(waiting_job(), [admitted(WAITING)], ["job:suspend+template"], id="admitted"),
        pytest.param(STOPPING, [admitted(WAITING)], [], id="admitted, last run not over"),
        pytest.param(RUNNING, [admitted(WAITING)], [], id="runs"),
        pytest.param(
            hand_started(), [admitted(WAITING)], ["job:suspend"], id="unsuspended by hand while being admitted"
        ),
        pytest.param(RUNNING, [evicted(admitted(WAITING))], ["job:suspend"], id="evicted"),
        pytest.param(STOPPING, [evicted(admitted(WAITING))], [], id="evicted, pods still there"),
        pytest.param(STOPPED, [evicted(admitted(WAITING))], ["job:template", RELEASED], id="evicted, stopped"),
        pytest.param(waiting_job(), [evicted(admitted(WAITING))], [RELEASED], id="evicted before it started"),
        pytest.param(RUNNING, [deleting(admitted(WAITING))], ["job:suspend"], id="Workload deleted"),
        pytest.param(STOPPING, [deleting(admitted(WAITING))], [], id="Workload deleted, pods still there"),
        pytest.param(
            STOPPED,
            [deleting(admitted(WAITING))],
            ["job:template", "workload:finalizers"],
            id="Workload deleted, stopped",
        ),
        pytest.param(waiting_job(), [deleting(WAITING)], ["workload:finalizers"], id="Workload deleted while waiting"),
        pytest.param(DONE, [admitted(WAITING)], ["status:Finished=True/Succeeded"], id="job ended"),
        pytest.param(DONE, [finished(admitted(WAITING))], ["workload:finalizers"], id="job ended, seen"),
        pytest.param(DONE, [deleting(admitted(WAITING))], ["workload:finalizers"], id="job ended, Workload deleted"),
        pytest.param(
            RUNNING, [finished(admitted(WAITING))], ["job:suspend"], id="Workload finished, job resumed by hand"
        ),
        pytest.param(batch_job(parallelism=2), [WAITING], ["workload:podSets"], id="edited while waiting"),
        pytest.param(
            batch_job(parallelism=2),
            [admitted(WAITING)],
            ["workload:finalizers", "DeleteWorkload"],
            id="edited when admitted",
        ),
        pytest.param(
            merged(RUNNING, {"spec": {"parallelism": 2}}), [admitted(WAITING)], ["job:suspend"], id="scaled down"
        ),
        pytest.param(
            STOPPED | {"spec": STOPPED["spec"] | {"parallelism": 2}},
            [admitted(WAITING)],
            ["job:template", "workload:finalizers", "DeleteWorkload"],
            id="scaled down, stopped",
        ),
        pytest.param(
            waiting_job() | {"metadata": waiting_job()["metadata"] | {"deletionTimestamp": "t"}},
            [admitted(WAITING)],
            ["status:Finished=True/OwnerNotFound", "workload:finalizers"],
            id="job being deleted",
        ),
    ],
)
def test_plan(job: Object, workloads: list[Workload], wanted: list[str]) -> None:
    assert words(plan(job, JOB, workloads, AROUND, 10.0).actions) == wanted


def test_a_job_whose_admission_is_taken_back_is_its_own_again() -> None:
    """Issue 16, C8: template, annotations and parallelism as they were, and then it follows its job as any other."""
    job = merged(batch_job(), {"metadata": {"annotations": {"kueue.x-k8s.io/job-min-parallelism": "1"}}})
    waiting = workload_of(job)
    granted = admitted(waiting)
    assert granted.status.admission is not None
    (psa,) = granted.status.admission.pod_set_assignments
    fewer = granted.status.admission.model_copy(update={"pod_set_assignments": (psa.model_copy(update={"count": 1}),)})
    granted = with_status(granted, lambda status: status.model_copy(update={"admission": fewer}))
    running = started(job, granted) | {"status": ACTIVE}
    assert running["spec"]["parallelism"] == 1
    gone = cleared(granted)
    (stop,) = plan(running, JOB, [gone], AROUND, 0.0).actions
    assert isinstance(stop, PatchJob)
    stopped = merged(running, stop.patch)
    assert stopped["spec"]["suspend"]
    assert plan(stopped, JOB, [gone], AROUND, 0.0).actions == (), "its pods are still there"
    at_rest = stopped | {"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}
    (restore,) = plan(at_rest, JOB, [gone], AROUND, 0.0).actions
    assert isinstance(restore, PatchJob)
    restored = merged(at_rest, restore.patch)
    assert (restored["spec"]["template"], restored["spec"]["parallelism"]) == (
        job["spec"]["template"],
        job["spec"]["parallelism"],
    )
    assert plan(restored, JOB, [gone], AROUND, 0.0).actions == ()
    edited = merged(restored, {"spec": {"parallelism": 2}})
    assert words(plan(edited, JOB, [gone], AROUND, 0.0).actions) == ["workload:podSets"]


def test_a_jobset_whose_admission_is_taken_back_is_its_own_again() -> None:
    """Issue 16, C8."""
    granted = admitted(workload_of(jobset(), JOBSET))
    running = started(jobset(), granted, JOBSET, conditions=[{"type": "Suspended", "status": "False"}])
    gone = cleared(granted)
    job = running
    for _ in range(3):
        for action in plan(job, JOBSET, [gone], AROUND, 0.0).actions:
            assert isinstance(action, PatchJob), "the Workload stays"
            job = merged(job, action.patch)
    assert job["spec"] == jobset()["spec"]


def test_pods_of_a_job_whose_admission_is_taken_back_are_not_ready() -> None:
    """Issue 16, C8."""
    around = replace(AROUND, options=JobOptions(wait_for_pods_ready=True))
    ready = with_status(admitted(WAITING), lambda status: with_pods_ready(status, True, 0.0))
    assert is_true(ready.status.conditions, names.PODS_READY)
    (told,) = plan(waiting_job(), JOB, [cleared(ready)], around, 0.0).actions
    assert words([told]) == ["status:PodsReady=False/WaitForStart"]


def without_admission(workload: Workload) -> Workload:
    return with_status(workload, lambda status: status.model_copy(update={"admission": None}))


def without_quota(workload: Workload) -> Workload:
    change = partial(conditions.with_condition, kind="QuotaReserved", value=False, reason="Test", message="", now=1.0)
    return with_status(workload, change)


def without_reservation(workload: Workload) -> Workload:
    """As Kueue leaves it when it takes a reservation back: neither quota nor admission, and not Admitted."""
    return with_status(without_quota(workload), lambda status: conditions.without_reservation(status, 1.0))


@pytest.mark.parametrize("cleared", [without_admission, without_quota, without_reservation])
@pytest.mark.parametrize(
    "ask",
    [
        pytest.param({}, id="as large as it asks"),
        pytest.param({names.MIN_PARALLELISM: "1", names.COMPLETIONS_EQUAL_PARALLELISM: "true"}, id="with fewer pods"),
    ],
)
def test_a_job_that_lost_its_admission_stops_and_is_itself_again(
    cleared: Callable[[Workload], Workload], ask: Object
) -> None:
    """Issue 16, C8: its Workload was not evicted, and does not follow the templates as they were started."""
    job = merged(batch_job(completions=3), {"metadata": {"annotations": ask}})
    given = admitted(workload_of(job), topology=True)
    if ask:
        assert given.status.admission is not None
        fewer = given.status.admission.pod_set_assignments[0].model_copy(update={"count": 2})
        less = given.status.admission.model_copy(update={"pod_set_assignments": (fewer,)})
        given = with_status(given, lambda status: status.model_copy(update={"admission": less}))
    assert (given.spec.pod_sets[0].min_count is None) is (not ask)
    running = started(job, given) | {"status": ACTIVE}
    assert running["spec"]["parallelism"] == (2 if ask else 3)
    lost, around = cleared(given), replace(AROUND, options=JobOptions(wait_for_pods_ready=True))
    (told,) = plan(running, JOB, [lost], around, 0.0).actions
    assert isinstance(told, SetStatus)
    ready = find_condition(told.status.conditions, "PodsReady")
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", "WaitForStart")
    (stop,) = plan(running, JOB, [lost], AROUND, 0.0).actions
    assert isinstance(stop, PatchJob)
    assert [event.message for event in stop.events] == ["Not admitted by cluster queue"]
    stopping: Object = merged(running, stop.patch)
    assert plan(stopping, JOB, [lost], AROUND, 0.0) == JobPlan(), "its pods are not gone yet"
    stopped = stopping | {"status": STOPPED["status"]}
    (restore,) = plan(stopped, JOB, [lost], AROUND, 0.0).actions
    assert isinstance(restore, PatchJob)
    restored: Object = merged(stopped, restore.patch)
    assert restored["spec"] == job["spec"]
    assert plan(restored, JOB, [without_reservation(lost)], AROUND, 0.0) == JobPlan()
    edited = merged(restored, {"spec": {"template": {"spec": {"nodeSelector": {"disk": "hdd"}}}}})
    made = plan(edited, JOB, [without_reservation(lost)], AROUND, 0.0)
    assert words(made.actions) == ["workload:podSets"], "what its user changes now holds"


def test_a_readmitted_job_gets_its_own_templates_before_it_starts() -> None:
    """Issue 16, C8: else what the flavor that it lost has added contradicts the next flavor."""
    other = FLAVOR.model_copy(update={"spec": FLAVOR.spec.model_copy(update={"node_labels": {"pool": "other"}})})
    around = replace(AROUND, flavors={"tas": FLAVOR, "other": other})
    anew = admitted(WAITING, flavor="other")
    (restore,) = plan(STOPPED, JOB, [anew], around, 0.0).actions
    assert isinstance(restore, PatchJob)
    restored: Object = merged(STOPPED, restore.patch)
    (start,) = plan(restored, JOB, [anew], around, 0.0).actions
    assert isinstance(start, PatchJob)
    assert merged(restored, start.patch)["spec"]["template"]["spec"]["nodeSelector"]["pool"] == "other"


def test_a_jobset_stops_in_one_patch() -> None:
    workload = admitted(workload_of(jobset(), JOBSET))
    running = started(jobset(), workload, JOBSET, conditions=[{"type": "Suspended", "status": "False"}])
    assert words(plan(running, JOBSET, [evicted(workload)], AROUND, 0.0).actions) == ["job:replicatedJobs+suspend"]


@pytest.mark.parametrize(
    ("job", "around", "why"),
    [
        pytest.param(
            batch_job() | {"metadata": batch_job()["metadata"] | {"labels": {}}},
            AROUND,
            "no queue named",
            id="no queue",
        ),
        pytest.param(
            batch_job(),
            JobContext(options=JobOptions(namespace_managed=lambda name: name != "ns")),
            "namespace left out",
            id="namespace",
        ),
        pytest.param(batch_job(), JobContext(ancestor_admitted=True), "its ancestor is admitted", id="child"),
    ],
)
def test_nothing_is_done_to_what_is_not_ours(job: Object, around: JobContext, why: str) -> None:
    running = job | {"spec": job["spec"] | {"suspend": False}}
    assert plan(running, JOB, [], around, 0.0) == JobPlan(), why


def test_a_child_stops_while_its_ancestor_waits() -> None:
    child = hand_started()
    assert words(plan(child, JOB, [], JobContext(ancestor_admitted=False), 0.0).actions) == ["job:suspend"]


def test_an_assignment_of_domains_gates_the_pods() -> None:
    running = started(waiting_job(), admitted(WAITING, topology=True))
    assert {"name": GATE} in running["spec"]["template"]["spec"]["schedulingGates"]
    without = started(waiting_job(), admitted(WAITING))
    assert {"name": GATE} not in without["spec"]["template"]["spec"]["schedulingGates"]


@pytest.mark.parametrize(
    ("annotation", "key"),
    [
        pytest.param("require-topology", "podset-required-topology", id="required"),
        pytest.param("prefer-topology", "podset-preferred-topology", id="preferred"),
    ],
)
def test_a_request_of_the_job_is_written_on_its_pods(annotation: str, key: str) -> None:
    job = waiting_job()
    job["metadata"]["annotations"] = {f"kueue.x-k8s.io/{annotation}": "rack"}
    running = started(job, admitted(workload_of(job), topology=True))
    annotations = running["spec"]["template"]["metadata"]["annotations"]
    assert annotations[f"kueue.x-k8s.io/{key}"] == "rack"
    assert "kueue.x-k8s.io/podset-unconstrained-topology" not in annotations


def test_a_conflict_ends_the_workload_and_names_the_key() -> None:
    job = waiting_job()
    job["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "mine"}
    (end,) = plan(job, JOB, [admitted(workload_of(job))], AROUND, 0.0).actions
    assert isinstance(end, SetStatus)
    condition = find_condition(end.status.conditions, "Finished")
    assert condition is not None
    assert condition.reason == "FailedToStart"
    assert "conflict for nodeSelector: conflict for key=pool, value1=mine, value2=tas" in condition.message


def test_a_missing_flavor_is_waited_for() -> None:
    made = plan(waiting_job(), JOB, [admitted(WAITING, flavor="gone")], AROUND, 0.0)
    assert (made.actions, made.again_in) == ((), 1.0)
    assert "ResourceFlavor gone does not exist" in made.note


@pytest.mark.parametrize("suspended", [True, False], ids=["suspended", "running"])
def test_a_job_that_cannot_be_read_gets_no_workload_and_does_not_run(suspended: bool) -> None:
    job = batch_job(suspend=suspended)
    job["spec"]["template"]["metadata"]["annotations"] = {"kueue.x-k8s.io/podset-unconstrained-topology": "maybe"}
    made = plan(job, JOB, [], AROUND, 0.0)
    assert words(made.actions) == ([] if suspended else ["job:suspend"])
    assert [event.reason for event in made.events] == ["ErrWorkloadCompose"]


def test_a_job_of_an_unknown_class_does_not_run() -> None:
    job = hand_started()
    job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "none"
    made = plan(job, JOB, [], AROUND, 0.0)
    assert words(made.actions) == ["job:suspend"]
    assert [event.reason for event in made.events] == ["WorkloadPriorityClassNotFound"]


def test_a_class_that_goes_does_not_hold_up_an_admitted_job() -> None:
    job = waiting_job()
    workload = admitted(workload_of(job))
    job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "gone"
    assert words(plan(job, JOB, [workload], AROUND, 0.0).actions) == ["job:suspend+template"]


def test_a_missing_class_is_reported_also_while_quota_is_held() -> None:
    """Issue 16, C10."""
    waiting = merged(batch_job(), {"metadata": {"labels": {names.PRIORITY_CLASS_LABEL: "low"}}})
    around = replace(AROUND, workload_priority_classes={"low": WorkloadPriorityClass.from_wire(LOW)})
    made = composed(waiting, JOB, around)
    renamed = merged(waiting, {"metadata": {"labels": {names.PRIORITY_CLASS_LABEL: "gone"}}})
    told = plan(renamed, JOB, [admitted(made)], around, 0.0)
    assert [(e.reason, e.message) for e in told.events] == [
        ("WorkloadPriorityClassNotFound", 'WorkloadPriorityClass "gone" not found')
    ]


@pytest.mark.parametrize("controller", ["other-uid", ""])
def test_a_prebuilt_workload_of_another_owner_starts_nothing(controller: str) -> None:
    """Issue 16, C10: only its own controller may run on it."""
    job = merged(batch_job(), {"metadata": {"labels": {names.PREBUILT_WORKLOAD: "made"}}})
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="o", uid=controller, controller=True)
    made = admitted(composed(batch_job(), JOB, AROUND))
    theirs = made.model_copy(update={"metadata": made.metadata.model_copy(update={"owner_references": (owner,)})})
    around = replace(AROUND, workloads={f"{made.metadata.namespace}/made": theirs})
    told = plan(job, JOB, [], around, 0.0)
    assert (told.actions, told.note) == ((), "prebuilt workload not found")


@pytest.mark.parametrize(("uid", "label"), [("u" * 63, True), ("u" * 64, False), ("-u", False)])
def test_a_uid_that_can_be_no_label_is_none(uid: str, label: bool) -> None:
    """Issue 16, C10."""
    job = merged(batch_job(), {"metadata": {"uid": uid}})
    assert composed(job, JOB, AROUND).metadata.labels == ({names.JOB_UID_LABEL: uid} if label else {})


@pytest.mark.parametrize(
    ("classes", "wanted"),
    [
        pytest.param({}, (None, 0), id="none"),
        pytest.param({"d": {"value": 5, "globalDefault": True}}, ("d", 5), id="cluster default"),
        pytest.param({"pc": {"value": 9}, "d": {"value": 5, "globalDefault": True}}, ("pc", 9), id="of the pods"),
    ],
)
def test_priority(classes: dict[str, Object], wanted: tuple[str | None, int]) -> None:
    job = waiting_job()
    if "pc" in classes:
        job["spec"]["template"]["spec"]["priorityClassName"] = "pc"
    spec = composed(job, JOB, JobContext(priority_classes=classes)).spec
    assert (spec.priority_class_ref.name if spec.priority_class_ref else None, spec.priority) == wanted


BEGUN: Object = {"startTime": "2026-01-01T00:00:00Z"}
RESTED: Object = {"type": "Suspended", "status": "True", "lastTransitionTime": "1970-01-01T00:05:00Z"}


@pytest.mark.parametrize(
    ("status", "spec", "woken", "now", "wakes", "again"),
    [
        pytest.param({}, {}, None, 10.0, False, 320.0, id="not for long"),
        pytest.param({}, {}, None, 330.0, True, 330.0, id="for too long"),
        pytest.param({"ready": 0}, {}, None, 400.0, True, 330.0, id="a status, but no beginning"),
        pytest.param({"conditions": [RESTED]}, {}, None, 400.0, False, 230.0, id="started anew a moment ago"),
        pytest.param({}, {}, "1970-01-01T00:05:30Z", 400.0, False, 260.0, id="woken already"),
        pytest.param({}, {}, "1970-01-01T00:05:30Z", 660.0, True, 330.0, id="woken in vain"),
        pytest.param({}, {}, "yesterday", 330.0, True, 330.0, id="an annotation that is no time"),
        pytest.param(BEGUN, {}, None, 400.0, False, None, id="begun, and no pod yet"),
        pytest.param({}, {"managedBy": "example.com/other"}, None, 400.0, False, None, id="another controller's"),
    ],
)
def test_a_job_that_its_own_controller_overlooked_is_woken(
    status: Object, spec: Object, woken: str | None, now: float, wakes: bool, again: float | None
) -> None:
    workload = admitted(WAITING)
    job = merged(started(waiting_job(), workload), {"spec": spec}) | {"status": status}
    if woken:
        job = merged(job, {"metadata": {"annotations": {names.WOKEN_AT: woken}}})
    made = plan(job, JOB, [workload], AROUND, now)
    assert made.again_in == again
    if not wakes:
        assert made.actions == ()
        return
    (patch,) = made.actions
    assert isinstance(patch, PatchJob)
    assert patch.patch["metadata"]["annotations"] == {names.WOKEN_AT: rfc3339(now)}
    assert "spec" not in patch.patch
    assert [event.reason for event in patch.events] == ["Woken"]


def test_finished_pods_are_reported_once() -> None:
    around = JobContext(flavors={"tas": FLAVOR})
    job = RUNNING | {"status": ACTIVE | {"succeeded": 4}}
    (told,) = plan(job, JOB, [admitted(WAITING)], around, 0.0).actions
    assert isinstance(told, SetStatus)
    assert [(p.name, p.count) for p in told.status.reclaimable_pods] == [("main", 2)]
    assert plan(job, JOB, [told.workload.model_copy(update={"status": told.status})], around, 0.0).actions == ()
    silent = replace(around, options=JobOptions(reclaimable_pods=False))
    assert plan(job, JOB, [admitted(WAITING)], silent, 0.0).actions == ()


@pytest.mark.parametrize(
    ("cause", "kept", "later", "deleted", "again"),
    [
        pytest.param("AdmissionCheck", None, 10**9, False, None, id="kept for ever"),
        pytest.param("AdmissionCheck", 60.0, 20, False, 40.0, id="not yet"),
        pytest.param("AdmissionCheck", 60.0, 60, True, None, id="long enough"),
        pytest.param("RequeuingLimitExceeded", 0.0, 0, True, None, id="at once"),
        pytest.param("", 0.0, 10**9, False, None, id="a user deactivated it"),
    ],
)
def test_jobs_that_we_deactivated_are_kept_as_long_as_the_settings_say(
    cause: str, kept: float | None, later: float, deleted: bool, again: float | None
) -> None:
    around = replace(AROUND, options=JobOptions(deactivated_kept=kept))
    gone = with_status(admitted(WAITING), lambda s: conditions.evicted(s, "Deactivated", "off", 0.0, cause))
    off = gone.model_copy(update={"spec": gone.spec.model_copy(update={"active": False})})
    released = with_status(off, lambda status: conditions.released(status, 0.0))
    made = plan(waiting_job(), JOB, [released], around, float(later))
    assert any(isinstance(action, DeleteJob) for action in made.actions) is deleted
    assert made.again_in == again


def test_a_job_whose_pods_still_run_is_stopped_before_it_is_deleted() -> None:
    around = replace(AROUND, options=JobOptions(deactivated_kept=0.0))
    gone = with_status(admitted(WAITING), lambda s: conditions.evicted(s, "Deactivated", "off", 0.0, "AdmissionCheck"))
    off = gone.model_copy(update={"spec": gone.spec.model_copy(update={"active": False})})
    assert words(plan(RUNNING | {"status": ACTIVE}, JOB, [off], around, 0.0).actions) == ["job:suspend"]


@pytest.mark.parametrize(
    ("levels", "racks", "open_templates", "kind", "opened"),
    [
        pytest.param(("block", "rack"), [("b", "r1")], True, JOB, True, id="one rack"),
        pytest.param(("block", "rack"), [("b", "r1"), ("b", "r2")], True, JOB, False, id="two racks"),
        pytest.param(("kubernetes.io/hostname",), [("r1",)], True, JOB, True, id="a host"),
        pytest.param(("kubernetes.io/hostname",), [("n1",), ("r1",)], True, JOB, False, id="two hosts"),
        pytest.param(("block", "rack"), [("b", "r1")], False, JOB, False, id="set otherwise"),
        pytest.param(("block", "rack"), [("b", "r1")], True, JOBSET, False, id="child jobs keep what they have"),
    ],
)
def test_a_single_domain_is_named_in_the_template_itself(
    levels: tuple[str, ...], racks: list[tuple[str, ...]], open_templates: bool, kind: JobIntegration, opened: bool
) -> None:
    job = waiting_job() if kind is JOB else jobset()
    gated = json.loads(json.dumps(job).replace("example.com/other", GATE))
    around = replace(AROUND, options=JobOptions(open_templates=open_templates))
    workload = placed(admitted(workload_of(gated, kind)), levels, racks)
    (patch,) = [a.patch for a in plan(gated, kind, [workload], around, 0.0).actions if isinstance(a, PatchJob)]
    started_as = json.dumps(merged(gated, patch))
    assert (f'"name": "{GATE}"' not in started_as) is opened
    assert (f'"{levels[-1]}": "r1"' in started_as) is opened
    assert (f'"{names.OPENED_LABEL}": "true"' in started_as) is opened


def test_a_mark_copied_from_a_job_that_came_open_does_not_hide_gated_pods() -> None:
    # The ungater does not see marked pods: a gated one would wait for ever.
    copied = json.loads(json.dumps(waiting_job()).replace("example.com/other", GATE))
    copied["spec"]["template"].setdefault("metadata", {}).setdefault("labels", {})[names.OPENED_LABEL] = "true"
    workload = placed(admitted(workload_of(copied)), (HOST,), [("n1",), ("n2",)])
    template = started(copied, workload)["spec"]["template"]
    assert {"name": GATE} in template["spec"]["schedulingGates"]
    assert names.OPENED_LABEL not in template["metadata"]["labels"]


@pytest.mark.parametrize(
    ("unhealthy", "now_at", "started_at"),
    [
        pytest.param(["n1"], ["n1"], None, id="no other host yet: the pods wait at the gate"),
        pytest.param([], ["n2"], "n2", id="another host"),
        pytest.param([], ["n2", "n3"], None, id="two others"),
        pytest.param([], ["n1"], "n1", id="the host itself, well again"),
    ],
)
def test_on_the_opened_path_a_job_whose_host_failed_restarts_with_its_admission(
    unhealthy: list[str], now_at: list[str], started_at: str | None
) -> None:
    own = json.loads(json.dumps(waiting_job()).replace("example.com/other", GATE))
    before = placed(admitted(workload_of(own)), (HOST,), [("n1",)])
    job = started(own, before, around=FAST) | {"status": ACTIVE}
    assert plan(job, JOB, [before], FAST, 0.0).actions == ()
    failed = with_status(before, lambda s: s.model_copy(update={"unhealthy_nodes": (UnhealthyNode(name="n1"),)}))

    (stop,) = plan(job, JOB, [failed], FAST, 0.0).actions
    assert isinstance(stop, PatchJob)
    assert [event.message for event in stop.events] == ["Host n1 failed; the job starts again where its pods go now"]
    job = merged(job, stop.patch)
    assert plan(job, JOB, [failed], FAST, 0.0).actions == (), "its pods are not gone yet"
    job |= {"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}
    (restore,) = plan(job, JOB, [failed], FAST, 0.0).actions
    assert isinstance(restore, PatchJob)
    job = merged(job, restore.patch)

    after = placed(before, (HOST,), [(host,) for host in now_at])
    nodes = tuple(UnhealthyNode(name=name) for name in unhealthy)
    after = with_status(after, lambda s: s.model_copy(update={"unhealthy_nodes": nodes}))
    (start,) = plan(job, JOB, [after], FAST, 0.0).actions
    assert isinstance(start, PatchJob)
    job = merged(job, start.patch) | {"status": ACTIVE}
    pods = job["spec"]["template"]["spec"]
    assert pods["nodeSelector"].get(HOST) == started_at
    assert (GATE in json.dumps(pods.get("schedulingGates", []))) is (started_at is None)
    assert plan(job, JOB, [after], FAST, 0.0).actions == ()


@pytest.mark.parametrize(
    ("levels", "domains", "gate"),
    [
        pytest.param(("block", "rack"), [("b", "r1")], False, id="pods go to a rack"),
        pytest.param((HOST,), [("n2",), ("n3",)], True, id="pods wait at the gate"),
    ],
)
def test_a_users_own_host_selector_restarts_no_job(
    levels: tuple[str, ...], domains: list[tuple[str, ...]], gate: bool
) -> None:
    """A flavor's node labels may name a host."""
    own = json.loads(json.dumps(waiting_job()).replace("example.com/other", GATE))
    workload = placed(admitted(workload_of(own)), levels, domains)
    flavor = ResourceFlavor.from_wire({"metadata": {"name": "tas"}, "spec": {"nodeLabels": {HOST: "n1"}}})
    around = replace(FAST, flavors={"tas": flavor})
    (start,) = plan(own, JOB, [workload], around, 0.0).actions
    assert isinstance(start, PatchJob)
    job = merged(own, start.patch) | {"status": ACTIVE}
    pods = job["spec"]["template"]["spec"]
    assert pods["nodeSelector"][HOST] == "n1"
    assert (GATE in json.dumps(pods.get("schedulingGates", []))) is gate
    assert plan(job, JOB, [workload], around, 0.0).actions == ()
