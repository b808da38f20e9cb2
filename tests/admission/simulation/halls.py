"""Jobs in a small cluster with backfill, and what its heads were told: for properties of simulations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf

from admission.engine.cycle.cycle import CycleReport
from admission.engine.model import ClusterQueue, Event, TopologyRequest, Workload
from admission.engine.queue.cluster_queue import order_of
from admission.simulation.result import SimulationResult
from admission.simulation.run import simulate
from admission.world.world import Arrival, WorkloadFacts, World
from tests.admission.engine.builders import RACK, host, racks, workload


class WatchedWorld(World):
    """A world that remembers when each head, the foremost of those that wait, was first told that it would start."""

    def __init__(self) -> None:
        super().__init__()
        self.told: dict[str, float] = {}

    def cycle(self) -> CycleReport:
        report = super().cycle()
        foremost = min(map(order_of, self.queues.workloads()), default=None)
        for head, reservation in self.queues.starts.all():
            if order_of(head) == foremost:
                self.told.setdefault(head.key, reservation.start)
        assert self.ledger.audit() == []
        return report


@dataclass(frozen=True)
class Job:
    """It wants to run for `work` seconds. `limit` 0: it has none; `guess` 0: nothing is known of its run time."""

    arrives: int
    pods: int
    cpus: int
    limit: int
    work: int
    racked: bool
    guess: int = 0
    to: str = "q"

    @property
    def runs(self) -> int:
        """The seconds after which it ends, by itself or at its limit."""
        return min(self.work, self.limit) if self.limit else self.work

    def fits(self, quota: int) -> bool:
        """In an empty cluster: a workload that never fits stays at the head for ever."""
        return self.pods <= (2 if self.racked else 4) * (4 // self.cpus) and self.pods * self.cpus <= quota

    def workload(self, name: str) -> Workload:
        topology = TopologyRequest(required=RACK) if self.racked else TopologyRequest(unconstrained=True)
        made = workload(name, self.pods, self.cpus, to=self.to, topology=topology, queued=float(self.arrives))
        return replace(made, time_limit=float(self.limit) or None, guess=float(self.guess) or None)


def played(
    jobs: Sequence[Job], queues: Iterable[ClusterQueue], until: float = inf
) -> tuple[SimulationResult, dict[str, float]]:
    """Two racks of two hosts of four CPUs. Also returns what each head was told."""
    world = WatchedWorld()
    hall: list[Event] = [racks(), *(host(f"{rack}{n}", rack, 4) for rack in "xy" for n in range(2)), *queues]
    for event in hall:
        world.apply(event)
    for n, job in enumerate(jobs):
        made = job.workload(f"w{n:03}")
        world.about[made.key] = WorkloadFacts(made.key, float(job.runs))
        world.arrivals.append(Arrival(float(job.arrives), made))
    world.arrivals.sort(key=lambda arrival: arrival.at)
    return simulate(world, until=until), world.told


def no_promise_broken(outcome: SimulationResult, told: dict[str, float]) -> None:
    """Every head that was told a start has started by then."""
    for key, start in told.items():
        admitted = outcome.runs[key].admitted
        assert admitted is not None, f"{key} was told {start} and never started"
        assert admitted <= start, f"{key} was told {start}"
