"""Whom to evict on a full cluster: 2,000 nodes, 700 admitted workloads that all could go; milliseconds of one nomination.

    python -m tests.bench preemption [--nodes 2000] [--candidates 700] [--repeat 3]

A nomination is all that a cycle does for its head: flavors, quota, the placement that fails, the search for victims, the
place that the workload would take. Nodes have 8 GPUs, racks 16 nodes; the workloads fill all nodes, 1 to 64 GPUs each, some
sharing nodes. Limit: 500 ms. Prints also how many go and what is proved of that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import process_time

from admission.engine.cycle.nominate import Nominator
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    Admission,
    Assignment,
    BoundPod,
    ClusterQueue,
    DomainCount,
    Flavor,
    FlavorQuotas,
    Node,
    PlacementOptions,
    PodSet,
    PodSetAdmission,
    PreemptionPolicy,
    Profile,
    Quota,
    ResourceGroup,
    SliceLayer,
    TopologyRequest,
    Workload,
)
from admission.engine.preemption.preemptor import Preemptor
from admission.engine.quota.fairness import FairSharingRules

GPU, RACK, TENANTS, LIMIT_MS = "nvidia.com/gpu", "rack", 10, 500.0
NOW = 1_000_000.0


@dataclass(frozen=True, slots=True)
class PreemptorCase:
    """A preemptor: `pods` of `gpus` each."""

    name: str
    pods: int
    gpus: int
    topology: TopologyRequest
    own_queue: bool = True


ASKS = (
    PreemptorCase("8 x 8, one rack", 8, 8, TopologyRequest(required=RACK)),
    PreemptorCase("16 x 8, a whole rack", 16, 8, TopologyRequest(required=RACK)),
    PreemptorCase("64 x 1, one rack", 64, 1, TopologyRequest(required=RACK)),
    PreemptorCase("64 x 8, unconstrained", 64, 8, TopologyRequest(unconstrained=True)),
    PreemptorCase("1000 x 8, preferred rack", 1000, 8, TopologyRequest(preferred=RACK)),
    PreemptorCase(
        "64 x 1, one rack, slices of 8 to a host",
        64,
        1,
        TopologyRequest(required=RACK, slices=(SliceLayer(HOSTNAME_LABEL, 8),)),
    ),
    PreemptorCase("1000 x 5 on nodes of 8, preferred rack", 1000, 5, TopologyRequest(preferred=RACK)),
    PreemptorCase("8 x 8, one rack, from tenants", 8, 8, TopologyRequest(required=RACK), own_queue=False),
    PreemptorCase("64 x 8, unconstrained, from tenants", 64, 8, TopologyRequest(unconstrained=True), own_queue=False),
)


def cluster(nodes: int, candidates: int, profile: Profile) -> Ledger:
    """A full cluster. Queue `own` runs half of the workloads, ten tenants that have borrowed run the others."""
    ledger = Ledger(PlacementOptions(profile=profile))
    ledger.apply(Flavor("gpu", {}, topology="default", levels=(RACK, HOSTNAME_LABEL)))
    for index in range(nodes):
        name = f"node-{index:05d}"
        labels = {RACK: f"rack-{index // 16:04d}", HOSTNAME_LABEL: name}
        ledger.apply(Node(name, labels, {"cpu": 96_000, GPU: 8, "pods": 110}))
    total = 8 * nodes
    reclaim = PreemptionPolicy("Any", "LowerPriority")
    for name, gpus in (("own", total // 2), ("fresh", total // 2), *((f"tenant-{i}", 0) for i in range(TENANTS))):
        ledger.apply(_queue(name, gpus, reclaim))
    for workload, admission in _admitted(nodes, candidates):
        ledger.apply(replace(workload, admission=admission))
        assert admission.pod_sets[0].assignment is not None
        for domain in admission.pod_sets[0].assignment.domains:
            for pod in range(domain.count):
                key = f"{workload.key}-{domain.values[0]}-{pod}"
                ledger.apply(BoundPod(key, domain.values[0], {"cpu": 1000, GPU: 1}, workload.key, "main"))
    return ledger


def _queue(name: str, gpus: int, policy: PreemptionPolicy) -> ClusterQueue:
    quotas = FlavorQuotas("gpu", {"cpu": Quota(gpus * 12_000), GPU: Quota(gpus)})
    return ClusterQueue(name, (ResourceGroup(("cpu", GPU), (quotas,)),), cohort="all", preemption=policy)


def _admitted(nodes: int, candidates: int) -> Iterator[tuple[Workload, Admission]]:
    """One pod a GPU; neighbours in the list are far from each other in the cluster."""
    free, at = 8 * nodes, 0
    for index in range(candidates):
        size = min(free, 1 + (index * 7919 + 13) % (2 * 8 * nodes // candidates - 1))
        if index == candidates - 1:
            size = free
        free -= size
        domains: dict[str, int] = {}
        for gpu in range(at, at + size):
            node = (gpu // 8) * 7 % nodes if nodes % 7 else gpu // 8
            domains[f"node-{node:05d}"] = domains.get(f"node-{node:05d}", 0) + 1
        at += size
        queue = "own" if index % 2 else f"tenant-{index % TENANTS}"
        yield _workload(f"ns/w{index:04d}", queue, size, index, domains)


def _workload(key: str, queue: str, size: int, index: int, domains: dict[str, int]) -> tuple[Workload, Admission]:
    pod_set = PodSet("main", size, {"cpu": 1000, GPU: 1}, topology=TopologyRequest(unconstrained=True))
    assignment = Assignment((HOSTNAME_LABEL,), tuple(DomainCount((name,), n) for name, n in domains.items()))
    usage = {"cpu": 1000 * size, GPU: size}
    got = PodSetAdmission("main", dict.fromkeys(usage, "gpu"), usage, size, assignment)
    reserved = NOW - 60 * (index * 31 % 500)
    workload = Workload(key, key, "ns/lq", queue, (pod_set,), priority=index * 17 % 5, reserved=reserved)
    return workload, Admission(queue, (got,))


def preemptor(topology: PreemptorCase) -> Workload:
    """The head that is nominated."""
    pod_set = PodSet("main", topology.pods, {"cpu": 1000, GPU: topology.gpus}, topology=topology.topology)
    queue = "own" if topology.own_queue else "fresh"
    return Workload("ns/head", "head", "ns/lq", queue, (pod_set,), priority=100)


def run(nodes: int = 2000, candidates: int = 700, repeat: int = 3) -> None:
    """Print a line for each question."""
    ways = (("Exact", Profile.EXACT, None), ("Compatible", Profile.COMPATIBLE, None))
    for name, profile, sharing in (*ways, ("fair sharing", Profile.EXACT, FairSharingRules())):
        ledger = cluster(nodes, candidates, profile)
        for topology in ASKS:
            head = preemptor(topology)
            queue = ledger.quota.spec(head.cluster_queue)
            assert queue is not None
            best, found = float("inf"), None
            for _ in range(repeat):
                start = process_time()
                found = Nominator(ledger, Preemptor(ledger, NOW, sharing), NOW).nominate(head, queue)
                best = min(best, process_time() - start)
            assert found is not None
            choice = Preemptor(ledger, NOW, sharing).about(head).choice(head, found.assignment)
            proof = (
                ""
                if choice is None
                else f"{choice.certificate.proof} {choice.certificate.cost} ({choice.certificate.expanded})"
            )
            slow = "  OVER THE LIMIT" if best * 1000 > LIMIT_MS else ""
            print(
                f"{name:<13} {topology.name:<39} {len(found.victims):>4} victims {best * 1000:9.1f} ms  {proof}{slow}"
            )


if __name__ == "__main__":
    run()
