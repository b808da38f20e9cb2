"""A host port of a node goes to one pod: of the gang, of another admitted workload, or from elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.engine.ledger.ledger import Ledger
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
    TopologyRequest,
    Workload,
)
from api.pod.exclusive import ALL_ADDRESSES, ANTI_AFFINITY, HOST_ADDRESS, HOST_PORT, host_ports
from api.pod.pods import Container, PodSpec, Port
from tests.admission.engine.topology.vectors import BLOCK, FLAVOR, RACK, ledger, shown

WEB = {f"{HOST_PORT}TCP/8080": ALL_ADDRESSES}
ADDRESSES = ["", "0.0.0.0", "10.0.0.1", "10.0.0.2", "::"]


def nodes(number: int, pods: int = 10) -> list[Node]:
    return [
        Node(f"n{i}", {BLOCK: "b", RACK: f"r{i % 2}", HOSTNAME_LABEL: f"n{i}"}, {"cpu": 8000, "pods": pods})
        for i in range(number)
    ]


def book(number: int, pods: int = 10) -> Ledger:
    return ledger(PlacementOptions(), nodes(number, pods))


def request(count: int, ports: dict[str, int], level: str = BLOCK) -> PlacementRequest:
    pod_set = PodSet("main", count, {"cpu": 1000}, topology=TopologyRequest(required=level), exclusive=ports)
    return PlacementRequest(pod_set, FLAVOR, count)


def addressed(*addresses: str, port: int = 8080) -> PodSpec:
    """A pod with a port at each of these addresses."""
    return PodSpec(containers=(Container(ports=tuple(Port(port, 80, host_ip=address) for address in addresses)),))


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
    requested = request(1, WEB)
    found = of.placement.place([requested]).assignments["main"]
    admission = Admission("cq", (PodSetAdmission("main", {"cpu": FLAVOR}, {"cpu": 1000}, 1, found),))
    of.charge(Workload("ns/w", "w", "ns/lq", "cq", (requested.pod_set,)), admission)
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
        of.apply(BoundPod(f"ns/p{i}", f"n{node}", {}, exclusive={f"{HOST_PORT}TCP/{port}": ALL_ADDRESSES}))
    free = [not any((node, port) in taken for port in wanted) for node in range(4)]
    each = [(1 if wanted else 8) * here for here in free]
    holds = {BLOCK: sum(each), RACK: max(each[0] + each[2], each[1] + each[3]), HOSTNAME_LABEL: max(each)}[level]
    result = of.placement.place([request(count, {f"{HOST_PORT}TCP/{port}": ALL_ADDRESSES for port in wanted}, level)])
    assert bool(result.assignments) == (holds >= count)
    for domain in result.assignments["main"].domains if result.assignments else ():
        assert domain.count <= each[int(domain.values[-1][1:])]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.lists(st.sampled_from(ADDRESSES), min_size=1, max_size=2)), max_size=6),
    st.lists(st.sampled_from(ADDRESSES), min_size=1, max_size=2),
)
def test_a_port_at_one_address_leaves_the_others_as_in_kube_scheduler(
    there: list[tuple[int, list[str]]], wanted: list[str]
) -> None:
    """Two pods with one port share a node only if their addresses differ and none of them is every address."""
    of = book(3)
    for i, (node, addresses) in enumerate(there):
        of.apply(BoundPod(f"ns/p{i}", f"n{node}", {}, exclusive=host_ports(addressed(*addresses))))
    free = {
        f"n{node}"
        for node in range(3)
        if not any(meet(one, other) for at, addresses in there if at == node for one in addresses for other in wanted)
    }
    result = of.placement.place([request(len(free) + 1, host_ports(addressed(*wanted)))])
    assert result.failures["main"].fits == len(free)
    if free:
        found = of.placement.place([request(len(free), host_ports(addressed(*wanted)))]).assignments["main"]
        assert {domain.values[-1] for domain in found.domains} == free


def meet(first: str, second: str) -> bool:
    return first == second or not {"", "0.0.0.0"}.isdisjoint({first, second})


def test_thousands_of_different_ports_are_bounded_and_never_charged_twice() -> None:
    of = book(2)
    for port in range(1000, 4000):
        of.apply(BoundPod(f"ns/p{port}", "n0", {}, exclusive=host_ports(addressed("", port=port))))
        of.apply(BoundPod(f"ns/q{port}", "n0", {}, exclusive=host_ports(addressed("10.0.0.1", port=port + 3000))))
    assert len(of.capacity.columns) < 500
    for late in (addressed("", port=3500), addressed("10.0.0.1", port=6500)):
        found = of.placement.place([request(1, host_ports(late))]).assignments["main"]
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
    ("spec", "expected"),
    [
        pytest.param(PodSpec(containers=(Container(ports=(Port(8080, 80),)),)), ["TCP/8080"], id="host port"),
        pytest.param(addressed("10.0.0.1"), ["TCP/8080", "TCP/8080 10.0.0.1"], id="at one address"),
        pytest.param(addressed("0.0.0.0"), ["TCP/8080"], id="at every address"),
        pytest.param(addressed("10.0.0.1", ""), ["TCP/8080"], id="at one address and at every"),
        pytest.param(
            addressed("10.0.0.1", "::", "10.0.0.1"), ["TCP/8080", "TCP/8080 10.0.0.1", "TCP/8080 ::"], id="at two"
        ),
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
def test_host_ports_of_a_pod(spec: PodSpec, expected: list[str]) -> None:
    assert [name.removeprefix(HOST_PORT).removeprefix(HOST_ADDRESS) for name in host_ports(spec)] == expected
