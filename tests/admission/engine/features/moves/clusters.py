"""Clusters for plans of moves: racks of hosts of 4 cpu, and workloads that run on them with bound pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    NO_TERMS,
    Admission,
    Assignment,
    BoundPod,
    ClusterQueue,
    DomainCount,
    PodSet,
    PodSetAdmission,
    PreemptionPolicy,
    Quota,
    RestartTerms,
    TopologyRequest,
    Workload,
)
from tests.admission.engine.builders import CPU, HOST, RACK, group, host, racks

NOW = 10_000.0
MOVABLE = RestartTerms(movable=True)
ONE_RACK, ANYWHERE = TopologyRequest(required=RACK), TopologyRequest(unconstrained=True)


@dataclass(frozen=True)
class Running:
    """A workload with so many pods of `cpus` each on hosts by name, admitted so many seconds before NOW."""

    hosts: Mapping[str, int]
    cpus: int = 1
    ran: float = 1000.0
    moves: RestartTerms = MOVABLE
    topology: TopologyRequest = ANYWHERE
    queue: str = "q"
    evicted: bool = False
    priority: int = 0


def own(
    cpus: int = 1000,
    name: str = "q",
    moves: RestartTerms = NO_TERMS,
    moves_per_day: int | None = None,
    within: str = "Never",
) -> ClusterQueue:
    """A queue with so much quota. `within` is its `withinClusterQueue`."""
    quotas = (group({"tas": {"cpu": Quota(cpus * CPU)}}),)
    policy = PreemptionPolicy(within_cluster_queue=within)
    return ClusterQueue(name, quotas, restart=moves, moves_per_day=moves_per_day, preemption=policy)


def cluster(
    runs: Mapping[str, Running], *queues: ClusterQueue, racks_of: int = 2, count: int = 2, cpus: int = 4
) -> Ledger:
    """So many racks of so many hosts, on which these run; hosts are h0, h1, ..., racks r0, r1, ..."""
    ledger = Ledger()
    ledger.apply(racks())
    for index in range(racks_of * count):
        ledger.apply(host(f"h{index}", f"r{index // racks_of}", cpus))
    for queue in queues or (own(),):
        ledger.apply(queue)
    for key, one in runs.items():
        run(ledger, key, one)
    return ledger


def run(ledger: Ledger, key: str, running: Running) -> None:
    """Admits a workload and binds its pods."""
    count, start = sum(running.hosts.values()), NOW - running.ran
    pod_set = PodSet("main", count, {"cpu": running.cpus * CPU}, topology=running.topology)
    assignment = Assignment((HOST,), tuple(DomainCount((name,), n) for name, n in sorted(running.hosts.items())))
    got = PodSetAdmission("main", {"cpu": "tas"}, {"cpu": count * running.cpus * CPU}, count, assignment)
    workload = Workload(
        key,
        f"uid-{key}",
        "ns/lq",
        running.queue,
        (pod_set,),
        reserved=start,
        admitted=start,
        evicted=running.evicted,
        restart=running.moves,
        priority=running.priority,
        admission=Admission(running.queue, (got,)),
    )
    ledger.apply(workload)
    for name, pods in sorted(running.hosts.items()):
        for pod in range(pods):
            ledger.apply(BoundPod(f"{key}-{name}-{pod}", name, {"cpu": running.cpus * CPU}, key, "main"))


def gang(pods: int = 2, cpus: int = 4, topology: TopologyRequest = ONE_RACK, to: str = "q") -> Workload:
    """The gang that waits: two whole hosts of one rack unless told otherwise."""
    return Workload(
        "ns/gang", "uid-gang", f"ns/{to}", to, (PodSet("main", pods, {"cpu": cpus * CPU}, topology=topology),)
    )


def hosts_of(admission: Admission | None) -> dict[str, int]:
    """The pods by host of the first pod set."""
    assert admission is not None
    assignment = admission.pod_sets[0].assignment
    assert assignment is not None
    return {domain.values[-1]: domain.count for domain in assignment.domains}
