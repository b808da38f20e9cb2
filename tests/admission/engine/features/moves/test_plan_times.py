"""When moves are planned for a waiting workload."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from admission.engine.features.moves.plan_times import FIRST_PAUSE, LONGEST_PAUSE, PlanTimes
from admission.engine.queue.queues import PendingQueues
from tests.admission.engine.builders import queue, workload

FIRST = 30.0


def planned(count: int) -> tuple[PlanTimes, float]:
    """Workloads `gang` and `other`; for the first one plans were made so many times, each when it was due. The last time."""
    queues, now = PendingQueues(), 0.0
    queues.set_queue(queue(tas=9))
    for name in ("gang", "other"):
        queues.put(workload(name, 1, 1))
    times = PlanTimes(queues, FIRST)
    times.waits("gang", now)
    for _ in range(count):
        now = times.time_of("gang")
        times.pause("gang", now)
    return times, now


def due(times: PlanTimes, now: float, held: Collection[str] = ()) -> str | None:
    found = times.first(now, held)
    return None if found is None else found.key


def test_pauses_double_up_to_the_longest() -> None:
    pauses = [times.time_of("gang") - now for times, now in map(planned, range(1, 9))]
    assert pauses == [10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0, 300.0]


def test_a_workload_waits_first() -> None:
    times, _ = planned(0)
    times.all_sooner(0.0)
    assert due(times, FIRST - 1.0) is None
    assert due(times, FIRST) == "gang"


@pytest.mark.parametrize(
    ("since", "pause"),
    [pytest.param(100.0, 100.0, id="at once"), pytest.param(1.0, FIRST_PAUSE, id="not right after the last plan")],
)
def test_a_plan_follows_a_change_of_what_may_be_moved(since: float, pause: float) -> None:
    times, now = planned(9)
    times.all_sooner(now + since)
    assert times.next(()) == now + pause
    assert due(times, now + pause - 0.5) is None
    assert due(times, now + pause) == "gang"


def test_a_plan_is_made_when_a_budget_opens() -> None:
    times, now = planned(9)
    times.sooner("gang", now + 120.0)
    assert times.time_of("gang") == now + 120.0
    times.sooner("gang", now + 2 * LONGEST_PAUSE)
    assert times.time_of("gang") == now + 120.0


@pytest.mark.parametrize(
    ("plans", "since", "pause"),
    [
        pytest.param(9, 5.0, 75.0, id="a quarter of the pause"),
        pytest.param(9, 100.0, 100.0, id="at once later on"),
        pytest.param(2, 1.0, FIRST_PAUSE, id="not right after the last plan"),
        pytest.param(1, 1.0, FIRST_PAUSE, id="no later than without"),
    ],
)
def test_a_plan_comes_sooner_after_capacity_has_become_free(plans: int, since: float, pause: float) -> None:
    times, now = planned(plans)
    times.room_freed(now + since)
    times.room_freed(now + since + 1.0)
    assert times.next(()) == now + pause
    assert due(times, now + pause - 0.5) is None
    assert due(times, now + pause) == "gang"


def test_a_user_who_changes_annotations_all_the_time_delays_nobody() -> None:
    times, now = planned(9)
    times.waits("other", now)
    times.all_sooner(now)
    assert due(times, now + FIRST) == "other"
    times.pause("other", now + FIRST)
    assert due(times, now + FIRST) == "gang"


def test_no_plan_is_made_for_what_has_a_place() -> None:
    times, now = planned(1)
    assert due(times, now + LONGEST_PAUSE, {"gang"}) is None
