"""reconciler_pod: one reconcile of a pod, or a group of pods, with its Workload.

Here a reconcile is a plan, performed on plain objects. Where it ends pods of an evicted Workload, the next plan follows, as
it would at once on a real server: Kueue gives the quota back in the same call, ours when it has seen that no pod takes
up a node. Ignored like in Kueue's own comparison: times, versions, owner references, generated names; and our own event
about a group whose pods contradict each other, which Kueue only logs.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec

from admission.controllers.jobs.context import JobContext, JobOptions
from admission.controllers.pods.actions import AdoptWorkload, DeletePod, PodGroupPlan, ReleasePod, StartPod, StopPod
from admission.controllers.pods.compose import is_group_workload
from admission.controllers.pods.pod_indexes import unit_key
from admission.controllers.pods.pod_plan import PodGroupOptions, plan, plan_gone
from admission.controllers.state.actions import CreateWorkload, DeleteWorkload, PatchWorkload, SetStatus
from admission.integrations.pods.pod import QueuedPodReader
from admission.integrations.pods.podgroup import PodUnit
from api.embedded.writes.strategic import strategic_merge
from api.meta import is_true, parse_time, rfc3339
from api.names import EVICTED, MANAGED_FINALIZER, QUOTA_RESERVED, WAITING_FOR_REPLACEMENT_PODS, PodsHeldReason
from api.text.duration import seconds
from api.topology import ResourceFlavor
from api.workloads import Workload
from tests.admission.integrations.samples import merged
from tests.conformance import runner
from tests.conformance.suites.normal import normal
from tests.conformance.suites.reconciler_job import shown

Object = dict[str, Any]
ROUNDS = 4


def run(case: dict[str, Any]) -> None:
    """Compare pods, Workloads, events and the error with what is wanted."""
    for scenario in runner.scenarios(case):
        _run(scenario)


def _run(case: dict[str, Any]) -> None:
    world, want = PodReconciliation(case), case["want"]
    world.reconcile()
    assert sorted(world.events, key=repr) == sorted(want.get("wantEvents") or [], key=repr)
    if want.get("wantPods") is not None:
        assert _shown_pods(world.pods) == _shown_pods(want["wantPods"])
    if "ProvReq" in case["name"]:  # the Workload wanted there is a stub: only its annotations are compared
        assert [w["metadata"]["annotations"] for w in world.workloads] == [
            w["metadata"]["annotations"] for w in want["wantWorkloads"]
        ]
    elif want.get("wantWorkloads") is not None or not want.get("wantErr"):
        assert shown(_as_kueue_writes_it(world)) == shown(want.get("wantWorkloads") or [])
    if want.get("wantErr"):
        assert want["wantErr"]["error"].rpartition("constructing workload: ")[2] in world.note


def _as_kueue_writes_it(world: PodReconciliation) -> list[Object]:
    """Kueue leaves out the labels of the template, and compares none; Stowage's are labels that the pods have."""
    theirs = [(pod["metadata"].get("labels") or {}).items() for pod in world.pods]
    found: list[Object] = deepcopy(world.workloads)
    for pod_set in (each for workload in found for each in workload["spec"].get("podSets") or ()):
        labels = (pod_set["template"].get("metadata") or {}).pop("labels", {})
        assert not labels or any(labels.items() <= each for each in theirs)
    return found


class PodReconciliation:
    """The objects of a case, with a reconcile."""

    def __init__(self, case: dict[str, Any]) -> None:
        given = case["input"]
        self.now = parse_time(given.get("now")) or 0.0
        self.pods: list[Object] = given.get("pods") or []
        self.workloads: list[Object] = given.get("workloads") or []
        self.events: list[Object] = []
        self.note = ""
        self._given, self._gates = given, runner.gates(case)
        self._flavors = [o for o in given.get("initObjects") or () if o["kind"] == "ResourceFlavor"]
        options = given.get("reconcilerOptions") or {}
        self._labels = tuple(options.get("labelKeysToCopy") or ())
        self._annotations = tuple(options.get("annotationsToCopy") or ()) if self._gates["CustomMetricLabels"] else ()
        self._read = QueuedPodReader(self._labels, self._annotations)
        if given.get("deleteWorkloads"):
            self._end_workloads()

    def _end_workloads(self) -> None:
        for workload in self.workloads:
            workload["metadata"]["deletionTimestamp"] = rfc3339(self.now)
        self._drop_workloads()

    def _drop_workloads(self) -> None:
        """Those that are being deleted and have no finalizer (any more)."""
        self.workloads = [
            w for w in self.workloads if not w["metadata"].get("deletionTimestamp") or w["metadata"].get("finalizers")
        ]

    def reconcile(self) -> None:
        """Plans and performs, further only where a Workload goes, up to its successor, or pods of an evicted one with quota
        were just ended."""
        made = self._once()
        for _ in range(ROUNDS if self._given.get("deleteWorkloads") else 0):
            if not self.pods or any(isinstance(action, CreateWorkload) for action in self._once().actions):
                break
        if any(isinstance(action, StopPod) for action in made.actions) and self._gives_back():
            for _ in range(ROUNDS):
                if self.pods:
                    self._once()
            # What the first look could not see yet: that the pods just ended are missing.
            for workload in self.workloads:
                state = workload["status"]["conditions"]
                workload["status"]["conditions"] = [c for c in state if c["type"] != WAITING_FOR_REPLACEMENT_PODS]

    def _once(self) -> PodGroupPlan:
        made = self._plan()
        self.note += made.note
        self._perform(made)
        return made

    def _gives_back(self) -> bool:
        return any(
            is_true(state, EVICTED) and is_true(state, QUOTA_RESERVED)
            for state in (Workload.from_wire(w).status.conditions for w in self.workloads)
        )

    def _plan(self) -> PodGroupPlan:
        rules = PodGroupOptions(validate_owner=self._gates["PodIntegrationValidateGroupOwner"])
        workloads = [Workload.from_wire(w) for w in self.workloads]
        if not self.pods:
            key = self._given.get("reconcileKey", "")
            if key.startswith("group/") and rules.validate_owner:
                workloads = [w for w in workloads if is_group_workload(w)]
            return plan_gone(workloads, self.now, self._context().options)
        pods = [self._read(msgspec.json.encode(pod)) for pod in self.pods]
        if all(unit_key(pod) is None for pod in pods):
            return PodGroupPlan()
        unit = PodUnit.of(pods)
        waiting = {e["key"] for e in self._given.get("excessPodsExpectations") or ()}
        if f"{unit.namespace}/{unit.group}" in waiting:
            return PodGroupPlan()
        return plan(unit, workloads, self._context(), self.now, rules)

    def _context(self) -> JobContext:
        options = self._given.get("reconcilerOptions") or {}
        kept = (options.get("workloadRetentionPolicy") or {}).get("afterDeactivatedByKueue")
        return JobContext(
            flavors={f["metadata"]["name"]: ResourceFlavor.from_wire(f) for f in self._flavors},
            workloads={f"ns/{w['metadata']['name']}": Workload.from_wire(w) for w in self.workloads},
            options=JobOptions(
                topology=self._gates["TopologyAwareScheduling"],
                assign_queue_labels=self._gates["AssignQueueLabelsForPods"],
                short_names=self._gates["ShortWorkloadNames"],
                wait_for_pods_ready=options.get("waitForPodsReady", False),
                deactivated_kept=None if kept is None else seconds(kept),
                label_keys_to_copy=self._labels,
                annotation_keys_to_copy=self._annotations,
                finish_orphaned=self._gates["FinishOrphanedWorkloads"],
            ),
        )

    def _perform(self, pod_group_plan: PodGroupPlan) -> None:
        first = self.pods[0]["metadata"]["name"] if self.pods else ""
        for event in pod_group_plan.events:
            for name in [p["metadata"]["name"] for p in self.pods] if event.each_pod else [first]:
                self._record(name, (event,))
        for action in pod_group_plan.actions:
            about = first
            match action:
                case StartPod(pod=pod, patch=patch):
                    self._change_pod(pod.metadata.name, patch)
                    about = pod.metadata.name
                case StopPod(pod=pod, reason=reason, message=message):
                    target = {"type": "TerminationTarget", "status": "True", "reason": reason, "message": message}
                    self._change_pod(pod.metadata.name, {"status": {"conditions": [target]}})
                    self._delete(pod.metadata.name)
                    about = pod.metadata.name
                case ReleasePod(pod=pod):
                    self._release(pod.metadata.name)
                    about = pod.metadata.name
                case DeletePod(pod=pod):
                    self._delete(pod.metadata.name)
                    self._release(pod.metadata.name)
                    about = pod.metadata.name
                case CreateWorkload(workload=workload):
                    self.workloads = [*self.workloads, workload.to_wire()]
                case AdoptWorkload(workload=workload, patch=patch) | PatchWorkload(workload=workload, patch=patch):
                    self._change(workload, patch)
                    self._drop_workloads()
                    about = workload.metadata.name if isinstance(action, AdoptWorkload) else first
                case SetStatus(workload=workload, status=status):
                    self._change(workload, {"status": None})
                    self._change(workload, {"status": status.to_wire()})
                case DeleteWorkload(workload=workload):
                    self.workloads = [w for w in self.workloads if w["metadata"]["name"] != workload.metadata.name]
            self._record(about, action.events)

    def _change_pod(self, name: str, patch: Object) -> None:
        self.pods = [strategic_merge(p, patch, "Pod") if p["metadata"]["name"] == name else p for p in self.pods]

    def _delete(self, name: str) -> None:
        self._change_pod(name, {"metadata": {"deletionTimestamp": rfc3339(self.now)}})
        self._collect()

    def _release(self, name: str) -> None:
        self._change_pod(name, {"metadata": {"$deleteFromPrimitiveList/finalizers": [MANAGED_FINALIZER]}})
        self._collect()

    def _collect(self) -> None:
        self.pods = [
            p for p in self.pods if not p["metadata"].get("deletionTimestamp") or p["metadata"].get("finalizers")
        ]

    def _change(self, workload: Workload, patch: Object) -> None:
        name = workload.metadata.name
        self.workloads = [merged(w, patch) if w["metadata"]["name"] == name else w for w in self.workloads]

    def _record(self, name: str, events: Any) -> None:
        self.events += [
            {"key": f"ns/{name}", "eventType": e.type, "reason": e.reason, "message": e.message}
            for e in events
            if e.reason not in (PodsHeldReason.UNLIKE_PODS, PodsHeldReason.GROUP_FINISHED)  # Kueue says neither
        ]


def _shown_pods(pods: list[Object]) -> Any:
    """By name, without deletion times (Kueue's comparison leaves them out) and times of conditions."""
    return sorted((_shown_pod(pod) for pod in pods), key=lambda pod: str(pod["metadata"]["name"]))


def _shown_pod(pod: Object) -> Any:
    out = normal(pod)
    for field in ("resourceVersion", "deletionTimestamp"):
        out["metadata"].pop(field, None)
    for condition in out.get("status", {}).get("conditions", ()):
        condition.pop("lastTransitionTime", None)
    return out
