"""What holds of every placement: never over capacity, exact counts, the same for any order of input, and equal to trying
all domains where that is feasible."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.model import (
    HOSTNAME_LABEL,
    Counting,
    Node,
    ObjectRemoved,
    PlacementOptions,
    PlacementRequest,
    PodSet,
    RemovedKind,
    SliceLayer,
    Taint,
    Toleration,
    TopologyRequest,
)
from tests.admission.engine.topology.vectors import BLOCK, FLAVOR, LEVELS, RACK, ledger, shown
from tests.budgets import examples

SHAPES = [{"cpu": 1000}, {"cpu": 2000, "gpu": 1}, {"gpu": 3}]
TAINT = Taint(key="dedicated", effect="NoSchedule", value="x")


@st.composite
def clusters(draw: st.DrawFn) -> list[Node]:
    """Up to 9 nodes of mixed sizes in up to 3 blocks."""
    return [
        Node(
            f"n{index}",
            {
                BLOCK: draw(st.sampled_from(["b1", "b2", "b3"])),
                RACK: draw(st.sampled_from(["r1", "r2"])),
                HOSTNAME_LABEL: f"n{index}",
                "pool": draw(st.sampled_from(["a", "b"])),
            },
            {"cpu": 1000 * draw(st.integers(0, 8)), "gpu": draw(st.integers(0, 8)), "pods": draw(st.integers(0, 6))},
            taints=draw(st.sampled_from([(), (), (TAINT,)])),
            usable=draw(st.sampled_from([True, True, True, False])),
        )
        for index in range(draw(st.integers(1, 9)))
    ]


@st.composite
def topologies(draw: st.DrawFn) -> TopologyRequest:
    """Any sound request."""
    at = draw(st.integers(0, 2))
    slices: tuple[SliceLayer, ...] = ()
    if draw(st.booleans()):
        slices = (SliceLayer(LEVELS[draw(st.integers(at, 2))], draw(st.integers(1, 3))),)
    match draw(st.sampled_from(["required", "preferred", "unconstrained"])):
        case "required":
            return TopologyRequest(required=LEVELS[at], slices=slices)
        case "preferred":
            return TopologyRequest(preferred=LEVELS[at], slices=slices)
        case _:
            return TopologyRequest(unconstrained=True)


@st.composite
def requests(draw: st.DrawFn, name: str = "main") -> PlacementRequest:
    """A pod set with or without constraints on nodes."""
    pod_set = PodSet(
        name,
        draw(st.integers(1, 14)),
        draw(st.sampled_from(SHAPES)),
        topology=draw(topologies()),
        node_selector=draw(st.sampled_from([{}, {}, {"pool": "a"}])),
        tolerations=draw(st.sampled_from([(), (Toleration(operator="Exists"),)])),
    )
    return PlacementRequest(pod_set, FLAVOR, pod_set.count)


options = st.builds(
    PlacementOptions,
    counting=st.sampled_from(list(Counting)),
    balanced=st.booleans(),
    least_free_for_unconstrained=st.booleans(),
)
levels = st.sampled_from([LEVELS, (BLOCK, RACK), (HOSTNAME_LABEL,)])
quick = settings(max_examples=examples(50), deadline=None)
more = settings(quick, max_examples=examples(100))
fewer = settings(quick, max_examples=examples(25))


def capacity(node: Node, request: PlacementRequest) -> int:
    """Pods that one node holds, counted plainly."""
    pod_set = request.pod_set
    tolerated = not node.taints or bool(pod_set.tolerations)
    selected = all(node.labels.get(key) == value for key, value in pod_set.node_selector.items())
    if not (node.usable and tolerated and selected):
        return 0
    needs = {**pod_set.requests, "pods": 1}
    return min(node.allocatable.get(name, 0) // amount for name, amount in needs.items())


@more
@given(clusters(), st.lists(st.integers(0, 2), max_size=3), st.data(), options)
def test_never_over_capacity_and_exact(
    nodes: list[Node], names: list[int], data: st.DataObject, given_options: PlacementOptions
) -> None:
    requested = [data.draw(requests(name=str(index))) for index in range(len(names) + 1)]
    book = ledger(given_options, nodes)
    result = book.placement.place(requested)
    taken: Counter[tuple[str, str]] = Counter()
    for request in requested:
        assignment = result.assignments.get(request.pod_set.name)
        if assignment is None:
            continue
        topology = request.pod_set.topology
        size = topology.slices[0].size if topology and topology.slices else 1
        assert sum(domain.count for domain in assignment.domains) == request.count // size * size
        for domain in assignment.domains:
            assert domain.count > 0
            for resource, amount in {**request.pod_set.requests, "pods": 1}.items():
                taken[domain.values[0], resource] += amount * domain.count
    offered = {node.name: node.allocatable for node in nodes if node.usable}
    for (host, resource), amount in taken.items():
        assert amount <= offered[host][resource]
    assert book.audit() == []


@quick
@given(clusters(), requests(), options, levels, st.randoms(use_true_random=False))
def test_the_order_of_nodes_does_not_matter(
    nodes: list[Node],
    request: PlacementRequest,
    given_options: PlacementOptions,
    some_levels: tuple[str, ...],
    random: Random,
) -> None:
    mixed = random.sample(nodes, len(nodes))
    results = [ledger(given_options, order, some_levels).placement.place([request]) for order in (nodes, mixed)]
    assert results[0] == results[1]


@fewer
@given(clusters(), requests())
def test_nodes_that_were_there_leave_no_trace(nodes: list[Node], request: PlacementRequest) -> None:
    plain = ledger(PlacementOptions(), nodes).placement.place([request])
    book = ledger(PlacementOptions(), [*nodes, *(Node(f"x{n.name}", n.labels, n.allocatable) for n in nodes)][::-1])
    for node in nodes:
        book.apply(ObjectRemoved(RemovedKind.NODE, f"x{node.name}"))
    assert book.placement.place([request]) == plain


@quick
@given(clusters(), requests(), st.sampled_from([BLOCK, RACK, HOSTNAME_LABEL]))
def test_required_is_placed_iff_one_domain_holds_it(nodes: list[Node], request: PlacementRequest, level: str) -> None:
    pod_set = PodSet(
        "main",
        request.count,
        request.pod_set.requests,
        topology=TopologyRequest(required=level),
        node_selector=request.pod_set.node_selector,
        tolerations=request.pod_set.tolerations,
    )
    requested = PlacementRequest(pod_set, FLAVOR, request.count)
    result = ledger(PlacementOptions(), nodes).placement.place([requested])
    depth = LEVELS.index(level) + 1
    free_capacity: Counter[tuple[str, ...]] = Counter()
    for node in nodes:
        free_capacity[tuple(node.labels[key] for key in LEVELS[:depth])] += capacity(node, requested)
    assert result.fits == any(pods >= request.count for pods in free_capacity.values()), shown(result, "main")
    if result.fits:
        labels = {node.name: node.labels for node in nodes}
        used = {
            tuple(labels[domain.values[0]][key] for key in LEVELS[:depth])
            for domain in result.assignments["main"].domains
        }
        assert len(used) == 1


@more
@given(clusters(), requests())
def test_preferred_and_unconstrained_wait_only_if_the_pods_do_not_fit_at_all(
    nodes: list[Node], request: PlacementRequest
) -> None:
    total = sum(capacity(node, request) for node in nodes)
    for topology in (TopologyRequest(preferred=RACK), TopologyRequest(unconstrained=True)):
        pod_set = PodSet(
            "main",
            request.count,
            request.pod_set.requests,
            topology=topology,
            node_selector=request.pod_set.node_selector,
            tolerations=request.pod_set.tolerations,
        )
        result = ledger(PlacementOptions(), nodes).placement.place([PlacementRequest(pod_set, FLAVOR, request.count)])
        assert result.fits == (total >= request.count)
        if not result.fits:
            assert result.failures["main"].fits == total


def test_all_orders_of_a_small_cluster_agree() -> None:
    some = [
        Node(f"n{i}", {BLOCK: "b", RACK: f"r{i % 2}", HOSTNAME_LABEL: f"n{i}"}, {"cpu": 1000 * (i % 3 + 1), "pods": 9})
        for i in range(5)
    ]
    request = PlacementRequest(PodSet("main", 5, {"cpu": 1000}, topology=TopologyRequest(preferred=RACK)), FLAVOR, 5)
    answers = {shown(ledger(None, list(order)).placement.place([request]), "main") for order in permutations(some)}
    assert len(answers) == 1
