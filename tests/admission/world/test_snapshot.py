"""Snapshots: the same state gives the same bytes, and what is loaded from them decides the same, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.cycle.cycle import CycleReport
from admission.engine.model import (
    HOSTNAME_LABEL,
    BoundPod,
    ClusterQueue,
    Cohort,
    Counting,
    Event,
    Flavor,
    Node,
    ObjectRemoved,
    PlacementOptions,
    PodSet,
    Profile,
    Quota,
    RemovedKind,
    TopologyRequest,
    Workload,
)
from admission.world.snapshot import Snapshot, capture_world, decode, from_snapshot, is_snapshot
from admission.world.world import Arrival, WorkloadFacts, World
from api.errors import InvalidObject
from tests.admission.engine.builders import BEST, STRICT, group, host, queue, racks, workload
from tests.admission.engine.dump import dump
from tests.admission.world import world_documents as made
from tests.budgets import quick

RACK = "rack"
WIDE = Flavor("wide", {"pool": "wide"}, topology="default", levels=("block", RACK))
QUEUES = ("a", "b", "lone")


def bits(report: CycleReport) -> bytes:
    """A report's decisions as bytes."""
    return msgspec.json.encode(report.decisions)


def again(world: World) -> World:
    """The world through its snapshot's bytes."""
    return from_snapshot(decode(capture_world(world).encode()))


def wide_node(name: str, rack: str, cpus: int) -> Node:
    labels = {"pool": "wide", "block": "b", RACK: rack, HOSTNAME_LABEL: name}
    return Node(name, labels, {"cpu": cpus * 1000, "pods": 110})


def context() -> list[Event]:
    """Two flavors, one by host and one by rack; two queues in a cohort, and one strict one alone."""
    both = (group({"tas": {"cpu": 8000}, "wide": {"cpu": 6000}}),)
    return [
        racks(),
        WIDE,
        Cohort("c", None, {("tas", "cpu"): Quota(4000), ("wide", "cpu"): Quota(2000)}),
        ClusterQueue("a", both, cohort="c"),
        ClusterQueue("b", both, cohort="c", strategy=BEST),
        queue("lone", strategy=STRICT, wide=5),
        *(host(f"n{i}", f"r{i // 2}", 4) for i in range(4)),
        *(wide_node(f"w{i}", f"r{i // 2}", 3) for i in range(4)),
    ]


topologies = st.sampled_from(
    [
        None,
        TopologyRequest(required=RACK),
        TopologyRequest(preferred=RACK),
        TopologyRequest(required=RACK, relax_after=2),
    ]
)
workloads = st.builds(
    lambda number, pods, cpus, to, topology, priority, queued, delay, blocked: replace(
        workload(f"ns/w{number}", pods, cpus, to=to, topology=topology, priority=priority, queued=float(queued)),
        not_before=delay,
        blocked=("Deactivated", "x") if blocked else None,
    ),
    st.integers(0, 9),
    st.integers(1, 5),
    st.integers(1, 3),
    st.sampled_from((*QUEUES, "nowhere")),
    topologies,
    st.integers(0, 1),
    st.integers(0, 3),
    st.sampled_from([0.0, 0.0, 0.0, 5.5, inf]),
    st.sampled_from([False, False, False, True]),
)
steps = st.one_of(
    workloads,
    st.builds(lambda n: ObjectRemoved(RemovedKind.WORKLOAD, f"ns/w{n}"), st.integers(0, 9)),
    st.builds(
        lambda n, node, of: BoundPod(f"ns/p{n}", node, {"cpu": 1000}, f"ns/w{of}" if of < 10 else None, "main"),
        st.integers(0, 5),
        st.sampled_from(["n0", "n1", "w0", "w1", "w3"]),
        st.integers(0, 14),
    ),
    st.builds(lambda n: ObjectRemoved(RemovedKind.POD, f"ns/p{n}"), st.integers(0, 5)),
    st.builds(lambda n: ObjectRemoved(RemovedKind.NODE, f"w{n}"), st.integers(0, 3)),
    st.builds(lambda n, cpus: wide_node(f"w{n}", f"r{n // 2}", cpus), st.integers(0, 3), st.integers(1, 5)),
    st.just(None),
)


def played(options: PlacementOptions, story: list[Event | None], budget: int) -> World:
    """A world with that past; None stands for a cycle."""
    world = World(options, now=1000.0, budget=budget)
    for event in context():
        world.apply(event)
    for step in story:
        if step is not None:
            world.apply(step)
        else:
            world.now += 1.0
            world.cycle()
    return world


@pytest.mark.parametrize("counting", Counting)
@pytest.mark.parametrize("profile", [Profile.EXACT, Profile.COMPATIBLE])
@given(story=st.lists(steps, max_size=30), budget=st.sampled_from([1, 3, 64]))
@settings(max_examples=quick(15), deadline=None)
def test_a_world_from_its_snapshot_decides_the_same(
    counting: Counting, profile: Profile, story: list[Event | None], budget: int
) -> None:
    decides_the_same(counting, profile, story, budget)


@pytest.mark.long
@pytest.mark.parametrize("counting", Counting)
@pytest.mark.parametrize("profile", Profile)
@given(story=st.lists(steps, max_size=60), budget=st.sampled_from([1, 3, 64]))
@settings(max_examples=1000, deadline=None)
def test_every_world_from_its_snapshot_decides_the_same(
    counting: Counting, profile: Profile, story: list[Event | None], budget: int
) -> None:
    decides_the_same(counting, profile, story, budget)


def decides_the_same(counting: Counting, profile: Profile, story: list[Event | None], budget: int) -> None:
    """Now, while time passes, and when everybody is looked at anew."""
    world = played(PlacementOptions(counting=counting, profile=profile), story, budget)
    snapshot = capture_world(world).encode()
    copy = from_snapshot(decode(snapshot))
    assert capture_world(copy).encode() == snapshot
    for _ in range(4):
        assert bits(copy.cycle()) == bits(world.cycle())
        world.now += 2.0
        copy.now += 2.0
    world.state.requeue_all()
    copy.state.requeue_all()
    assert bits(copy.cycle()) == bits(world.cycle())


@given(story=st.lists(steps, max_size=30))
@settings(max_examples=quick(15), deadline=None)
def test_the_ledgers_are_equal_too(story: list[Event | None]) -> None:
    world = played(PlacementOptions(), story, 64)
    one, other = dump(again(world).ledger), dump(world.ledger)
    for past in ("generations", "homeless", "covered", "shares", "nodes", "flavors"):  # how it came to be, or slots
        one.pop(past)
        other.pop(past)
    assert one["admissions"] == other["admissions"]
    assert one["quota"] == other["quota"]
    assert one["trees"] == other["trees"]


def test_inadmissible_workload_stays_inadmissible() -> None:
    """A replayed cycle does not evaluate again what the original had refused."""
    world = made.world(
        made.tree(1, 1),
        made.queue(),
        made.job("big", 9),
        made.job("big-too", 9),
    )
    assert world.cycle().waiting == 1
    copy = again(world)
    assert copy.cycle().decisions == ()
    copy.state.requeue_all()
    assert copy.cycle().waiting == 1


def test_what_is_known_besides_comes_along() -> None:
    world = made.world(
        made.tree(),
        made.queue(),
        made.job("now", runs="90s"),
        made.job("later", at="1m", runs="5s"),
    )
    copy = again(world)
    assert copy.about == world.about
    assert copy.arrivals == world.arrivals
    assert [WorkloadFacts("Job default/now", 90.0), WorkloadFacts("Job default/later", 5.0)] == list(
        copy.about.values()
    )
    assert isinstance(copy.arrivals[0], Arrival)


def test_one_object_a_line() -> None:
    lines = capture_world(made.world(made.tree(2, 3), made.queue())).encode().splitlines()
    assert sum(line.startswith(b'{"name":"r') for line in lines) == 6


def test_infinity_survives() -> None:
    world = World()
    world.apply(replace(workload("ns/w"), not_before=inf))
    waiting = again(world).queues.workload("ns/w")
    assert waiting is not None
    assert waiting.not_before == inf


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(b"{", "truncated", id="half"),
        pytest.param(b'{"format": "stowage.dev/snapshot/v9"}', "missing required field", id="little"),
        pytest.param(
            Snapshot(format="stowage.dev/snapshot/v9", at=0.0, budget=1, options=PlacementOptions()).encode(),
            "must be stowage.dev/snapshot/v1",
            id="a later one",
        ),
    ],
)
def test_what_is_no_snapshot_is_named(text: bytes, message: str) -> None:
    with pytest.raises(InvalidObject, match=f"x.json.*{message}"):
        decode(text, "x.json")


def test_a_snapshot_is_known_by_its_format() -> None:
    assert is_snapshot(msgspec.json.decode(capture_world(World()).encode()))
    assert not is_snapshot({"kind": "Node"})
    assert not is_snapshot([])


def test_pod_sets_and_what_they_take_are_kept_as_they_are() -> None:
    pod_set = PodSet("main", 2, {"cpu": 10, "memory": 2**40}, node_selector={"b": "1", "a": "2"})
    world = World()
    world.apply(Workload("ns/w", "u", "ns/q", "q", (pod_set,)))
    kept = again(world).queues.workload("ns/w")
    assert kept is not None
    assert list(kept.pod_sets[0].node_selector) == ["b", "a"]
    assert kept.pod_sets == (pod_set,)
