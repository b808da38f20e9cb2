"""elastic_slices: which Workload of an elastic job goes on, and which of its pods may start.

A slice that Kueue finishes because it waits in vain is deleted here, and an evicted one waits for quota again; so the others of
a chain are compared by whether they go on. Quota without checks is an admission: Kueue's tests leave that condition out. They
also leave out how many pods were admitted, which are all that the Workload requests.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest

from admission.controllers.jobs.plan.job_slices import Slices, shrunk, slices_of
from admission.integrations.job import BatchJob
from api import names
from api.meta import find_condition, is_true
from api.pod.pods import Pod
from api.workloads import Workload
from tests.conformance.suites import topology_ungater
from tests.conformance.suites.reconciler_job import JobReconciliation
from ungater.expectations import Expectations
from ungater.gate_plan import may_open, plan, slice_key, slice_of, workload_key

Json = dict[str, Any]

OUTSIDE: Final = {
    "previous slice": "ProvisioningRequests: Stowage does not create these, another controller does",
}
_OTHER_POD_SETS: Final = "the pod set of a Job has the same name always"
_FAILED_WRITE: Final = "a write that fails ends the reconcile, which is tried again: no matter of slices"


def run(case: Json) -> None:
    """By the Go test that the case is of."""
    for part, reason in OUTSIDE.items():
        if part in case["name"]:
            pytest.skip(reason)
    if case["input"].get("injectedError"):
        pytest.skip(_FAILED_WRITE)
    if case["want"].get("wantCompatible") is False:
        pytest.skip(_OTHER_POD_SETS)
    HANDLERS[case["name"].split("/")[0]](case)


# ---- the slices of a job


def _ensured(case: Json) -> None:
    given, want = case["input"], case["want"]
    counts = {pod_set["name"]: pod_set["count"] for pod_set in given.get("jobPodSets") or ()}
    before = {workload["metadata"]["name"] for workload in given.get("workloads") or ()}
    world = JobReconciliation({**case, "input": {**given, **_elastic(given)}}, BatchJob())
    world.reconcile()
    after = {workload["metadata"]["name"]: workload for workload in world.workloads}
    created = [workload for name, workload in after.items() if name not in before]
    if want["wantWorkload"] is None:
        [goes_on] = created
    else:
        goes_on = after[want["wantWorkload"]["metadata"]["name"]]
        assert created == []
        counts = {pod_set["name"]: pod_set["count"] for pod_set in want["wantWorkload"]["spec"]["podSets"]}
    if counts:
        assert {pod_set["name"]: pod_set["count"] for pod_set in goes_on["spec"]["podSets"]} == counts
    if finished := want.get("wantFinished"):
        left = after.get(finished["workload"])
        assert left is None or is_true(Workload.from_wire(left).status.conditions, names.FINISHED)


def _elastic(case: Json) -> Json:
    """The job as one that may be resized, with the pods that the case has it ask for; its Workloads in a namespace."""
    [pod_set] = case.get("jobPodSets") or [{"count": 1, "template": case["job"]["spec"]["template"]}]
    job_meta = {
        **case["job"]["metadata"],
        "namespace": "ns",
        "labels": {names.QUEUE_NAME_LABEL: "lq"},
        "annotations": {names.ELASTIC_JOB: "true"},
    }
    workloads = [_in_namespace(workload) for workload in case.get("workloads") or ()]
    held = any(workload.get("status", {}).get("admission") for workload in workloads)
    spec = {"parallelism": pod_set["count"], "suspend": not held, "template": pod_set["template"]}
    return {"job": {**case["job"], "metadata": job_meta, "spec": spec}, "workloads": workloads}


def _in_namespace(workload: Json) -> Json:
    replaced = workload["metadata"].get("annotations", {}).get(names.REPLACEMENT_FOR)
    annotations = {names.ELASTIC_JOB: "true", **({names.REPLACEMENT_FOR: f"ns{replaced}"} if replaced else {})}
    owners = [{**owner, "controller": True} for owner in workload["metadata"].get("ownerReferences", ())]
    meta = {**workload["metadata"], "namespace": "ns", "annotations": annotations, "ownerReferences": owners}
    return {**workload, "metadata": meta, "spec": {**workload["spec"], "queueName": "lq", "active": True}}


def _normalized(case: Json) -> None:
    slices = _slices(case["input"])
    fresh = [w for w in slices.others if not is_true(w.status.conditions, names.EVICTED)]
    newest = max(fresh, key=_age, default=None)
    survivor = slices.following or slices.current or newest
    assert (survivor.metadata.name if survivor else "") == case["want"]["wantSurvivor"]
    kept = slices.current if slices.following and slices.current else None
    assert (kept.metadata.name if kept else "") == case["want"]["wantKeptAdmitted"]


def _latest(case: Json) -> None:
    current = _slices(case["input"]).current
    assert (current.metadata.name if current else "") == case["want"]["want"]


def _slices(case: Json) -> Slices:
    return slices_of([_admitted(Workload.from_wire(workload)) for workload in case.get("workloads") or ()])


def _age(workload: Workload) -> tuple[str, str]:
    return workload.metadata.creation_timestamp or "", workload.metadata.name


def _admitted(workload: Workload) -> Workload:
    reserved = find_condition(workload.status.conditions, names.QUOTA_RESERVED)
    if (
        reserved is None
        or find_condition(workload.status.conditions, names.ADMITTED)
        or workload.status.admission_checks
    ):
        return workload
    conditions = (*workload.status.conditions, reserved.model_copy(update={"type": names.ADMITTED}))
    return workload.model_copy(update={"status": workload.status.model_copy(update={"conditions": conditions})})


def _scaled_down(case: Json) -> None:
    given = case["input"]
    pod_sets = [
        {"name": name, "count": count, "template": {}} for name, count in (given.get("oldCounts") or {}).items()
    ]
    before = Workload.from_wire({"metadata": {"name": "w"}, "spec": {"podSets": pod_sets}})
    assert (shrunk(before, given.get("newCounts") or {}) is not None) == case["want"]["want"]


# ---- the pods of a job


def _ungated(case: Json) -> None:
    given, want = case["input"], case["want"]
    workloads = [_all_admitted(Workload.from_wire(workload)) for workload in given["workloads"]]
    key = given.get("reconcileKey") or workloads[0].key
    expectations = Expectations()
    expectations.expect(key, given.get("expectUIDs") or [])
    pending = bool(expectations.pending(key))
    assert pending == bool(want["wantErr"])
    first = next(slice_key(workload) for workload in workloads if workload.key == key)
    current = slice_of(first, [workload for workload in workloads if slice_key(workload) == first])
    pods = [msgspec.convert(pod, Pod) for pod in given["pods"]]
    mine = [pod for pod in pods if workload_key(pod) == first]
    opened = {change.pod.metadata.name for change in plan(current, mine)} if current and not pending else set()
    after = [pod["metadata"]["name"] for pod in given["pods"] if not _gates(pod) or pod["metadata"]["name"] in opened]
    assert set(after) == {pod["metadata"]["name"] for pod in want["wantPods"] if not _gates(pod)}
    if "wantMetricsCount" in want:
        topology_ungater.assert_metrics(workloads[0], len(opened), given, want)


def _all_admitted(workload: Workload) -> Workload:
    admission = workload.status.admission
    if admission is None:
        return workload
    counts = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    assigned = tuple(a.model_copy(update={"count": counts[a.name]}) for a in admission.pod_set_assignments)
    admission = admission.model_copy(update={"pod_set_assignments": assigned})
    return workload.model_copy(update={"status": workload.status.model_copy(update={"admission": admission})})


def _gates(pod: Json) -> list[str]:
    return topology_ungater.gates_of(pod)


def _may_open(case: Json) -> None:
    assert may_open(Workload.from_wire(case["input"]["workload"])) == case["want"]["want"]


HANDLERS = {
    "TestEnsureWorkloadSlices": _ensured,
    "TestNormalizeActiveSlices": _normalized,
    "TestFindLatestActiveWorkload": _latest,
    "TestScaledDown": _scaled_down,
    "TestReconcile": _ungated,
    "TestRecordPodSchedulingGateRemovalSeconds": _ungated,
    "TestShouldUngate": _may_open,
}
