"""Required anti-affinity: what is placed binds in any order, and what could be bound is placed. Against a plain model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    Admission,
    Assignment,
    BoundPod,
    DomainCount,
    Namespace,
    Node,
    ObjectRemoved,
    PlacementOptions,
    PlacementRequest,
    PodFacts,
    PodSet,
    PodSetAdmission,
    PodTerm,
    Profile,
    RemovedKind,
    SpreadTerm,
    TopologyRequest,
    Workload,
)
from admission.engine.topology.neighbours import audit, counts
from admission.engine.topology.neighbours.tally import TermTable
from api.pod_terms import SelectorRequirement
from tests.admission.engine.builders import Cluster, admitted, queue, racks
from tests.admission.engine.topology.interpod import OnePod, Term, TermCluster, binds, passes
from tests.admission.engine.topology.vectors import BLOCK, FLAVOR, LEVELS, RACK, ledger, shown
from tests.budgets import examples

ZONE = "zone"
CPU = {"cpu": 1000}


def selector(app: str | None) -> tuple[SelectorRequirement, ...]:
    return () if app is None else (SelectorRequirement("app", "In", (app,)),)


def facts(pod: OnePod) -> PodFacts:
    apart = [PodTerm(t.key, selector(t.app), t.namespaces or (pod.namespace,)) for t in pod.apart]
    wanted = tuple({one for t in pod.near for one in selector(t.app)})
    near = {t.key: PodTerm(t.key, wanted, pod.near[0].namespaces or (pod.namespace,)) for t in pod.near}
    return PodFacts(pod.namespace, (("app", pod.app),), tuple(apart), tuple(near.values()))


def bound(name: str, pod: OnePod) -> BoundPod:
    return BoundPod(f"{pod.namespace}/{name}", pod.node, {}, facts=facts(pod))


def node(name: str, labels: dict[str, str], cpu: int = 2) -> Node:
    return Node(name, {HOSTNAME_LABEL: name, **labels}, {"cpu": 1000 * cpu, "pods": 20})


def request(pod: OnePod, count: int, topology: TopologyRequest, name: str = "main") -> PlacementRequest:
    return PlacementRequest(
        PodSet(name, count, CPU, topology=topology, facts=facts(pod)), FLAVOR, count, facts=facts(pod)
    )


def book(nodes: list[Node], profile: Profile = Profile.EXACT) -> Ledger:
    return ledger(PlacementOptions(profile=profile), nodes)


def spots(assignment: Assignment) -> list[str]:
    return [domain.values[-1] for domain in assignment.domains for _ in range(domain.count)]


def workload(key: str, requested: PlacementRequest, found: Assignment) -> Workload:
    got = PodSetAdmission(
        requested.pod_set.name, {"cpu": FLAVOR}, {"cpu": 1000 * requested.count}, requested.count, found
    )
    return Workload(key, key, "ns/lq", "cq", (requested.pod_set,), admission=Admission("cq", (got,)))


def rows(number: int) -> list[Node]:
    """Two racks of a block; zones are blocks."""
    return [node(f"n{i}", {BLOCK: f"b{i // 4}", RACK: f"r{i // 2}", ZONE: f"z{i // 4}"}) for i in range(number)]


KEYS = (HOSTNAME_LABEL, RACK, BLOCK, ZONE, "missing")
TERMS = st.builds(
    Term, st.sampled_from(KEYS), st.sampled_from(["a", "b", None]), st.sampled_from([None, ("ns",), ("other", "ns")])
)


def in_one_namespace(terms: list[Term]) -> tuple[Term, ...]:
    """Affinity terms that look into different namespaces are not counted."""
    return tuple(replace(term, namespaces=terms[0].namespaces) for term in terms)


PODS = st.builds(
    OnePod,
    st.sampled_from(["a", "b"]),
    st.lists(TERMS, max_size=2).map(tuple),
    st.one_of(st.just(()), st.lists(TERMS, max_size=2).map(in_one_namespace)),
    st.sampled_from(["ns", "other"]),
)
ASKS = st.one_of(
    st.just(TopologyRequest(unconstrained=True)),
    st.sampled_from(LEVELS).map(lambda level: TopologyRequest(required=level)),
    st.sampled_from(LEVELS).map(lambda level: TopologyRequest(preferred=level)),
)


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


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("admit"), PODS, st.integers(1, 2), ASKS),
        st.tuples(st.just("bind"), st.integers(0, 5)),
        st.tuples(st.just("release"), st.integers(0, 5)),
        st.tuples(st.just("pod"), st.integers(0, 3), PODS, st.integers(0, 5)),
        st.tuples(st.just("no pod"), st.integers(0, 3)),
        st.tuples(st.just("node"), st.integers(0, 5), st.integers(0, 3), st.booleans()),
        st.tuples(st.just("no node"), st.integers(0, 5)),
        st.tuples(st.just("trial"), st.integers(0, 5)),
    ),
    max_size=25,
)


@pytest.fixture(scope="module")
def one_at_a_time() -> Iterator[None]:
    """One node, pod or place in each step of a count and of an audit: as much as can be happens between two."""
    with pytest.MonkeyPatch.context() as patch:
        for where, name in ((counts, "_STEP"), (audit, "_STEPS"), (audit, "_PART")):
            patch.setattr(where, name, 1)
        yield


@pytest.mark.usefixtures("one_at_a_time")
@settings(max_examples=examples(50))
@given(STEPS)
def test_the_counts_follow_whatever_happens(steps: list[tuple[object, ...]]) -> None:
    """Every admission binds beside all that is there at that moment; the counts are those of a fresh start; and an audit in
    parts, between which all this happens, finds no difference.
    """
    made = ledger(PlacementOptions(), rows(6))
    parts: Iterator[list[str]] = iter(())
    nodes = {one.name: dict(one.labels) for one in rows(6)}
    foreign: dict[str, OnePod] = {}
    admitted: dict[str, tuple[list[OnePod], Workload]] = {}
    bound_of: dict[str, int] = {}
    for index, step in enumerate(steps):
        match step:
            case "admit", OnePod() as pod, int(count), TopologyRequest() as topology:
                pod, key = replace(pod, namespace="ns"), f"ns/w{index}"
                requested = request(pod, count, topology)
                result = made.placement.place([requested])
                if result.fits:
                    gang = [replace(pod, node=n) for n in spots(result.assignments["main"])]
                    there = [*foreign.values(), *(one for some, _ in admitted.values() for one in some)]
                    assert binds(gang, there, nodes)
                    taken = workload(key, requested, result.assignments["main"])
                    made.charge(taken, taken.admission)  # type: ignore[arg-type]
                    admitted[key], bound_of[key] = (gang, taken), 0
            case "bind", int(which):
                for key in sorted(admitted)[which : which + 1]:
                    gang, _ = admitted[key]
                    if bound_of[key] < len(gang):
                        pod = gang[bound_of[key]]
                        made.apply(
                            replace(
                                bound(f"{key[3:]}-{bound_of[key]}", pod), workload=key, pod_set="main", requests=CPU
                            )
                        )
                        bound_of[key] += 1
            case "release", int(which):
                for key in sorted(admitted)[which : which + 1]:
                    for i in range(bound_of[key]):
                        made.apply(ObjectRemoved(RemovedKind.POD, f"{key}-{i}"))
                    made.release(key)
                    del admitted[key]
            case "pod", int(which), OnePod() as pod, int(on):
                foreign[f"f{which}"] = pod = replace(pod, node=f"n{on}", namespace="ns")
                made.apply(bound(f"f{which}", pod))
            case "no pod", int(which):
                foreign.pop(f"f{which}", None)
                made.apply(ObjectRemoved(RemovedKind.POD, f"ns/f{which}"))
            case "node", int(which), int(rack), bool(usable):
                labels = {HOSTNAME_LABEL: f"n{which}", BLOCK: f"b{rack // 2}", RACK: f"r{rack}", ZONE: f"z{rack // 2}"}
                if not any(one.node == f"n{which}" for some, _ in admitted.values() for one in some):
                    nodes[f"n{which}"] = labels
                    made.apply(replace(node(f"n{which}", labels), usable=usable))
            case "no node", int(which):
                if not any(one.node == f"n{which}" for some, _ in admitted.values() for one in some):
                    nodes.pop(f"n{which}", None)
                    made.apply(ObjectRemoved(RemovedKind.NODE, f"n{which}"))
            case "trial", int(which):
                with made.trial():
                    for key in sorted(admitted)[which : which + 2]:
                        made.remove_with_pods(key)
                    made.placement.place(
                        [
                            request(
                                OnePod("b", (Term(RACK, "a"), Term(ZONE, None))), 2, TopologyRequest(unconstrained=True)
                            )
                        ]
                    )
                    made.apply(ObjectRemoved(RemovedKind.POD, "ns/f0"))
        for found in islice(parts, 3):
            assert found == []
        if index % 8 == 0:
            assert list(chain.from_iterable(parts)) == []
            assert made.audit() == []
            parts = audit.wrong_counts(made.capacity.placed)
    assert list(chain.from_iterable(parts)) == []
    assert made.audit() == []


@pytest.mark.parametrize("wrong", ["pods", "borne", "of_waiting", "near", "gathering"])
def test_an_audit_finds_wrong_counts(wrong: str) -> None:
    made = book(rows(4))
    made.apply(bound("there", OnePod("a", (Term(RACK, "b"),), node="n0")))
    pod = OnePod("b", (Term(RACK, "a"),), (Term(BLOCK, "b"),))
    asked = request(pod, 1, TopologyRequest(unconstrained=True))
    taken = workload("ns/w", asked, made.placement.place([asked]).assignments["main"])
    made.charge(taken, taken.admission)  # type: ignore[arg-type]
    made.placement.place([request(replace(pod, app="c"), 1, TopologyRequest(unconstrained=True))])
    assert made.audit() == []
    placed = made.capacity.placed
    if wrong == "pods":
        placed.by_facts.popitem()
    else:
        tally = next(iter(getattr(placed, f"_{wrong}").tallies.values()))
        tally.at, tally.elsewhere = {}, 7
    assert any("counted" in text for text in made.audit())


@pytest.mark.usefixtures("one_at_a_time")
@settings(max_examples=examples(25))
@given(STEPS, st.integers(0, 6))
def test_pods_that_are_counted_in_steps_are_those_that_are_there(steps: list[tuple[object, ...]], every: int) -> None:
    """Whatever changes between two steps of the first count; until the last one a workload with terms waits and says why."""
    made = ledger(PlacementOptions(), rows(6))
    left: list[Iterator[None]] = []
    made.count_in_steps(left.append)
    for i in range(20):
        made.apply(bound(f"there{i}", OnePod("a", node=f"n{i % 6}")))
        admit(made, f"ns/w{i}", OnePod("b"), i % 6)
    requested = request(OnePod("a", (Term(HOSTNAME_LABEL, "none"),)), 1, TopologyRequest(unconstrained=True))
    assert "being counted for the first time" in shown(made.placement.place([requested]), "main")
    for index, step in enumerate(steps):
        match step:
            case "pod", int(which), OnePod() as pod, int(on):
                made.apply(bound(f"f{which}", replace(pod, node=f"n{on}", namespace="ns")))
            case "no pod", int(which):
                made.apply(ObjectRemoved(RemovedKind.POD, f"ns/there{which}"))
                made.apply(ObjectRemoved(RemovedKind.POD, f"ns/f{which}"))
            case "node", int(which), int(rack), bool(usable):
                labels = {HOSTNAME_LABEL: f"n{which}", BLOCK: f"b{rack // 2}", RACK: f"r{rack}", ZONE: f"z{rack // 2}"}
                made.apply(replace(node(f"n{which}", labels), usable=usable))
            case "no node", int(which):
                made.apply(ObjectRemoved(RemovedKind.NODE, f"n{which}"))
            case "admit", OnePod() as pod, int(which), _:
                made.release(f"ns/w{which}")
                admit(made, f"ns/w{which + index}", OnePod("a"), which)
            case "bind", int(which):
                pod = OnePod("b", node=f"n{which}")
                made.apply(replace(bound(f"w{which}-0", pod), workload=f"ns/w{which}", pod_set="main", requests=CPU))
            case "release", int(which):
                made.release(f"ns/w{which}")
            case "trial", int(which):
                with made.trial():
                    made.remove_with_pods(f"ns/w{which}")
        if every and index % every == 0:
            next(left[-1], None)
    for _ in left[-1]:
        pass
    assert made.audit() == []
    assert "being counted" not in shown(made.placement.place([requested]), "main")


def admit(made: Ledger, key: str, pod: OnePod, on: int) -> None:
    """Admits two pods on a node, unless the workload is admitted."""
    if key not in made.admissions:
        asked = request(pod, 2, TopologyRequest(unconstrained=True))
        taken = workload(key, asked, Assignment((HOSTNAME_LABEL,), (DomainCount((f"n{on}",), 2),)))
        made.charge(taken, taken.admission)  # type: ignore[arg-type]


def test_no_step_of_the_first_count_takes_more_than_some_nodes_or_pods() -> None:
    """So the loop is held for a millisecond, however many pods there are."""
    made = book(rows(200))
    for i in range(2000):
        made.apply(bound(f"p{i}", OnePod("a", node=f"n{i % 200}")))
    left: list[Iterator[None]] = []
    made.count_in_steps(left.append)
    made.placement.place([request(OnePod("a", (Term(RACK, "b"),)), 1, TopologyRequest(unconstrained=True))])
    counted = [0]
    for _ in left[0]:
        placed = made.capacity.placed
        counted.append(len(placed._named) + sum(f + a for at in placed.by_facts.values() for f, a in at.values()))
    assert max(now - before for before, now in pairwise(counted)) <= 64
    assert counted[-1] > 2100


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


def test_terms_without_number_are_forgotten_and_asked_again() -> None:
    made = book(rows(4))
    made.apply(bound("db", OnePod("app7", node="n0")))
    for i in range(3000):
        found = made.placement.place(
            [request(OnePod("x", (Term(BLOCK, f"app{i}"),)), 1, TopologyRequest(unconstrained=True))]
        )
        assert found.fits == (i != 7)
    assert not made.placement.place(
        [request(OnePod("x", (Term(BLOCK, "app7"),)), 1, TopologyRequest(unconstrained=True))]
    ).fits
    assert made.audit() == []


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


def test_terms_of_one_namespace_delay_no_question_about_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile tenant's pods bear terms without end, each for its own pods: none of them is looked at for others."""
    table = TermTable()
    wide = [PodTerm(RACK, (SelectorRequirement(f"k{n}", "Exists"),), ("hostile",)) for n in range(100)]
    named = [PodTerm(f"key{n}", (SelectorRequirement("app", "In", ("a",)),), ("hostile",)) for n in range(100)]
    for term in (*wide, *named):
        table.add(term)
    seen: list[PodTerm] = []
    monkeypatch.setattr(PodTerm, "looks_into", lambda term, *_: seen.append(term) or True)  # type: ignore[func-returns-value]
    assert not list(table.selecting(PodFacts("honest", (("app", "a"), ("k1", ""))), {}))
    assert seen == []
    assert len(list(table.selecting(PodFacts("hostile", (("app", "a"), ("k1", ""))), {}))) == 101
    for term in (*wide, *named):
        table.drop(term)
    assert not list(table.selecting(PodFacts("hostile", (("app", "a"), ("k1", ""))), {}))


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
