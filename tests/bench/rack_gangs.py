"""Whom to evict where quota and nodes are both full: milliseconds (CPU) of one cycle with so many preemptions.

    python -m tests.bench rack-gangs [--nodes 15000 --decisions 1 --wide 16]

Nodes have 8 GPUs, racks 16 nodes, blocks 64 racks. Four gangs fill each rack, 4 pods of 8 GPUs each, and all of the quota is
used.
Each preemptor asks for `wide` pods of 8 GPUs in one rack, or in one block if they are more than a rack holds. Without options:
one and four preemptors at 15,000 nodes, 64 at 5,000, and a gang of 1,000 pods there. The minimum of `repeat` cycles is printed,
and a hash of the decisions, by which two versions are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from time import process_time

from admission.engine.decide import decide
from admission.engine.decision import Preempt
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    Admission,
    Assignment,
    ClusterQueue,
    DomainCount,
    Flavor,
    FlavorQuotas,
    Node,
    PodSet,
    PodSetAdmission,
    PreemptionPolicy,
    Quota,
    ResourceGroup,
    TopologyRequest,
    Workload,
)
from admission.engine.queue.queues import PendingQueues

GPU, BLOCK, RACK = "nvidia.com/gpu", "block", "rack"
NOW, WIDE, RACKS, SMALL = 1_000_000.0, 16, 64, 4
INPUTS = ((15_000, 1, WIDE), (15_000, 4, WIDE), (5_000, 64, WIDE), (5_000, 1, 1_000))
"""Nodes, preemptors, and pods of each."""


def cluster(nodes: int) -> tuple[Ledger, PendingQueues]:
    """A cluster of which quota and nodes are full: two queues of one cohort share both."""
    ledger, queues = Ledger(), PendingQueues()
    ledger.apply(Flavor("gpu", {}, topology="default", levels=(BLOCK, RACK, HOSTNAME_LABEL)))
    for index in range(nodes):
        rack, name = index // WIDE, f"node-{index:05d}"
        labels = {BLOCK: f"block-{rack // RACKS:03d}", RACK: f"rack-{rack:04d}", HOSTNAME_LABEL: name}
        ledger.apply(Node(name, labels, {"cpu": 96_000, GPU: 8, "pods": 110}))
    policy = PreemptionPolicy("Any", "LowerPriority")
    racks = nodes // WIDE
    for name, owned in (("own", racks // 2), ("other", racks - racks // 2)):
        quotas = FlavorQuotas("gpu", {"cpu": Quota(owned * WIDE * 8_000), GPU: Quota(owned * WIDE * 8)})
        queue = ClusterQueue(name, (ResourceGroup(("cpu", GPU), (quotas,)),), cohort="all", preemption=policy)
        ledger.apply(queue)
        queues.set_queue(queue)
    for workload, admission in _running(racks):
        ledger.apply(replace(workload, admission=admission))
    return ledger, queues


def _running(racks: int) -> Iterator[tuple[Workload, Admission]]:
    for index in range(racks * WIDE // SMALL):
        queue = "own" if index < racks // 2 * WIDE // SMALL else "other"
        one = gang(f"ns/w{index:05d}", queue, SMALL, priority=index * 17 % 5)
        hosts = tuple(DomainCount((f"node-{index * SMALL + n:05d}",), 1) for n in range(SMALL))
        usage = {"cpu": 8_000 * SMALL, GPU: 8 * SMALL}
        got = PodSetAdmission("main", dict.fromkeys(usage, "gpu"), usage, SMALL, Assignment((HOSTNAME_LABEL,), hosts))
        yield replace(one, reserved=NOW - 60 * (index * 31 % 500)), Admission(queue, (got,))


def gang(key: str, queue: str, pods: int, priority: int = 100) -> Workload:
    """Pods of 8 GPUs in one rack, or in one block if a rack is too small."""
    topology = TopologyRequest(required=RACK if pods <= WIDE else BLOCK)
    pod_set = PodSet("main", pods, {"cpu": 8_000, GPU: 8}, topology=topology)
    return Workload(key, key, "ns/lq", queue, (pod_set,), priority=priority)


def run(nodes: int = 0, decisions: int = 1, wide: int = WIDE, repeat: int = 3) -> None:
    """Prints the CPU time of a cycle, and what it decided; of each of `INPUTS` if `nodes` is 0."""
    for each in ((nodes, decisions, wide),) if nodes else INPUTS:
        _run(*each, repeat)


def _run(nodes: int, decisions: int, wide: int, repeat: int) -> None:
    ledger, _ = cluster(nodes)
    best, victims, digest = float("inf"), 0, ""
    for _ in range(repeat):
        queues = PendingQueues()
        for spec in ledger.quota.specs():
            if isinstance(spec, ClusterQueue):
                queues.set_queue(spec)
        for number in range(decisions):
            queues.put(gang(f"ns/head-{number}", "own", wide))
        start = process_time()
        report = decide(ledger, queues, NOW, decisions)
        best = min(best, process_time() - start)
        preemptions = [decision for decision in report.decisions if isinstance(decision, Preempt)]
        assert len(preemptions) == decisions
        victims = sum(len(decision.victims) for decision in preemptions)
        digest = sha256(repr(report.decisions).encode()).hexdigest()[:16]
    what = f"{nodes:,} nodes, gangs of {wide}: {decisions} preemptions with {victims} victims"
    print(f"{what}: {best * 1000:.0f} ms CPU, decisions {digest}")


if __name__ == "__main__":
    run()
