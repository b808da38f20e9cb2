"""What is known of the run time of those that wait, where their queue lets them backfill by it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from admission.controllers.forecasts.guesses import Guesses
from admission.controllers.state.conditions import evicted
from admission.controllers.watch.cluster_view import Views
from admission.engine.features.forecast.run_times import ENOUGH, RunTimes, run_kind
from admission.engine.model import Flavor
from api.meta import ObjectMeta
from api.names import EvictedReason
from api.workloads import Workload, WorkloadSpec, WorkloadStatus
from tests.admission.engine.builders import Cluster, queue, workload


@dataclass
class _Objects:
    objects: dict[str, Workload] = field(default_factory=dict)


@dataclass
class _Views:
    workloads: _Objects


def known(*reasons: str) -> Workload:
    """`ns/w`, which was evicted for these reasons."""
    status = WorkloadStatus()
    for reason in reasons:
        status = evicted(status, reason, "", 0.0)
    spec = WorkloadSpec(queue_name="lq", pod_sets=())
    return Workload(metadata=ObjectMeta(name="w", namespace="ns"), spec=spec, status=status)


def guesses(cluster: Cluster, times: RunTimes, called: list[Any], *objects: Workload) -> Guesses:
    views = _Views(_Objects({one.key: one for one in objects}))
    return Guesses(cast("Views", views), cluster.queues, times, lambda: called.append(None), 60.0)


def learned(runs: int, seconds: float = 100.0) -> RunTimes:
    times = RunTimes()
    for _ in range(runs):
        times.record(run_kind("ns/lq", "", "w"), seconds)
    return times


@pytest.mark.parametrize(
    ("runs", "reasons", "least", "most"),
    [
        pytest.param(ENOUGH - 1, (), None, None, id="too few runs"),
        pytest.param(100, (), 100.0, 125.0, id="many equal runs"),
        pytest.param(ENOUGH, (), 120.0, 200.0, id="few runs: the next may be longer than all of them"),
        pytest.param(100, (EvictedReason.BACKFILL_ENDED,), 200.0, 250.0, id="outlasted it once"),
        pytest.param(100, (EvictedReason.BACKFILL_ENDED,) * 3, 800.0, 1000.0, id="outlasted it three times"),
        pytest.param(100, (EvictedReason.PREEMPTED,) * 3, 100.0, 125.0, id="evicted for others"),
        pytest.param(100, (EvictedReason.BACKFILL_ENDED,) * 99, 1e8, 1.4e8, id="outlasted it very often"),
    ],
)
def test_the_guess(runs: int, reasons: tuple[str, ...], least: float | None, most: float | None) -> None:
    found = guesses(Cluster(), learned(runs), []).of(known(*reasons))
    if least is None or most is None:
        assert found is None
    else:
        assert found is not None
        assert least <= found <= most


def test_runs_of_other_queues_alone_are_no_guess() -> None:
    times = RunTimes()
    for _ in range(100):
        times.record(run_kind("ns/another", "", "w"), 100.0)
    assert guesses(Cluster(), times, []).of(known()) is None


async def test_what_is_learned_later_reaches_those_that_wait() -> None:
    spec = replace(queue(f=1), by_guess=True)
    cluster = Cluster(Flavor("f"), spec, workload("ns/w", 2), replace(workload("ns/limited", 2), time_limit=5.0))
    called: list[Any] = []
    times = learned(100)
    asked = guesses(cluster, times, called, known())
    await asked.refresh()
    waits = cluster.queues.workload("ns/w")
    assert waits is not None
    assert waits.guess == asked.of(known())
    assert len(called) == 1
    await asked.refresh()
    assert len(called) == 1, "nothing has changed"


async def test_a_queue_that_does_not_ask_for_it_gets_no_guesses() -> None:
    cluster = Cluster(Flavor("f"), queue(f=1), workload("ns/w", 2))
    called: list[Any] = []
    await guesses(cluster, learned(100), called, known()).refresh()
    waits = cluster.queues.workload("ns/w")
    assert waits is not None
    assert (waits.guess, called) == (None, [])
