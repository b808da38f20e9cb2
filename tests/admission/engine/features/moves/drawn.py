"""Drawn clusters of a few hosts, and the steps of a plan on a ledger."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from admission.engine.features.moves.plans import Move, MovePlan
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import CPU as CPUS
from admission.engine.model import NO_TERMS, BoundPod, ObjectRemoved, RemovedKind, Workload
from tests.admission.engine.features.moves.clusters import MOVABLE, Running, cluster, gang, hosts_of, own

PER_HOST = 4
SIZES = ((2, 2), (2, 3), (3, 2))
GANGS = ((2, 4), (3, 2), (2, 3), (1, 4), (4, 2), (5, 1))


class DrawnCluster:
    """Racks of hosts of 4 cpu with one to six workloads of one or two pods, and a gang that wants a rack."""

    def __init__(self, seed: int) -> None:
        draw = Random(seed)
        self.per_rack, self.racks = draw.choice(SIZES)
        self.runs = _runs(draw, self.per_rack * self.racks)
        self.pods, self.each = draw.choice(GANGS)
        self.gang: Workload = gang(self.pods, self.each)

    @property
    def rack_of(self) -> dict[str, str]:
        """The rack of each host."""
        return {f"h{index}": f"r{index // self.per_rack}" for index in range(self.per_rack * self.racks)}

    def ledger(self, within: str = "Never") -> Ledger:
        """A new ledger of it, with just enough quota for all workloads and the gang. `within` is `withinClusterQueue`."""
        used = sum(one.cpus * count for one in self.runs.values() for count in one.hosts.values())
        return cluster(
            self.runs,
            own(used + self.pods * self.each, within=within),
            racks_of=self.per_rack,
            count=self.racks,
            cpus=PER_HOST,
        )


def _runs(draw: Random, hosts: int) -> dict[str, Running]:
    free, runs = {f"h{index}": PER_HOST for index in range(hosts)}, {}
    for index in range(draw.randint(1, 6)):
        cpus, used = draw.choice((1, 1, 2, 3, 4)), dict[str, int]()
        for _ in range(draw.randint(1, 2)):
            if wide := [host for host in free if free[host] >= cpus]:
                host = draw.choice(wide)
                used[host] = used.get(host, 0) + 1
                free[host] -= cpus
        if used:
            terms = MOVABLE if draw.random() < 0.8 else NO_TERMS
            runs[f"w{index}"] = Running(used, cpus, ran=draw.choice((700, 1000, 1500, 3000)), moves=terms)
    return runs


def carry_out(ledger: Ledger, plan: MovePlan, gang: Workload, check: Callable[[], None]) -> None:
    """Makes the plan step by step; `check` is called after each step.

    First each mover gets its new place while its pods run, then its pods end and start anew, then the gang is charged.
    """
    for move in plan.moves:
        workload = ledger.workload(move.workload)
        assert workload is not None
        ledger.charge(workload, move.after)
        check()
    for move in plan.moves:
        _start_anew(ledger, move, check)
    assert plan.admission is not None
    ledger.charge(gang, plan.admission)
    check()


def _start_anew(ledger: Ledger, move: Move, check: Callable[[], None]) -> None:
    got = move.before.pod_sets[0]
    for host, count in hosts_of(move.before).items():
        for pod in range(count):
            ledger.apply(ObjectRemoved(RemovedKind.POD, f"{move.workload}-{host}-{pod}"))
            check()
    for host, count in hosts_of(move.after).items():
        for pod in range(count):
            amounts = {CPUS: got.usage[CPUS] // got.count}
            ledger.apply(BoundPod(f"{move.workload}-{host}-{pod}", host, amounts, move.workload, "main"))
            check()


def overfull(ledger: Ledger) -> list[str]:
    """The hosts on which more is used than they have."""
    tree = ledger.capacity.trees["tas"]
    column = tree.columns.index[CPUS]
    return [host for host, row in tree.row_of_host.items() if tree.free_at(row, column) < 0]
