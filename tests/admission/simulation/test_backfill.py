"""Backfill on virtual time: heads start when they were told, nobody starves, and the cluster does not idle behind a gang."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.cycle.cycle import CycleReport
from admission.engine.model import Event, QueueingStrategy, TopologyRequest, Workload
from admission.engine.queue.cluster_queue import order_of
from admission.simulation.result import SimulationResult
from admission.simulation.run import simulate
from admission.world.world import Arrival, WorkloadFacts, World
from tests.admission.engine.builders import BEST, RACK, STRICT, host, queue, racks, workload
from tests.budgets import quick


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
    """`spare`: how long before its limit it ends; `limit` 0: it has none, and runs for `spare` seconds."""

    arrives: int
    pods: int
    cpus: int
    limit: int
    spare: int
    racked: bool

    @property
    def runs(self) -> int:
        return max(1, self.limit - self.spare) if self.limit else self.spare + 1

    def fits(self, quota: int) -> bool:
        """In an empty cluster: a workload that never fits stays at the head for ever."""
        return self.pods <= (2 if self.racked else 4) * (4 // self.cpus) and self.pods * self.cpus <= quota

    def workload(self, name: str) -> Workload:
        topology = TopologyRequest(required=RACK) if self.racked else TopologyRequest(unconstrained=True)
        made = workload(name, self.pods, self.cpus, topology=topology, queued=float(self.arrives))
        return replace(made, time_limit=float(self.limit) if self.limit else None)


def play(
    jobs: list[Job], strategy: QueueingStrategy, *, quota: int = 99, backfill: bool = True, until: float = inf
) -> tuple[SimulationResult, dict[str, float]]:
    """Two racks of two hosts of four CPUs."""
    world = WatchedWorld()
    spec = replace(queue(strategy=strategy, tas=quota), backfill=backfill)
    hosts = [host(f"{rack}{n}", rack, 4) for rack in "xy" for n in range(2)]
    hall: list[Event] = [racks(), *hosts, spec]
    for event in hall:
        world.apply(event)
    for n, job in enumerate(jobs):
        made = job.workload(f"w{n:03}")
        world.about[made.key] = WorkloadFacts(made.key, float(job.runs))
        world.arrivals.append(Arrival(float(job.arrives), made))
    world.arrivals.sort(key=lambda arrival: arrival.at)
    return simulate(world, until=until), world.told


JOBS = st.lists(
    st.builds(
        Job,
        arrives=st.integers(0, 60),
        pods=st.integers(1, 8),
        cpus=st.integers(1, 4),
        limit=st.sampled_from((0, 5, 10, 20, 40, 80)),
        spare=st.sampled_from((0, 0, 3, 9, 30)),
        racked=st.booleans(),
    ),
    min_size=2,
    max_size=14,
)


def kept(jobs: list[Job], strategy: QueueingStrategy, quota: int) -> None:
    jobs = [job for job in jobs if job.fits(quota)]
    outcome, told = play(jobs, strategy, quota=quota)
    for key, start in told.items():
        admitted = outcome.runs[key].admitted
        assert admitted is not None, f"{key} was told {start} and never started"
        assert admitted <= start, f"{key} was told {start}"


@pytest.mark.parametrize("strategy", [STRICT, BEST])
@settings(max_examples=quick(10), deadline=None)
@given(jobs=JOBS, quota=st.sampled_from((9, 12, 99)))
def test_no_head_starts_later_than_first_expected(strategy: QueueingStrategy, jobs: list[Job], quota: int) -> None:
    kept(jobs, strategy, quota)


@pytest.mark.long
@pytest.mark.parametrize("strategy", [STRICT, BEST])
@settings(max_examples=500, deadline=None)
@given(jobs=JOBS, quota=st.sampled_from((9, 12, 99)))
def test_no_head_starts_later_than_first_expected_long(strategy: QueueingStrategy, jobs: list[Job], quota: int) -> None:
    kept(jobs, strategy, quota)


def test_the_next_head_after_a_borrower_gets_a_new_expected_start() -> None:
    """Nobody could say when the seven pods would start, so the six CPUs were told the end of the first job."""
    first, soon, seven, six = (26, 6, 1, 0, 9), (0, 1, 1, 40, 0), (26, 7, 1, 5, 0), (26, 2, 3, 0, 0)
    kept([Job(*each, racked=False) for each in (soon, first, seven, six)], BEST, 12)


def stream(limit: int) -> list[Job]:
    """A small job every five seconds, each for twenty: the hall is never quite empty. A gang of a whole rack comes second."""
    small = [Job(5 * n, 4, 1, limit, 0 if limit else 19, racked=True) for n in range(60)]
    return [small[0], Job(1, 8, 1, 20, 0, racked=True), Job(2, 8, 1, 20, 0, racked=True), *small[1:]]


@pytest.mark.parametrize("strategy", [STRICT, BEST])
def test_a_stream_of_small_jobs_does_not_starve_a_gang(strategy: QueueingStrategy) -> None:
    outcome, told = play(stream(20), strategy)
    for gang in ("w001", "w002"):
        admitted = outcome.runs[gang].admitted
        assert admitted is not None
        assert admitted <= told.get(gang, 1)
        assert admitted <= 45


def test_the_hall_does_not_idle_behind_a_gang_in_a_strict_queue() -> None:
    one, gang = Job(0, 1, 4, 100, 0, racked=True), Job(1, 16, 1, 10, 0, racked=False)
    jobs = [one, gang, *(Job(2 + n, 4, 1, 20, 0, racked=True) for n in range(12))]
    with_it, _ = play(jobs, STRICT)
    without, _ = play(jobs, STRICT, backfill=False)
    assert with_it.runs["w001"].admitted == without.runs["w001"].admitted == 100
    assert [early(with_it), early(without)] == [13, 1]


def early(outcome: SimulationResult) -> int:
    """How many started before the gang could."""
    return sum(run.admitted is not None and run.admitted < 100 for run in outcome.runs.values())
