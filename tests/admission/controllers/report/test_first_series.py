"""Counters of moves and refused pods begin at 0 with their queue, keep their values, and go with it."""

from __future__ import annotations

from prometheus_client import generate_latest

from admission.controllers.moves import first_series as first_series_of_moves
from admission.controllers.report import first_series
from admission.engine.features.moves.plans import NoPlanReason
from admission.metrics import controller as metrics
from api.kube.informers.store import Change, ChangeType
from api.kube.owned_series import OwnerKind, keep_only
from api.queues import ClusterQueue

QUEUE = ClusterQueue.from_wire({"metadata": {"name": "first-series"}, "spec": {}})


def lines(part: str) -> list[str]:
    """The page's lines with this text, without the moments at which their series were made."""
    return sorted(line for line in generate_latest().decode().splitlines() if part in line and "_created{" not in line)


def change(kind: ChangeType) -> Change[ClusterQueue]:
    return Change(kind, "first-series", QUEUE, None)


def begin(kind: ChangeType) -> None:
    for series in (first_series, first_series_of_moves):
        series.of_queue(change(kind))


BEGUN = [
    'stowage_move_lost_device_seconds_total{cluster_queue="first-series"} 0.0',
    *(
        f'stowage_moves_total{{cluster_queue="first-series",outcome="{outcome}"}} 0.0'
        for outcome in ("changed", "left", "written")
    ),
    'stowage_pods_unschedulable_after_gate_total{cluster_queue="first-series"} 0.0',
    'stowage_workloads_not_created_total{cluster_queue="first-series"} 0.0',
]


def test_the_series_of_a_queue_begin_with_it_and_go_with_it() -> None:
    begin(ChangeType.DELETED)
    assert lines('"first-series"') == []
    begin(ChangeType.ADDED)
    assert lines('"first-series"') == BEGUN
    metrics.NOT_CREATED.labels("first-series").inc()
    begin(ChangeType.MODIFIED)
    assert lines('stowage_workloads_not_created_total{cluster_queue="first-series"}')[0].endswith(" 1.0")
    keep_only({OwnerKind.CLUSTER_QUEUE: ()})
    assert lines('"first-series"') == []


def test_each_result_of_a_plan_of_moves_has_a_series() -> None:
    first_series_of_moves.of_process()
    results = {line.split('"')[1] for line in lines("stowage_move_plans_total{")}
    assert {"Started", "Done", "Changed", *NoPlanReason} <= results
