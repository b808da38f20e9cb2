"""What is planned for a job whose Workload got another place: it stops, and starts anew there."""

from __future__ import annotations

import pytest

from admission.controllers.jobs.actions import JobPlan, PatchJob
from admission.controllers.jobs.plan.job_plan import plan
from admission.controllers.state import conditions, moving
from admission.controllers.state.actions import SetStatus
from admission.integrations.base import JobIntegration
from api.meta import find_condition, is_true
from api.names import ADMITTED, EVICTED, HOSTNAME_LABEL, MOVING, QUOTA_RESERVED
from api.workloads import Workload
from tests.admission.controllers.jobs.planned import (
    ACTIVE,
    AROUND,
    JOB,
    JOBSET,
    STOPPED,
    Object,
    admitted,
    evicted,
    finished,
    placed,
    started,
    with_status,
    workload_of,
)
from tests.admission.integrations.samples import batch_job, jobset, merged


def sent(workload: Workload, host: str = "n2") -> Workload:
    """The same, with a new place and the order to go there."""
    there = placed(workload, (HOSTNAME_LABEL,), [(host,)])
    return with_status(there, lambda status: moving.begun(status, "moved for ns/gang", 100.0))


def at_rest(job: Object) -> Object:
    return job | {"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}


def status_of(job_plan: JobPlan) -> Workload:
    (last,) = [action for action in job_plan.actions if isinstance(action, SetStatus)]
    return last.workload.model_copy(update={"status": last.status})


def test_a_job_stops_rests_and_starts_anew_with_its_admission() -> None:
    job = batch_job()
    there = sent(admitted(workload_of(job), topology=True))
    running = started(job, admitted(workload_of(job), topology=True)) | {"status": ACTIVE}
    (stop,) = plan(running, JOB, [there], AROUND, 200.0).actions
    assert isinstance(stop, PatchJob)
    assert [event.message for event in stop.events] == ["moved for ns/gang"]
    stopped = merged(running, stop.patch)
    assert stopped["spec"]["suspend"]
    assert plan(stopped, JOB, [there], AROUND, 200.0).actions == (), "its pods are still there"
    resting = plan(at_rest(stopped), JOB, [there], AROUND, 200.0)
    arrived = status_of(resting)
    found = find_condition(arrived.status.conditions, MOVING)
    assert found is not None
    assert (found.status, found.reason, found.last_transition_time) == ("False", "Moved", "1970-01-01T00:03:20Z")
    assert arrived.status.admission == there.status.admission
    restored = resting.actions[0]
    assert isinstance(restored, PatchJob), "the templates are the user's own before the move ends"
    (start,) = plan(at_rest(merged(stopped, restored.patch)), JOB, [arrived], AROUND, 201.0).actions
    assert isinstance(start, PatchJob)
    assert merged(stopped, start.patch)["spec"]["suspend"] is False


@pytest.mark.parametrize(("sample", "kind"), [(batch_job, JOB), (jobset, JOBSET)], ids=["Job", "JobSet"])
def test_each_step_may_run_twice(sample: object, kind: JobIntegration) -> None:
    job = sample()  # type: ignore[operator]  # a function that makes a job
    there = sent(admitted(workload_of(job, kind), topology=True))
    running = started(job, admitted(workload_of(job, kind), topology=True), kind) | {"status": ACTIVE}
    first, second = (plan(running, kind, [there], AROUND, 200.0).actions for _ in range(2))
    assert first == second != ()


def test_an_eviction_ends_a_move() -> None:
    job = batch_job()
    gone = evicted(sent(admitted(workload_of(job), topology=True)))
    assert not moving.is_moving(gone.status)
    assert not is_true(gone.status.conditions, MOVING)
    actions = plan(job | {"status": STOPPED}, JOB, [gone], AROUND, 200.0).actions
    released = status_of(JobPlan(actions))
    assert not is_true(released.status.conditions, QUOTA_RESERVED)


@pytest.mark.parametrize("over", [finished, evicted], ids=["finished", "evicted"])
def test_a_mark_that_others_write_stops_nothing_but_an_admitted_job(over: object) -> None:
    there = over(sent(admitted(workload_of(batch_job()), topology=True)))  # type: ignore[operator]  # see the parameters
    marked = with_status(there, lambda s: conditions.with_condition(s, MOVING, True, "PlaceHeld", "by hand", 1.0))
    assert not moving.is_moving(marked.status)


def test_a_move_counts_once_and_leaves_quota_and_admission() -> None:
    there = sent(admitted(workload_of(batch_job()), topology=True))
    states = there.status.conditions
    assert [is_true(states, kind) for kind in (QUOTA_RESERVED, ADMITTED, MOVING, EVICTED)] == [True, True, True, False]
    stats = there.status.scheduling_stats
    assert stats is not None
    assert [(one.reason, one.count) for one in stats.evictions] == [("Moved", 1)]
