"""Learned run times and their text. Issue 21, 3."""

from __future__ import annotations

import json
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.engine.forecast.calibration import Calibration
from admission.engine.forecast.run_times import LARGEST_COUNT, LONGEST, RunEstimate, RunTimes, name_pattern, run_kind
from admission.engine.forecast.stored import LARGEST_TEXT, decoded, encoded

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


def known(made: RunTimes, name: str = "job-train", limit: float | None = None) -> RunEstimate:
    found = made.estimate(run_kind("ns/q", "Job", name), limit)
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
    assert all(runs.total <= LARGEST_COUNT and runs.most == LONGEST for _, runs in made.items())
    assert max(runs.total for _, runs in times(*[1.0] * 3000).items()) <= LARGEST_COUNT


GOOD = ["ns/q", "Job", "job-train", 1.0, 2.0, [[3, 4]]]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param(None, True, id="nothing"),
        pytest.param(7, True, id="no text"),
        pytest.param("{", True, id="no JSON"),
        pytest.param("[" * 100_000, True, id="too deep"),
        pytest.param("\ud800", True, id="half a character"),
        pytest.param("x" * (LARGEST_TEXT + 1), True, id="too long"),
        pytest.param("[]", True, id="a list"),
        pytest.param('{"kinds": 3}', True, id="kinds that are none"),
        pytest.param('{"kinds": []}', False, id="without calibration"),
    ],
)
def test_a_text_that_cannot_be_read_teaches_nothing(text: object, fault: bool) -> None:
    found = decoded(text)
    assert (len(found.times), found.calibration, bool(found.fault)) == (0, Calibration(), fault)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(3, id="no list"),
        pytest.param([*GOOD, 1], id="too many values"),
        pytest.param([1, *GOOD[1:]], id="queue is a number"),
        pytest.param(["x" * 1000, *GOOD[1:]], id="long queue"),
        pytest.param([*GOOD[:3], -1, 2, [[3, 4]]], id="negative time"),
        pytest.param([*GOOD[:3], True, 2, [[3, 4]]], id="bool for a time"),
        pytest.param([*GOOD[:3], 2, 1, [[3, 4]]], id="least above most"),
        pytest.param([*GOOD[:3], 1, 1e300, [[3, 4]]], id="huge time"),
        pytest.param([*GOOD[:5], []], id="no counts"),
        pytest.param([*GOOD[:5], [[3, -4]]], id="negative count"),
        pytest.param([*GOOD[:5], [[10**9, 4]]], id="no such bucket"),
        pytest.param([*GOOD[:5], [[3, 1.5]]], id="half a run"),
    ],
)
def test_a_bad_entry_is_skipped_and_the_rest_is_read(row: object) -> None:
    found = decoded(json.dumps({"kinds": [row, GOOD], "calibration": [0, 0, 0, 0]}))
    assert (len(found.times), found.skipped, found.fault) == (1, 1, "")


def test_a_huge_count_is_cut() -> None:
    found = decoded(json.dumps({"kinds": [[*GOOD[:5], [[3, 10**18]]]], "calibration": [0, 0, 0, 0]}))
    assert [runs.total for _, runs in found.times.items()] == [LARGEST_COUNT]


@pytest.mark.parametrize("values", [[0, 0, 2, 1], [9e9, 0, 0, 0], ["a", 0, 0, 0], [0, 0, -1, 0], [0, 0, 0, 10**12]])
def test_a_bad_calibration_is_none(values: list[object]) -> None:
    found = decoded(json.dumps({"kinds": [], "calibration": values}))
    assert (found.calibration, found.skipped) == (Calibration(), 1)


@given(runs=st.lists(st.tuples(st.text(max_size=80), st.floats(0, 1e9)), max_size=30))
def test_what_was_learned_survives_as_text(runs: list[tuple[str, float]]) -> None:
    made = RunTimes()
    for name, seconds in runs:
        made.record(run_kind("ns/q", "Job", name), seconds)
    text = encoded(made, Calibration(0.1, 0.2, 3, 4))
    found = decoded(text)
    assert (found.skipped, found.fault, found.calibration) == (0, "", Calibration(0.1, 0.2, 3, 4))
    assert list(found.times.items()) == list(made.items())


@given(parts=st.lists(st.floats(0, 1), min_size=2, max_size=5), spent=st.floats(0, 1e6), seconds=st.floats(0, 1e8))
def test_draws_are_ordered_and_never_below_what_was_spent(parts: list[float], spent: float, seconds: float) -> None:
    found = known(times(seconds, seconds / 2, seconds / 7))
    drawn = [found.draw(part, spent) for part in sorted(parts)]
    assert drawn == sorted(drawn)
    assert drawn[0] >= spent


def test_misses_move_an_end_outwards_and_hits_bring_it_back() -> None:
    late = Calibration().after(200.0, 0.0, 100.0)
    assert late.widened(50.0, 100.0)[1] > 100.0
    for _ in range(100):
        late = late.after(50.0, 0.0, 100.0)
    assert late.widened(50.0, 100.0) == (50.0, 100.0)
    assert (late.held, late.seen) == (100, 101)
