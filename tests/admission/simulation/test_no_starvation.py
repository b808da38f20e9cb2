"""Nobody starves in a BestEffortFIFO queue with backfill, whatever comes behind."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.admission.engine.builders import BEST
from tests.admission.simulation.halls import Job
from tests.admission.simulation.test_backfill import job, play
from tests.budgets import examples

LONGEST = 20
# Three of the four hosts are taken from 0 on, so that neither rack holds the gang; they come free one by one. The gang comes
# next, and all others after it.
FIRST = [job(0, 4, 1, limit, 0, racked=True) for limit in (12, 16, LONGEST)]
GANG = job(1, 8, 1, LONGEST, 0, racked=True)
BEHIND = st.builds(
    job,
    arrives=st.integers(2, 60),
    pods=st.integers(1, 4),
    cpus=st.integers(1, 2),
    limit=st.sampled_from((0, 5, 10, LONGEST)),
    spare=st.sampled_from((0, 3, 30)),
    racked=st.booleans(),
)
STREAM = [job(2 + n, 4, 1, LONGEST, 0, racked=True) for n in range(40)]


@settings(max_examples=examples(12), deadline=None)
@given(behind=st.lists(BEHIND, min_size=1, max_size=40))
@example(behind=STREAM)
def test_a_gang_starts_when_those_before_it_have_ended_whatever_comes_behind(behind: list[Job]) -> None:
    outcome, _ = play([*FIRST, GANG, *behind], BEST)
    started = outcome.runs["w003"].admitted
    assert started is not None
    assert started <= LONGEST


def test_without_it_a_stream_of_small_jobs_does_starve_the_gang() -> None:
    outcome, _ = play([*FIRST, GANG, *STREAM], BEST, backfill=False)
    started = outcome.runs["w003"].admitted
    assert started is not None
    assert started > 2 * LONGEST
