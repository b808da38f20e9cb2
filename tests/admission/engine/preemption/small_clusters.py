"""Clusters that one can follow with a pencil: hosts of 4 cpu in racks of two, queue `a` wants room."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from admission.engine.flavors.assign import FlavorAssignment, Mode, Pick, PodSetFlavors
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    Admission,
    Assignment,
    ClusterQueue,
    DomainCount,
    PlacementOptions,
    PodSet,
    PodSetAdmission,
    PreemptionPolicy,
    Profile,
    Quota,
    TopologyRequest,
    Workload,
)
from admission.engine.preemption.preemptor import Preemptor, WorkloadPreemption
from admission.engine.quota.fairness import FairSharingRules
from tests.admission.engine.builders import CPU, HOST, RACK, group, host, racks

NOW = 10_000.0
LOWER = PreemptionPolicy(within_cluster_queue="LowerPriority")
RECLAIM = PreemptionPolicy("Any", "LowerPriority")
ONE_RACK = TopologyRequest(required=RACK)


@dataclass(frozen=True)
class RunningWorkload:
    """`pods` of 1 cpu on hosts by name, in a queue."""

    hosts: Mapping[str, int]
    priority: int = 0
    since: float = 9_000.0
    queue: str = "a"
    evicted: bool = False


def cluster(
    runs: Mapping[str, RunningWorkload], *queues: ClusterQueue, racks_of_two: int = 2, profile: Profile = Profile.EXACT
) -> Ledger:
    """Racks of two hosts of 4 cpu, on which these run; queue `a` has ample quota unless queues are given."""
    ledger = Ledger(PlacementOptions(profile=profile))
    ledger.apply(racks())
    for index in range(2 * racks_of_two):
        ledger.apply(host(f"h{index}", f"r{index // 2}", 4))
    for queue in queues or (own(),):
        ledger.apply(queue)
    for key, one in runs.items():
        count = sum(one.hosts.values())
        pod_set = PodSet("main", count, {"cpu": CPU}, topology=TopologyRequest(unconstrained=True))
        assignment = Assignment((HOST,), tuple(DomainCount((name,), n) for name, n in one.hosts.items()))
        got = PodSetAdmission("main", {"cpu": "tas"}, {"cpu": count * CPU}, count, assignment)
        workload = Workload(key, f"uid-{key}", "ns/lq", one.queue, (pod_set,), priority=one.priority)
        admitted = replace(workload, evicted=one.evicted, reserved=one.since, admission=Admission(one.queue, (got,)))
        ledger.apply(admitted)
    return ledger


def own(cpus: int = 100, policy: PreemptionPolicy = LOWER, name: str = "a", cohort: str | None = None) -> ClusterQueue:
    """A queue with so much quota; `a` unless told otherwise."""
    return ClusterQueue(name, (group({"tas": {"cpu": Quota(cpus * CPU)}}),), cohort, preemption=policy)


def inquiry(
    ledger: Ledger,
    pods: int,
    cpus: int,
    topology: TopologyRequest = ONE_RACK,
    *,
    priority: int = 10,
    sharing: FairSharingRules | None = None,
) -> tuple[WorkloadPreemption, Workload, FlavorAssignment]:
    """What the preemptor of queue `a` is asked about: so many pods of so many cpus each, for which somebody has to leave."""
    pod_set = PodSet("main", pods, {"cpu": cpus * CPU}, topology=topology)
    head = Workload("ns/head", "head", "ns/lq", "a", (pod_set,), priority=priority, job_uid="job")
    total = pods * cpus * CPU
    found = PodSetFlavors("main", {"cpu": Pick("tas", Mode.PREEMPT)}, {"cpu": total}, topology="tas")
    return Preemptor(ledger, NOW, sharing).about(head), head, FlavorAssignment((found,), {("tas", "cpu"): total})


def victims(
    ledger: Ledger,
    pods: int,
    cpus: int,
    topology: TopologyRequest = ONE_RACK,
    *,
    priority: int = 10,
    sharing: FairSharingRules | None = None,
) -> list[str]:
    """Who would go for it, in the order chosen."""
    about, head, found = inquiry(ledger, pods, cpus, topology, priority=priority, sharing=sharing)
    return [victim.workload for victim in about.targets(head, found)]
