"""Required anti-affinity: what is placed binds in any order, and what could be bound is placed. Against a plain model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    BoundPod,
    Namespace,
    Node,
    ObjectRemoved,
    PlacementRequest,
    PodFacts,
    PodSet,
    PodTerm,
    Profile,
    RemovedKind,
    SpreadTerm,
    TopologyRequest,
    Workload,
)
from api.pod.pod_terms import SelectorRequirement
from tests.admission.engine.builders import Cluster, admitted, queue, racks
from tests.admission.engine.topology.interpod import OnePod, Term, TermCluster, binds, passes
from tests.admission.engine.topology.neighbour_clusters import (
    ASKS,
    CPU,
    PODS,
    ZONE,
    book,
    bound,
    facts,
    node,
    request,
    rows,
    spots,
    workload,
)
from tests.admission.engine.topology.vectors import BLOCK, FLAVOR, LEVELS, RACK, shown
from tests.budgets import examples


@st.composite
def clusters(draw: st.DrawFn, *, crossing: bool = False) -> TermCluster:
    """Up to six nodes; a zone is a block, or with `crossing` anything, also missing."""
    nodes = {}
    for i in range(draw(st.integers(1, 6))):
        rack = draw(st.integers(0, 2))
        zone = draw(st.sampled_from(["z0", "z1", None])) if crossing else f"z{rack // 2}"
        labels = {HOSTNAME_LABEL: f"n{i}", BLOCK: f"b{rack // 2}", RACK: f"r{rack}"}
        nodes[f"n{i}"] = {**labels, **({} if zone is None else {ZONE: zone})}
    free = {name: draw(st.integers(0, 2)) for name in nodes}
    pods = draw(st.lists(st.builds(replace, PODS, node=st.sampled_from([*sorted(nodes), "gone"])), max_size=4))
    return TermCluster(nodes, free, pods)


def of(cluster: TermCluster, profile: Profile) -> Ledger:
    made = book(
        [Node(n, labels, {"cpu": 1000 * cluster.free[n], "pods": 20}) for n, labels in cluster.nodes.items()], profile
    )
    for i, pod in enumerate(cluster.pods):
        made.apply(bound(f"p{i}", pod))
    return made


def inside(cluster: TermCluster, topology: TopologyRequest, choice: tuple[str, ...]) -> bool:
    if topology.required is None:
        return True
    depth = LEVELS.index(topology.required) + 1
    return len({tuple(cluster.nodes[n][level] for level in LEVELS[:depth]) for n in choice}) == 1


@settings(max_examples=examples(100))
@given(clusters(), PODS, st.integers(1, 3), ASKS, st.sampled_from(list(Profile)))
def test_what_could_be_bound_is_placed_and_what_is_placed_binds(
    cluster: TermCluster, pod: OnePod, count: int, topology: TopologyRequest, profile: Profile
) -> None:
    gang = [pod] * count
    ways = (
        choice
        for choice in cluster.ways(gang)
        if inside(cluster, topology, choice)
        and binds([replace(pod, node=n) for n in choice], cluster.pods, cluster.nodes)
    )
    possible = any(True for _ in ways)
    made = of(cluster, profile)
    result = made.placement.place([request(pod, count, topology)])
    assert result.fits == possible, (shown(result, "main"), possible)
    if result.fits:
        found = [replace(pod, node=n) for n in spots(result.assignments["main"])]
        assert binds(found, cluster.pods, cluster.nodes)
    assert made.audit() == []


@settings(max_examples=examples(100))
@given(clusters(crossing=True), st.lists(PODS, min_size=2, max_size=2), ASKS, st.sampled_from(["", "g"]))
def test_pod_sets_that_are_placed_together_bind_in_any_order(
    cluster: TermCluster, pods: list[OnePod], topology: TopologyRequest, group: str
) -> None:
    """A leader and two workers, or two pod sets one after the other, also where zones cross racks."""
    pods = [replace(pod, namespace="ns") for pod in pods]
    topology = replace(topology, group=group or None)
    made = of(cluster, Profile.EXACT)
    result = made.placement.place([request(pods[0], 1, topology, "leader"), request(pods[1], 2, topology, "workers")])
    if result.fits:
        gang = [replace(pods[0], node=n) for n in spots(result.assignments["leader"])]
        gang += [replace(pods[1], node=n) for n in spots(result.assignments["workers"])]
        assert binds(gang, cluster.pods, cluster.nodes)
    assert made.audit() == []


def test_a_term_is_named_and_a_domain_opens_when_its_pod_has_left() -> None:
    made = book(rows(4))
    made.apply(bound("db", OnePod("db", node="n0")))
    requested = request(OnePod("a", (Term(RACK, "db"),)), 3, TopologyRequest(required=BLOCK))
    assert made.placement.place([request(OnePod("a"), 3, TopologyRequest(required=BLOCK))]).fits
    before = made.generation(FLAVOR)
    made.apply(bound("db2", OnePod("db", node="n2")))
    assert made.placement.place([requested]).failures["main"].message == (
        f'topology "default" doesn\'t allow to fit any of 3 pod(s). Total nodes: 4; excluded: pod anti-affinity {RACK}: 4'
    )
    made.apply(ObjectRemoved(RemovedKind.POD, "ns/db2"))
    assert made.generation(FLAVOR) > before
    assert spots(made.placement.place([requested]).assignments["main"]) == ["n2", "n2", "n3"]


def test_a_pod_outside_the_flavors_closes_its_zone_and_opens_it_when_it_leaves() -> None:
    made = book(rows(4))
    made.apply(node("elsewhere", {ZONE: "z0"}))
    guard = OnePod("guard", (Term(ZONE, "a"),), node="elsewhere")
    requested = request(OnePod("a"), 1, TopologyRequest(unconstrained=True))
    made.apply(bound("guard", guard))
    assert f"pod anti-affinity {ZONE}: 4" in shown(made.placement.place([requested]), "main")
    before = made.generation(FLAVOR)
    made.apply(ObjectRemoved(RemovedKind.POD, "ns/guard"))
    assert made.generation(FLAVOR) > before
    assert made.placement.place([requested]).fits


def test_more_pods_than_domains_name_the_key() -> None:
    requested = request(OnePod("a", (Term(RACK, "a"),)), 3, TopologyRequest(required=BLOCK))
    assert shown(book(rows(4)).placement.place([requested]), "main") == (
        'topology "default" allows to fit only 2 out of 3 pod(s). '
        f"Total nodes: 4; excluded: one pod of the gang for each {RACK}: 2"
    )


def test_namespaces_by_their_labels() -> None:
    made = book(rows(2))
    term = PodTerm(BLOCK, (), (), (SelectorRequirement("team", "In", ("x",)),))
    made.apply(BoundPod("far/p", "n0", {}, facts=PodFacts("far")))
    keeps = PodFacts("ns", (), (term,))
    requested = PlacementRequest(
        PodSet("main", 1, CPU, topology=TopologyRequest(unconstrained=True), facts=keeps), FLAVOR, 1, facts=keeps
    )
    assert made.placement.place([requested]).fits
    made.apply(Namespace("far", {"team": "x"}))
    assert not made.placement.place([requested]).fits
    made.apply(ObjectRemoved(RemovedKind.NAMESPACE, "far"))
    assert made.placement.place([requested]).fits


def test_an_empty_cluster_has_the_pods_of_others_and_none_of_ours() -> None:
    made = book(rows(4))
    requested = request(OnePod("a", (Term(BLOCK, "a"),)), 1, TopologyRequest(unconstrained=True))
    taken = workload("ns/w", requested, made.placement.place([requested]).assignments["main"])
    made.charge(taken, taken.admission)  # type: ignore[arg-type]
    assert not made.placement.place([requested]).fits
    assert made.placement.place([requested], simulate_empty=True).fits
    made.apply(bound("theirs", OnePod("a", node="n3")))
    assert not made.placement.place([requested], simulate_empty=True).fits


@pytest.mark.parametrize("where", ["leader", "workers"])
def test_a_term_that_cannot_be_counted_is_the_reason(where: str) -> None:
    bad = replace(
        facts(OnePod("a")), problem="required podAntiAffinity term 0 has 99 expressions; at most 64 are counted"
    )
    topology = TopologyRequest(unconstrained=True, group="g")
    some = [request(OnePod("a"), 1, topology, "leader"), request(OnePod("a"), 2, topology, "workers")]
    requested = [replace(one, facts=bad) if one.pod_set.name == where else one for one in some]
    assert "at most 64 are counted" in shown(book(rows(4)).placement.place(requested), where)


def test_the_model_itself() -> None:
    nodes = {"n0": {ZONE: "z"}, "n1": {ZONE: "z"}, "n2": {}}
    guard = OnePod("a", (Term(ZONE, "b"),), node="n0")
    assert not passes(OnePod("b", node="n1"), [guard], nodes)
    assert passes(OnePod("b", node="n2"), [guard], nodes)
    assert not passes(replace(guard, node="n1"), [OnePod("b", node="n0")], nodes)


def test_pods_that_want_each_other_go_to_one_domain_and_the_next_ones_there() -> None:
    """The first pod of its kind may go anywhere; once one is bound, all others go where it is."""
    made = book(rows(8))
    pod = OnePod("a", near=(Term(RACK, "a"),))
    requested = request(pod, 3, TopologyRequest(unconstrained=True))
    found = made.placement.place([requested]).assignments["main"]
    assert len({made.capacity.nodes[n].node.labels[RACK] for n in spots(found)}) == 1  # type: ignore[union-attr]
    assert made.placement.place([request(pod, 5, TopologyRequest(unconstrained=True))]).failures["main"].message == (
        f'topology "default" allows to fit at most 4 out of 5 pod(s) in one domain of {RACK}, '
        "where required pod affinity keeps them together"
    )
    taken = workload("ns/w", requested, found)
    made.charge(taken, taken.admission)  # type: ignore[arg-type]
    one = request(pod, 1, TopologyRequest(unconstrained=True))
    assert f"pod affinity {RACK}: 8" in shown(made.placement.place([one]), "main"), "none of them is bound yet"
    before = made.generation(FLAVOR), made.openings
    made.apply(replace(bound("w-0", replace(pod, node=spots(found)[0])), workload="ns/w", pod_set="main", requests=CPU))
    assert made.generation(FLAVOR) > before[0]
    assert made.openings > before[1]
    assert made.placement.place([one]).fits
    assert not made.placement.place([request(pod, 2, TopologyRequest(unconstrained=True))]).fits


def test_what_an_unbound_gang_gathers_with_is_placed_nowhere_else() -> None:
    """Bound first, a pod of the second workload in another rack would be where the gang's pods have to go."""
    made = book(rows(8))
    requested = request(OnePod("a", near=(Term(RACK, "a"),)), 3, TopologyRequest(unconstrained=True))
    found = made.placement.place([requested]).assignments["main"]
    taken = workload("ns/w", requested, found)
    made.charge(taken, taken.admission)  # type: ignore[arg-type]
    one, two = (request(OnePod("a"), count, TopologyRequest(unconstrained=True)) for count in (1, 2))
    rack = {made.capacity.nodes[name].node.labels[RACK] for name in spots(found)}  # type: ignore[union-attr]
    beside = spots(made.placement.place([one]).assignments["main"])
    assert {made.capacity.nodes[name].node.labels[RACK] for name in beside} == rack  # type: ignore[union-attr]
    assert f"pod affinity {RACK}: 6" in shown(made.placement.place([two]), "main")
    assert made.placement.place([request(OnePod("b"), 8, TopologyRequest(unconstrained=True))]).fits
    first = bound("w-0", OnePod("a", near=(Term(RACK, "a"),), node=spots(found)[0]))
    before = made.openings
    made.apply(replace(first, workload="ns/w", pod_set="main", requests=CPU))
    assert made.openings > before
    assert made.placement.place([two]).fits
    assert made.audit() == []


def test_a_gang_follows_a_pod_that_it_names() -> None:
    made = book(rows(8))
    requested = request(OnePod("a", near=(Term(BLOCK, "db"),)), 2, TopologyRequest(unconstrained=True))
    assert f"pod affinity {BLOCK}: 8" in shown(made.placement.place([requested]), "main")
    made.apply(bound("db", OnePod("db", node="n5")))
    assert {name[1:] >= "4" for name in spots(made.placement.place([requested]).assignments["main"])} == {True}


def test_several_pod_sets_with_affinity_to_each_other_get_a_reason_to_wait() -> None:
    pod = OnePod("a", near=(Term(RACK, "a"),))
    some = [request(pod, 1, TopologyRequest(unconstrained=True), name) for name in ("one", "two")]
    made = book(rows(4))
    assert "in a workload of several pod sets" in shown(made.placement.place(some), "two")
    made.apply(bound("first", OnePod("a", node="n1")))
    assert made.placement.place(some).fits


def test_two_heads_of_one_cycle_do_not_get_places_that_exclude_each_other() -> None:
    """Both are nominated on the same state; the second is looked at again when the first has its place."""
    like = PodTerm(BLOCK, (SelectorRequirement("app", "In", ("a",)),), ("ns",))
    pod_set = PodSet(
        "main", 1, CPU, topology=TopologyRequest(unconstrained=True), facts=PodFacts("ns", (("app", "a"),), (like,))
    )
    heads = [Workload(f"ns/{name}", name, f"ns/{name}", name, (pod_set,)) for name in ("q1", "q2")]
    nodes = [node(f"h{i}", {"rack": "r", BLOCK: "b", "pool": "tas"}) for i in range(2)]
    here = Cluster(racks(), *nodes, queue("q1", tas=10), queue("q2", tas=10), *heads)
    assert admitted(here.cycle()) == ["ns/q1"]
    assert admitted(here.cycle()) == []
    here.finish("ns/q1")
    assert admitted(here.cycle()) == ["ns/q2"]


def test_an_unbound_pod_with_minimum_domains_keeps_the_pods_that_it_counts_off_its_host() -> None:
    """kube-scheduler counts a pinned pod with minDomains against 0: a like pod that came first would be in its way."""
    like = PodTerm(RACK, (SelectorRequirement("app", "In", ("a",)),), ("ns",))
    even = PodFacts("ns", (("app", "a"),), even=(SpreadTerm(like, 1, 2, taints=False),))
    made = book(rows(2))
    pod_set = PodSet("main", 1, CPU, facts=even, topology=TopologyRequest(unconstrained=True))
    requested = PlacementRequest(pod_set, FLAVOR, 1, facts=even)
    found = made.placement.place([requested]).assignments["main"]
    made.apply(workload("ns/w", requested, found))
    [host] = spots(found)
    plain = request(OnePod("a"), 1, TopologyRequest(unconstrained=True))
    assert host not in spots(made.placement.place([plain]).assignments["main"])
    made.apply(replace(bound("w-0", OnePod("a", node=host)), workload="ns/w", pod_set="main", requests=CPU))
    assert made.placement.place([replace(plain, count=3)]).fits
    assert made.audit() == []
