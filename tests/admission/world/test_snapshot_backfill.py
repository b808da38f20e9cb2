"""What is reserved for the head of a queue with backfill comes along in a snapshot."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from admission.engine.model import Flavor, QueueingStrategy
from admission.world.snapshot import capture_world, decode, from_snapshot
from admission.world.world import World
from tests.admission.engine.builders import BEST, STRICT, queue, workload


@pytest.mark.parametrize("strategy", [STRICT, BEST])
def test_a_workload_with_a_reserved_start_keeps_it(strategy: QueueingStrategy) -> None:
    world = World()
    world.apply(Flavor("any"))
    world.apply(replace(queue(strategy=strategy, any=10), reserves_starts=True))
    world.apply(replace(workload("runs", 6), time_limit=60.0))
    world.cycle()
    world.now = 10.0
    for waiting in (workload("big", 8, queued=10.0), workload("late", 3, queued=11.0)):
        world.apply(waiting)
    world.cycle()
    data = capture_world(world).encode()
    other = from_snapshot(decode(data))
    assert capture_world(other).encode() == data
    for one in (world, other):
        one.apply(replace(workload("short", 4, queued=12.0), time_limit=50.0))
        one.apply(replace(workload("long", 3, queued=13.0), time_limit=90.0))
    decided, again = world.cycle(), other.cycle()
    assert decided.admitted == 1
    assert msgspec.json.encode(again.decisions) == msgspec.json.encode(decided.decisions)
