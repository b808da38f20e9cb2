"""Cycles that took long: fair sharing of many queues, many LocalQueues of one queue, many taints, flavors, constraints.

    python -m tests.bench long-cycles [--only PART] [--top N]

*fair*: the queues of one cohort borrow; one cycle of 64 decisions, with 100 and 300 queues, and 300 at depth 3. *usage*: one
ClusterQueue with admission fair sharing and 5,000 LocalQueues. *taints*: the nodes have 1,000 and 10,000 different taints, and
64 workloads tolerate none. *flavors*: a queue has 32, and no rack of any holds one of the 10 gangs. *constraints*: 64 gangs
start on nodes that are 70 % full, with a range and a factor, with a hard spread, and spread by their pods' own terms.
CPU milliseconds, and a hash of the decisions, by which two versions are compared; with `--top`, lines of a profile.
"""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from time import process_time

from admission.engine.cycle.cycle import CycleReport
from admission.engine.decide import decide
from admission.engine.decision import Decision
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    ClusterQueue,
    Cohort,
    Flavor,
    FlavorQuotas,
    LevelConstraint,
    Node,
    PodFacts,
    PodSet,
    PreemptionPolicy,
    Quota,
    ResourceGroup,
    Spreading,
    SpreadTerm,
    Taint,
    TopologyRequest,
    Workload,
)
from admission.engine.queue.past_usage import UsageRules
from admission.engine.queue.queues import PendingQueues
from admission.engine.quota.fairness import FairSharingRules
from admission.engine.scheduler_state import SchedulerState
from tests.bench.cycle import GPU, NOW, RACK, cluster
from tests.bench.cycle import gang as racked
from tests.bench.placement import quarters
from tests.bench.terms import term

DECISIONS = 64
RULES = FairSharingRules()
BLOCK = "block"
RANGE_AND_FACTOR = (
    LevelConstraint(RACK, Spreading.SPREAD, minimum=8, maximum=32),
    LevelConstraint(HOSTNAME_LABEL, factor=2),
)
HARD_SPREAD = (
    LevelConstraint(BLOCK, Spreading.SPREAD, hard=True),
    LevelConstraint(RACK),
    LevelConstraint(HOSTNAME_LABEL, Spreading.SPREAD, hard=True),
)
EVENLY = PodFacts(
    "ns", (("app", "train"),), even=(SpreadTerm(term(RACK, "train")), SpreadTerm(term(HOSTNAME_LABEL, "train")))
)


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


def flavors(number: int) -> SchedulerState:
    """So many flavors of 32 nodes each, in racks of 16, and gangs that need more than one rack."""
    state = SchedulerState(Ledger(), PendingQueues())
    names = [f"gpu-{index:02d}" for index in range(number)]
    for index, flavor in enumerate(names):
        state.apply(Flavor(flavor, {"kind": flavor}, topology="default", levels=(RACK, HOSTNAME_LABEL)))
        for at in range(32):
            name = f"node-{index:02d}-{at:02d}"
            labels = {RACK: f"rack-{index:02d}-{at // 16}", HOSTNAME_LABEL: name, "kind": flavor}
            state.apply(Node(name, labels, {"cpu": 96_000, GPU: 8, "pods": 110}))
    group = tuple(FlavorQuotas(flavor, {"cpu": Quota(100_000_000), GPU: Quota(100_000)}) for flavor in names)
    preemption = PreemptionPolicy("Any", "LowerPriority")
    state.apply(ClusterQueue("q", (ResourceGroup(("cpu", GPU), group),), preemption=preemption))
    for at in range(10):
        state.apply(racked(f"ns/w{at:02d}", "q", 17 + at, at, gpus=8))
    return state


def constrained(constraints: tuple[LevelConstraint, ...] = (), facts: PodFacts | None = None) -> SchedulerState:
    """2,000 nodes in racks of 16 and blocks of 8 racks, 70 % full; gangs of 16 to 128 pods with these constraints."""
    state = SchedulerState(Ledger(), PendingQueues())
    state.apply(Flavor("gpu", {}, topology="default", levels=(BLOCK, RACK, HOSTNAME_LABEL)))
    for index in range(2000):
        rack, name = index // 16, f"node-{index:05d}"
        labels = {BLOCK: f"block-{rack // 8:03d}", RACK: f"rack-{rack:04d}", HOSTNAME_LABEL: name}
        state.apply(Node(name, labels, {"cpu": 96_000, GPU: 8 - 2 * quarters(index), "pods": 110}))
    state.apply(_queue("q", 100_000, None))
    topology = TopologyRequest(unconstrained=True, constraints=constraints)
    for at in range(DECISIONS):
        pods = PodSet("main", 16 * (1 + at % 8), {"cpu": 1000, GPU: 1}, topology=topology, facts=facts)
        state.apply(Workload(f"ns/w{at:02d}", f"w{at:02d}", "ns/q", "q", (pods,), queued=float(at)))
    return state


def _cycle(state: SchedulerState, sharing: FairSharingRules | None = None) -> Callable[[], CycleReport]:
    return lambda: decide(state.ledger, state.queues, NOW, DECISIONS, sharing)


PARTS: dict[str, Callable[[], Callable[[], CycleReport]]] = {
    "fair sharing, 100 queues": lambda: _cycle(fair(100, 1), RULES),
    "fair sharing, 300 queues": lambda: _cycle(fair(300, 1), RULES),
    "fair sharing, 300 queues at depth 3": lambda: _cycle(fair(300, 3), RULES),
    "admission fair sharing, 5,000 LocalQueues": lambda: _cycle(usage(5000)),
    "1,000 taints": lambda: _cycle(taints(1000)),
    "10,000 taints": lambda: _cycle(taints(10_000)),
    "32 flavors": lambda: _cycle(flavors(32)),
    "range and factor": lambda: _cycle(constrained(RANGE_AND_FACTOR)),
    "hard spread": lambda: _cycle(constrained(HARD_SPREAD)),
    "topologySpreadConstraints": lambda: _cycle(constrained(facts=EVENLY)),
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
        best, decisions = float("inf"), tuple[Decision, ...]()
        for act in [prepare() for _ in range(repeat)]:
            start = process_time()
            decisions = act().decisions
            best = min(best, process_time() - start)
        digest = sha256(repr(decisions).encode()).hexdigest()[:16]
        print(f"{name}: {1000 * best:.0f} ms, {len(decisions)} decisions {digest}")
