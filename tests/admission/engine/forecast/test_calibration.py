"""How past starts widen later intervals, and what confidence is stated. Issue 21, 3."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.forecast.calibration import Calibration, Calibrations, StartForecast, widened
from tests.budgets import quick

MADE = 1e9


def told(first: float, last: float, *, placed: bool = False, queue: str = "q") -> StartForecast:
    """Returns a forecast with these ends, in seconds from `MADE`, in the replays and as it was told."""
    return StartForecast(MADE + first, MADE + last, 0.9, placed, queue, MADE, MADE + first, MADE + last, MADE + last)


def record_of(waits: Iterable[float], first: float = 100.0, last: float = 1000.0) -> Calibration:
    found = Calibration()
    for wait in waits:
        found = found.after(MADE + wait, told(first, last))
    return found


@pytest.mark.parametrize(
    ("waits", "ends"),
    [
        pytest.param([], (100, 1000), id="nothing known"),
        pytest.param([100, 500, 1000], (100, 1000), id="all were inside"),
        pytest.param([2000], (100, 3000), id="one late: beyond it"),
        pytest.param([50], (100 / 3, 1000), id="one early: beyond it"),
        pytest.param([*[500] * 199, 9000], (100, 1000), id="one of many may be outside"),
        pytest.param([*[500] * 190, *[3000] * 10], (100, 3000), id="more may not"),
        pytest.param([*[9000] * 200, *[500] * 200], (100, 1000), id="what was long ago is forgotten"),
        pytest.param([1e300], (100, 150_000), id="an absurd wait is bounded"),
        pytest.param([-5], (100 / 150, 1000), id="a clock that went back is bounded"),
    ],
)
def test_ends_go_outwards_by_past_ratios(waits: list[float], ends: tuple[float, float]) -> None:
    assert widened(100.0, 1000.0, record_of(waits).factors()) == pytest.approx(ends)


def test_a_start_that_was_expected_at_once_counts_as_of_a_minute() -> None:
    """Else ten seconds of delay where none was expected would widen an interval of an hour beyond all use."""
    late = record_of([30.0] * 100, 0.0, 0.0)
    assert widened(0.0, 3600.0, late.factors()) == pytest.approx((0, 5400))


@settings(max_examples=quick(30), deadline=None)
@given(seed=st.integers(0, 10_000), slow=st.floats(1, 20))
def test_where_later_arrivals_make_all_waits_longer_by_the_same_law_nine_of_ten_intervals_hold(
    seed: int, slow: float
) -> None:
    """Replays know of no later arrival: in overload nearly every wait is longer than in all of them."""
    draw, record, held = Random(seed), Calibration(), 0
    for number in range(400):
        last = draw.uniform(100, 10_000)
        wait = last * slow * draw.lognormvariate(0, 0.5)
        early, late = widened(last / 2, last, record.factors())
        one = StartForecast(MADE + early, MADE + late, 0.9, False, "q", MADE, MADE + last / 2, MADE + last, MADE + late)
        record = record.after(MADE + wait, one)
        held += number >= 100 and early <= wait <= late
    assert held >= 0.87 * 300


@pytest.mark.parametrize(
    ("waits", "confidence", "reliable"),
    [
        pytest.param([], 0.5, True, id="by the replays"),
        pytest.param([5000] * 19, 0.5, True, id="too few starts"),
        pytest.param([500] * 20, 0.9, True, id="measured, and no more than is aimed at"),
        pytest.param([*[500] * 16, *[5000] * 4], 0.8, True, id="as measured"),
        pytest.param([*[500] * 14, *[5000] * 6], 0.7, False, id="too seldom"),
        pytest.param([*[5000] * 200, *[500] * 200], 0.9, True, id="it holds again"),
    ],
)
def test_the_confidence_is_what_was_measured(waits: list[float], confidence: float, reliable: bool) -> None:
    record = record_of(waits)
    assert record.confidence(replays=3) == pytest.approx(confidence)
    assert record.reliable == reliable


def test_what_was_told_without_a_latest_start_says_nothing_about_it() -> None:
    one = StartForecast(MADE + 10, None, 0.9, made=MADE, first=MADE + 10)
    record = Calibration()
    for _ in range(30):
        record = record.after(MADE + 5000, one)
    assert (record.share, widened(10.0, 100.0, record.factors())) == (None, (10, 100))


def test_other_things_delay_workloads_that_need_a_place() -> None:
    found = Calibrations()
    for _ in range(20):
        found = found.after(MADE + 100, told(0.0, 50.0, placed=True)).after(MADE + 10, told(0.0, 50.0))
    assert found.of("q", placed=True).factors()[1] > found.of("q", placed=False).factors()[1] == 1
    assert found.held == 0.5


def test_an_overloaded_queue_does_not_widen_the_intervals_of_another_once_that_is_known() -> None:
    found = Calibrations()
    for _ in range(20):
        assert found.of("calm", placed=False) == found.of("busy", placed=False), "too few are known"
        found = found.after(MADE + 5000, told(10.0, 1000.0, queue="busy"))
        found = found.after(MADE + 500, told(10.0, 1000.0, queue="calm"))
    ends = {queue: widened(10.0, 1000.0, found.of(queue, placed=False).factors()) for queue in ("busy", "calm", "new")}
    assert ends == {"busy": (10, 7500), "calm": (10, 1000), "new": (10, 7500)}
    assert [found.of(queue, placed=False).reliable for queue in ends] == [False, True, False]


def test_records_of_many_queues_are_bounded() -> None:
    found = Calibrations()
    for number in range(500):
        found = found.after(MADE + 5000, told(0.0, 50.0, queue=f"q{number}", placed=number % 2 == 0))
    assert len(found.records) == 34, "of all queues, with a place and without; and the last 32"


@given(waits=st.lists(st.floats(allow_nan=False), max_size=250), last=st.floats(0, 1e300) | st.just(inf))
def test_whatever_is_recorded_ends_are_ordered_and_the_record_is_bounded(waits: list[float], last: float) -> None:
    record = record_of(waits, min(last, 10.0), last)
    early, late = widened(10.0, 20.0, record.factors())
    assert 0 <= early <= 10
    assert 20 <= late < inf
    assert max(map(len, (record.early, record.late, record.held))) <= 200
