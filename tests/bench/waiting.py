"""What a cycle costs when very many workloads wait, and what it costs to take in a large cluster; sizes in waiting.json.

    python -m tests.bench waiting

*Borrowing*: the queues of one cohort have nothing of their own, and everything that they use is borrowed; quota suffices for
some more than one cycle admits. Processor time of one cycle of 64 decisions, the first one and the second.

*Backfill*: every queue asks for backfill, all nodes are taken by workloads with a time limit, and the first of each queue is
too large for what will come free soon. Processor time of the first cycle, in which every head is given its moment, and of the
one after it. The heads are of one size; of five sizes, and two thirds require a rack; the same in one cohort; the same beside
free nodes, on which the second of each queue starts.

*Nodes*: processor time to tell the book of so many nodes and of one flavor with a topology, in both orders, and the memory that
the process has then.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import run as start
from typing import Any

from admission.engine.decide import decide
from admission.engine.ledger.ledger import Ledger
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
    TopologyRequest,
    Workload,
)
from admission.engine.queue.queues import PendingQueues
from admission.engine.scheduler_state import SchedulerState
from tests.bench.cycle import GPU, NOW, RACK, cluster, cycles, timed
from tests.bench.measure import cost

SIZES: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text())


def _queue(name: str, gpus: int, *, cohort: str | None = None, backfill: bool = False) -> ClusterQueue:
    quotas = FlavorQuotas("gpu", {"cpu": Quota(gpus * 1000), GPU: Quota(gpus)})
    return ClusterQueue(name, (ResourceGroup(("cpu", GPU), (quotas,)),), cohort=cohort, reserves_starts=backfill)


def _workload(key: str, to: str, pods: int, at: int, limit: float | None = None) -> Workload:
    pod_set = PodSet("main", pods, {"cpu": 1000, GPU: 1}, topology=TopologyRequest(preferred=RACK))
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


@dataclass(frozen=True, slots=True)
class Heads:
    """What the heads of the queues with backfill ask for, and what stands beside them."""

    sizes: Sequence[int] = (64,)
    racked: bool = False
    cohort: str | None = None
    room: int = 0

    def workload(self, index: int) -> Workload:
        """The head of the queue of this number; `racked`: two of three require a rack."""
        made = _workload(
            f"ns/head{index:03d}", f"q{index:03d}", self.sizes[index % len(self.sizes)], 1000 + 2 * index, 3600.0
        )
        if not self.racked or not index % 3:
            return made
        return replace(made, pod_sets=(replace(made.pod_sets[0], topology=TopologyRequest(required=RACK)),))


_MIXED = (16, 32, 48, 64, 80)
HEADS = {
    "of one size": Heads(),
    "of five sizes, most with a required rack": Heads(_MIXED, racked=True),
    "the same in one cohort": Heads(_MIXED, racked=True, cohort="all"),
    "the same beside 100 free nodes": Heads(_MIXED, racked=True, room=100),
}


def backfill(nodes: int, queues: int) -> None:
    """All nodes are taken; every queue has a head that is told when it starts."""
    for name, heads in HEADS.items():
        told = " and ".join(f"{each:.0f} ms" for each in _backfill(nodes, queues, heads))
        print(f"backfill: {queues} queues, {nodes:,} full nodes, heads {name}: the first cycle, and the next, {told}")


def _backfill(nodes: int, queues: int, heads: Heads) -> list[float]:
    state = cluster(nodes + heads.room, 8, 10)
    for index in range(queues):
        state.apply(_queue(f"q{index:03d}", nodes * 8, backfill=True, cohort=heads.cohort))
    for number in range(nodes):
        running = _workload(f"ns/run{number:05d}", f"q{number % queues:03d}", 8, 0, 600.0 + number)
        state.apply(running)
    for _ in cycles(state):
        pass
    for index in range(queues):
        state.apply(heads.workload(index))
        state.apply(_workload(f"ns/next{index:03d}", f"q{index:03d}", 8, 1001 + 2 * index, 60.0))
    costs: list[float] = []
    for _ in range(2):
        costs.append(timed(lambda: decide(state.ledger, state.queues, NOW + len(costs), 4 * queues)))
    return costs


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
