"""Forecasts of starts against the engine that decides."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.features.forecast.calibration import Calibration, Calibrations, StartForecast
from admission.engine.features.forecast.inputs import inputs_of
from admission.engine.features.forecast.run_times import RunEstimate, RunTimes, run_kind
from admission.engine.features.forecast.starts import forecast
from admission.engine.model import Event, Flavor, QueueingStrategy, Quota, Workload
from admission.simulation.run import simulate
from admission.world.world import WorkloadFacts, World
from tests.admission.engine.builders import BEST, CPU, STRICT, queue, workload
from tests.admission.engine.features.forecast.known import CERTAIN
from tests.budgets import quick

NOW = 1_000.0


def world(jobs: list[Workload], *events: Event) -> World:
    made = World(now=NOW)
    for event in (*(events or (Flavor("f"), queue(f=4))), *jobs):
        made.apply(event)
    return made


def estimates(seconds: dict[str, float]) -> RunTimes:
    made = RunTimes()
    for name, each in seconds.items():
        for _ in range(30):
            made.record(run_kind("ns/q", "Job", name), each)
    return made


def told(scene: World, times: RunTimes, calibrations: Calibrations = CERTAIN) -> dict[str, StartForecast]:
    def estimate(job: Workload) -> RunEstimate | None:
        return times.estimate(run_kind("ns/q", "Job", job.key), job.time_limit)

    return forecast(inputs_of(scene.ledger, scene.queues, NOW, estimate), calibrations)


def intervals(scene: World, run_times: RunTimes) -> dict[str, tuple[float | None, float | None]]:
    found = told(scene, run_times)
    return {key: (_seconds(one.earliest), _seconds(one.latest)) for key, one in found.items()}


def _seconds(at: float | None) -> float | None:
    return None if at is None else round(at - NOW, 3)


HUNDRED = estimates({"a": 100.0, "b": 100.0, "c": 100.0, "small": 10.0})


@pytest.mark.parametrize(
    ("strategy", "jobs", "wanted"),
    [
        pytest.param(STRICT, [("a", 4), ("b", 4)], {"a": 0, "b": 100}, id="one after the other"),
        pytest.param(BEST, [("a", 2), ("b", 4), ("small", 2)], {"a": 0, "b": 100, "small": 0}, id="a small one passes"),
        pytest.param(STRICT, [("a", 2), ("b", 4), ("small", 2)], {"a": 0, "b": 100, "small": 200}, id="strict order"),
        pytest.param(BEST, [("a", 9), ("b", 4)], {"b": 0}, id="one that never fits has no forecast"),
    ],
)
def test_certain_run_times_give_a_certain_start(
    strategy: QueueingStrategy, jobs: list[tuple[str, int]], wanted: dict[str, float]
) -> None:
    made = [workload(key, 1, cpus, queued=float(n)) for n, (key, cpus) in enumerate(jobs)]
    found = intervals(world(made, Flavor("f"), queue(strategy=strategy, f=4)), HUNDRED)
    assert found == {key: (at, at) for key, at in wanted.items()}


def test_priority_comes_before_time() -> None:
    made = world([workload("a", 1, 4), workload("b", 1, 4, queued=5.0, priority=1)])
    assert intervals(made, HUNDRED) == {"b": (0, 0), "a": (100, 100)}


def test_one_that_runs_ends_by_what_is_left_of_its_time() -> None:
    made = world([workload("a", 1, 4), workload("b", 1, 4, queued=1.0)])
    made.cycle()
    started = made.ledger.workload("a")
    assert started is not None
    made.apply(replace(started, admitted=NOW - 60))
    assert intervals(made, HUNDRED) == {"b": (40, 40)}


def test_quota_that_a_cohort_lends_is_counted() -> None:
    lender = queue("lender", cohort="c", f=4)
    borrower = queue(cohort="c", f=Quota(0, borrowing_limit=2 * CPU))
    made = world([workload("a", 1, 2), workload("b", 1, 2, queued=1.0)], Flavor("f"), lender, borrower)
    assert intervals(made, HUNDRED)["b"] == (100, 100)


def test_the_second_flavor_is_used_when_the_first_is_full() -> None:
    made = world([workload("a", 1, 4), workload("b", 1, 4)], Flavor("f"), Flavor("g"), queue(f=4, g=4))
    assert intervals(made, HUNDRED) == {"a": (0, 0), "b": (0, 0)}


def test_a_time_limit_alone_gives_everything_up_to_it() -> None:
    made = world([replace(workload("a", 1, 4), time_limit=60.0), workload("b", 1, 4, queued=1.0)])
    assert intervals(made, RunTimes())["b"] == (0, 60)


def test_nothing_known_is_no_forecast() -> None:
    made = world([workload("a", 1, 4), workload("b", 1, 4, queued=1.0)])
    assert intervals(made, RunTimes()) == {"a": (0, 0)}


def test_a_reserved_start_is_the_latest() -> None:
    known = estimates({"a": 1000.0, "b": 100.0})
    made = world(
        [workload("a", 1, 4), workload("b", 1, 4, queued=1.0)], Flavor("f"), replace(queue(f=4), reserves_starts=True)
    )
    made.cycle()
    started = made.ledger.workload("a")
    assert started is not None
    made.apply(replace(started, admitted=NOW, time_limit=60.0))
    made.state.requeue_all()
    made.cycle()
    made.apply(replace(started, admitted=NOW))
    assert intervals(made, known)["b"] == (60, 60)


@pytest.mark.parametrize(
    ("held", "reliable"), [pytest.param(15, True, id="often enough"), pytest.param(14, False, id="too seldom")]
)
def test_while_past_intervals_seldom_held_no_latest_start_is_told(held: int, *, reliable: bool) -> None:
    made = world([workload("a", 1, 4), workload("b", 1, 4, queued=1.0)])
    record = Calibration(held=tuple(number < held for number in range(20)))
    found = told(made, HUNDRED, Calibrations({("", False): record}))["b"]
    assert found.latest == (found.until if reliable else None)
    assert found.earliest < NOW + 100 < found.until


def test_a_reserved_start_is_told_whatever_was_missed_before() -> None:
    made = world([workload("a", 1, 4), workload("b", 1, 4, queued=1.0)])
    inputs = inputs_of(made.ledger, made.queues, NOW, lambda job: HUNDRED.estimate(run_kind("ns/q", "Job", job.key)))
    promised = tuple(replace(one, reserved=NOW + 60) for one in inputs.waiting)
    found = forecast(replace(inputs, waiting=promised), Calibrations({("", False): Calibration(held=(False,) * 20)}))
    assert found["b"].latest == NOW + 60


def test_a_backoff_is_waited_for() -> None:
    made = world([replace(workload("a", 1, 4), not_before=NOW + 30)])
    assert intervals(made, HUNDRED) == {"a": (30, 30)}


@pytest.mark.parametrize("limit", [-1e9, 0.0, 1e300])
def test_an_absurd_limit_still_gives_an_ordered_interval(limit: float) -> None:
    jobs = [replace(workload(name, 1, 4, queued=float(n)), time_limit=limit) for n, name in enumerate("ab")]
    for one in told(world(jobs), RunTimes()).values():
        assert one.latest is not None
        assert NOW <= one.earliest <= one.latest


def test_while_nothing_was_compared_intervals_are_wider_than_the_replays() -> None:
    """How long one kind of jobs runs is known, and nothing of what comes later."""
    made = world([workload("a", 1, 4), workload("b", 1, 4, queued=1.0)])
    first, later = (told(made, HUNDRED, known)["b"] for known in (Calibrations(), CERTAIN))
    assert (later.earliest, later.latest) == (NOW + 100, NOW + 100)
    assert first.latest is not None
    assert first.earliest <= NOW + 30
    assert first.latest >= NOW + 400
    assert first.confidence == 0.9


def test_a_queue_that_is_stopped_has_none() -> None:
    assert intervals(world([workload("a")], Flavor("f"), replace(queue(f=4), inactive="stopped")), HUNDRED) == {}


JOBS = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 300), st.integers(0, 2)), min_size=1, max_size=25)


@pytest.mark.parametrize("strategy", [STRICT, BEST])
@settings(max_examples=quick(30), deadline=None)
@given(drawn=JOBS)
def test_where_all_runs_are_as_learned_each_starts_within_its_interval(
    strategy: QueueingStrategy, drawn: list[tuple[int, int, int]]
) -> None:
    names = ["".join("abcdefghij"[int(digit)] for digit in str(n)) for n in range(len(drawn))]
    jobs = [
        workload(name, 1, cpus, queued=float(n), priority=priority)
        for n, (name, (cpus, _, priority)) in enumerate(zip(names, drawn, strict=True))
    ]
    made = world(jobs, Flavor("f"), queue(strategy=strategy, f=4))
    known = estimates({name: float(seconds) for name, (_, seconds, _) in zip(names, drawn, strict=True)})
    found = told(made, known)
    made.about.update({n: WorkloadFacts(n, float(seconds)) for n, (_, seconds, _) in zip(names, drawn, strict=True)})
    outcome = simulate(made)
    for key, run in outcome.runs.items():
        assert (key in found) == (run.admitted is not None)
        if run.admitted is not None:
            latest = found[key].latest
            assert latest is not None
            assert found[key].earliest - NOW - 0.01 <= run.admitted <= latest - NOW + 0.01


@settings(max_examples=quick(30), deadline=None)
@given(drawn=JOBS, runs=st.lists(st.floats(0, 1e6), min_size=1, max_size=9), late=st.floats(1, 150))
def test_intervals_are_ordered_and_begin_no_earlier_than_now(
    drawn: list[tuple[int, int, int]], runs: list[float], late: float
) -> None:
    jobs = [workload(f"w{n}", 1, cpus, queued=float(n)) for n, (cpus, _, _) in enumerate(drawn)]
    known = RunTimes()
    for seconds in runs:
        known.record(run_kind("ns/q", "Job", "w"), seconds)
    first, second = (told(world(jobs), known, Calibrations({("", False): Calibration(late=(late,))})) for _ in range(2))
    assert first == second
    for one in first.values():
        assert one.latest is not None
        assert NOW <= one.earliest <= one.latest
        assert 0 < one.confidence < 1
