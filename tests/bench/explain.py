"""`explain` of a waiting workload on the bench's clusters: CPU milliseconds of the whole explanation with its remedies.

    python -m tests.bench explain [--nodes 5000] [--repeat 5]

The 70 % fill of the placement figures, counted as admitted workloads of one queue; a workload is asked about that waits for
room, for quota, for both, and one that cannot run. Limit: one second on 5,000 nodes.
"""

from __future__ import annotations

from dataclasses import replace
from time import process_time

from admission.engine.explain.explain import explain
from admission.engine.explain.explanation import Explanation
from admission.engine.explain.wording import headline
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    Admission,
    BoundPod,
    ClusterQueue,
    FlavorQuotas,
    PodSet,
    Quota,
    ResourceGroup,
    TopologyRequest,
    Workload,
)
from tests.bench import placement

LIMIT = 1000.0
PLENTY = 1 << 60


def cluster(nodes: int, quota: int) -> Ledger:
    """The filled cluster with its queue: `quota` GPUs beyond what the fill uses, a daemon on every node."""
    ledger = placement.cluster(nodes, "gpu", "empty")
    used = 0
    for rack in range(-(-nodes // 16)):
        indexes = range(16 * rack, min(nodes, 16 * rack + 16))
        hosts = [(f"node-{index:06d}", 2 * placement.quarters(index)) for index in indexes]
        workload, admission = placement.workload(f"ns/fill-{rack:05d}", "gpu", hosts)
        gpus = sum(count for _, count in hosts)
        got = replace(admission.pod_sets[0], usage={name: n * gpus for name, n in placement.SHAPES["gpu"].items()})
        ledger.charge(workload, Admission("cq", (got,)))
        used += gpus
    for index in range(nodes):
        ledger.apply(BoundPod(f"kube-system/daemon-{index:06d}", f"node-{index:06d}", {"cpu": 100}))
    _give_quota(ledger, used + quota)
    return ledger


def colocated(nodes: int, quota: int) -> Ledger:
    """As many nodes, with five workloads of one pod on each."""
    ledger = placement.cluster(nodes, "gpu", "empty")
    for index in range(5 * nodes):
        workload, admission = placement.workload(f"ns/small-{index:06d}", "gpu", [(f"node-{index // 5:06d}", 1)])
        got = replace(admission.pod_sets[0], usage=placement.SHAPES["gpu"])
        ledger.charge(workload, Admission("cq", (got,)))
    _give_quota(ledger, 5 * nodes + quota)
    return ledger


def _give_quota(ledger: Ledger, gpus: int) -> None:
    quotas = {name: Quota(PLENTY) for name in placement.SHAPES["gpu"]} | {"nvidia.com/gpu": Quota(gpus)}
    ledger.apply(ClusterQueue("cq", (ResourceGroup(tuple(quotas), (FlavorQuotas("tas", quotas),)),)))


def asking(name: str, pods: int, topology: TopologyRequest) -> Workload:
    """A workload of one pod set."""
    return Workload(name, name, "ns/lq", "cq", (PodSet("main", pods, placement.SHAPES["gpu"], topology=topology),))


CASES = (
    ("quota and room, 25,000 admitted", -10, asking("ns/crowd", 60, TopologyRequest(required=placement.RACK))),
    ("room in a rack", 100_000, asking("ns/rack", 100, TopologyRequest(required=placement.RACK))),
    ("whole hosts", 100_000, asking("ns/host", 8, TopologyRequest(required=HOSTNAME_LABEL))),
    ("room in a block", 100_000, asking("ns/block", 500, TopologyRequest(required=placement.BLOCK))),
    ("room anywhere", 100_000, asking("ns/any", 15_000, TopologyRequest(preferred=placement.RACK))),
    ("quota", 10, asking("ns/quota", 16, TopologyRequest(preferred=placement.RACK))),
    ("quota and room", 10, asking("ns/both", 100, TopologyRequest(required=placement.RACK))),
    ("cannot run", 100_000, asking("ns/never", 200, TopologyRequest(required=placement.RACK))),
)


def run(nodes: int = 5000, repeat: int = 5) -> None:
    """Prints a line for each case."""
    ledgers = {quota: cluster(nodes, quota) for _, quota, _ in CASES if quota > 0} | {-10: colocated(nodes, 10)}
    for name, quota, workload in CASES:
        best, found = _timed(ledgers[quota], workload, repeat)
        slow = "  OVER THE LIMIT" if nodes <= 5000 and best > LIMIT else ""
        print(f"{nodes:>7} {name:<31} {best:8.1f} ms  {found.verdict}, {len(found.remedies)} remedies{slow}")
        print(f"        {headline(found)}")


def _timed(ledger: Ledger, workload: Workload, repeat: int) -> tuple[float, Explanation]:
    best, found = float("inf"), explain(ledger, workload, 0.0)
    for _ in range(repeat):
        start = process_time()
        found = explain(ledger, workload, 0.0)
        best = min(best, (process_time() - start) * 1000)
    return best, found


if __name__ == "__main__":
    run()
