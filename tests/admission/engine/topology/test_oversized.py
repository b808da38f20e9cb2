"""A pod that no host can hold: how much it asks for, and how much a host has at most."""

from __future__ import annotations

import pytest

from admission.engine.decision import Wait
from tests.admission.engine.builders import Cluster, host, queue, racks, workload


def told(cpus: int, *, busy: int = 0) -> str:
    """What a cycle says of a pod of so many CPUs on hosts of 8 and 4, of which one is busy."""
    cluster = Cluster(racks(), host("h0", "r", 8), host("h1", "r", 4), queue(tas=100))
    if busy:
        cluster.tell(workload("busy", 1, busy))
        cluster.cycle()
    cluster.tell(workload("w", 1, cpus))
    (wait,) = (each for each in cluster.cycle().decisions if isinstance(each, Wait) and each.workload == "w")
    return wait.too_large


@pytest.mark.parametrize(
    ("cpus", "busy", "text"),
    [
        pytest.param(12, 0, "cpu: 12 asked, 8 at most on any host", id="no host is so large"),
        pytest.param(12, 8, "cpu: 12 asked, 8 at most on any host", id="whatever runs there"),
        pytest.param(8, 8, "", id="the host is busy"),
    ],
)
def test_a_pod_that_is_larger_than_every_host_is_told_the_largest(cpus: int, busy: int, text: str) -> None:
    assert told(cpus, busy=busy) == text
