"""Cycles that took long: fair sharing of many queues, very many LocalQueues of one queue, very many taints.

    python -m tests.bench long-cycles [--only PART] [--top N]

*fair*: the queues of one cohort borrow; one cycle of 64 decisions, with 100 and 300 queues, and 300 at depth 3. *usage*: one
ClusterQueue with admission fair sharing and 5,000 LocalQueues. *taints*: the nodes have 1,000 and 10,000 different taints, and
64 workloads tolerate none. CPU milliseconds; with `--top`, lines of a profile.
"""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from dataclasses import replace

from admission.engine.cycle.decide import decide
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    ClusterQueue,
    Cohort,
    Flavor,
    FlavorQuotas,
    Node,
    PodSet,
    PreemptionPolicy,
    Quota,
    ResourceGroup,
    Taint,
    Workload,
)
from admission.engine.queue.past_usage import UsageRules
from admission.engine.queue.queues import PendingQueues
from admission.engine.quota.fairness import FairSharingRules
from admission.engine.scheduler_state import SchedulerState
from tests.bench.cycle import GPU, NOW, RACK, cluster, timed
from tests.bench.cycle import gang as racked

DECISIONS = 64
RULES = FairSharingRules()


def _queue(name: str, gpus: int, cohort: str | None) -> ClusterQueue:
    quotas = FlavorQuotas("gpu", {"cpu": Quota(gpus * 1000), GPU: Quota(gpus)})
    preemption = PreemptionPolicy("Any", "LowerPriority")
    return ClusterQueue(name, (ResourceGroup(("cpu", GPU), (quotas,)),), cohort=cohort, preemption=preemption)


def fair(queues: int, depth: int) -> SchedulerState:
    """Queues with three workloads each, of which the second borrows. `depth`: cohorts above a queue."""
    state = cluster(400, 8, 10)
    state.apply(Cohort("top", None, {("gpu", "cpu"): Quota(1_000_000), ("gpu", GPU): Quota(1000)}))
    for index in range(queues):
        cohort = "top"
        for level in range(1, depth):
            name = f"c{level}-{index % 4**level}"
            state.apply(Cohort(name, cohort))
            cohort = name
        state.apply(_queue(f"q{index:03d}", 1, cohort))
        for at in range(3):
            state.apply(racked(f"ns/w{index:03d}-{at}", f"q{index:03d}", 1 + (index + at) % 3, at * queues + index))
    return state


def usage(local_queues: int) -> SchedulerState:
    """One ClusterQueue; each LocalQueue has two workloads and a history."""
    state = cluster(400, 8, 10)
    state.queues.past.rules = UsageRules(half_life=3600.0)
    state.apply(replace(_queue("q", 3200, None), by_usage=True))
    for index in range(local_queues):
        name = f"ns/lq{index:04d}"
        state.queues.past.restore(name, {"cpu": float(index * 7919 % local_queues)}, NOW)
        for at in range(2):
            key = f"ns/w{index:04d}-{at}"
            pods = PodSet("main", 1, {"cpu": 1000, GPU: 1}, topology=None)
            state.apply(Workload(key, key, name, "q", (pods,), queued=float(at * local_queues + index)))
    return state


def taints(kinds: int) -> SchedulerState:
    """At least a thousand nodes, each with one of so many taints."""
    state = SchedulerState(Ledger(), PendingQueues())
    state.apply(Flavor("gpu", {}, topology="default", levels=(RACK, HOSTNAME_LABEL)))
    for index in range(max(1000, kinds)):
        name = f"node-{index:05d}"
        labels = {RACK: f"rack-{index // 16:04d}", HOSTNAME_LABEL: name}
        repels = Taint(key=f"team-{index % kinds:05d}", value="only", effect="NoSchedule")
        state.apply(Node(name, labels, {"cpu": 96_000, GPU: 8, "pods": 110}, taints=(repels,)))
    state.apply(_queue("q", 100_000, None))
    for at in range(DECISIONS):
        state.apply(racked(f"ns/w{at:02d}", "q", 1 + at, at))
    return state


def _cycle(state: SchedulerState, sharing: FairSharingRules | None) -> Callable[[], object]:
    return lambda: decide(state.ledger, state.queues, NOW, DECISIONS, sharing)


PARTS: dict[str, Callable[[], Callable[[], object]]] = {
    "fair sharing, 100 queues": lambda: _cycle(fair(100, 1), RULES),
    "fair sharing, 300 queues": lambda: _cycle(fair(300, 1), RULES),
    "fair sharing, 300 queues at depth 3": lambda: _cycle(fair(300, 3), RULES),
    "admission fair sharing, 5,000 LocalQueues": lambda: _cycle(usage(5000), None),
    "1,000 taints": lambda: _cycle(taints(1000), None),
    "10,000 taints": lambda: _cycle(taints(10_000), None),
}


def run(only: str = "", top: int = 0, repeat: int = 2) -> None:
    """Each part, the least of the repeats."""
    for name, prepare in PARTS.items():
        if only not in name:
            continue
        if top:
            act = prepare()
            profile = cProfile.Profile()
            profile.runcall(act)
            pstats.Stats(profile).sort_stats("cumulative").print_stats(top)
        costs = [timed(act) for act in [prepare() for _ in range(repeat)]]
        print(f"{name}: {min(costs):.0f} ms")
