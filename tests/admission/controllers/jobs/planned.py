"""Jobs and their Workloads in each state that plans are tested in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from admission.controllers.jobs.actions import Action, PatchJob
from admission.controllers.jobs.context import JobContext, JobOptions
from admission.controllers.jobs.plan.job_plan import plan
from admission.controllers.jobs.plan.workload import composed
from admission.controllers.state import conditions
from admission.controllers.state.actions import PatchWorkload, SetStatus
from admission.engine.reasons import Reason
from admission.integrations.base import JobIntegration
from admission.integrations.job import BatchJob
from admission.integrations.jobset import JobSet
from api.assignment import encode
from api.topology import ResourceFlavor
from api.topology_assignment import TopologyAssignment
from api.workloads import Admission, PodSetAssignment, Workload
from tests.admission.integrations.samples import batch_job, merged

Object = dict[str, Any]
JOB = BatchJob()
JOBSET = JobSet()
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


def without_admission(workload: Workload) -> Workload:
    return with_status(workload, lambda status: status.model_copy(update={"admission": None}))


def without_quota(workload: Workload) -> Workload:
    change = partial(conditions.with_condition, kind="QuotaReserved", value=False, reason="Test", message="", now=1.0)
    return with_status(workload, change)


def without_reservation(workload: Workload) -> Workload:
    """As Kueue leaves it when it takes a reservation back: neither quota nor admission, and not Admitted."""
    return with_status(without_quota(workload), lambda status: conditions.without_reservation(status, 1.0))
