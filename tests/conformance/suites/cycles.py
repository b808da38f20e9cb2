"""Shared by scheduler_quota and scheduler_tas: a world from a case's objects, one round of ours, and what became of it all.

The round is the engine's; its decisions are put on the Workloads by the shell's own functions from status to status. What the
Workload controller would write besides (missing queues, stopped queues) is not part of a round and not in the cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import msgspec

from admission.controllers.state import conditions
from admission.controllers.state.active_conditions import checks_of, cluster_queue_activity
from admission.controllers.watch.resources import Limit, defect
from admission.engine.convert import convert_admissions, convert_nodes, convert_queues
from admission.engine.convert import convert_workloads as convert
from admission.engine.cycle.outcomes import requested
from admission.engine.decision import Admit, Decision, Evict, Preempt, Wait
from admission.engine.ledger.ledger import Ledger
from admission.engine.preemption.preemptor import Preemptor
from admission.engine.preemption.wording import eviction_message, preempted_event, priorities
from admission.engine.queue.queues import PendingQueues
from admission.engine.quota.charging import ResourceRules, Transformation
from admission.engine.quota.fairness import FairSharingRules
from api.admission_checks import AdmissionCheck
from api.assignment import decode
from api.meta import is_true, object_key, parse_time
from api.names import ADMITTED, EVICTED, PREEMPTED, QUOTA_RESERVED
from api.pod import pods as wire
from api.pod.labels import matches
from api.queues import ClusterQueue, Cohort, LocalQueue
from api.text.quantity import parse, parse_list
from api.topology import ResourceFlavor, Topology
from api.topology_assignment import TopologyAssignment
from api.workloads import Workload, WorkloadStatus
from tests.admission.engine.cycle.round import RoundOptions, RoundReport, run_round
from tests.conformance.runner import Case, gates
from tests.conformance.suites.normal import normal
from tests.conformance.suites.tas_find_topology_assignments import options

Json = dict[str, Any]

MISMATCH = ("Misconfigured", "workload namespace doesn't match ClusterQueue selector")
# What Kueue's clock makes of a Workload without a creation time.
NEVER_CREATED = "9223372037s"


def _queue(wire: Json) -> ClusterQueue:
    """A case may leave out what the API server would set; a policy that is not `Never` then lets queues borrow and preempt."""
    given = wire["spec"].get("preemption")
    if not given or "reclaimWithinCohort" in given:
        return ClusterQueue.from_wire(wire)
    preemption = {**given, "reclaimWithinCohort": "LowerPriority"}
    return ClusterQueue.from_wire({**wire, "spec": {**wire["spec"], "preemption": preemption}})


class CycleCase:
    """The objects of a case, and one round."""

    def __init__(self, case: Case, queues: PendingQueues | None = None) -> None:
        self.case, given = case, case["input"]
        self.now = parse_time(given["now"]) or 0.0
        self.ledger, self.queues = Ledger(options(case)), PendingQueues() if queues is None else queues
        self.workloads = {w.key: w for w in (Workload.from_wire(w) for w in given["workloads"])}
        self.events: list[Json] = []
        self._given = given
        self._locals = {q.key: q for q in map(LocalQueue.from_wire, given["localQueues"])}
        self._cluster_queues = {q.key: q for q in map(_queue, given["clusterQueues"])}
        self._rules = ResourceRules((), tuple(map(_transformation, given.get("resourceTransformations") or ())))
        self._fill()

    def _fill(self) -> None:
        given = self._given
        for obj in given.get("nodes") or ():
            self.ledger.apply(convert_nodes.node(msgspec.convert(obj, wire.Node)))
        topologies = {t.key: t for t in map(Topology.from_wire, given.get("topologies") or ())}
        flavors = {f.key: f for f in map(ResourceFlavor.from_wire, given.get("resourceFlavors") or ())}
        for flavor in flavors.values():
            self.ledger.apply(convert_queues.flavor(flavor, topologies.get(flavor.spec.topology_name or "")))
        cohorts = {c.key: c for c in map(Cohort.from_wire, given.get("cohorts") or ())}
        for cohort in cohorts.values():
            self.ledger.apply(convert_queues.cohort(cohort))
        checks = {c.key: c for c in map(AdmissionCheck.from_wire, given.get("admissionChecks") or ())}
        for queue in self._cluster_queues.values():
            activity = cluster_queue_activity(queue, flavors, topologies, checks, cohorts)
            spec = convert_queues.cluster_queue(queue, inactive=None if activity.active else activity.message)
            self.ledger.apply(spec)
            self.queues.set_queue(spec)
        for obj in given.get("pods") or ():
            pod = convert_nodes.bound_pod(msgspec.convert(obj, wire.Pod))
            if pod is not None:
                self.ledger.apply(pod)
        for workload in self.workloads.values():
            self._enter(workload)

    def _enter(self, workload: Workload) -> None:
        local = self._locals.get(object_key(workload.metadata.namespace, workload.spec.queue_name))
        target = local.spec.cluster_queue if local else ""
        blocked, wrong = self._blocked(workload, target), defect(workload, self._limits(workload))
        taken = convert.workload(workload, cluster_queue=target, blocked=blocked, defect=wrong, rules=self._rules)
        if taken.admission is not None:
            self.ledger.apply(taken)
        elif target in self._cluster_queues:
            self.queues.put(taken)

    def _limits(self, workload: Workload) -> list[Limit]:
        return [
            msgspec.convert(limit, Limit)
            for obj in self._given.get("objects") or ()
            if obj["kind"] == "LimitRange" and obj["metadata"]["namespace"] == workload.metadata.namespace
            for limit in obj["spec"]["limits"]
        ]

    def _blocked(self, workload: Workload, target: str) -> tuple[str, str] | None:
        queue, namespace = self._cluster_queues.get(target), workload.metadata.namespace or ""
        labels = (self._given.get("namespaceLabels") or {}).get(namespace) or {}
        return MISMATCH if queue is not None and not matches(queue.spec.namespace_selector, labels) else None

    # ---- the round

    def round(self) -> RoundReport:
        """One round, its decisions put on the Workloads and told in events."""
        on = gates(self.case)
        chosen = RoundOptions(
            fair=self._given.get("enableFairSharing", False),
            partial=on["PartialAdmission"],
            victims_again=on["RecomputeAssignmentUponPreemptionTargetsOverlap"],
            places_again=on["TASRecomputeAssignmentWithinSchedulingCycle"],
            fail_fast=on["TASFailedNodeReplacementFailFast"],
            by_priority=on["PrioritySortingWithinCohort"],
            nominal_first=on["FairSharingPrioritizeNonBorrowing"],
            search_goes_on=on["FlavorFungibilityPreserveScanProgress"],
        )
        failed = {
            key: [node.name for node in workload.status.unhealthy_nodes]
            for key, workload in self.workloads.items()
            if workload.status.unhealthy_nodes
        }
        sharing = FairSharingRules(within_nominal=on["FairSharingPreemptWithinNominal"]) if chosen.fair else None
        preemptions = Preemptor(self.ledger, self.now, sharing)
        report = run_round(self.ledger, self.queues, preemptions, self.now, chosen, failed)
        for notice in report.notices:
            if notice.workload.blocked is not None:
                queue = self.ledger.quota.spec(notice.workload.cluster_queue)
                self._waits(notice.workload.key, notice.reason, notice.message, requested(notice.workload, queue))
        for decision in report.decisions:
            self._act(decision)
        return report

    def set_nominal(self, name: str, flavor: int, nominal: str) -> None:
        """Gives a flavor of the ClusterQueue, counted from 0, another quota of its only resource."""
        wire = self._cluster_queues[name].to_wire()
        wire["spec"]["resourceGroups"][0]["flavors"][flavor]["resources"][0]["nominalQuota"] = nominal
        self._cluster_queues[name] = ClusterQueue.from_wire(wire)
        spec = convert_queues.cluster_queue(self._cluster_queues[name], inactive=None)
        self.ledger.apply(spec)
        self.queues.set_queue(spec)

    def _act(self, decision: Decision) -> None:
        key = decision.workload
        match decision:
            case Admit() | Evict() if self._given.get("admissionError") or self._given.get("patchStatusErr"):
                self._not_written(key)
                gone = "not found" in (self._given.get("patchStatusErr") or {}).get("error", "")
                if isinstance(decision, Evict) and decision.failed and not gone:
                    self._tell(key, "Warning", "SecondPassFailed", decision.failed)
            case Admit():
                self._admit(decision)
            case Wait() if is_true(self.workloads[key].status.conditions, QUOTA_RESERVED):
                self._tell(key, "Warning", "SecondPassFailed", decision.message)
            case Wait():
                self._waits(key, decision.reason, decision.message, decision.requested)
                if decision.gated:
                    gated = conditions.preemption_gated(self.workloads[key].status, decision.message, self.now)
                    self._set(key, gated)
            case Preempt():
                self._preempt(decision)
            case Evict():
                status = conditions.evicted(self.workloads[key].status, decision.reason, decision.message, self.now)
                self._set(key, status)
                self._tell(key, "Normal", f"EvictedDueTo{decision.reason}", decision.message)

    def _admit(self, decision: Admit) -> None:
        key, queue = decision.workload, decision.admission.cluster_queue
        workload = self.workloads[key]
        status = conditions.reserved(workload.status, convert_admissions.to_status(decision.admission), self.now)
        if set(checks_of(self._cluster_queues[queue])) <= {check.name for check in status.admission_checks}:
            status = conditions.synced_admitted(status, self.now)
        self._set(key, status)
        if is_true(workload.status.conditions, QUOTA_RESERVED):
            return  # a second pass is told by nothing
        text = f"Quota reserved in ClusterQueue {queue}, wait time since queued was {self._waited(workload)}"
        self._tell(key, "Normal", "QuotaReserved", text + decision.considered)
        if is_true(status.conditions, ADMITTED):
            text = f"Admitted by ClusterQueue {queue}, wait time since reservation was 0s"
            self._tell(key, "Normal", "Admitted", text)

    def _not_written(self, key: str) -> None:
        """As the scheduler does where a write failed: the booking is taken back, the workload is as it was."""
        self.ledger.release(key)
        self._enter(self.workloads[key])

    def _waited(self, workload: Workload) -> str:
        created = parse_time(workload.metadata.creation_timestamp)
        return NEVER_CREATED if created is None else f"{self.now - created:.0f}s"

    def _waits(self, key: str, reason: str, message: str, requested: Mapping[str, Mapping[str, int]]) -> None:
        self._set(key, conditions.waiting(self.workloads[key].status, reason, message, requested, self.now))
        self._tell(key, "Warning", reason, message)

    def _preempt(self, decision: Preempt) -> None:
        preemptor = self.queues.workload(decision.workload)
        assert preemptor is not None
        for victim in decision.victims:
            target, status = self.ledger.workload(victim.workload), self.workloads[victim.workload].status
            assert target is not None
            assert target.admission is not None
            if is_true(status.conditions, EVICTED):
                continue
            queue = target.admission.cluster_queue
            message = eviction_message(self.ledger.quota, preemptor, queue, victim.claim)
            status = conditions.evicted(status, PREEMPTED, message, self.now)
            self._set(
                victim.workload, conditions.with_condition(status, PREEMPTED, True, victim.claim, message, self.now)
            )
            self._tell(victim.workload, "Normal", "EvictedDueToPreempted", message)
            self._tell(victim.workload, "Normal", "Preempted", message + priorities(preemptor, target))
            self._tell(preemptor.key, "Normal", "PreemptedWorkload", preempted_event(preemptor, target, queue))
        self._waits(decision.workload, "WaitingForPreemptedWorkloads", decision.message, decision.requested)

    def _set(self, key: str, status: WorkloadStatus) -> None:
        self.workloads[key] = self.workloads[key].model_copy(update={"status": status})

    def _tell(self, key: str, kind: str, reason: str, message: str) -> None:
        self.events.append({"key": key, "eventType": kind, "reason": reason, "message": message})

    # ---- what is compared

    def left(self) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
        """By queue: who is in line, and who is not."""
        active = {name: {w.key for w in self.queues.active(name)} for name in self._cluster_queues}
        asleep = {name: {w.key for w in self.queues.inadmissible(name)} for name in self._cluster_queues}
        return {n: keys for n, keys in active.items() if keys}, {n: keys for n, keys in asleep.items() if keys}

    def assignments(self) -> dict[str, Any]:
        """The admissions in the book, by workload."""
        return {
            key: shown_admission(convert_admissions.to_status(admission).to_wire())
            for key, admission in self.ledger.admissions.items()
        }


def _transformation(json: Json) -> Transformation:
    # outputs are given for a whole unit of the input; milli-units are counted where the resource is cpu
    scale = {True: Fraction(1000), False: Fraction(1)}
    source = json["input"]
    outputs = {
        name: Fraction(parse(amount)) * scale[name == "cpu"] / scale[source == "cpu"]
        for name, amount in json["outputs"].items()
    }
    return Transformation(source, outputs, json.get("strategy", "Retain") == "Retain")


def shown_admission(json: Json) -> Any:
    """An admission with amounts and domains in plain form."""
    pod_sets = []
    for pod_set in json.get("podSetAssignments") or ():
        placed = pod_set.get("topologyAssignment")
        wire_form = None if placed is None else TopologyAssignment.from_wire(placed)
        pod_sets.append(
            {
                **pod_set,
                "resourceUsage": parse_list(pod_set.get("resourceUsage") or {}),
                "topologyAssignment": wire_form and [list(wire_form.levels), *map(list, decode(wire_form))],
            }
        )
    return normal({**json, "podSetAssignments": pod_sets})


def shown_workload(json: Json) -> Any:
    """A Workload's status without times, conditions by type."""
    status = dict(json.get("status") or {})
    status["conditions"] = sorted(
        ({k: c.get(k) for k in ("type", "status", "reason", "message")} for c in status.get("conditions") or ()),
        key=lambda c: str(c["type"]),
    )
    if status.get("admission"):
        status["admission"] = shown_admission(status["admission"])
    status["admissionChecks"] = [
        {k: v for k, v in check.items() if k not in ("lastTransitionTime", "message") or (k == "message" and v)}
        for check in status.get("admissionChecks") or ()
    ]
    status["resourceRequests"] = [
        {**each, "resources": parse_list(each.get("resources") or {})} for each in status.get("resourceRequests") or ()
    ]
    return normal(status)
