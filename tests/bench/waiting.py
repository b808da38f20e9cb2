"""What a cycle costs when very many workloads wait, and what it costs to take in a large cluster; sizes in waiting.json.

    python -m tests.bench waiting

*Borrowing*: the queues of one cohort have nothing of their own, and everything that they use is borrowed; quota suffices for
some more than one cycle admits. Processor time of one cycle of 64 decisions, the first one and the second.

*Backfill*: every queue asks for backfill, all nodes are taken by workloads with a time limit, and the first of each queue is
too large for what will come free soon. Processor time of the first cycle, in which every head is given its moment, and of the
one after it.

*Nodes*: processor time to tell the book of so many nodes and of one flavor with a topology, in both orders, and the memory that
the process has then.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from subprocess import run as start
from typing import Any

from admission.engine.cycle.decide import decide
from admission.engine.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    ClusterQueue,
    Cohort,
    Flavor,
    FlavorQuotas,
    Node,
    PodSet,
    Quota,
    ResourceGroup,
    TopologyAsk,
    Workload,
)
from admission.engine.queue.queues import PendingQueues
from admission.engine.scheduler_state import SchedulerState
from tests.bench.cycle import GPU, NOW, RACK, cluster, cycles, timed
from tests.bench.measure import cost

SIZES: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text())


def _queue(name: str, gpus: int, *, cohort: str | None = None, backfill: bool = False) -> ClusterQueue:
    quotas = FlavorQuotas("gpu", {"cpu": Quota(gpus * 1000), GPU: Quota(gpus)})
    return ClusterQueue(name, (ResourceGroup(("cpu", GPU), (quotas,)),), cohort=cohort, backfill=backfill)


def _workload(key: str, to: str, pods: int, at: int, limit: float | None = None) -> Workload:
    pod_set = PodSet("main", pods, {"cpu": 1000, GPU: 1}, topology=TopologyAsk(preferred=RACK))
    return Workload(key, key, f"ns/{to}", to, (pod_set,), queued=float(at), time_limit=limit)


def borrowing(queues: int, waiting: int) -> None:
    """Two cycles in which everybody borrows."""
    state = cluster(400, 8, 10)
    owned = {("gpu", "cpu"): Quota(1_000_000), ("gpu", GPU): Quota(1000)}
    state.apply(Cohort("all", None, owned))
    for index in range(queues):
        state.apply(_queue(f"q{index:04d}", 0, cohort="all"))
    for number in range(waiting):
        state.apply(_workload(f"ns/w{number:05d}", f"q{number % queues:04d}", 1 + number % 3, number))
    found = []
    costs = [timed(lambda: found.append(decide(state.ledger, state.queues, NOW, 64))) for _ in range(2)]
    told = " and ".join(
        f"{each:.0f} ms ({report.admitted} admitted)" for each, report in zip(costs, found, strict=True)
    )
    print(f"borrowing: {queues:>5,} queues, {waiting:,} waiting: cycles of 64 decisions {told}")


def backfill(nodes: int, queues: int) -> None:
    """All nodes are taken; every queue has a head that is told when it starts."""
    state = cluster(nodes, 8, 10)
    for index in range(queues):
        state.apply(_queue(f"q{index:03d}", nodes * 8, backfill=True))
    for number in range(nodes):
        running = _workload(f"ns/run{number:05d}", f"q{number % queues:03d}", 8, 0, 600.0 + number)
        state.apply(running)
    for _ in cycles(state):
        pass
    for index in range(queues):
        state.apply(_workload(f"ns/head{index:03d}", f"q{index:03d}", 64, 1000 + index, 3600.0))
        state.apply(_workload(f"ns/next{index:03d}", f"q{index:03d}", 8, 5000 + index, 60.0))
    costs: list[float] = []
    for _ in range(2):
        costs.append(timed(lambda: decide(state.ledger, state.queues, NOW + len(costs), 4 * queues)))
    told = " and ".join(f"{each:.0f} ms" for each in costs)
    print(f"backfill: {queues} queues, {nodes:,} full nodes: a cycle of all heads, and the one after it, {told}")


def nodes(number: int, last: bool) -> None:
    """A book of so many nodes; `last`: the flavor comes after them."""
    state = SchedulerState(Ledger(), PendingQueues())
    flavor = Flavor("gpu", {}, topology="default", levels=("block", RACK, HOSTNAME_LABEL))

    def load() -> None:
        if not last:
            state.apply(flavor)
        for index in range(number):
            name = f"node-{index:06d}"
            labels = {
                "block": f"block-{index // 1000:03d}",
                RACK: f"rack-{index // 20:04d}",
                HOSTNAME_LABEL: name,
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "large",
            }
            state.apply(Node(name, labels, {"cpu": 96_000, "memory": 2**40, GPU: 8, "pods": 110}))
        if last:
            state.apply(flavor)

    spent = timed(load)
    order = "before the flavor" if last else "after the flavor"
    print(f"nodes: {number:,} told {order}: {spent / 1000:.1f} s, {cost(os.getpid()).highest:.0f} MiB")


def run() -> None:
    """All of it; each load of nodes in a process of its own, for the memory."""
    for queues in SIZES["borrowing"]["queues"]:
        borrowing(queues, SIZES["borrowing"]["waiting"])
    backfill(**SIZES["backfill"])
    for order in ("first", "last"):
        start((sys.executable, "-m", "tests.bench.waiting", str(SIZES["nodes"]), order), check=True)


if __name__ == "__main__":
    nodes(int(sys.argv[1]), sys.argv[2] == "last")
