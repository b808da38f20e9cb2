"""Learned run times."""

from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.engine.features.forecast.run_times import (
    LARGEST_COUNT,
    LONGEST,
    RunCounts,
    RunEstimate,
    RunTimes,
    name_pattern,
    run_kind,
)

KIND = run_kind("ns/q", "Job", "job-train-17-a1b2c")


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        pytest.param("job-train-17-a1b2c", "job-train", id="number and generated suffix"),
        pytest.param("job-train7-x1b2c", "job-train#", id="number inside of a word"),
        pytest.param("job-train", "job-train", id="nothing to replace"),
        pytest.param("17", "#", id="a number alone"),
        pytest.param("", "", id="empty"),
        pytest.param("x" * 10_000, "x" * 63, id="too long"),
        pytest.param("-1" * 10_000, "", id="very many suffixes"),
    ],
)
def test_names_that_differ_by_number_or_suffix_are_one_kind(name: str, pattern: str) -> None:
    assert name_pattern(name) == pattern


def times(*seconds: float, limit: int = 512) -> RunTimes:
    made = RunTimes(limit)
    for one in seconds:
        made.record(KIND, one)
    return made


def known(run_times: RunTimes, name: str = "job-train", limit: float | None = None) -> RunEstimate:
    found = run_times.estimate(run_kind("ns/q", "Job", name), limit)
    assert found is not None
    return found


def test_equal_runs_give_exactly_their_time() -> None:
    found = known(times(*[300.0] * 30))
    assert [found.draw(part) for part in (0.0, 0.5, 1.0)] == [300.0] * 3


@pytest.mark.parametrize(
    ("name", "limit", "part", "spent", "least", "most"),
    [
        pytest.param("job-train", None, 0.5, 0.0, 80, 120, id="the middle"),
        pytest.param("job-train", None, 1.0, 0.0, 1000, 1000, id="the longest"),
        pytest.param("job-train", None, 0.5, 200.0, 800, 1000, id="the middle of those that last longer"),
        pytest.param("job-train", None, 0.5, 2000.0, 3000, 3000, id="outlived all"),
        pytest.param("job-train", 90.0, 1.0, 0.0, 90, 90, id="never beyond its limit"),
        pytest.param("job-train", -5.0, 1.0, 0.0, 0, 0, id="negative limit"),
        pytest.param("other", None, 0.5, 0.0, 80, 120, id="unknown name: as the queue"),
    ],
)
def test_a_draw(name: str, limit: float | None, part: float, spent: float, least: float, most: float) -> None:
    found = known(times(*[100.0] * 50, *[1000.0] * 10), name, limit).draw(part, spent)
    assert least <= found <= most


def test_without_runs_only_the_limit_is_known() -> None:
    assert RunTimes().estimate(KIND) is None
    found = RunTimes().estimate(KIND, 60.0)
    assert found is not None
    assert (found.draw(0.0), found.draw(1.0)) == (0.0, 60.0)


@pytest.mark.parametrize("seconds", [-1.0, nan, inf, -inf])
def test_what_is_no_run_time_is_ignored(seconds: float) -> None:
    assert len(times(seconds)) == 0


def test_kinds_and_counts_are_bounded() -> None:
    made = RunTimes(limit=20)
    for number in range(100):
        made.record(run_kind(f"ns/q{number}", "Job", "job"), 1e30)
    assert len(made) == 20
    found = made.estimate(KIND)
    assert found is not None
    assert found.most == LONGEST
    runs = RunCounts()
    for _ in range(3000):
        runs.add(1.0)
    assert LARGEST_COUNT / 4 < runs.total <= LARGEST_COUNT


@given(parts=st.lists(st.floats(0, 1), min_size=2, max_size=5), spent=st.floats(0, 1e6), seconds=st.floats(0, 1e8))
def test_draws_are_ordered_and_never_below_what_was_spent(parts: list[float], spent: float, seconds: float) -> None:
    found = known(times(seconds, seconds / 2, seconds / 7))
    drawn = [found.draw(part, spent) for part in sorted(parts)]
    assert drawn == sorted(drawn)
    assert drawn[0] >= spent
