"""What is planned for a job whose admission is taken back: it stops, and its templates are its own again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from admission.controllers.jobs.actions import JobPlan, PatchJob
from admission.controllers.jobs.context import JobOptions
from admission.controllers.jobs.plan.job_plan import plan
from admission.controllers.jobs.plan.pods_ready import with_pods_ready
from admission.controllers.state.actions import SetStatus
from api import names
from api.meta import find_condition, is_true
from api.workloads import Workload
from tests.admission.controllers.jobs.planned import (
    ACTIVE,
    AROUND,
    FLAVOR,
    JOB,
    JOBSET,
    STOPPED,
    WAITING,
    Object,
    admitted,
    cleared,
    evicted,
    started,
    waiting_job,
    with_status,
    without_admission,
    without_quota,
    without_reservation,
    words,
    workload_of,
)
from tests.admission.integrations.samples import batch_job, jobset, merged


def test_a_job_whose_admission_is_taken_back_is_its_own_again() -> None:
    """Template, annotations and parallelism as they were, and then it follows its job as any other."""
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
    around = replace(AROUND, options=JobOptions(wait_for_pods_ready=True))
    ready = with_status(admitted(WAITING), lambda status: with_pods_ready(status, True, 0.0))
    assert is_true(ready.status.conditions, names.PODS_READY)
    (told,) = plan(waiting_job(), JOB, [cleared(ready)], around, 0.0).actions
    assert words([told]) == ["status:PodsReady=False/WaitForStart"]


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
    """Its Workload was not evicted, and does not follow the templates as they were started."""
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
    """Else what the flavor that it lost has added contradicts the next flavor."""
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
