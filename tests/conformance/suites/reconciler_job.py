"""reconciler_job: one reconcile of a batch/v1 Job with its Workloads.

Here a reconcile is a plan, performed on plain objects. Where it suspends the job, the Job controller's answer is played
(Suspended=True, no startTime) and the next plan follows, as it would at once on a real server: our stop is two patches,
because the API server lets a template change only then. Ignored like in Kueue's own comparison: times, versions,
owner references, generated names; and `status.admission` of a Workload without quota, which we take out and Kueue's
test server keeps.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from admission.controllers.jobs.actions import DeleteJob, JobPlan, PatchJob
from admission.controllers.jobs.context import JobContext, JobOptions
from admission.controllers.jobs.plan.finish import plan_orphaned
from admission.controllers.jobs.plan.job_plan import plan
from admission.controllers.state.actions import CreateWorkload, DeleteWorkload, PatchWorkload, SetStatus
from admission.integrations.base import JobIntegration
from admission.integrations.job import BatchJob
from api.meta import is_true, parse_time
from api.names import ADMITTED
from api.queues import WorkloadPriorityClass
from api.text.duration import seconds
from api.topology import ResourceFlavor
from api.workloads import Workload
from tests.admission.integrations.samples import merged
from tests.conformance import runner
from tests.conformance.suites.normal import normal

Object = dict[str, Any]
ROUNDS = 4
NO_PREBUILT = "PrebuiltWorkloadNotFound"
"""Ours: Kueue only logs it."""

SKIPPED = {
    "when workload is evicted, suspend, reset startTime and restore node affinity": (
        "the API server refuses to restore a template while pods are active (1.36); ours waits for them"
    ),
    "when workload is evicted but suspended, reset startTime and restore node affinity": (
        "the API server refuses to restore a template while pods are active (1.36); ours waits for them"
    ),
}


def run(case: dict[str, Any]) -> None:
    """Compare job, Workloads and events with what is wanted."""
    for part, reason in SKIPPED.items():
        if part in case["name"]:
            pytest.skip(reason)
    for scenario in runner.scenarios(case):
        _run(scenario)


def _run(case: dict[str, Any]) -> None:
    world, want = JobReconciliation(case, BatchJob()), case["want"]
    world.reconcile()
    assert normal(world.events) == normal(want.get("wantEvents") or [])
    if world.job is not None:
        assert shown_job(world.job) == shown_job(want["wantJob"])
    elif case["input"].get("job"):
        assert not normal(want["wantJob"]).get("metadata")
    assert shown(world.workloads) == shown(want.get("wantWorkloads") or [])


class JobReconciliation:
    """The objects of a case, with a reconcile."""

    def __init__(self, case: dict[str, Any], kind: JobIntegration) -> None:
        given = case["input"]
        self.kind, self.now = kind, parse_time(given.get("now")) or 0.0
        self.job: Object | None = given.get("job")
        self.others: list[Object] = given.get("otherJobs") or []
        self.workloads: list[Object] = given.get("workloads") or []
        self.events: list[Object] = []
        self._case, self._given = case, given

    def reconcile(self) -> None:
        """Plans and performs, further only where the job was just told to stop."""
        for _ in range(ROUNDS):
            made = self._plan()
            self._perform(made)
            if self.job is None or not made.actions or not all(map(_suspends, made.actions)):
                return
            status = {k: v for k, v in (self.job.get("status") or {}).items() if k != "startTime"}
            self.job = {**self.job, "status": status}

    def _plan(self) -> JobPlan:
        owned = [Workload.from_wire(w) for w in self.workloads if self._is_mine(w)]
        if self.job is None:
            gone = [Workload.from_wire(w) for w in self.workloads]
            return plan_orphaned(gone, self._context().options, self.now)
        return plan(self.job, self.kind, owned, self._context(), self.now)

    def _is_mine(self, workload: Object) -> bool:
        """Without an owner it is the job's, as the suite says."""
        owners = workload["metadata"].get("ownerReferences") or []
        uid = (self.job or {}).get("metadata", {}).get("uid", "")
        return not owners or any(owner.get("uid", "") == uid for owner in owners)

    def _context(self) -> JobContext:
        given, gates = self._given, runner.gates(self._case)
        classes = given.get("priorityClasses") or []
        options = given.get("reconcilerOptions") or {}
        return JobContext(
            flavors={f["metadata"]["name"]: ResourceFlavor.from_wire(f) for f in given.get("resourceFlavors") or []},
            workload_priority_classes={
                c["metadata"]["name"]: WorkloadPriorityClass.from_wire(c)
                for c in classes
                if c["kind"] == "WorkloadPriorityClass"
            },
            priority_classes={c["metadata"]["name"]: c for c in classes if c["kind"] == "PriorityClass"},
            workloads={f"ns/{w['metadata']['name']}": Workload.from_wire(w) for w in self.workloads},
            options=JobOptions(
                manage_jobs_without_queue_name=options.get("manageJobsWithoutQueueName", False),
                namespace_managed=lambda name: self._managed(options.get("managedJobsNamespaceSelector"), name),
                topology=gates["TopologyAwareScheduling"],
                assign_queue_labels=gates["AssignQueueLabelsForPods"],
                short_names=gates["ShortWorkloadNames"],
                wait_for_pods_ready=options.get("waitForPodsReady", False),
                deactivated_kept=_kept(options.get("workloadRetentionPolicy") or {}),
                label_keys_to_copy=tuple(options.get("labelKeysToCopy") or ()),
                finish_orphaned=gates["FinishOrphanedWorkloads"],
            ),
            ancestor_admitted=self._ancestor_admitted(),
        )

    def _managed(self, selector: str | None, namespace: str) -> bool:
        """Selectors of the suite are empty or one `key=value`."""
        if not selector:
            return True
        key, _, value = selector.partition("=")
        labels = (
            n["metadata"].get("labels", {}) for n in self._given["namespaces"] if n["metadata"]["name"] == namespace
        )
        return any(found.get(key) == value for found in labels)

    def _ancestor_admitted(self) -> bool | None:
        owners = (self.job or {}).get("metadata", {}).get("ownerReferences") or []
        parents = {other["metadata"]["uid"] for other in self.others}
        found = next((owner["uid"] for owner in owners if owner["uid"] in parents), None)
        if found is None:
            return None
        owned = (w for w in self.workloads if w["metadata"].get("ownerReferences", [{}])[0].get("uid") == found)
        return any(is_true(Workload.from_wire(w).status.conditions, ADMITTED) for w in owned)

    def _perform(self, job_plan: JobPlan) -> None:
        self._record(job_plan.events)
        for action in job_plan.actions:
            match action:
                case PatchJob(patch=patch):
                    self.job = merged(self.job, patch)
                case DeleteJob():
                    self._record(action.events)
                    self.job = None
                    continue
                case CreateWorkload(workload=workload):
                    self.workloads = [*self.workloads, workload.to_wire()]
                case PatchWorkload(workload=workload, patch=patch):
                    self._change(workload, patch)
                case SetStatus(workload=workload, status=status):
                    self._replace_status(workload, status.to_wire())
                case DeleteWorkload(workload=workload):
                    self.workloads = [w for w in self.workloads if w["metadata"]["name"] != workload.metadata.name]
            self._record(action.events)

    def _change(self, workload: Workload, patch: Object) -> None:
        name = workload.metadata.name
        self.workloads = [merged(w, patch) if w["metadata"]["name"] == name else w for w in self.workloads]

    def _replace_status(self, workload: Workload, status: Object) -> None:
        name = workload.metadata.name
        self.workloads = [w | {"status": status} if w["metadata"]["name"] == name else w for w in self.workloads]

    def _record(self, events: Any) -> None:
        meta = (self.job or {}).get("metadata", {})
        key = f"{meta.get('namespace')}/{meta.get('name')}"
        self.events += [
            {"key": key, "eventType": e.type, "reason": e.reason, "message": e.message}
            for e in events
            if e.reason != NO_PREBUILT
        ]


def _kept(policy: Object) -> float | None:
    """Seconds of a retention policy."""
    text = policy.get("afterDeactivatedByKueue")
    return None if text is None else seconds(text)


def _suspends(action: object) -> bool:
    return isinstance(action, PatchJob) and bool(action.patch.get("spec", {}).get("suspend"))


def shown_job(job: Object) -> Any:
    """Without the version, and what only the Job controller writes."""
    shown = normal(job)
    shown["metadata"].pop("resourceVersion", None)
    if status := shown.get("status"):
        status.pop("startTime", None)
    return normal(shown)


def shown(workloads: list[Object]) -> Any:
    """In any order, without what the comparison leaves out (names stand in the events)."""
    return sorted((_shown(workload) for workload in workloads), key=lambda item: json.dumps(item, sort_keys=True))


def _shown(workload: Object) -> Any:
    out = normal(workload)
    for field in ("resourceVersion", "ownerReferences", "name"):
        out["metadata"].pop(field, None)
    status = out.get("status") or {}
    conditions = {
        c["type"]: {k: v for k, v in c.items() if k != "lastTransitionTime"} for c in status.get("conditions", ())
    }
    for condition in conditions.values():
        if not condition.get("observedGeneration"):
            condition.pop("observedGeneration", None)
    if conditions.get("QuotaReserved", {}).get("status") == "False":
        status.pop("admission", None)
    if conditions:
        status["conditions"] = [conditions[kind] for kind in sorted(conditions)]
    return normal(out)
