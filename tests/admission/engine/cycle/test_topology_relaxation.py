"""A required level that gives way with time: what holds when, what the status says, and who is woken for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.engine.cycle.second_pass import second_pass
from admission.engine.decision import Admit
from admission.engine.flavors.assign import NoPreemption
from admission.engine.flavors.search import FlavorSearch
from admission.engine.model import ClusterQueue, Flavor, Node, PodSet, Profile, TopologyRequest, Workload
from admission.engine.requests import next_step, placement_requests
from admission.engine.topology_relaxation import duration, relaxed_request
from tests.admission.engine.builders import CPU, HOST, STRICT, Cluster, admitted, domains, queue, waits, workload

BLOCK, RACK = "block", "rack"
LEVELS = (BLOCK, RACK, HOST)
TEN = 600


def in_a_rack(period: int | None = TEN) -> TopologyRequest:
    return TopologyRequest(required=RACK, relax_after=period)


@pytest.mark.parametrize(
    ("level", "waited", "required", "preferred", "next_at", "text"),
    [
        pytest.param(RACK, 0, RACK, None, TEN, "required level rack; block from 10m on", id="at-first"),
        pytest.param(RACK, 599, RACK, None, TEN, "required level rack; block from 10m on", id="not-yet"),
        pytest.param(
            RACK, 600, BLOCK, None, 1200,
            "required level rack relaxed to block after 10m; preferred from 20m on", id="one-step",
        ),
        pytest.param(
            RACK, 1200, None, BLOCK, None,
            "required level rack relaxed to preferred block after 20m", id="last-step",
        ),
        pytest.param(
            RACK, 10**9, None, BLOCK, None,
            "required level rack relaxed to preferred block after 20m", id="long-after",
        ),
        pytest.param(BLOCK, 0, BLOCK, None, TEN, "required level block; preferred from 10m on", id="top-at-first"),
        pytest.param(
            BLOCK, 600, None, BLOCK, None, "required level block relaxed to preferred block after 10m", id="top-gives-way"
        ),
        pytest.param(
            HOST, 1200, BLOCK, None, 1800,
            f"required level {HOST} relaxed to block after 20m; preferred from 30m on", id="from-the-host",
        ),
        pytest.param("row", 10**6, "row", None, None, "", id="unknown-level-stays"),
        pytest.param(RACK, -5, RACK, None, TEN, "required level rack; block from 10m on", id="clock-behind"),
    ],
)  # fmt: skip
def test_standing(
    level: str, waited: float, required: str | None, preferred: str | None, next_at: int | None, text: str
) -> None:
    topology = TopologyRequest(required=level, relax_after=TEN)
    found = relaxed_request(topology, LEVELS, waited)
    assert (found.request.required, found.request.preferred, found.next_at) == (required, preferred, next_at)
    assert found.text(topology) == text


@given(st.integers(0, 5000), st.integers(1, 500), st.sampled_from(LEVELS))
def test_it_only_ever_gets_easier_and_each_step_is_announced(waited: int, period: int, level: str) -> None:
    topology = TopologyRequest(required=level, relax_after=period)

    def width(at: int) -> int:
        required = relaxed_request(topology, LEVELS, at).request.required
        return -1 if required is None else LEVELS.index(required)

    now = relaxed_request(topology, LEVELS, waited)
    if now.next_at is None:
        assert width(waited) == width(waited + 100 * period) == -1
    else:
        assert waited < now.next_at <= waited + period
        assert width(waited) == width(now.next_at - 1) == width(now.next_at) + 1


def test_without_a_period_nothing_changes() -> None:
    topology = in_a_rack(None)
    assert relaxed_request(topology, LEVELS, 10**6).request is topology
    assert relaxed_request(topology, LEVELS, 10**6).text(topology) == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (1, "1s"), (90, "1m30s"), (600, "10m"), (3600, "1h"), (5430, "1h30m30s")]
)
def test_durations_are_written_as_people_do(seconds: int, text: str) -> None:
    assert duration(seconds) == text


# ---- in a cycle


def flavor() -> Flavor:
    return Flavor("tas", {"pool": "tas"}, topology="default", levels=LEVELS)


def node(block: str, rack: str, number: int, cpus: int = 4) -> Node:
    name = f"{block}-{rack}-{number}"
    labels = {"pool": "tas", BLOCK: block, RACK: rack, HOST: name}
    return Node(name, labels, {"cpu": cpus * CPU, "pods": 110})


def halls(*more: Workload, spec: ClusterQueue | None = None) -> Cluster:
    """Two blocks of two racks of one host with four cpus."""
    nodes = [node(block, rack, 0) for block in ("b1", "b2") for rack in ("r1", "r2")]
    return Cluster(flavor(), *nodes, spec or queue(tas=100), *more)


def test_a_waiting_workload_is_requeued_at_each_relaxation_step() -> None:
    cluster = halls(workload("wide", 12, topology=in_a_rack(), queued=100))
    full = 'couldn\'t assign flavors to pod set main: topology "default" allows to fit only'
    at_first = waits(cluster.cycle(now=100))
    assert at_first == {
        "wide": f"TopologyPlacementFailed: {full} 4 out of 12 pod(s); pod set main: required level rack; block from 10m on"
    }
    assert cluster.queues.next_due() == 700
    assert cluster.cycle(now=699).decisions == ()
    assert waits(cluster.cycle(now=700)) == {
        "wide": f"TopologyPlacementFailed: {full} 8 out of 12 pod(s); "
        "pod set main: required level rack relaxed to block after 10m; preferred from 20m on"
    }
    assert cluster.queues.next_due() == 1300
    report = cluster.cycle(now=1300)
    (decision,) = report.decisions
    assert isinstance(decision, Admit)
    assert decision.note == "pod set main: required level rack relaxed to preferred block after 20m"
    assert sum(domains(report, "wide").values()) == 12
    assert cluster.queues.next_due() is None


def test_a_workload_admitted_as_requested_gets_no_note() -> None:
    (decision,) = halls(workload("fits", 4, topology=in_a_rack())).cycle().decisions
    assert isinstance(decision, Admit)
    assert decision.note == ""


def test_the_inadmissible_head_of_a_strict_queue_is_evaluated_again() -> None:
    cluster = halls(workload("wide", 8, topology=in_a_rack()), spec=queue(tas=100, strategy=STRICT))
    assert admitted(cluster.cycle(now=0)) == []
    assert admitted(cluster.cycle(now=599)) == []
    assert admitted(cluster.cycle(now=600)) == ["wide"]


def test_workloads_of_different_age_are_not_equals() -> None:
    old, new = (workload(name, 8, topology=in_a_rack(), queued=at) for name, at in (("old", 0), ("new", 300)))
    cluster = halls(old, new)
    assert set(waits(cluster.cycle(now=300))) == {"old", "new"}
    assert admitted(cluster.cycle(now=600)) == ["old"]
    assert admitted(cluster.cycle(now=900)) == ["new"]


def test_a_class_is_requeued_at_its_time_though_its_first_member_has_left() -> None:
    cluster = halls(*(workload(name, 8, topology=in_a_rack()) for name in ("a", "b", "c")))
    cluster.cycle(now=0)
    cluster.queues.remove("a")
    assert admitted(cluster.cycle(now=600)) == ["b", "c"]


def test_it_is_reported_also_where_quota_is_short() -> None:
    cluster = halls(workload("wide", 8, topology=in_a_rack()), spec=queue(tas=4))
    (told,) = waits(cluster.cycle(now=700)).values()
    assert told.endswith("; pod set main: required level rack relaxed to block after 10m; preferred from 20m on")


# ---- the profile, and other flavors


@pytest.mark.parametrize(
    ("own", "of_queue", "want"),
    [
        pytest.param(None, None, None, id="settings"),
        pytest.param(None, Profile.LEAST_FREE, Profile.LEAST_FREE, id="queue"),
        pytest.param(Profile.COMPATIBLE, Profile.LEAST_FREE, Profile.COMPATIBLE, id="workload-beats-queue"),
    ],
)
def test_the_nearest_profile_holds(own: Profile | None, of_queue: Profile | None, want: Profile | None) -> None:
    spec = replace(queue(tas=100), profile=of_queue)
    cluster = halls(spec=spec)
    asked = replace(workload("w", 2, topology=in_a_rack()), profile=own)
    flavors, quota = cluster.ledger.flavors, cluster.ledger.quota
    found = FlavorSearch(spec, flavors, quota, NoPreemption(quota)).assign(asked)
    requests = placement_requests(asked, spec, found, flavors, 0)
    assert [request.profile for request in requests] == [want]


def test_the_next_step_is_that_of_the_flavor_with_the_most_levels_left() -> None:
    flat = Flavor("flat", {"pool": "flat"}, topology="flat", levels=(RACK, HOST))
    spec = queue(flat=10, tas=10)
    asked = Workload("w", "u", "ns/q", "q", (PodSet("main", 1, {"cpu": 1}, topology=in_a_rack()),), queued=50)
    flavors = {"flat": flat, "tas": flavor()}
    assert next_step(asked, spec, flavors, 50) == 650
    assert next_step(asked, spec, flavors, 650) == 1250  # the flat one has no step left, the deep one has
    assert next_step(asked, spec, flavors, 1250) is None


@pytest.mark.parametrize(
    ("reserved", "expected"),
    [
        pytest.param(600.0, {"b1-r1-0": 4, "b1-r3-0": 4}, id="in-the-block-that-it-was-admitted-to"),
        pytest.param(599.0, None, id="in-its-rack-where-that-held"),
    ],
)
def test_a_failed_node_is_replaced_within_the_level_that_held(reserved: float, expected: dict[str, int] | None) -> None:
    waiting = workload("wide", 8, topology=in_a_rack())
    cluster = halls(waiting)
    (decision,) = cluster.cycle(now=600).decisions
    assert isinstance(decision, Admit)
    cluster.ledger.apply(replace(waiting, admission=decision.admission, reserved=reserved))
    cluster.tell(node("b1", "r3", 0))
    (moved,) = second_pass(cluster.ledger, "wide", ("b1-r2-0",), fail_fast=True)
    assert isinstance(moved, Admit) is (expected is not None)
    if isinstance(moved, Admit):
        assignment = moved.admission.pod_sets[0].assignment
        assert assignment is not None
        assert {d.values[-1]: d.count for d in assignment.domains} == expected
