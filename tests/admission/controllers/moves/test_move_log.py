"""How many moves a queue may still make today."""

from __future__ import annotations

import pytest

from admission.controllers.moves.move_log import MoveLog
from admission.controllers.state import moving
from api.meta import ObjectMeta
from api.workloads import Admission, Workload, WorkloadStatus

DAY = 86_400.0
NOW = 10 * DAY


def moved(queue: str, *at: float) -> Workload:
    status = WorkloadStatus(admission=Admission(cluster_queue=queue))
    for time in at:
        status = moving.ended(moving.begun(status, "", time), time)
    return Workload(metadata=ObjectMeta(name="w", namespace="ns"), status=status)


def test_a_day_later_a_move_counts_no_more() -> None:
    log = MoveLog()
    for age in (2 * DAY, DAY, DAY - 1.0, 10.0):
        log.add("a", NOW - age)
    log.add("b", NOW)
    assert log.left({"a": 3, "b": 1, "c": 2, "d": None}, NOW) == {"a": 1, "b": 0, "c": 2}


async def test_a_new_process_counts_every_move_of_what_was_moved_today() -> None:
    log = MoveLog()
    log.add("a", NOW)
    await log.read([moved("a", NOW - 2 * DAY, NOW - 5.0), moved("a", NOW - 2 * DAY), moved("b", NOW + 60.0)], NOW)
    assert log.left({"a": 5, "b": 5}, NOW) == {"a": 3, "b": 4}


async def test_a_status_that_claims_very_many_moves_costs_nothing() -> None:
    """Who may write statuses could fill the memory of the next leader."""
    claims = moved("a", NOW - 5.0)
    stats = claims.status.scheduling_stats
    assert stats is not None
    many = stats.model_copy(
        update={"evictions": tuple(one.model_copy(update={"count": 2**31 - 1}) for one in stats.evictions)}
    )
    status = claims.status.model_copy(update={"scheduling_stats": many})
    log = MoveLog()
    await log.read([claims.model_copy(update={"status": status})] * 100, NOW)
    assert log.left({"a": 100_000, "b": 1}, NOW) == {"a": 0, "b": 1}
    assert log.opens("a", 3, 1) == NOW - 5.0 + DAY


def test_a_budget_of_zero_is_none_left() -> None:
    assert MoveLog().left({"a": 0}, NOW) == {"a": 0}


def test_later_today_more_moves_are_left() -> None:
    log = MoveLog()
    for age in (DAY - 60.0, DAY - 120.0, 10.0):
        log.add("a", NOW - age)
    assert [log.left({"a": 3}, NOW + seconds) for seconds in (59.0, 60.0, 120.0, 0.0)] == [
        {"a": n} for n in (0, 1, 2, 0)
    ]


@pytest.mark.parametrize(
    ("limit", "count", "opens"),
    [
        pytest.param(4, 1, 0.0, id="one is left"),
        pytest.param(3, 1, NOW + 60.0, id="one when the first is a day old"),
        pytest.param(3, 2, NOW + 120.0, id="two when the second is"),
        pytest.param(2, 4, 0.0, id="never: more than the limit"),
    ],
)
def test_a_budget_opens(limit: int, count: int, opens: float) -> None:
    log = MoveLog()
    for age in (DAY - 60.0, DAY - 120.0, 10.0):
        log.add("a", NOW - age)
    assert log.opens("a", limit, count) == opens
