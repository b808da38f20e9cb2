"""Whom to evict where quota and nodes are both full: seconds (CPU) of one cycle with so many preemptions.

    python -m tests.bench rack-gangs [--nodes 15000] [--decisions 1] [--wide 16]

Nodes have 8 GPUs, racks 16 nodes, blocks 64 racks. Four gangs fill each rack, 4 pods of 8 GPUs each, and all of the quota is
used.
Each preemptor asks for `wide` pods of 8 GPUs in one rack, or in one block if they are more than a rack holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from time import process_time

from admission.engine.cycle.decide import decide
from admission.engine.decision import Preempt
from admission.engine.ledger import Ledger
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


def run(nodes: int = 15_000, decisions: int = 1, wide: int = WIDE, repeat: int = 3) -> None:
    """Prints the CPU time of a cycle, and what it decided."""
    ledger, queues = cluster(nodes)
    for number in range(decisions):
        queues.put(gang(f"ns/head-{number}", "own", wide))
    best, victims = float("inf"), 0
    for _ in range(repeat):
        queues.lines.requeue(("own",))
        start = process_time()
        report = decide(ledger, queues, NOW, decisions)
        best = min(best, process_time() - start)
        made = [decision for decision in report.decisions if isinstance(decision, Preempt)]
        assert len(made) == decisions
        victims = sum(len(decision.victims) for decision in made)
    print(f"{nodes:,} nodes, gangs of {wide}: {decisions} preemptions with {victims} victims: {best * 1000:.0f} ms CPU")


if __name__ == "__main__":
    run()
