"""reconciler_workload: one reconcile of a Workload outside the cycle: its status, events, and when it is looked at again.

Kueue writes one thing in a reconcile and returns, where ours may do the next one as well. So a reconcile here is over once a
workload is to be deactivated; and the cases of requeueing, which are about what Kueue does before it looks at queues, get
queues that run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeVar

import pytest

from admission.controllers.state import conditions
from admission.controllers.state.admission_context import AdmissionContext
from admission.controllers.state.checks import checks_for
from admission.controllers.state.lifecycle import LifecycleRules, LifecycleStep, may_let_go, step
from admission.controllers.state.timeouts import PodsReadyRules, RequeueBackoff, pods_deadline
from admission.controllers.watch.resources import defect
from admission.controllers.write.status import legacy_reasons, written_reason
from admission.integrations.owners import is_ours
from api.meta import find_condition, is_true, parse_time
from api.names import ADMITTED, IN_USE_FINALIZER, QUOTA_RESERVED
from api.pod.labels import matches
from api.queues import ClusterQueue, LocalQueue
from api.text.duration import seconds
from api.workloads import Workload, WorkloadStatus
from tests.conformance import runner
from tests.conformance.suites.normal import normal

Json = dict[str, Any]
Queue = TypeVar("Queue", ClusterQueue, LocalQueue)

_DEVICES = "devices in quota come with a suite of their own"
_EXPLICIT_STATUS = "UnadmittedWorkloadsExplicitStatus is no setting: the cycle writes the reason of each workload"
_MERGE_PATCH = "WorkloadRequestUseMergePatch"
_OBSERVABILITY = "UnadmittedWorkloadsObservability"
_LOCAL_QUEUE = {"metadata": {"name": "lq", "namespace": "ns"}, "spec": {"clusterQueue": "cq"}}
_CLUSTER_QUEUE = {"metadata": {"name": "cq"}, "spec": {}}


def run(case: Json) -> None:
    """By the Go test that the case is of."""
    if case["name"].startswith("TestReconcileDRA"):
        pytest.skip(_DEVICES)
    if runner.gates(case)["UnadmittedWorkloadsExplicitStatus"] and not _has_a_reason(case["input"]["workload"]):
        pytest.skip(_EXPLICIT_STATUS)
    HANDLERS[case["name"].split("/")[0]](case)


def _has_a_reason(workload: Json) -> bool:
    return find_condition(Workload.from_wire(workload).status.conditions, QUOTA_RESERVED) is not None


# ---- a whole reconcile


def _reconcile(case: Json) -> None:
    for scenario in _scenarios(case):
        want, made = scenario["want"], _Reconciliation(scenario)
        legacy = legacy_reasons.set(not made.gates[_OBSERVABILITY])
        try:
            made.reconcile()
        finally:
            legacy_reasons.reset(legacy)
        if failure := made.given.get("patchErr"):
            # the write of a status fails: the reconcile ends with that error, and tells nothing
            assert made.changed
            assert (want["wantErrorMsg"] or want["wantError"]["error"]) in failure.get("error", failure)
            continue
        assert made.events == (want["wantEvents"] or [])
        if want["wantWorkload"] is not None:
            assert _shown(made.workload) == _shown(want["wantWorkload"])
        wanted = seconds(want["wantResult"].get("requeueAfter", "0s"))
        # after a write, the change of the Workload starts Kueue's next reconcile
        assert made.again_in == pytest.approx(wanted, abs=1) or (made.changed and not wanted)


def _scenarios(case: Json) -> Iterator[Json]:
    """Of two that differ in the kind of write alone, the merge patch: the other cannot take a field away in Kueue's tests."""
    by_gates: dict[str, Json] = {}
    for scenario in runner.scenarios(case):
        gates = {name: on for name, on in scenario["featureGates"].items() if name != _MERGE_PATCH}
        key = json.dumps(gates, sort_keys=True)
        if key not in by_gates or _MERGE_PATCH in scenario["featureGates"]:
            by_gates[key] = scenario
    yield from by_gates.values()


class _Reconciliation:
    """The objects of a case, and one reconcile as WorkloadController does it."""

    def __init__(self, case: Json) -> None:
        self.given, self.gates = case["input"], runner.gates(case)
        self.workload: Json | None = self.given["workload"]
        self.events: list[Json] = []
        self.again_in, self.changed = 0.0, False
        self._now = parse_time(self.given["now"]) or 0.0
        self._before_queues = case["name"].startswith("TestReconcileRequeue/")

    def reconcile(self) -> None:
        workload, rules = Workload.from_wire(self.given["workload"]), self._rules()
        if may_let_go(workload, rules, owned=is_ours(workload)):
            kept = [name for name in workload.metadata.finalizers if name != IN_USE_FINALIZER]
            self.workload = workload.to_wire()
            self.workload["metadata"]["finalizers"] = kept
            return
        result = step(workload, self._context(workload), self._now, rules)
        self.again_in, self.changed = result.again_in or 0.0, result.status is not workload.status
        self._tell_all(result)
        self.workload = None if result.delete else self._written(workload, result)

    def _tell_all(self, result: LifecycleStep) -> None:
        if result.eviction is not None:
            self._tell("Normal", result.eviction.event, result.eviction.message)
        for event in result.events:
            self._tell(event.type, event.reason, event.message)

    def _tell(self, kind: str, reason: str, message: str) -> None:
        meta = self.given["workload"]["metadata"]
        key = f"{meta['namespace']}/{meta['name']}"
        self.events.append({"key": key, "eventType": kind, "reason": reason, "message": message})

    def _written(self, workload: Workload, result: LifecycleStep) -> Json:
        """With older reasons, an Admitted=False that Kueue writes only with the newer ones is left out of the comparison."""
        status, before = result.status, find_condition(workload.status.conditions, ADMITTED)
        if before is None and not self.gates[_OBSERVABILITY] and not is_true(status.conditions, ADMITTED):
            status = conditions.without(status, ADMITTED)
        out = workload.model_copy(update={"status": status}).to_wire()
        for condition in out.get("status", {}).get("conditions", ()):
            if condition["type"] == QUOTA_RESERVED and condition["status"] == "False":
                condition["reason"] = written_reason(condition["reason"])
        if result.deactivate and result.status is workload.status:
            out["spec"]["active"] = False
        return out

    def _context(self, workload: Workload) -> AdmissionContext:
        if self._before_queues:
            names = tuple(check.name for check in workload.status.admission_checks)
            running = LocalQueue.from_wire(_LOCAL_QUEUE), ClusterQueue.from_wire(_CLUSTER_QUEUE)
            return AdmissionContext(*running, cluster_queue_active=True, checks=names)
        local = self._queue(LocalQueue, "lq", workload.spec.queue_name)
        queue = self._queue(ClusterQueue, "cq", local.spec.cluster_queue if local else "")
        states = ((self.given.get("cq") or {}).get("status") or {}).get("conditions", ())
        spaces = (o["metadata"].get("labels") or {} for o in self.given["objects"] if o["kind"] == "Namespace")
        return AdmissionContext(
            local_queue=local,
            cluster_queue=queue,
            cluster_queue_active=any(state["type"] == "Active" and state["status"] == "True" for state in states),
            namespace_matches=queue is not None and matches(queue.spec.namespace_selector, next(spaces, {})),
            validation_error=defect(workload, []),
            checks=checks_for(queue, workload.status.admission) if queue else (),
            gated_by=self.gates["AdmissionGatedBy"],
        )

    def _queue(self, kind: type[Queue], key: str, name: str) -> Queue | None:
        obj: Json | None = self.given.get(key)
        if obj is None or obj["metadata"]["name"] != name:
            return None
        if self.given.get("shouldDelete" + key.upper()):
            obj = {**obj, "metadata": {**obj["metadata"], "deletionTimestamp": self.given["now"]}}
        return kind.from_wire(obj)

    def _rules(self) -> LifecycleRules:
        kept = (self.given.get("workloadRetention") or {}).get("afterFinished")
        rules, legacy = _pods_ready(self.given.get("waitForPodsReady")), not self.gates[_OBSERVABILITY]
        return LifecycleRules(rules, None if kept is None else seconds(kept), legacy)


def _pods_ready(settings: Json | None) -> PodsReadyRules | None:
    if settings is None:
        return None
    recovery = settings.get("recoveryTimeout")
    backoff = RequeueBackoff(
        settings.get("requeuingBackoffBaseSeconds", 60),
        seconds(settings.get("requeuingBackoffMaxDuration", "1h0m0s")),
        settings.get("requeuingBackoffLimitCount"),
    )
    return PodsReadyRules(seconds(settings.get("timeout", "0s")), seconds(recovery) if recovery else None, backoff)


def _shown(workload: Json | None) -> Any:
    if workload is None:
        return None
    out = normal(workload)
    out["metadata"].pop("resourceVersion", None)
    status = out.get("status", {})
    for condition in status.get("conditions", ()):
        condition.pop("lastTransitionTime", None)
        if not condition.get("observedGeneration"):
            condition.pop("observedGeneration", None)
    if "conditions" in status:
        status["conditions"].sort(key=lambda condition: condition["type"])
    for check in status.get("admissionChecks", ()):
        check.pop("lastTransitionTime", None)
    if "requeueState" in status:
        status["requeueState"].pop("requeueAt", None)
    return normal(out)


# ---- parts of it


def _not_ready(case: Json) -> None:
    given, want = case["input"], case["want"]
    workload, rules = Workload.from_wire(given["workload"]), _pods_ready(given.get("waitForPodsReady"))
    deadline = pods_deadline(workload, rules) if rules else None
    left = max(0.0, deadline[0] - (parse_time(given["now"]) or 0.0)) if deadline else 0.0
    assert (deadline[1] if deadline else "") == want["wantUnderlyingCause"]
    assert left == seconds(want["wantRecheckAfter"])


def _checks_synced(case: Json) -> None:
    given = case["input"]
    workload, queue = Workload.from_wire(given["wl"]), ClusterQueue.from_wire(given["cq"])
    after = conditions.with_checks(workload.status, checks_for(queue, workload.status.admission), 0.0)
    assert _states(after) == [_timeless(check) for check in case["want"]["wantChecks"] or []]


def _states_synced(case: Json) -> None:
    given, want = case["input"], case["want"]
    before = WorkloadStatus.from_wire({"admissionChecks": given.get("states") or []})
    after = conditions.with_checks(before, tuple(given.get("list") or ()), 0.0)
    assert _states(after) == [_timeless(check) for check in want["wantStates"] or []]
    assert (after is not before) == want["wantChange"]


def _states(status: WorkloadStatus) -> list[Any]:
    return [_timeless(check.to_wire()) for check in status.admission_checks]


def _timeless(check: Json) -> Any:
    return normal({key: value for key, value in check.items() if key != "lastTransitionTime"})


HANDLERS = {
    "TestReconcile": _reconcile,
    "TestReconcileEviction": _reconcile,
    "TestReconcileInadmissible": _reconcile,
    "TestReconcileRequeue": _reconcile,
    "TestAdmittedNotReadyWorkload": _not_ready,
    "TestReconcileSyncAdmissionChecks": _checks_synced,
    "TestSyncCheckStates": _states_synced,
}
