"""Backfill by learned run times on virtual time: however wrong the guesses are, no promised start is late. Issue 21, 3."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.model import Event, QueueingStrategy, TopologyRequest, Workload
from admission.simulation.result import SimulationResult
from admission.simulation.run import simulate
from admission.world.world import Arrival, WorkloadFacts
from tests.admission.engine.builders import BEST, RACK, STRICT, host, queue, racks, workload
from tests.admission.simulation.test_backfill import WatchedWorld
from tests.budgets import quick


@dataclass(frozen=True)
class Job:
    """`limit` 0: it has none. `guess` 0: nothing is known of its run time. It `runs` for so many seconds."""

    arrives: int
    pods: int
    cpus: int
    limit: int
    runs: int
    guess: int
    racked: bool
    elsewhere: bool

    def fits(self) -> bool:
        """In an empty cluster: a workload that never fits stays at the head for ever."""
        return self.pods <= (2 if self.racked else 4) * (4 // self.cpus)

    def workload(self, name: str) -> Workload:
        topology = TopologyRequest(required=RACK) if self.racked else TopologyRequest(unconstrained=True)
        to = "other" if self.elsewhere else "q"
        made = workload(name, self.pods, self.cpus, to=to, topology=topology, queued=float(self.arrives))
        return replace(made, time_limit=float(self.limit) or None, guess=float(self.guess) or None)


JOBS = st.lists(
    st.builds(
        Job,
        arrives=st.integers(0, 60),
        pods=st.integers(1, 8),
        cpus=st.integers(1, 4),
        limit=st.sampled_from((0, 0, 5, 20, 40)),
        runs=st.integers(1, 90),
        guess=st.sampled_from((0, 1, 5, 20, 60)),
        racked=st.booleans(),
        elsewhere=st.booleans(),
    ),
    min_size=2,
    max_size=14,
)


def play(
    jobs: list[Job], strategy: QueueingStrategy, *, by_guess: bool = True
) -> tuple[SimulationResult, dict[str, float]]:
    """Two racks of two hosts of four CPUs, and two queues that share them. Neither borrows: the older workload comes first."""
    world = WatchedWorld()
    specs = [
        replace(queue(name, strategy=strategy, tas=99), backfill=True, by_guess=by_guess) for name in ("q", "other")
    ]
    hall: list[Event] = [racks(), *(host(f"{rack}{n}", rack, 4) for rack in "xy" for n in range(2)), *specs]
    for event in hall:
        world.apply(event)
    for n, job in enumerate(jobs):
        made = job.workload(f"w{n:03}")
        runs = min(job.runs, job.limit) if job.limit else job.runs
        world.about[made.key] = WorkloadFacts(made.key, float(runs))
        world.arrivals.append(Arrival(float(job.arrives), made))
    world.arrivals.sort(key=lambda arrival: arrival.at)
    return simulate(world), world.told


def kept(jobs: list[Job], strategy: QueueingStrategy) -> None:
    jobs = [job for job in jobs if job.fits()]
    outcome, told = play(jobs, strategy)
    for key, start in told.items():
        admitted = outcome.runs[key].admitted
        assert admitted is not None, f"{key} was told {start} and never started"
        assert admitted <= start, f"{key} was told {start}"
    assert all(run.ended is not None for run in outcome.runs.values()), "everything runs in the end"
    for run in outcome.runs.values():
        assert run.evictions == 0 or run.workload.guess is not None, "only those that started by a guess are evicted"


@pytest.mark.parametrize("strategy", [STRICT, BEST])
@settings(max_examples=quick(20), deadline=None)
@given(jobs=JOBS)
def test_no_wrong_guess_delays_a_promised_start(strategy: QueueingStrategy, jobs: list[Job]) -> None:
    kept(jobs, strategy)


@pytest.mark.long
@pytest.mark.parametrize("strategy", [STRICT, BEST])
@settings(max_examples=500, deadline=None)
@given(jobs=JOBS)
def test_no_wrong_guess_delays_a_promised_start_long(strategy: QueueingStrategy, jobs: list[Job]) -> None:
    kept(jobs, strategy)


@pytest.mark.parametrize("strategy", [STRICT, BEST])
@settings(max_examples=quick(10), deadline=None)
@given(jobs=JOBS)
def test_a_job_that_ends_within_its_guess_is_never_evicted(strategy: QueueingStrategy, jobs: list[Job]) -> None:
    right = [replace(job, guess=job.runs) for job in jobs if job.fits()]
    outcome, _ = play(right, strategy)
    assert not any(run.evictions for run in outcome.runs.values())


def test_a_queue_whose_short_jobs_have_no_limit_idles_less() -> None:
    """One long job, a gang behind it, and short jobs that fill the rest of the cluster meanwhile."""
    long = Job(0, 8, 1, 60, 60, 0, racked=True, elsewhere=False)
    gang = Job(1, 16, 1, 0, 10, 0, racked=False, elsewhere=False)
    short = [Job(2, 4, 1, 0, 10, 12, racked=False, elsewhere=False) for _ in range(8)]
    ends = [
        max(run.ended or 0.0 for run in play([long, gang, *short], STRICT, by_guess=by)[0].runs.values())
        for by in (True, False)
    ]
    assert ends == [70.0, 90.0]
