"""An elastic job that grows in a simulation: its next slice takes over pods, quota and the time that is left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admission.engine.model import BoundPod, PlacementOptions, TopologyRequest
from admission.simulation.run import simulate
from admission.world.world import WorkloadFacts, World
from tests.admission.engine.builders import Cluster, admitted, host, queue, racks, workload

ANYWHERE = TopologyRequest(unconstrained=True)


def growing(quota: int) -> World:
    """A job of 5 pods that has run for 40 of its 100 seconds and wants 9."""
    cluster = Cluster(racks(), host("x", "r", 20), queue(tas=quota))
    cluster.tell(workload("a", 5, topology=ANYWHERE))
    assert admitted(cluster.cycle()) == ["a"]
    world = World(PlacementOptions())
    world.now = 1040.0
    for event in cluster.ledger.inputs():
        world.apply(event)
    for number in range(5):
        pod = BoundPod(f"ns/p{number}", "x", {"cpu": 1000}, workload="a", pod_set="main")
        world.apply(pod)
    world.apply(replace(workload("b", 9, topology=ANYWHERE), replaces="a"))
    world.apply(workload("c", 5, topology=ANYWHERE, queued=1.0))
    world.about = {
        key: WorkloadFacts(f"Job ns/{key}", run_for=100.0, since=1000.0 if key == "a" else None) for key in "abc"
    }
    return world


@pytest.mark.parametrize(
    ("quota", "pods", "later"),
    [pytest.param(9, 9, 60.0, id="all of them fit"), pytest.param(7, 7, 60.0, id="some do")],
)
def test_the_next_slice_runs_for_the_time_that_is_left(quota: int, pods: int, later: float) -> None:
    world = growing(quota)
    outcome = simulate(world)
    runs = outcome.runs
    assert (runs["a"].admitted, runs["a"].ended) == (0.0, 0.0)
    assert (runs["b"].admitted, runs["b"].ended) == (0.0, later)
    admission = runs["b"].admission
    assert admission is not None
    assert sum(pod_set.count for pod_set in admission.pod_sets) == pods
    assert runs["c"].admitted == later, "its quota is counted once, and is free when it ends"
    assert world.ledger.audit() == []
