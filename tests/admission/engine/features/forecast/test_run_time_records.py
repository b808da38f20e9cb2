"""Learned run times as records, and records that somebody edited."""

from __future__ import annotations

import json
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.engine.features.forecast.run_time_records import UnreadableRecord, record_of, runs_of
from admission.engine.features.forecast.run_times import (
    BUCKETS,
    LARGEST_COUNT,
    LONGEST,
    RunEstimate,
    RunTimes,
    run_kind,
)

SOUND: dict[str, Any] = {
    "queue": "ns/q",
    "owner": "Job",
    "name": "job-train",
    "least": 10.0,
    "most": 60.0,
    "counts": {"13": 2, "23": 1},
}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 2 * LONGEST)), max_size=60))
def test_what_is_stored_is_read_again_as_it_was(runs: list[tuple[str, float]]) -> None:
    made = RunTimes()
    for name, seconds in runs:
        made.record(run_kind("ns/q", "Job", name), seconds)
    for kind, counted in made.kinds():
        stored = json.loads(json.dumps(record_of(kind, counted)))
        again, read = runs_of(stored)
        assert (again, read.counts) == (kind, counted.counts)
        assert read.least == pytest.approx(counted.least, abs=0.001)
        assert read.most == pytest.approx(counted.most, abs=0.001)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        pytest.param({"queue": "q" * 127}, "queue: 'qqq", id="a long queue"),
        pytest.param({"owner": 7}, "owner: 7: must be a text of at most 63 characters", id="an owner that is a number"),
        pytest.param({"name": None}, "name: None: must be a text", id="no name"),
        pytest.param({"least": -1}, "least: -1: must be seconds from 0 to 315360000", id="a negative time"),
        pytest.param({"most": inf}, "most: inf: must be seconds", id="an infinite time"),
        pytest.param({"most": nan}, "most: nan: must be seconds", id="no number"),
        pytest.param({"most": 10**400}, "most: 1000000", id="a huge time"),
        pytest.param({"most": True}, "most: True: must be seconds", id="a truth value"),
        pytest.param({"least": 61}, "least: 61.0: must be at most most, 60.0", id="the least above the most"),
        pytest.param({"counts": []}, "counts: a list of 0: must be an object of 1 to", id="a list of counts"),
        pytest.param({"counts": {}}, "counts: an object of 0: must be an object of 1 to", id="no counts"),
        pytest.param({"counts": {"-1": 1}}, "counts['-1']: '-1': must be a bucket from 0 to", id="a negative bucket"),
        pytest.param({"counts": {"999": 1}}, "counts['999']: '999': must be a bucket", id="a bucket above the last"),
        pytest.param({"counts": {"9" * 5000: 1}}, "must be a bucket", id="a bucket of many digits"),
        pytest.param({"counts": {"²": 1}}, "must be a bucket", id="a digit that is none"),
        pytest.param({"counts": {"1": -1}}, "counts['1']: -1: must be a whole number from 1 to 1024", id="below 0"),
        pytest.param({"counts": {"1": 0}}, "counts['1']: 0: must be a whole number", id="a count of 0"),
        pytest.param({"counts": {"1": 1.5}}, "counts['1']: 1.5: must be a whole number", id="a part of a run"),
        pytest.param({"counts": {"1": 10**30}}, "must be a whole number", id="a huge count"),
        pytest.param(
            {"counts": {str(n): LARGEST_COUNT for n in range(BUCKETS)}}, "must be at most 1024 runs", id="too many runs"
        ),
    ],
)
def test_a_record_that_was_edited_is_refused_with_its_field(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(UnreadableRecord) as refused:
        runs_of({**SOUND, **changed})
    assert says in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("value", [None, 3, "text", ["a"]])
def test_something_else_than_an_object_is_refused(value: object) -> None:
    with pytest.raises(UnreadableRecord, match="must be an object"):
        runs_of(value)


def test_counts_that_contradict_the_least_and_the_most_give_times_between_them() -> None:
    """Nothing but a forecast is misled, and by no more than the bounds."""
    _, runs = runs_of({**SOUND, "least": 5.0, "most": 6.0})
    found = RunEstimate.of(runs)
    assert all(2.0 <= found.draw(part) <= 12.0 for part in (0.0, 0.1, 0.5, 0.9, 1.0))
