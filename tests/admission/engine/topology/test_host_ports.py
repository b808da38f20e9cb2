"""A host port of a node goes to one pod: of the gang, of another admitted workload, or from elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.engine.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    Admission,
    BoundPod,
    DomainCount,
    Node,
    ObjectRemoved,
    PlacementOptions,
    PlacementRequest,
    PodSet,
    PodSetAdmission,
    RemovedKind,
    TopologyAsk,
    Workload,
)
from api.exclusive import ANTI_AFFINITY, HOST_PORT, host_ports
from api.pods import Container, PodSpec, Port
from tests.admission.engine.topology.vectors import BLOCK, FLAVOR, RACK, ledger, shown

WEB = {f"{HOST_PORT}TCP/8080": 1}


def nodes(number: int, pods: int = 10) -> list[Node]:
    return [
        Node(f"n{i}", {BLOCK: "b", RACK: f"r{i % 2}", HOSTNAME_LABEL: f"n{i}"}, {"cpu": 8000, "pods": pods})
        for i in range(number)
    ]


def book(number: int, pods: int = 10) -> Ledger:
    return ledger(PlacementOptions(), nodes(number, pods))


def request(count: int, ports: dict[str, int], level: str = BLOCK) -> PlacementRequest:
    pod_set = PodSet("main", count, {"cpu": 1000}, topology=TopologyAsk(required=level), exclusive=ports)
    return PlacementRequest(pod_set, FLAVOR, count)


def test_a_gang_of_one_port_takes_a_node_for_each_pod() -> None:
    found = book(4).placement.place([request(3, WEB)]).assignments["main"]
    assert [domain.count for domain in found.domains] == [1, 1, 1]


def test_a_port_that_is_taken_is_named() -> None:
    of = book(2)
    of.apply(BoundPod("ns/daemon", "n0", {}, exclusive=WEB))
    text = shown(of.placement.place([request(2, WEB)]), "main")
    assert text == (
        'topology "default" allows to fit only 1 out of 2 pod(s). '
        'Total nodes: 2; excluded: resource "host port TCP/8080": 1'
    )
    of.apply(ObjectRemoved(RemovedKind.POD, "ns/daemon"))
    assert of.placement.place([request(2, WEB)]).failures == {}


def test_an_admitted_gang_holds_its_ports() -> None:
    of = book(2)
    asked = request(1, WEB)
    found = of.placement.place([asked]).assignments["main"]
    admission = Admission("cq", (PodSetAdmission("main", {"cpu": FLAVOR}, {"cpu": 1000}, 1, found),))
    of.charge(Workload("ns/w", "w", "ns/lq", "cq", (asked.pod_set,)), admission)
    assert of.audit() == []
    other = of.placement.place([request(1, WEB)]).assignments["main"]
    assert other.domains != found.domains
    of.release("ns/w")
    assert of.placement.place([request(2, WEB)]).failures == {}


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(8000, 8003)), max_size=8),
    st.integers(1, 5),
    st.sets(st.integers(8000, 8003), max_size=2),
    st.sampled_from([BLOCK, RACK, HOSTNAME_LABEL]),
)
def test_as_many_pods_fit_as_nodes_have_all_ports_free(
    taken: list[tuple[int, int]], count: int, wanted: set[int], level: str
) -> None:
    of = book(4)
    for i, (node, port) in enumerate(taken):
        of.apply(BoundPod(f"ns/p{i}", f"n{node}", {}, exclusive={f"{HOST_PORT}TCP/{port}": 1}))
    free = [not any((node, port) in taken for port in wanted) for node in range(4)]
    each = [(1 if wanted else 8) * here for here in free]
    holds = {BLOCK: sum(each), RACK: max(each[0] + each[2], each[1] + each[3]), HOSTNAME_LABEL: max(each)}[level]
    result = of.placement.place([request(count, {f"{HOST_PORT}TCP/{port}": 1 for port in wanted}, level)])
    assert bool(result.assignments) == (holds >= count)
    for domain in result.assignments["main"].domains if result.assignments else ():
        assert domain.count <= each[int(domain.values[-1][1:])]


def test_thousands_of_different_ports_are_bounded_and_never_charged_twice() -> None:
    of = book(2)
    for port in range(1000, 4000):
        of.apply(BoundPod(f"ns/p{port}", "n0", {}, exclusive={f"{HOST_PORT}UDP/{port}": 1}))
    assert len(of.capacity.columns) < 400
    found = of.placement.place([request(1, {f"{HOST_PORT}UDP/3500": 1})]).assignments["main"]
    assert found.domains == (DomainCount(("n1",), 1),)
    assert of.audit() == []


def test_terms_beyond_those_that_are_counted_refuse_no_node() -> None:
    """Terms are often unique to a job: hundreds of them, of any user, must not keep unrelated jobs off free nodes."""
    of = book(2, pods=1000)
    for job in range(1000):
        of.apply(BoundPod(f"ns/p{job}", f"n{job % 2}", {}, exclusive={f"{ANTI_AFFINITY}ns/job={job}": 1}))
    assert len(of.capacity.columns) < 300
    counted, late = ({f"{ANTI_AFFINITY}ns/job={job}": 1} for job in (0, 999))
    assert of.placement.place([request(2, counted)]).failures["main"].fits == 1
    assert of.placement.place([request(2, late)]).failures == {}
    assert of.audit() == []


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        pytest.param(PodSpec(containers=(Container(ports=(Port(8080, 80),)),)), ["TCP/8080"], id="host port"),
        pytest.param(PodSpec(containers=(Container(ports=(Port(0, 80),)),)), [], id="container port"),
        pytest.param(
            PodSpec(host_network=True, containers=(Container(ports=(Port(0, 80, "UDP"),)),)),
            ["UDP/80"],
            id="on the node's network each port is one of the node",
        ),
        pytest.param(
            PodSpec(
                init_containers=(Container(ports=(Port(1),)), Container(ports=(Port(2),), restart_policy="Always"))
            ),
            ["TCP/2"],
            id="sidecars only",
        ),
        pytest.param(PodSpec(containers=(Container(ports=(Port(99999), Port(1, 1, "x"))),)), [], id="no ports"),
    ],
)
def test_host_ports_of_a_pod(spec: PodSpec, found: list[str]) -> None:
    assert [name.removeprefix(HOST_PORT) for name in host_ports(spec)] == found
