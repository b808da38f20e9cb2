"""The terms of moves: from the job, its queues and its priority class, with what its status says of earlier moves."""

from __future__ import annotations

import pytest

from admission.controllers.state import moving
from admission.engine.convert.convert_moves import completed, terms_of_workload
from admission.engine.model import NO_TERMS, RestartTerms
from api.meta import ObjectMeta
from api.names import IS_GROUP_WORKLOAD, MINIMUM_RUN_TIME, MOVABLE, MOVE_COST, MOVES_PER_DAY
from api.workloads import Workload, WorkloadStatus

QUEUE, CLASS = {MOVABLE: "true", MOVE_COST: "1m"}, {MOVABLE: "false", MOVE_COST: "2m", MINIMUM_RUN_TIME: "1h"}


def workload(annotations: dict[str, str], status: WorkloadStatus | None = None) -> Workload:
    meta = ObjectMeta(name="w", namespace="ns", annotations=annotations)
    return Workload(metadata=meta, status=status or WorkloadStatus())


@pytest.mark.parametrize(
    ("own", "others", "expected"),
    [
        (NO_TERMS, [{}, {}], NO_TERMS),
        (NO_TERMS, [QUEUE, {}], RestartTerms(True, 60)),
        (NO_TERMS, [{}, CLASS], RestartTerms(False, 120, 3600)),
        (NO_TERMS, [QUEUE, CLASS], RestartTerms(True, 60, 3600)),
        (RestartTerms(False, 5), [QUEUE, CLASS], RestartTerms(False, 5, 3600)),
        (NO_TERMS, [{MOVABLE: "yes"}, CLASS], RestartTerms(False, 120, 3600)),
        (NO_TERMS, [{MOVABLE: "true", MOVE_COST: "-1s"}], RestartTerms(False)),
        (NO_TERMS, [{MOVES_PER_DAY: "3"}], NO_TERMS),
    ],
    ids=["nothing", "queue", "class", "queue-first", "job-first", "no-boolean", "bad-cost", "of-cluster-queues-only"],
)
def test_job_then_local_queue_then_priority_class(
    own: RestartTerms, others: list[dict[str, str]], expected: RestartTerms
) -> None:
    assert completed(own, others) == expected


def test_the_status_says_when_and_how_often_it_was_moved() -> None:
    going = moving.begun(WorkloadStatus(), "for ns/gang", 100.0)
    assert terms_of_workload(workload({}, going)) == RestartTerms(moved=100.0, times=1, moving=True)
    there = moving.ended(going, 130.0)
    again = moving.ended(moving.begun(there, "for ns/other", 900.0), 950.0)
    assert terms_of_workload(workload({MOVABLE: "true"}, again)) == RestartTerms(True, moved=950.0, times=2)


def test_what_others_write_into_the_counts_of_evictions_is_no_move() -> None:
    counted = moving.begun(WorkloadStatus(), "", 1.0).model_copy(update={"conditions": ()})
    assert terms_of_workload(workload({}, counted)) == NO_TERMS


def test_pods_of_a_group_stay_whatever_they_say() -> None:
    terms = terms_of_workload(workload({MOVABLE: "true", IS_GROUP_WORKLOAD: "true"}))
    assert completed(terms, [QUEUE]).movable is False
