"""Backfill by learned run times on virtual time: however wrong the guesses are, no promised start is late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.model import QueueingStrategy
from admission.simulation.result import SimulationResult
from tests.admission.engine.builders import BEST, STRICT, queue
from tests.admission.simulation.halls import Job, no_promise_broken, played
from tests.budgets import quick

QUOTA = 99


JOBS = st.lists(
    st.builds(
        Job,
        arrives=st.integers(0, 60),
        pods=st.integers(1, 8),
        cpus=st.integers(1, 4),
        limit=st.sampled_from((0, 0, 5, 20, 40)),
        work=st.integers(1, 90),
        guess=st.sampled_from((0, 1, 5, 20, 60)),
        racked=st.booleans(),
        to=st.sampled_from(("q", "other")),
    ),
    min_size=2,
    max_size=14,
)


def play(
    jobs: Sequence[Job], strategy: QueueingStrategy, *, by_guess: bool = True
) -> tuple[SimulationResult, dict[str, float]]:
    """Two queues share the cluster. Neither borrows: the older workload comes first."""
    queues = (queue(name, strategy=strategy, tas=QUOTA) for name in ("q", "other"))
    return played(jobs, [replace(each, reserves_starts=True, by_guess=by_guess) for each in queues])


def kept(jobs: list[Job], strategy: QueueingStrategy) -> None:
    outcome, told = play([job for job in jobs if job.fits(QUOTA)], strategy)
    no_promise_broken(outcome, told)
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
    right = [replace(job, guess=job.runs) for job in jobs if job.fits(QUOTA)]
    outcome, _ = play(right, strategy)
    assert not any(run.evictions for run in outcome.runs.values())


def test_a_queue_whose_short_jobs_have_no_limit_idles_less() -> None:
    """One long job, a gang behind it, and short jobs that fill the rest of the cluster meanwhile."""
    long = Job(0, 8, 1, 60, 60, racked=True)
    gang = Job(1, 16, 1, 0, 10, racked=False)
    short = [Job(2, 4, 1, 0, 10, racked=False, guess=12) for _ in range(8)]
    ends = [
        max(run.ended or 0.0 for run in play([long, gang, *short], STRICT, by_guess=by)[0].runs.values())
        for by in (True, False)
    ]
    assert ends == [70.0, 90.0]
