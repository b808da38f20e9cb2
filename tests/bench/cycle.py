"""What one admission cycle costs, milliseconds of processor time; sizes in cycle.json.

    python -m tests.bench cycle

*Large*: 4,000 nodes with 140,000 pods, nobody may evict anybody: one workload ends, and a cycle finds who of those that wait
takes its place; and a cycle in which everybody is woken in vain. Limit: 200 ms.

*Many*: 1,000 queues, ten to a cohort, on a full cluster, with 5,000 and with 50,000 workloads waiting, of 50 shapes in each
queue; one workload ends, and a cycle follows: what that costs should not depend on how many wait. Told also: the most
memory of the process up to there (limit: 1 GiB), and how long it took to consider everybody once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any

from admission.engine.cycle.cycle import CycleReport
from admission.engine.decide import decide
from admission.engine.decision import Admit
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    BoundPod,
    ClusterQueue,
    Flavor,
    FlavorQuotas,
    Node,
    ObjectRemoved,
    PodSet,
    PreemptionPolicy,
    Quota,
    RemovedKind,
    ResourceGroup,
    TopologyRequest,
    Workload,
)
from admission.engine.queue.queues import PendingQueues
from admission.engine.scheduler_state import SchedulerState
from tests.bench.measure import cost

SIZES: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text())
GPU, RACK = "nvidia.com/gpu", "rack"
NOW = 1_000_000.0


def cluster(nodes: int, gpus: int, rack: int) -> SchedulerState:
    """Empty nodes."""
    state = SchedulerState(Ledger(), PendingQueues())
    state.apply(Flavor("gpu", {}, topology="default", levels=(RACK, HOSTNAME_LABEL)))
    for index in range(nodes):
        name = f"node-{index:05d}"
        labels = {RACK: f"rack-{index // rack:04d}", HOSTNAME_LABEL: name}
        state.apply(Node(name, labels, {"cpu": 96_000, GPU: gpus, "pods": 110}))
    return state


def queue(name: str, gpus: int, cohort: str | None = None, policy: str = "Never") -> ClusterQueue:
    """A queue with so many GPUs and all the cpus that they need."""
    quotas = FlavorQuotas("gpu", {"cpu": Quota(gpus * 1000), GPU: Quota(gpus)})
    preemption = PreemptionPolicy("Never" if policy == "Never" else "Any", policy)
    return ClusterQueue(name, (ResourceGroup(("cpu", GPU), (quotas,)),), cohort=cohort, preemption=preemption)


def gang(key: str, to: str, pods: int, at: int, *, gpus: int = 1, priority: int = 0, cpu: int = 1000) -> Workload:
    """A workload that wants one rack."""
    pod_set = PodSet("main", pods, {"cpu": cpu, GPU: gpus}, topology=TopologyRequest(required=RACK))
    return Workload(key, key, f"ns/{to}", to, (pod_set,), priority=priority, queued=float(at))


def cycles(state: SchedulerState, budget: int = 64) -> Iterator[CycleReport]:
    """Until there is nothing more to decide now."""
    more = True
    while more:
        report = decide(state.ledger, state.queues, NOW, budget)
        more = report.more
        yield report


def timed(work: Callable[[], object]) -> float:
    """Milliseconds of processor time."""
    start = process_time()
    work()
    return 1000 * (process_time() - start)


# ---- many nodes and pods


def large(size: dict[str, Any]) -> None:
    """One cycle beside many nodes and pods."""
    state = cluster(size["nodes"], size["gpus"], size["rack"])
    for index in range(size["foreign"]):
        state.apply(BoundPod(f"system/p{index}", f"node-{index % size['nodes']:05d}", {"cpu": 100}))
    share = size["nodes"] * size["gpus"] // size["queues"]
    for index in range(size["queues"]):
        state.apply(queue(f"q{index}", share))
    admitted = _fill(state, size)
    for index in range(size["queues"]):
        for at in range(size["waiting"]):
            state.apply(gang(f"ns/wait-{index}-{at}", f"q{index}", size["gang"] * (1 + at), 10_000 + at))
    first = timed(lambda: [None for _ in cycles(state)])
    one, vain, reports = [], [], list[CycleReport]()
    for at in range(size["repeat"]):
        leaver = admitted[at * 37 % len(admitted)]
        state.apply(ObjectRemoved(RemovedKind.WORKLOAD, leaver))
        for pod in range(size["gang"]):
            state.apply(ObjectRemoved(RemovedKind.POD, f"{leaver}-{pod}"))
        one.append(timed(lambda: reports.append(next(cycles(state)))))
        admitted += [decision.workload for decision in reports[-1].decisions if isinstance(decision, Admit)]
        admitted.remove(leaver)
        state.requeue_all()
        vain.append(timed(lambda: next(cycles(state))))
    slow = "  OVER THE LIMIT" if max(*one, *vain) > size["limit_ms"] else ""
    print(
        f"{size['nodes']:,} nodes, {size['pods']:,} pods: after one end {fmean(one):.2f} ms (most {max(one):.2f}); "
        f"64 woken in vain {fmean(vain):.1f} ms (most {max(vain):.1f}); everybody once {first:.0f} ms{slow}"
    )


def _fill(state: SchedulerState, size: dict[str, Any]) -> list[str]:
    """Gangs on all GPUs, with as many bound pods as there are to be besides the foreign ones. Their keys."""
    each = size["nodes"] * size["gpus"] // size["gang"]
    for index in range(each):
        state.apply(gang(f"ns/w{index:05d}", f"q{index % size['queues']}", size["gang"], index))
    admitted = [decision for report in cycles(state) for decision in report.decisions if isinstance(decision, Admit)]
    left = size["pods"] - size["foreign"]
    for decision in admitted:
        found = decision.admission.pod_sets[0].assignment
        nodes = [d.values[-1] for d in found.domains for _ in range(d.count)] if found else []
        for number, node in enumerate(nodes[:left]):
            key = f"{decision.workload}-{number}"
            state.apply(BoundPod(key, node, {"cpu": 1000, GPU: 1}, decision.workload, "main"))
        left -= len(nodes)
    for index in range(max(0, left)):
        state.apply(BoundPod(f"system/more{index}", f"node-{index % size['nodes']:05d}", {"cpu": 100}))
    return [decision.workload for decision in admitted]


# ---- many that wait


def many(size: dict[str, Any], pending: int, policy: str) -> None:
    """One end and one cycle beside many that wait."""
    state = cluster(size["nodes"], size["gpus"], 10)
    share = size["nodes"] * size["gpus"] // size["queues"]
    for index in range(size["queues"]):
        state.apply(queue(f"q{index}", share, f"cohort-{index // size['cohort']}", policy))
    started = [f"ns/start-{index}" for index in range(size["queues"])]
    for index, key in enumerate(started):
        state.apply(gang(key, f"q{index}", share, 0, priority=1))
    for _ in cycles(state):
        pass
    for number in range(pending):
        index, shape = number % size["queues"], number // size["queues"] % size["shapes"]
        state.apply(gang(f"ns/w{number}", f"q{index}", share, 1 + number, cpu=1000 - shape))
    first = timed(lambda: [None for _ in cycles(state)])
    ends, costs, decisions = list(started), [], 0
    for at in range(size["repeat"]):
        leaver = ends[at]

        def end(leaver: str = leaver) -> None:
            nonlocal decisions
            state.apply(ObjectRemoved(RemovedKind.WORKLOAD, leaver))
            for report in cycles(state):
                decisions += len(report.decisions)
                ends.extend(each.workload for each in report.decisions if isinstance(each, Admit))

        costs.append(timed(end))
    memory = cost(os.getpid()).highest
    over = "  OVER THE LIMIT" if memory > size["limit_mib"] else ""
    print(
        f"{size['queues']:,} queues, {pending:>6,} waiting, preemption {policy:<13}: "
        f"one end and its cycle {fmean(costs):.2f} ms (most {max(costs):.2f}), "
        f"{decisions / size['repeat']:.1f} decisions; everybody once {first / 1000:.1f} s; "
        f"{memory:.0f} MiB{over}"
    )


def run() -> None:
    """All of it."""
    large(SIZES["large"])
    for policy in SIZES["many"]["policies"]:
        for pending in SIZES["many"]["pending"]:
            many(SIZES["many"], pending, policy)


if __name__ == "__main__":
    run()
