"""Backfill on virtual time: heads start when they were told, nobody starves, and the cluster does not idle behind a gang."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.model import QueueingStrategy
from admission.simulation.result import SimulationResult
from tests.admission.engine.builders import BEST, STRICT, queue
from tests.admission.simulation.halls import Job, no_promise_broken, played
from tests.budgets import quick


def job(arrives: int, pods: int, cpus: int, limit: int, spare: int, racked: bool) -> Job:
    """`spare`: how long before its limit it ends; without a limit it runs for so many seconds and one more."""
    return Job(arrives, pods, cpus, limit, max(1, limit - spare) if limit else spare + 1, racked)


def play(
    jobs: Sequence[Job], strategy: QueueingStrategy, *, quota: int = 99, backfill: bool = True, until: float = inf
) -> tuple[SimulationResult, dict[str, float]]:
    """One queue of that strategy."""
    return played(jobs, [replace(queue(strategy=strategy, tas=quota), reserves_starts=backfill)], until)


JOBS = st.lists(
    st.builds(
        job,
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
    no_promise_broken(*play(jobs, strategy, quota=quota))


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
    kept([job(*each, racked=False) for each in (soon, first, seven, six)], BEST, 12)


def stream(limit: int) -> list[Job]:
    """A small job every five seconds, each for twenty: the hall is never quite empty. A gang of a whole rack comes second."""
    small = [job(5 * n, 4, 1, limit, 0 if limit else 19, racked=True) for n in range(60)]
    return [small[0], job(1, 8, 1, 20, 0, racked=True), job(2, 8, 1, 20, 0, racked=True), *small[1:]]


@pytest.mark.parametrize("strategy", [STRICT, BEST])
def test_a_stream_of_small_jobs_does_not_starve_a_gang(strategy: QueueingStrategy) -> None:
    outcome, told = play(stream(20), strategy)
    for gang in ("w001", "w002"):
        admitted = outcome.runs[gang].admitted
        assert admitted is not None
        assert admitted <= told.get(gang, 1)
        assert admitted <= 45


def test_the_hall_does_not_idle_behind_a_gang_in_a_strict_queue() -> None:
    one, gang = job(0, 1, 4, 100, 0, racked=True), job(1, 16, 1, 10, 0, racked=False)
    jobs = [one, gang, *(job(2 + n, 4, 1, 20, 0, racked=True) for n in range(12))]
    with_it, _ = play(jobs, STRICT)
    without, _ = play(jobs, STRICT, backfill=False)
    assert with_it.runs["w001"].admitted == without.runs["w001"].admitted == 100
    assert [early(with_it), early(without)] == [13, 1]


def early(outcome: SimulationResult) -> int:
    """How many started before the gang could."""
    return sum(run.admitted is not None and run.admitted < 100 for run in outcome.runs.values())
