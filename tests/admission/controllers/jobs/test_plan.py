"""What is planned for a job in each state, and that a plan rests once it is carried out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admission.controllers.jobs.actions import DeleteJob, JobPlan, PatchJob
from admission.controllers.jobs.context import JobContext, JobOptions
from admission.controllers.jobs.plan.job_plan import plan
from admission.controllers.jobs.plan.pods_ready import with_reclaimable
from admission.controllers.jobs.plan.workload import composed
from admission.controllers.state import conditions
from admission.controllers.state.actions import PatchWorkload, SetStatus
from api import names
from api.meta import OwnerReference, find_condition, rfc3339
from api.queues import WorkloadPriorityClass
from api.workloads import ReclaimablePod, Workload
from tests.admission.controllers.jobs.planned import (
    ACTIVE,
    AROUND,
    DONE,
    FLAVOR,
    GATE,
    JOB,
    LOW,
    RELEASED,
    RUNNING,
    STOPPED,
    STOPPING,
    WAITING,
    Object,
    admitted,
    deleting,
    evicted,
    finished,
    hand_started,
    started,
    waiting_job,
    with_status,
    words,
    workload_of,
)
from tests.admission.integrations.samples import batch_job, merged


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


def test_a_checkpoint_that_the_running_job_renews_reaches_its_workload() -> None:
    annotations = {names.MOVABLE: "true", names.LAST_CHECKPOINT: "2026-11-26T10:00:00Z"}
    renewed = merged(RUNNING, {"metadata": {"annotations": annotations}})
    (action,) = plan(renewed, JOB, [admitted(WAITING)], AROUND, 10.0).actions
    assert isinstance(action, PatchWorkload)
    assert action.patch == {"metadata": {"annotations": annotations}}


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
    """Only its own controller may run on it."""
    job = merged(batch_job(), {"metadata": {"labels": {names.PREBUILT_WORKLOAD: "made"}}})
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="o", uid=controller, controller=True)
    made = admitted(composed(batch_job(), JOB, AROUND))
    theirs = made.model_copy(update={"metadata": made.metadata.model_copy(update={"owner_references": (owner,)})})
    around = replace(AROUND, workloads={f"{made.metadata.namespace}/made": theirs})
    told = plan(job, JOB, [], around, 0.0)
    assert (told.actions, told.note) == ((), "prebuilt workload not found")


@pytest.mark.parametrize(("uid", "label"), [("u" * 63, True), ("u" * 64, False), ("-u", False)])
def test_a_uid_that_can_be_no_label_is_none(uid: str, label: bool) -> None:
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
    ("spec", "status", "told"),
    [
        pytest.param({}, {"succeeded": 1}, {}, id="they came back"),
        pytest.param({}, {"succeeded": 3}, {"main": 1}, id="some came back"),
        pytest.param({"parallelism": 2}, {"succeeded": 4}, {"main": 2}, id="its Workload has more pods than it"),
        pytest.param({"parallelism": 9, "completions": 9}, {"succeeded": 8}, {"main": 2}, id="and fewer"),
    ],
)
def test_reclaimable_pods_are_those_of_the_quota_that_the_job_does_not_need(
    spec: Object, status: Object, told: dict[str, int]
) -> None:
    """The count falls when pods come back, and never exceeds the pod set."""
    job = merged(RUNNING, {"spec": spec, "status": ACTIVE | status})
    kept = with_status(
        admitted(WAITING), lambda s: s.model_copy(update={"reclaimable_pods": (ReclaimablePod(name="main", count=2),)})
    )
    pod_sets = JOB.pod_sets(job)
    after = with_reclaimable(kept, JOB, job, pod_sets, release=True)
    assert {pod.name: pod.count for pod in after.reclaimable_pods} == told
    assert with_reclaimable(kept, JOB, job, pod_sets, release=False).reclaimable_pods == ()


def test_an_evicted_job_whose_pods_also_ended_is_stopped_in_the_same_plan() -> None:
    evicted = with_status(admitted(WAITING), lambda s: conditions.evicted(s, "Preempted", "make room", 0.0))
    job = RUNNING | {"status": ACTIVE | {"succeeded": 4}}
    reclaimed, stopped = plan(job, JOB, [evicted], JobContext(flavors={"tas": FLAVOR}), 0.0).actions
    assert isinstance(reclaimed, SetStatus)
    assert [p.count for p in reclaimed.status.reclaimable_pods] == [2]
    assert words((stopped,)) == ["job:suspend"]


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
