"""A workload that could start, and that no change has woken, is found by a fresh look, started, counted and logged."""

from __future__ import annotations

from typing import Any

import pytest

from admission.controllers.decide.lost_wake_ups import LostWakeUps
from admission.controllers.decide.scheduler_context import SchedulerContext
from admission.controllers.watch.cycle_due import CycleDue
from admission.engine.model import ClusterQueue, Flavor, ObjectRemoved, QueueingStrategy, RemovedKind
from admission.engine.queue.cluster_queue import QueueLine
from admission.metrics import controller as metrics
from admission.settings import ControllerSection
from admission.world.world import World
from tests.admission.engine.builders import BEST, STRICT, admitted, queue, workload


class Watched:
    """A cluster whose cycles run when one is due, and the looks at those that wait."""

    def __init__(self, *queues: ClusterQueue, most: int = 3) -> None:
        self.world, feed = World(), Any
        context = SchedulerContext(
            feed,  # type: ignore[arg-type]
            self.world.ledger,
            self.world.queues,
            CycleDue(),
            ControllerSection(),
        )
        self.due = context.cycle_due
        self.lost = LostWakeUps(context, 60.0, most, lambda: self.world.now)
        self.world.apply(Flavor("one"))
        for spec in queues:
            self.world.apply(spec)

    def cycle(self) -> list[str]:
        self.due.clear()
        started = admitted(self.world.cycle())
        self.lost.cycle_ended()
        return started


def lost_wake_ups() -> float:
    return float(metrics.LOST_WAKE_UPS._value.get())


@pytest.mark.parametrize("strategy", [BEST, STRICT])
def test_a_lost_wake_up_is_found_started_counted_and_logged(
    strategy: QueueingStrategy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The fault that is injected: freed quota wakes nobody."""
    cluster, before = Watched(queue(strategy=strategy, one=2)), lost_wake_ups()
    for one in (workload("runs", 2), workload("waits", 2, queued=1.0)):
        cluster.world.apply(one)
    assert cluster.cycle() == ["runs"]
    with monkeypatch.context() as faulty:
        faulty.setattr(QueueLine, "quota_freed", lambda line, free: False)
        faulty.setattr(QueueLine, "capacity_freed", lambda line, flavors: False)
        cluster.world.apply(ObjectRemoved(RemovedKind.WORKLOAD, "runs"))
    assert cluster.cycle() == [], "it is forgotten"
    cluster.lost.look()
    assert cluster.due.is_set()
    assert cluster.cycle() == ["waits"]
    assert lost_wake_ups() == before + 1
    assert [record.workload for record in caplog.records] == ["waits"]  # type: ignore[attr-defined]


def test_those_that_rightly_wait_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    cluster, before = Watched(queue(strategy=STRICT, one=2), queue("other", one=2)), lost_wake_ups()
    for one in (workload("runs", 2), workload("large", 2, queued=1.0), workload("behind", 1, queued=2.0)):
        cluster.world.apply(one)
    cluster.world.apply(workload("too-large", 3, to="other"))
    assert cluster.cycle() == ["runs"]
    for _ in range(3):
        cluster.lost.look()
        assert not cluster.due.is_set()
    assert lost_wake_ups() == before
    assert caplog.records == []


def test_it_looks_at_a_few_in_turns() -> None:
    names = "abcde"
    cluster = Watched(*(queue(name, one=1) for name in names), most=2)
    for name in names:
        cluster.world.apply(workload(f"runs-{name}", to=name))
        cluster.world.apply(workload(f"waits-{name}", to=name, queued=1.0))
    assert len(cluster.cycle()) == len(names)
    for name in names:
        cluster.world.ledger.release(f"runs-{name}")  # nobody is told
    started = []
    for _ in range(3):
        cluster.lost.look()
        started.append(cluster.cycle())
    assert started == [["waits-a", "waits-b"], ["waits-c", "waits-d"], ["waits-e"]]


def test_it_does_not_look_while_a_cycle_is_due() -> None:
    cluster = Watched(queue(one=1))
    for one in (workload("runs"), workload("waits", queued=1.0)):
        cluster.world.apply(one)
    cluster.cycle()
    cluster.world.ledger.release("runs")
    cluster.due.set()
    before = lost_wake_ups()
    cluster.lost.look()
    assert cluster.cycle() == []
    assert lost_wake_ups() == before
