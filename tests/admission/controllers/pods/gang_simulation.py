"""Gangs in a world of plain objects: pods and Workloads in dicts, the plans, the life of Workloads and the engine over them.

What would be written to an API server is written here; a crash loses what was not written yet. Pods that are let through
are bound at once, but for those that the scheduler does not like. The garbage collector takes Workloads whose pods have all
gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from admission.controllers.jobs.context import JobContext
from admission.controllers.jobs.plan.pod_counts import admitted_counts
from admission.controllers.pods.actions import AdoptWorkload, DeletePod, PodGroupPlan, ReleasePod, StartPod, StopPod
from admission.controllers.pods.gang_plan import plan_gang
from admission.controllers.pods.gangs.gang import terms_of
from admission.controllers.pods.gangs.gang_groups import with_verdict
from admission.controllers.pods.gangs.podgroups import PodGroups
from admission.controllers.pods.pod_indexes import pod_keys
from admission.controllers.pods.pod_plan import plan_gone
from admission.controllers.state import conditions, lifecycle
from admission.controllers.state.actions import CreateWorkload, DeleteWorkload, PatchWorkload, SetStatus
from admission.controllers.state.admission_context import AdmissionContext, blocker
from admission.controllers.state.checks import own_checks
from admission.controllers.state.evictions import Eviction, evicted
from admission.engine import model
from admission.engine.convert import convert_admissions, convert_queues
from admission.engine.convert import convert_workloads as convert
from admission.engine.decide import decide
from admission.engine.decision import Admit, Evict, Preempt
from admission.engine.ledger.ledger import Ledger
from admission.engine.queue.queues import PendingQueues
from admission.engine.scheduler_state import SchedulerState
from admission.integrations.pods.gang import PodGang
from admission.integrations.pods.pod import PodMeta, QueuedPod
from admission.integrations.pods.podgroup import PodUnit
from api import names
from api.groups import PodGroup
from api.meta import is_true, rfc3339
from api.queues import ClusterQueue, LocalQueue, WorkloadPriorityClass
from api.topology import ResourceFlavor
from api.workloads import Workload
from tests.admission.integrations.samples import merged

NS = "ns"
SPEC = b'{"containers":[{"name":"main","resources":{"requests":{"cpu":"1"}}}]}'
ROUNDS = 40


HIGH = "high"
"""The class of gangs that may evict others."""


def _queue(cpus: int) -> ClusterQueue:
    flavor = {"name": "flat", "resources": [{"name": "cpu", "nominalQuota": cpus}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
    spec = {"namespaceSelector": {}, "resourceGroups": groups, "preemption": {"withinClusterQueue": "LowerPriority"}}
    return ClusterQueue.from_wire({"metadata": {"name": "q"}, "spec": spec})


class GangSimulation:
    """`cpus` is all that there is; each pod asks for one; gangs named in `high` evict others. Times are epoch seconds."""

    def __init__(self, cpus: int, high: Iterable[str] = ()) -> None:
        self.now, self.cpus, self._made, self._high = 1_000_000.0, cpus, 0, frozenset(high)
        self.pods: dict[str, QueuedPod] = {}
        self.workloads: dict[str, Workload] = {}
        self.groups: dict[str, PodGroup] = {}
        self.known = PodGroups({})
        self.problems: dict[str, str] = {}
        """Why claims, by key, cannot be bound."""
        self.notes: dict[str, str] = {}
        """What the last plan of each gang says."""
        self.disliked: set[str] = set()
        self.taken: set[str] = set()
        """The Workloads that a user deleted, while they go."""
        self.wronged: list[str] = []
        """Pods that were ended though they had not started, and nobody deleted their Workload."""
        self._local = LocalQueue.from_wire({"metadata": {"name": "q", "namespace": NS}, "spec": {"clusterQueue": "q"}})
        self._queue = _queue(cpus)
        self.restart()

    def shrink(self, cpus: int) -> None:
        """There is less from now on."""
        self.cpus, self._queue = cpus, _queue(cpus)
        self.state.apply(convert_queues.cluster_queue(self._queue))

    def restart(self) -> None:
        """Another controller comes, and knows what is written."""
        self.state = SchedulerState(Ledger(), PendingQueues())
        self.state.apply(model.Flavor("flat", {}))
        self.state.apply(convert_queues.cluster_queue(self._queue))
        self._seen: dict[str, Workload] = {}

    # ---- what happens to pods

    def create(self, gang: PodGang, role: str = "role", spec: bytes = SPEC) -> str:
        """A new pod of the gang."""
        self._made += 1
        name = f"{gang.name}-{self._made}"
        self.pods[name] = QueuedPod(
            PodMeta(name, NS, f"uid-{name}", "1"),
            created=self.now,
            labels={names.QUEUE_NAME_LABEL: "q", names.MANAGED_LABEL: "true", **self._priority(gang)},
            annotations={names.GANG: gang.name, names.GANG_TERMS: gang.to_text(), names.ROLE_HASH: role},
            held=True,
            gated=True,
            phase="Pending",
            role=role,
            spec=spec,
        )
        return name

    def _priority(self, gang: PodGang) -> dict[str, str]:
        return {names.PRIORITY_CLASS_LABEL: HIGH} if gang.name in self._high else {}

    def end(self, name: str, phase: str) -> None:
        """It succeeds or fails."""
        self.pods[name] = replace(self.pods[name], phase=phase)

    def delete(self, name: str) -> None:
        """Somebody deletes it."""
        pod = self.pods[name]
        self.pods[name] = replace(pod, deleted=True)
        self._collect(name)

    def exchange(self, gang: PodGang, pods: int) -> None:
        """All of its pods go at once and others come, while the collector is at work."""
        for pod in [pod for pod in self.pods.values() if pod.group == gang.name]:
            self.delete(pod.metadata.name)
        self._look(gang.name)
        for _ in range(pods):
            self.create(gang)
        self._collect_workloads()

    def delete_workload(self, key: str) -> None:
        """A user deletes it."""
        self.taken.add(key)
        self._go(key)

    def _collect(self, name: str) -> None:
        pod = self.pods[name]
        if pod.deleted and not pod.held:
            del self.pods[name]
        elif pod.deleted:
            # the kubelet ends what runs
            self.pods[name] = replace(pod, phase="Failed" if pod.bound else pod.phase)

    def _collect_workloads(self) -> None:
        there = {pod.metadata.uid for pod in self.pods.values()}
        for key, workload in list(self.workloads.items()):
            owners = workload.metadata.owner_references
            if owners and not any(owner.uid in there for owner in owners):
                self._go(key)

    def _go(self, key: str) -> None:
        going = {"metadata": {"deletionTimestamp": rfc3339(self.now)}}
        self._put(Workload.from_wire(merged(self.workloads[key].to_wire(), going)))

    # ---- one look of everybody

    def settle(self, crash_after: int | None = None) -> None:
        """Until nothing changes any more; AssertionError if that never comes. `crash_after`: so many admissions are written."""
        for _ in range(ROUNDS):
            before = (dict(self.pods), {key: w.to_wire() for key, w in self.workloads.items()})
            for gang in sorted({pod.group for pod in self.pods.values()} | set(self._orphans())):
                self._look(gang)
            for key in sorted(self.workloads):
                self._live(key)
            crash_after = self._cycle(crash_after)
            self.bind()
            self._collect_workloads()
            if before == (self.pods, {key: w.to_wire() for key, w in self.workloads.items()}):
                return
        raise AssertionError(f"never settles: {self.story()}")

    def _orphans(self) -> list[str]:
        return [w.metadata.annotations[names.GANG] for w in self.workloads.values()]

    def late_workloads(self, gang: str) -> dict[str, list[Workload]]:
        """Workloads of single pods of the gang."""
        return {
            pod.key: [w for w in self.workloads.values() if pod.key in pod_keys(w)]
            for pod in self.pods.values()
            if pod.group == gang
        }

    def _look(self, gang: str) -> None:
        pods = [pod for pod in self.pods.values() if pod.group == gang]
        alone = [
            w
            for w in self.workloads.values()
            if pod_keys(w) and not any(k.partition("/")[2] in self.pods for k in pod_keys(w))
        ]
        if alone:
            self._perform(plan_gone(alone, self.now))
        own = self.workloads.get(f"{NS}/{gang}")
        if not pods:
            if own is not None:
                self._perform(plan_gone([own], self.now))
            return
        unit = PodUnit.of(pods)
        group = self.groups.get(gang)
        terms = replace(terms_of(pods, group), stops=self.known.stops(f"{NS}/{gang}", group))
        made = plan_gang(unit, terms, [own] if own else [], self.late_workloads(gang), self._context(), self.now)
        self.notes[gang] = made.note
        self._perform(made)

    def _context(self) -> JobContext:
        high = WorkloadPriorityClass.from_wire({"metadata": {"name": HIGH}, "value": 9})
        classes = {HIGH: high}
        return JobContext(
            flavors=self._flavors(), workload_priority_classes=classes, claim_problem=lambda key: self.problems.get(key)
        )

    @staticmethod
    def _flavors() -> Any:
        return {"flat": ResourceFlavor.from_wire({"metadata": {"name": "flat"}, "spec": {}})}

    def _perform(self, plan: PodGroupPlan) -> None:
        for action in plan.actions:
            match action:
                case StartPod(pod=pod):
                    self.pods[pod.metadata.name] = replace(self.pods[pod.metadata.name], gated=False)
                case StopPod(pod=pod):
                    if pod.metadata.name in self.pods:
                        if pod.gated and f"{NS}/{pod.group}" not in self.taken:
                            self.wronged.append(pod.metadata.name)
                        self.delete(pod.metadata.name)
                case ReleasePod(pod=pod) | DeletePod(pod=pod):
                    name = pod.metadata.name
                    if name in self.pods:
                        gone = isinstance(action, DeletePod) or self.pods[name].deleted
                        self.pods[name] = replace(self.pods[name], held=False, deleted=gone)
                        self._collect(name)
                case CreateWorkload(workload=workload):
                    stamp = {"metadata": {"creationTimestamp": rfc3339(self.now), "uid": f"uid-{workload.key}"}}
                    self.workloads.setdefault(workload.key, Workload.from_wire(merged(workload.to_wire(), stamp)))
                case AdoptWorkload(workload=workload, patch=patch) | PatchWorkload(workload=workload, patch=patch):
                    if workload.key in self.workloads:
                        wire = merged(self.workloads[workload.key].to_wire(), patch)
                        self._put(Workload.from_wire(wire))
                case SetStatus(workload=workload, status=status):
                    if workload.key in self.workloads:
                        self._status(workload.key, status)
                case DeleteWorkload(workload=workload):
                    self._forget(workload.key)

    def _forget(self, key: str) -> None:
        self.workloads.pop(key, None)
        self.taken.discard(key)

    def _put(self, workload: Workload) -> None:
        if workload.metadata.deletion_timestamp and not workload.metadata.finalizers:
            self._forget(workload.key)
        else:
            self.workloads[workload.key] = workload

    def _status(self, key: str, status: Any) -> None:
        self.workloads[key] = self.workloads[key].model_copy(update={"status": status})
        self.known.remember(self.workloads[key])

    # ---- Workloads and the engine

    def _situation(self, workload: Workload) -> AdmissionContext:
        return AdmissionContext(self._local, self._queue, True, checks=own_checks(workload))

    def _live(self, key: str) -> None:
        workload = self.workloads[key]
        step = lifecycle.step(workload, self._situation(workload), self.now)
        self._status(key, step.status)
        workload = self.workloads[key]
        if is_true(workload.status.conditions, names.QUOTA_RESERVED):
            self._status(key, with_verdict(workload, self.workloads, self.now))

    def _cycle(self, crash_after: int | None) -> int | None:
        for key in set(self._seen) - set(self.workloads):
            self.state.apply(model.ObjectRemoved(model.RemovedKind.WORKLOAD, key))
        for key, workload in self.workloads.items():
            if self._seen.get(key) is not workload:
                self._tell(key, workload)
        self._seen = dict(self.workloads)
        written = 0
        report = decide(self.state.ledger, self.state.queues, self.now, 100)
        for decision in report.decisions:
            if isinstance(decision, Admit):
                if crash_after is not None and written >= crash_after:
                    self.restart()
                    return None
                written += 1
                self._admit(decision)
            elif isinstance(decision, Evict):
                self._evict(decision.workload, Eviction(decision.reason, decision.message))
            elif isinstance(decision, Preempt):
                for victim in decision.victims:
                    self._evict(
                        victim.workload, Eviction(names.EvictedReason.PREEMPTED, "", preemption=victim.claim.value)
                    )
        return None if crash_after is None else crash_after - written

    def _tell(self, key: str, workload: Workload) -> None:
        if is_true(workload.status.conditions, names.FINISHED):
            self.state.apply(model.ObjectRemoved(model.RemovedKind.WORKLOAD, key))
            return
        context = self._situation(workload)
        reserved = is_true(workload.status.conditions, names.QUOTA_RESERVED)
        self.state.apply(
            convert.workload(
                workload,
                cluster_queue="q",
                blocked=None if reserved else blocker(workload, context),
                not_before=0.0 if reserved else lifecycle.not_before(workload, context),
            )
        )

    def _evict(self, key: str, eviction: Eviction) -> None:
        if not is_true(self.workloads[key].status.conditions, names.EVICTED):
            self._status(key, evicted(self.workloads[key].status, eviction, self.now))

    def _admit(self, decision: Admit) -> None:
        workload = self.workloads[decision.workload]
        status = conditions.reserved(workload.status, convert_admissions.to_status(decision.admission), self.now)
        status = conditions.with_checks(status, own_checks(workload), self.now)
        self._status(decision.workload, conditions.synced_admitted(status, self.now))

    def bind(self) -> None:
        """The scheduler binds what it can, though nobody looks."""
        for name, pod in self.pods.items():
            if not pod.gated and pod.phase == "Pending" and not pod.deleted and name not in self.disliked:
                self.pods[name] = replace(pod, bound=True, phase="Running", ready=True)

    # ---- looking

    def running(self, gang: str) -> int:
        """Pods of the gang that run."""
        return sum(pod.group == gang and pod.running for pod in self.pods.values())

    def held(self) -> int:
        """Cpus that Workloads hold."""
        return sum(
            count
            for workload in self.workloads.values()
            if is_true(workload.status.conditions, names.QUOTA_RESERVED)
            and not is_true(workload.status.conditions, names.FINISHED)
            for count in admitted_counts(workload).values()
        )

    def story(self) -> str:
        """What there is, for a failure."""
        pods = [
            (p.metadata.name, p.phase, "gated" if p.gated else "", "going" if p.deleted else "")
            for p in self.pods.values()
        ]
        said = {
            key: [(c.type, c.status, c.reason, c.message) for c in w.status.conditions]
            for key, w in self.workloads.items()
        }
        return f"{pods} {said}"
