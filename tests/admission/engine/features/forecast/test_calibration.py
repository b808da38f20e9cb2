"""How past starts widen later intervals, and what confidence is stated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import inf
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.features.forecast.calibration import WINDOW, Calibration, Calibrations, StartForecast, widened
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


def within(waits: Iterable[float]) -> tuple[float, float]:
    """Returns the ends of an interval of 100 to 1,000 s, after these waits of workloads that had been told the same."""
    return widened(100.0, 1000.0, record_of(waits).factors())


def test_while_nothing_is_known_ends_are_far_outside_and_come_closer() -> None:
    """Run times are known from few runs then, and of later arrivals nothing."""
    ends = [within([500.0] * number) for number in (0, 5, 20, 60, 200)]
    assert ends[0][0] < 50
    assert ends[0][1] > 5000
    assert ends == sorted(ends, key=lambda each: each[0] - each[1])
    assert ends[-1] == (100, 1000)


@pytest.mark.parametrize(
    ("waits", "at_most", "at_least"),
    [
        pytest.param([*[500] * 199, 9000], (100, 100), (1000, 1000), id="one of many may be outside"),
        pytest.param([*[500] * 160, *[3000] * 40], (20, 100), (3000, 8000), id="a fifth may not"),
        pytest.param([*[500] * 160, *[20] * 40], (20, 20), (1000, 8000), id="nor before it"),
        pytest.param([*[9000] * 200, *[500] * 200], (100, 100), (1000, 1000), id="what was long ago is forgotten"),
        pytest.param([1e300] * 200, (0, 100), (150_000, 150_000), id="an absurd wait is bounded"),
        pytest.param([-5] * 200, (0.6, 0.7), (1000, 8000), id="a clock that went back is bounded"),
    ],
)
def test_ends_go_outwards_by_past_ratios(
    waits: list[float], at_most: tuple[float, float], at_least: tuple[float, float]
) -> None:
    early, late = within(waits)
    assert at_most[0] <= early <= at_most[1] + 1e-9
    assert at_least[0] - 1e-6 <= late <= at_least[1] + 1e-6


def test_intervals_that_missed_make_the_next_ones_wider_than_the_ratios_alone() -> None:
    """Where waits become longer all the time each interval is too short for the next one."""
    ratios = tuple(1 + number / 100 for number in range(WINDOW))
    held, missed = (Calibration(late=ratios, held=(value,) * 40) for value in (True, False))
    assert missed.factors()[1] > 2.9 > held.factors()[1]


def test_a_start_that_was_expected_at_once_counts_as_of_a_minute() -> None:
    """Else ten seconds of delay where none was expected would widen an interval of an hour beyond all use."""
    late = replace(record_of([30.0] * WINDOW, 0.0, 0.0), held=(True,) * WINDOW)
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
    assert 0.87 * 300 <= held <= 0.96 * 300


@pytest.mark.parametrize(
    ("held", "confidence", "reliable"),
    [
        pytest.param([], 0.9, True, id="as aimed at"),
        pytest.param([False] * 5, 5.4 / 11, True, id="five misses count, and are too few to tell nothing more"),
        pytest.param([True] * 16 + [False] * 4, 21.4 / 26, True, id="as measured"),
        pytest.param([True] * 14 + [False] * 6, 19.4 / 26, False, id="too seldom"),
        pytest.param([True] * 40, 45.4 / 46, True, id="more often than aimed at"),
        pytest.param([False] * 160 + [True] * 40, 45.4 / 46, True, id="it holds again lately"),
        pytest.param([False] * 200 + [True] * 200, 45.4 / 46, True, id="it holds again"),
    ],
)
def test_the_confidence_is_what_was_measured(held: list[bool], confidence: float, reliable: bool) -> None:
    record = record_of(500.0 if each else 1e9 for each in held)
    record = replace(record, held=tuple(held)[-WINDOW:])
    assert record.confidence == pytest.approx(confidence)
    assert record.reliable == reliable


def test_an_interval_that_is_over_counts_before_its_workload_starts_and_only_once() -> None:
    one = told(10.0, 1000.0)
    waits = Calibrations().after_miss(one)
    assert waits.of("q", placed=False).confidence < 0.8
    starts = waits.after(MADE + 5000, replace(one, missed=True))
    assert starts.of("q", placed=False).held == (False,)
    assert starts.of("q", placed=False).late == (5.0,)
    unknown = StartForecast(MADE + 10, None, 0.9, made=MADE, first=MADE + 10)
    assert Calibrations().after_miss(unknown) == Calibrations()


def test_what_was_told_without_a_latest_start_says_nothing_about_it() -> None:
    one = StartForecast(MADE + 10, None, 0.9, made=MADE, first=MADE + 10)
    record = Calibration()
    for _ in range(30):
        record = record.after(MADE + 5000, one)
    assert (record.held, record.late, record.confidence) == ((), (), 0.9)


def test_other_things_delay_workloads_that_need_a_place() -> None:
    found = Calibrations()
    for _ in range(100):
        found = found.after(MADE + 100, told(0.0, 50.0, placed=True)).after(MADE + 10, told(0.0, 50.0))
    assert found.of("q", placed=True).factors()[1] > found.of("q", placed=False).factors()[1] == 1
    assert found.held == 0.5


def test_an_overloaded_queue_does_not_widen_the_intervals_of_another_once_that_is_known() -> None:
    found = Calibrations()
    for _ in range(40):
        assert found.of("calm", placed=False) == found.of("busy", placed=False), "too few are known"
        found = found.after(MADE + 5000, told(10.0, 1000.0, queue="busy"))
        found = found.after(MADE + 500, told(10.0, 1000.0, queue="calm"))
    late = {queue: found.of(queue, placed=False).factors()[1] for queue in ("busy", "calm", "new")}
    assert late["new"] >= 5
    assert late["busy"] >= 5
    assert late["calm"] < 3
    assert [found.of(queue, placed=False).reliable for queue in late] == [False, True, False]


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
