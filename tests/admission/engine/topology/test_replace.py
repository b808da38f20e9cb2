"""A node fails: its pods find another place, healthy pods stay, and what the pod set was promised still holds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from admission.engine.decision import PlacementResult
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    Admission,
    Assignment,
    DomainCount,
    Node,
    ObjectRemoved,
    PlacementOptions,
    PlacementRequest,
    PodSetAdmission,
    RemovedKind,
    Workload,
)
from tests.admission.engine.topology.test_properties import capacity, clusters, options, quick, requests
from tests.admission.engine.topology.vectors import BLOCK, FLAVOR, LEVELS, RACK, ledger, node, request, shown

roomy = st.lists(clusters(), min_size=2, max_size=3).map(
    lambda some: [
        Node(f"{part}{node.name}", {**node.labels, HOSTNAME_LABEL: f"{part}{node.name}"}, node.allocatable, node.taints)
        for part, nodes in zip("abc", some, strict=False)
        for node in nodes
    ]
)
few = requests().map(lambda requested: replace(requested, count=1 + requested.count // 2))


def at(text: str) -> Assignment:
    """`h1:3 h2:1` as an assignment."""
    pairs = (part.split(":") for part in text.split())
    return Assignment((HOSTNAME_LABEL,), tuple(DomainCount((host,), int(count)) for host, count in pairs))


def book_of(*requested: PlacementRequest) -> Ledger:
    """The fixture's nodes with the requests' previous assignments booked as one workload."""
    return charged(ledger(), *requested)


def charged(book: Ledger, *requested: PlacementRequest) -> Ledger:
    """The same in a given ledger."""
    got = tuple(PodSetAdmission(r.pod_set.name, {"cpu": FLAVOR}, {}, r.count, r.previous) for r in requested)
    book.charge(Workload("ns/wl", "uid", "ns/lq", "cq", tuple(r.pod_set for r in requested)), Admission("cq", got))
    return book


def placed(name: str, text: str, where: str, group: str | None = None) -> PlacementRequest:
    """A pod set of 1-cpu pods that is placed already."""
    assignment = at(where)
    made = request(name, text, sum(domain.count for domain in assignment.domains), group=group)
    return replace(made, previous=assignment)


def failing(host: str, *requested: PlacementRequest) -> PlacementResult:
    """The host is no more."""
    book = book_of(*requested)
    book.apply(ObjectRemoved(RemovedKind.NODE, host))
    result = book.placement.replace(requested, (host,))
    assert book.audit() == []
    return result


STALE = (
    "Cannot replace the node, because the existing topologyAssignment is invalid, as it contains the stale domain gone"
)
ELSEWHERE = (
    'topology "default" doesn\'t allow to fit any of 2 pod(s). Total nodes: 9; '
    'excluded: resource "cpu": 1, topologyDomain: 8'
)


@pytest.mark.parametrize(
    ("text", "where", "host", "want"),
    [
        pytest.param("required rack", "h6:2 h7:1", "h7", "h6:2 h8:1", id="in the required rack"),
        pytest.param("required rack", "h4:4 h5:2", "h5", ELSEWHERE, id="no room left in the required rack"),
        pytest.param("required rack", "h5:4", "h5", "h4:4", id="all pods lost, any rack will do"),
        pytest.param("preferred rack", "h4:4 h5:2", "h5", "h3:2 h4:4", id="preferred rack may be left"),
        pytest.param("unconstrained", "h1:1 h4:4", "h4", "h1:1 h5:4", id="unconstrained"),
        pytest.param("implied", "h1:1 h2:1", "h2", "h1:1 h9:1", id="implied"),
        pytest.param("unconstrained", "h1:1 h2:1", "h5", "h1:1 h2:1", id="not touched"),
        pytest.param("unconstrained", "h1:1 gone:1 h2:1", "h2", STALE, id="another domain is gone"),
        pytest.param("required block; slice rack*4", "h1:2 h3:2 h4:4", "h3", "h1:3 h2:1 h4:4", id="broken slice"),
        pytest.param("slice only rack*4", "h1:2 h3:2 h4:4", "h3", "h1:3 h2:1 h4:4", id="broken slice of its own"),
        pytest.param("required block; slice rack*4", "h1:2 h3:2 h4:4", "h4", "h1:2 h3:2 h5:4", id="whole slice"),
        pytest.param(
            "preferred block; layers rack*4, host*2", "h1:2 h3:2 h6:2 h8:2", "h8", "h1:2 h3:2 h6:2 h7:2", id="layers"
        ),
        pytest.param(
            "required block; slice host*2",
            "h1:3 h3:2",
            "h1",
            "cannot find replacement assignment for unhealthy node: h1",
            id="half a slice cannot be placed",
        ),
        pytest.param("required nowhere", "h1:1", "h1", "no requested topology level: nowhere", id="level is gone"),
    ],
)
def test_lost_pods_find_a_place(text: str, where: str, host: str, want: str) -> None:
    assert shown(failing(host, placed("main", text, where)), "main") == want


@pytest.mark.parametrize(
    ("text", "where", "hosts", "want"),
    [
        pytest.param("required rack", "h6:1 h7:1 h8:1", "h7 h8", "-", id="too little room in the rack"),
        pytest.param("required block", "h1:1 h3:1 h4:1", "h3 h4", "h1:3", id="in the required block"),
        pytest.param("unconstrained", "h1:1 h4:4 h5:4", "h4 h5", "h1:3 h2:1 h3:2 h6:2 h9:1", id="anywhere"),
        pytest.param(
            "required block; slice rack*4", "h1:2 h3:2 h4:2 h5:2", "h3 h5", "h1:3 h2:1 h4:4", id="a part of each slice"
        ),
        pytest.param(
            "required block; slice rack*2",
            "h1:1 h3:1 h4:2 h5:2",
            "h3 h4",
            "h1:3 h2:1 h5:2",
            id="a part and a whole slice",
        ),
        pytest.param(
            "preferred block; layers rack*4, host*2", "h1:2 h3:2 h4:4", "h3 h4", "-", id="layers: no whole rack is left"
        ),
    ],
)
def test_pods_of_several_nodes_find_places_together(text: str, where: str, hosts: str, want: str) -> None:
    """Kueue replaces one node at a time, and evicts the workload when a second one fails meanwhile."""
    requested = placed("main", text, where)
    book = book_of(requested)
    for host in hosts.split():
        book.apply(ObjectRemoved(RemovedKind.NODE, host))
    result = book.placement.replace([requested], hosts.split())
    assert book.audit() == []
    assert (shown(result, "main") if result.fits else "-") == want


@pytest.mark.parametrize(
    ("text", "where", "want"),
    [
        pytest.param("required rack", "h6:2 h7:1 away:1", "h6:2 h8:1 away:1", id="in the rack of the others"),
        pytest.param("unconstrained", "away:1 h7:1", "h2:1 away:1", id="anywhere"),
        pytest.param("required rack", "away:1 h7:1", STALE.replace("gone", "away"), id="nothing tells the rack"),
        pytest.param(
            "slice only rack*2", "h6:1 h7:1 away:2", STALE.replace("gone", "away"), id="nothing tells the slices"
        ),
    ],
)
def test_pods_on_a_node_outside_the_topology_stay_while_it_lives(text: str, where: str, want: str) -> None:
    """A node that is not ready, or was relabelled: its pods run on."""
    requested = placed("main", text, where)
    book = book_of(requested)
    book.apply(ObjectRemoved(RemovedKind.NODE, "h7"))
    assert shown(book.placement.replace([requested], ("h7",), alive={"away"}), "main") == want


TORN = "nodes were relabelled, and no domain of level example.com/rack has most of the pods that stay"


@pytest.mark.parametrize(
    ("where", "moved", "lost", "want"),
    [
        pytest.param("h9:1 h10:2 h11:1", "h9", "h11", "h9:1 h10:3", id="the one that comes first by name"),
        pytest.param("h9:1 h10:2 h11:1", "h11", "h9", "h11:1 h10:3", id="the other one"),
        pytest.param("h9:1 h10:1 h11:1", "h9", "h11", TORN, id="as many here as there"),
        pytest.param("h10:1 h11:1", "h10", "h11", "h10:2", id="all that stay"),
    ],
)
def test_lost_pods_go_where_most_of_the_others_are_though_some_were_relabelled(
    where: str, moved: str, lost: str, want: str
) -> None:
    """The gang stays in the rack of its admission, or starts anew as a whole."""
    requested = placed("main", "required rack", where)
    book = ledger()
    book.apply(node("h11", {BLOCK: "b2", RACK: "r2"}, 2))
    charged(book, requested)
    book.apply(node(moved, {BLOCK: "b1", RACK: "r2"}, 5))
    book.apply(ObjectRemoved(RemovedKind.NODE, lost))
    assert shown(book.placement.replace([requested], (lost,)), "main") == want


def test_pod_sets_see_what_those_before_them_took() -> None:
    result = failing("h5", placed("one", "required rack", "h4:1 h5:2"), placed("two", "required rack", "h4:1 h5:1"))
    assert shown(result, "one") == "h4:3"
    assert "doesn't allow to fit any of 1 pod(s)" in shown(result, "two")


@pytest.mark.parametrize(
    ("group", "want"), [pytest.param("g", "h10:1", id="group"), pytest.param(None, "h8:1", id="none")]
)
def test_a_leader_that_was_alone_on_the_node_stays_with_its_workers(group: str | None, want: str) -> None:
    others = placed("others", "required rack", "h6:2 h7:2 h8:1")
    leader, workers = (
        placed("leader", "required rack", "h9:1", group),
        placed("workers", "required rack", "h10:1", group),
    )
    assert shown(failing("h9", others, leader, workers), "leader") == want


def test_a_failure_ends_its_flavor_and_new_pod_sets_are_not_placed() -> None:
    lost, later = placed("lost", "required host", "h10:5"), placed("later", "unconstrained", "h10:0 h1:1")
    fresh = request("fresh", "unconstrained", 1)
    book = charged(ledger(), lost, later)
    book.apply(ObjectRemoved(RemovedKind.NODE, "h10"))
    result = book.placement.replace([lost, fresh, later], ("h10",))
    assert (set(result.failures), set(result.assignments)) == ({"lost"}, set())


def test_a_flavor_that_is_gone() -> None:
    requested = placed("main", "required rack", "h1:1")
    message = shown(Ledger().placement.replace([requested], ("h1",)), "main")
    assert message == f'workload requires Topology, but there is no TAS cache information for flavor "{FLAVOR}"'


@quick
@given(roomy, few, options, st.data())
def test_replacement_keeps_what_holds(
    nodes: list[Node], requested: PlacementRequest, given_options: PlacementOptions, data: st.DataObject
) -> None:
    book = ledger(given_options, nodes)
    first = book.placement.place([requested])
    assume(first.fits and first.assignments["main"].domains)
    before = first.assignments["main"]
    placed_before = replace(requested, previous=before, count=sum(domain.count for domain in before.domains))
    charged(book, placed_before)
    hosts = data.draw(st.sets(st.sampled_from([domain.values[0] for domain in before.domains]), min_size=1))
    for host in hosts:
        book.apply(ObjectRemoved(RemovedKind.NODE, host))
    result = book.placement.replace([placed_before], sorted(hosts))
    assert book.audit() == []
    old = Counter({domain.values[0]: domain.count for domain in before.domains})
    lost = sum(old.pop(host) for host in hosts)
    if not result.fits:
        left = [node for node in nodes if node.name not in hosts]
        assert len(hosts) == 1 or not _could_be_replaced(requested, left, old, lost)
        return
    new = Counter({domain.values[0]: domain.count for domain in result.assignments["main"].domains})
    assert not new.keys() & hosts
    assert old <= new
    assert new.total() == old.total() + lost
    offered = {node.name: node.allocatable for node in nodes if node.usable}
    for name, count in new.items():
        for resource, amount in {**requested.pod_set.requests, "pods": 1}.items():
            assert amount * count <= offered[name][resource]
    _levels_and_slices_hold(requested, {node.name: node for node in nodes}, old, new)


def _could_be_replaced(requested: PlacementRequest, nodes: list[Node], old: Counter[str], lost: int) -> bool:
    """By trying all ways: the lost pods beside those that stay, all in the required domain, in whole slices."""
    topology = requested.pod_set.topology
    assert topology is not None
    free = {node.name: capacity(node, requested) - old[node.name] for node in nodes}

    def domain(node: Node, level: str) -> tuple[str, ...]:
        return tuple(node.labels[key] for key in LEVELS[: LEVELS.index(level) + 1])

    required = topology.required or LEVELS[0]
    homes = {domain(node, required) for node in nodes} if topology.required else {None}
    return any(
        all(home is None or domain(node, required) == home for node in nodes if old[node.name])
        and _spread(
            [
                (domain(node, topology.slices[0].level) if topology.slices else (), node.name)
                for node in nodes
                if home is None or domain(node, required) == home
            ],
            free,
            old,
            topology.slices[0].size if topology.slices else 1,
            lost,
        )
        for home in homes
    )


def _spread(
    hosts: list[tuple[tuple[str, ...], str]], free: dict[str, int], old: Counter[str], size: int, lost: int
) -> bool:
    """Whether the lost pods fit on these hosts so that each domain of the slices holds whole slices."""
    domains: dict[tuple[str, ...], tuple[int, int]] = {}
    for domain, name in hosts:
        held, more = domains.get(domain, (0, 0))
        domains[domain] = held + old[name], more + max(0, free[name])
    reachable = {0}
    for held, more in domains.values():
        takes = [take for take in range(min(more, lost) + 1) if (held + take) % size == 0]
        reachable = {before + take for before in reachable for take in takes if before + take <= lost}
    return lost in reachable


def _levels_and_slices_hold(
    requested: PlacementRequest, nodes: dict[str, Node], old: Counter[str], new: Counter[str]
) -> None:
    """All pods in one domain of the required level, and whole slices."""
    topology = requested.pod_set.topology
    assert topology is not None

    def by(level: str) -> Counter[tuple[str, ...]]:
        found: Counter[tuple[str, ...]] = Counter()
        for name, count in new.items():
            found[tuple(nodes[name].labels[key] for key in LEVELS[: LEVELS.index(level) + 1])] += count
        return found

    if topology.required is not None:
        assert len(by(topology.required)) == 1
    for layer in topology.slices:
        assert all(count % layer.size == 0 for count in by(layer.level).values())
