"""Preemption gates: who has a closed one starts where there is room, and evicts nobody."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admission.engine.cycle.cycle import CycleReport
from admission.engine.decision import PREEMPTION_GATED, Preempt, Wait
from admission.engine.model import Flavor, QueueingStrategy, Workload
from tests.admission.engine.builders import BEST, STRICT, admitted, queue, waits, workload
from tests.admission.engine.cycle.evicting_cluster import Evicting, evicting, preempted, running
from tests.admission.engine.cycle.test_round import GATES, Peer

ANY = Flavor("any")


def gated(key: str, pods: int, priority: int = 0, queued: float = 0.0) -> Workload:
    return replace(workload(key, pods, priority=priority, queued=queued), gated=True)


def full(strategy: QueueingStrategy = BEST) -> Evicting:
    """Four CPUs, all of them taken by one of priority 0."""
    return running(ANY, evicting(queue(strategy=strategy, any=4)), first=[workload("low", 4)])


def blocked(report: CycleReport) -> list[str]:
    return [d.workload for d in report.decisions if isinstance(d, Wait) and d.gated]


@pytest.mark.parametrize("strategy", [BEST, STRICT])
def test_a_closed_gate_keeps_it_from_evicting_until_it_is_opened(strategy: QueueingStrategy) -> None:
    cluster = full(strategy)
    high = gated("high", 3, priority=1)
    cluster.tell(high)
    report = cluster.cycle()
    assert waits(report) == {"high": f"AdmissionGated: {PREEMPTION_GATED}"}
    assert blocked(report) == ["high"]
    cluster.tell(replace(high, gated=False))
    assert preempted(cluster.cycle()) == {"high": ["low"]}


def test_it_starts_when_capacity_is_freed_without_evictions() -> None:
    cluster = full()
    cluster.tell(gated("high", 3, priority=1))
    cluster.cycle()
    cluster.finish("low")
    assert admitted(cluster.cycle()) == ["high"]


def test_without_possible_victims_the_gate_is_not_the_reason() -> None:
    cluster = full()
    cluster.tell(gated("equal", 3))
    report = cluster.cycle()
    assert blocked(report) == []
    assert waits(report)["equal"].startswith("WaitingForQuota")


def test_an_equal_without_a_gate_does_not_share_its_fate() -> None:
    cluster = full()
    cluster.tell(gated("high", 3, priority=1, queued=1), workload("free", 3, priority=1, queued=2))
    report = cluster.cycle()
    assert blocked(report) == ["high"]
    assert preempted(report) == {"free": ["low"]}


@pytest.mark.parametrize(("strategy", "stays"), [(STRICT, True), (BEST, False)])
def test_in_a_round_it_is_the_same(strategy: QueueingStrategy, stays: bool) -> None:
    peer = Peer(ANY, evicting(queue(strategy=strategy, any=4)), workload("low", 4))
    peer.round(GATES)
    peer.tell(gated("high", 3, priority=1))
    [decision] = peer.round(GATES).decisions
    assert isinstance(decision, Wait)
    assert (decision.gated, decision.message, decision.retry) == (True, PREEMPTION_GATED, stays)
    assert not any(isinstance(d, Preempt) for d in peer.round(GATES).decisions)
