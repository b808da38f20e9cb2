"""Which running workloads to move for a gang that no rack holds: 2,000 nodes, 700 movable workloads; CPU ms of one plan.

    python -m tests.bench defrag [--nodes 2000] [--candidates 700] [--repeat 3]

Nodes have 8 GPUs, racks 16 nodes; a fifth of the nodes is free, in every rack some, so that quota and room are there and no
whole rack. Workloads have 1 to 35 pods of a GPU, each on several racks. Limit: 500 ms. Prints also the longest step, after
which the event loop may have its turn (limit 50 ms), how many move, what that costs (device-seconds lost, moves) and what is
proved. No garbage is collected meanwhile, as the controller leaves the cluster out of that (api/process/garbage.py).

Then what a cycle pays for moves while no workload is movable (limit 10 %), and the same gangs by "evict and hope": evict all
workloads of the cheapest rack, let each of their pods go to the node with the most free GPUs, as the stock scheduler and a
descheduler do, and try the gang; again with the next rack, until it fits or every rack was tried.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from heapq import heapify, heappop, heappush
from time import process_time
from typing import Final

from admission.engine.cycle.solve import flavors_of, place
from admission.engine.decide import decide
from admission.engine.features.moves.movers import movers_of
from admission.engine.features.moves.plan import PlanOptions, plan
from admission.engine.features.moves.plans import MovePlan, NoPlan
from admission.engine.features.moves.vacate import vacate
from admission.engine.ledger.holds import HoldKind
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
    ObjectRemoved,
    PodSet,
    PodSetAdmission,
    Quota,
    RemovedKind,
    ResourceGroup,
    RestartTerms,
    TopologyRequest,
    Workload,
)
from admission.engine.queue.queues import PendingQueues
from admission.engine.requests import placement_requests
from admission.engine.scheduler_state import SchedulerState

GPU: Final = "nvidia.com/gpu"
RACK: Final = "rack"
LIMIT_MS: Final = 500.0
LONGEST_STEP_MS: Final = 50.0
NOW: Final = 1_000_000.0
GANGS: Final = {
    "8 x 8, one rack": (8, 8, TopologyRequest(required=RACK)),
    "16 x 8, a whole rack": (16, 8, TopologyRequest(required=RACK)),
    "64 x 1, one rack": (64, 1, TopologyRequest(required=RACK)),
}


def cluster(nodes: int, candidates: int) -> Ledger:
    """A cluster of which every fifth node is free, and whose workloads may all be moved."""
    ledger = Ledger()
    ledger.apply(Flavor("gpu", {}, topology="default", levels=(RACK, HOSTNAME_LABEL)))
    for index in range(nodes):
        labels = {RACK: f"rack-{index // 16:04d}", HOSTNAME_LABEL: _node(index)}
        ledger.apply(Node(_node(index), labels, {"cpu": 96_000, GPU: 8, "pods": 110}))
    quotas = FlavorQuotas("gpu", {"cpu": Quota(8 * nodes * 12_000), GPU: Quota(8 * nodes)})
    ledger.apply(ClusterQueue("q", (ResourceGroup(("cpu", GPU), (quotas,)),)))
    for workload in _running(nodes, candidates):
        ledger.apply(workload)
        assert workload.admission is not None
        assignment = workload.admission.pod_sets[0].assignment
        assert assignment is not None
        for domain in assignment.domains:
            for pod in range(domain.count):
                key = f"{workload.key}-{domain.values[0]}-{pod}"
                ledger.apply(BoundPod(key, domain.values[0], {"cpu": 1000, GPU: 1}, workload.key, "main"))
    return ledger


def _node(index: int) -> str:
    return f"node-{index:05d}"


def _running(nodes: int, candidates: int) -> Iterator[Workload]:
    """One pod a GPU; the nodes of a workload are seven apart."""
    order = [index * 7 % nodes if nodes % 7 else index for index in range(nodes)]
    slots = [index for index in order if index % 5 for _ in range(8)]
    at, usual = 0, len(slots) // candidates
    for index in range(candidates):
        size = min(len(slots) - at, 1 + (index * 7919 + 13) % (2 * usual - 1))
        hosts: dict[str, int] = {}
        for slot in slots[at : at + size]:
            hosts[_node(slot)] = hosts.get(_node(slot), 0) + 1
        at += size
        if hosts:
            yield _workload(f"ns/w{index:04d}", size, index, hosts)


def _workload(key: str, size: int, index: int, hosts: dict[str, int]) -> Workload:
    pod_set = PodSet("main", size, {"cpu": 1000, GPU: 1}, topology=TopologyRequest(unconstrained=True))
    assignment = Assignment((HOSTNAME_LABEL,), tuple(DomainCount((name,), n) for name, n in hosts.items()))
    usage = {"cpu": 1000 * size, GPU: size}
    got = PodSetAdmission("main", dict.fromkeys(usage, "gpu"), usage, size, assignment)
    since = NOW - 3600 - 60 * (index * 31 % 500)
    terms = RestartTerms(movable=True, cost=120, checkpoint=NOW - 60 * (index * 17 % 30))
    running = Workload(key, key, "ns/lq", "q", (pod_set,), reserved=since, admitted=since, restart=terms)
    return replace(running, admission=Admission("q", (got,)))


def gang(pods: int, gpus: int, topology: TopologyRequest) -> Workload:
    """The gang that waits."""
    return Workload(
        "ns/gang", "gang", "ns/lq", "q", (PodSet("main", pods, {"cpu": 1000, GPU: gpus}, topology=topology),)
    )


class _Steps:
    """The longest time between two pauses of a plan."""

    def __init__(self) -> None:
        self.longest, self._began = 0.0, process_time()

    def __call__(self) -> None:
        now = process_time()
        self.longest, self._began = max(self.longest, now - self._began), now


def _measured(name: str, planned: Callable[[PlanOptions], MovePlan | NoPlan], repeat: int) -> None:
    best, longest, found = float("inf"), float("inf"), planned(PlanOptions())
    for _ in range(repeat):
        steps, start = _Steps(), process_time()
        found = planned(PlanOptions(pause=steps))
        best = min(best, process_time() - start)
        steps()
        longest = min(longest, steps.longest)
    if isinstance(found, NoPlan):
        answer = f"no plan: {found.reason}: {found.message} ({found.expanded})"
    else:
        proved = found.certificate
        answer = f"{len(found.moves):>3} moves  {proved.proof} {proved.cost}, bound {proved.bound} ({proved.expanded})"
    slow = "  OVER THE LIMIT" if best * 1000 > LIMIT_MS or longest * 1000 > LONGEST_STEP_MS else ""
    print(f"{name:<22} {best * 1000:7.1f} ms  longest step {longest * 1000:5.1f} ms  {answer}{slow}")


def run(nodes: int = 2000, candidates: int = 700, repeat: int = 3) -> None:
    """Print a line for each gang, and one for a rack that is made free."""
    ledger = cluster(nodes, candidates)
    gc.collect()
    gc.disable()
    for name, (pods, gpus, topology) in GANGS.items():
        waiting = gang(pods, gpus, topology)
        _measured(name, partial(plan, ledger, waiting, NOW), repeat)
    _measured("any rack, without gang", lambda options: vacate(ledger, "gpu", RACK, NOW, options), repeat)
    gc.enable()
    if nodes <= 2000:
        beside(nodes, candidates)


def _cycle_share(nodes: int, candidates: int) -> float:
    """The share of a cycle (percent) that asks for held places, with a waiting gang that no rack holds and nothing to move."""
    ledger, queues = cluster(nodes, candidates), PendingQueues()
    state = SchedulerState(ledger, queues)
    spec = ledger.quota.spec("q")
    assert isinstance(spec, ClusterQueue)
    state.apply(spec)
    state.apply(gang(8, 8, TopologyRequest(required=RACK)))
    start = process_time()
    for _ in range(20):
        state.requeue_all()
        decide(ledger, queues, NOW, 64)
    cycle = (process_time() - start) / 20
    start = process_time()
    for _ in range(20_000):
        with ledger.holds.lifted(HoldKind.PLACE, "ns/gang"):
            pass
    return 100.0 * 3 * (process_time() - start) / 20_000 / cycle  # a head is looked at three times at most


def _hopeful(ledger: Ledger, waiting: Workload) -> tuple[int, int, bool]:
    """Evictions, device-seconds lost, and whether the gang fits, by evicting rack after rack."""
    everybody, spec = movers_of(ledger, NOW, {}).by_key, ledger.quota.spec("q")
    assert isinstance(spec, ClusterQueue)
    evictions = lost = 0
    hosts = {key: _hosts_of(ledger, key) for key in everybody}
    racks = sorted({_rack(host) for own in hosts.values() for host in own})
    inside = {rack: [key for key, own in hosts.items() if any(_rack(host) == rack for host in own)] for rack in racks}
    for rack in sorted(racks, key=lambda rack: (sum(everybody[key].cost for key in inside[rack]), rack)):
        for key in inside[rack]:
            evictions, lost = evictions + 1, lost + everybody[key].cost
            _evicted(ledger, key)
        found = flavors_of(ledger, waiting, spec)
        if place(ledger, placement_requests(waiting, spec, found, ledger.flavors, NOW)).fits:
            return evictions, lost, True
    return evictions, lost, False


def _evicted(ledger: Ledger, key: str) -> None:
    """The workload's pods end and start anew, each on the node that has the most free GPUs then."""
    workload = ledger.workload(key)
    assert workload is not None
    for ended in ledger.allocations.pods_of(key):
        ledger.apply(ObjectRemoved(RemovedKind.POD, ended))
    ledger.release(key)
    tree = ledger.capacity.trees["gpu"]
    free = tree.free(tree.columns.index[GPU])
    assert free is not None
    heap = [(-int(free[row]), host) for host, row in tree.row_of_host.items()]
    heapify(heap)
    hosts: dict[str, int] = {}
    for _ in range(workload.pod_sets[0].count):
        most, host = heappop(heap)
        hosts[host] = hosts.get(host, 0) + 1
        heappush(heap, (most + 1, host))
    started = replace(_workload(key, workload.pod_sets[0].count, 0, hosts), reserved=NOW, admitted=NOW)
    ledger.apply(started)
    for host, count in hosts.items():
        for pod in range(count):
            ledger.apply(BoundPod(f"{key}-{host}-{pod}", host, {"cpu": 1000, GPU: 1}, key, "main"))


def _hosts_of(ledger: Ledger, key: str) -> list[str]:
    admission = ledger.admission(key)
    assignment = None if admission is None else admission.pod_sets[0].assignment
    return [] if assignment is None else [domain.values[0] for domain in assignment.domains]


def _rack(host: str) -> int:
    return int(host.removeprefix("node-")) // 16


def beside(nodes: int = 2000, candidates: int = 700) -> None:
    """Print the share of a cycle, and what evict and hope costs."""
    print(f"a cycle without movable workloads: {_cycle_share(nodes, candidates):.3f} % for moves")
    for name, (pods, gpus, topology) in GANGS.items():
        evictions, lost, fits = _hopeful(cluster(nodes, candidates), gang(pods, gpus, topology))
        print(
            f"{name:<22} evict and hope: {evictions:>5} evictions, {lost:>9} lost, {'starts' if fits else 'never starts'}"
        )


if __name__ == "__main__":
    run()
