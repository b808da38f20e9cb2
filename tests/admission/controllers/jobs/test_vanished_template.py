"""What is planned for a job whose template vanishes while it is admitted: past the webhook, or because its JobKind changed."""

from __future__ import annotations

from typing import Any

import pytest

from admission.controllers.jobs.actions import JobPlan, PatchJob
from admission.controllers.jobs.context import JobContext
from admission.controllers.jobs.plan.job_plan import plan
from admission.controllers.jobs.plan.workload import composed
from admission.controllers.state import conditions
from admission.controllers.state.actions import SetStatus
from admission.integrations.declared.declared import DeclaredJob
from admission.integrations.paths import without
from admission.integrations.registry import BY_FRAMEWORK
from api import names
from api.meta import is_true
from api.workloads import Admission, PodSetAssignment, Workload
from tests.admission.integrations.samples import declared, merged

KIND = BY_FRAMEWORK["kubeflow.org/pytorchjob"]
assert isinstance(KIND, DeclaredJob)
Object = dict[str, Any]
AROUND = JobContext()
RUNS: Object = {"replicaStatuses": {"Worker": {"active": 1}}}


def admitted() -> tuple[Object, Workload]:
    """A job that waits, and its Workload that has quota."""
    assert isinstance(KIND, DeclaredJob)
    job = declared(KIND)
    workload = composed(job, KIND, AROUND)
    given = tuple(PodSetAssignment(name=p.name, count=p.count) for p in workload.spec.pod_sets)
    admission = Admission(cluster_queue="cq", pod_set_assignments=given)
    status = conditions.synced_admitted(conditions.reserved(workload.status, admission, 0.0), 0.0)
    return job, workload.model_copy(update={"status": status})


def bare(job: Object, **status: Any) -> Object:
    """Without the template of its workers."""
    found: Object = without(job, ("spec", "pytorchReplicaSpecs", "Worker", "template"))
    return {**found, "status": status}


def said(job_plan: JobPlan) -> list[str]:
    assert [event.reason for event in job_plan.events] == ["ErrWorkloadCompose"]
    return [event.message for event in job_plan.events]


@pytest.mark.parametrize("suspended", [True, False], ids=["suspended", "runs"])
def test_it_stops_and_is_told_the_path(suspended: bool) -> None:
    job, workload = admitted()
    job = merged(job, {"spec": {"runPolicy": {"suspend": suspended}}})
    found = plan(bare(job, **RUNS), KIND, [workload], AROUND, 0.0)
    stops = [action.patch["spec"] for action in found.actions if isinstance(action, PatchJob)]
    assert stops == ([] if suspended else [{"runPolicy": {"suspend": True}}])
    assert len(found.actions) == len(stops), "its quota stays while pods of it may run"
    [text] = said(found)
    assert "spec.pytorchReplicaSpecs.Worker.template: None: must be a pod template" in text


def test_its_quota_is_free_once_no_pod_is_active() -> None:
    job, workload = admitted()
    job = merged(job, {"spec": {"runPolicy": {"suspend": True}}})
    [action] = plan(bare(job), KIND, [workload], AROUND, 0.0).actions
    assert isinstance(action, SetStatus)
    assert action.status.admission is None
    assert not is_true(action.status.conditions, names.QUOTA_RESERVED)
    rests = workload.model_copy(update={"status": action.status})
    assert plan(bare(job), KIND, [rests], AROUND, 0.0).actions == ()
    back = plan(job, KIND, [rests], AROUND, 0.0).actions
    assert [type(action) for action in back] == [SetStatus], "with its template it is considered again"
