"""When the room of an evicted workload is free: not before its pods have left their nodes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admission.controllers.full_node import EVICTED, RELEASED, FullNode
from tests.builders import condition


def test_the_preemptor_starts_when_the_last_pod_has_left() -> None:
    cluster = FullNode()
    cluster.high()
    assert cluster.decisions() == [("Preempt", "ns/high")]
    cluster.low(EVICTED)
    cluster.low(RELEASED)
    assert cluster.decisions() == [], "its pods still hold the node"
    for n in range(3):
        cluster.pod(n, "Failed")
    assert cluster.decisions() == []
    cluster.pod(3, "Failed")
    assert cluster.decisions() == [("Admit", "ns/high"), ("Wait", "ns/low")]


def test_pods_on_a_node_that_does_not_answer_are_not_waited_for() -> None:
    cluster = FullNode()
    cluster.low(EVICTED)
    cluster.low(RELEASED)
    assert cluster.world.ledger.admission("ns/low") is not None
    cluster.node(False)
    assert cluster.world.ledger.admission("ns/low") is None
    assert "ns/low" in cluster.world.queues


@pytest.mark.parametrize("states", [RELEASED, [condition("Finished")]], ids=["given back by itself", "finished"])
def test_without_an_eviction_it_is_gone_at_once(states: list[dict[str, Any]]) -> None:
    cluster = FullNode()
    cluster.low(states)
    assert cluster.world.ledger.admission("ns/low") is None
