"""Spread constraints with DoNotSchedule: what is placed the scheduler could have placed pod by pod, and the other way round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    BoundPod,
    Node,
    PlacementOptions,
    PlacementRequest,
    PodFacts,
    PodSet,
    PodTerm,
    Profile,
    SliceLayer,
    SpreadTerm,
    Taint,
    TopologyRequest,
)
from admission.engine.topology.neighbours.even import Spread, evenly, evenly_at_most
from api.pod.pod_terms import SelectorRequirement
from tests.admission.engine.topology.vectors import BLOCK, FLAVOR, LEVELS, RACK, ledger, shown
from tests.budgets import examples

ZONE = "zone"
CPU = {"cpu": 1000}
Labels = Mapping[str, str]


def term(key: str, app: str) -> PodTerm:
    return PodTerm(key, (SelectorRequirement("app", "In", (app,)),), ("ns",))


def request(count: int, topology: TopologyRequest, *even: SpreadTerm) -> PlacementRequest:
    facts = PodFacts("ns", (("app", "a"),), even=even)
    return PlacementRequest(PodSet("main", count, CPU, topology=topology, facts=facts), FLAVOR, count, facts=facts)


def book(nodes: Mapping[str, Labels], free: Mapping[str, int], there: Counter[str], tainted: frozenset[str]) -> Ledger:
    taint = (Taint("reserved", "NoSchedule"),)
    made = ledger(
        PlacementOptions(profile=Profile.EXACT),
        [
            Node(n, labels, {"cpu": 1000 * (free[n] + there[n]), "pods": 20}, taints=taint if n in tainted else ())
            for n, labels in nodes.items()
        ],
    )
    for name, count in there.items():
        for index in range(count):
            facts = PodFacts("ns", (("app", "a"),))
            made.apply(BoundPod(f"ns/{name}-{index}", name, CPU, facts=facts))
    return made


# ---- a plain model: the filter, pod by pod


def passes(
    node: str, pods: Counter[str], nodes: Mapping[str, Labels], even: tuple[SpreadTerm, ...], taken: frozenset[str]
) -> bool:
    """Whether the filter lets one more pod onto the node. `taken`: tainted nodes."""
    keys = [one.term.key for one in even]
    for one in even:
        counts: Counter[str] = Counter()
        for name, labels in nodes.items():
            if all(key in labels for key in keys) and not (one.taints and name in taken):
                counts[labels[one.term.key]] += pods[name]
        if one.term.key not in nodes[node]:
            return False
        own = one.term.selector is not None and one.term.selects({"app": "a"})
        if one.term.selector is not None and not own:
            counts = Counter(dict.fromkeys(counts, 0))
        fewest = min(counts.values()) if len(counts) >= one.min_domains else 0
        if counts[nodes[node][one.term.key]] + int(own) - fewest > one.max_skew:
            return False
    return True


def reached(
    end: Counter[str],
    pods: Counter[str],
    nodes: Mapping[str, Labels],
    even: tuple[SpreadTerm, ...],
    tainted: frozenset[str],
) -> bool:
    """Whether the scheduler may come to these pods more, in some order."""
    if not end.total():
        return True
    return any(
        passes(node, pods, nodes, even, tainted)
        and reached(end - Counter([node]), pods + Counter([node]), nodes, even, tainted)
        for node in end
    )


def ways(nodes: Mapping[str, Labels], free: Mapping[str, int], count: int) -> Iterator[Counter[str]]:
    for numbers in product(*(range(min(free[name], count) + 1) for name in nodes)):
        if sum(numbers) == count:
            yield +Counter(dict(zip(nodes, numbers, strict=True)))


def inside(nodes: Mapping[str, Labels], level: str | None) -> Iterator[Mapping[str, Labels]]:
    depth = 0 if level is None else LEVELS.index(level) + 1
    domains = {tuple(labels[key] for key in LEVELS[:depth]) for labels in nodes.values()}
    for domain in domains:
        yield {n: labels for n, labels in nodes.items() if tuple(labels[key] for key in LEVELS[:depth]) == domain}


SPREADS = st.builds(
    SpreadTerm,
    st.builds(term, st.sampled_from([HOSTNAME_LABEL, RACK, ZONE]), st.sampled_from(["a", "a", "a", "b"])),
    st.integers(1, 2),
    st.sampled_from([1, 1, 1, 2, 3]),
    st.booleans(),
)


@st.composite
def scenes(draw: st.DrawFn) -> tuple[dict[str, Labels], dict[str, int], Counter[str], frozenset[str]]:
    nodes: dict[str, Labels] = {}
    for i in range(draw(st.integers(1, 5))):
        rack = draw(st.integers(0, 2))
        zone = draw(st.sampled_from(["z0", "z1", "z2"]))
        nodes[f"n{i}"] = {HOSTNAME_LABEL: f"n{i}", BLOCK: f"b{rack // 2}", RACK: f"r{rack}", ZONE: zone}
    tainted = frozenset(draw(st.sets(st.sampled_from(sorted(nodes)), max_size=1)))
    free = {name: 0 if name in tainted else draw(st.integers(0, 3)) for name in nodes}
    there = Counter({name: draw(st.sampled_from([0, 0, 1, 2])) for name in nodes})
    return nodes, free, +there, tainted


@settings(max_examples=examples(75))
@given(
    scenes(),
    st.lists(SPREADS, min_size=1, max_size=2),
    st.integers(1, 4),
    st.sampled_from([None, BLOCK, RACK]),
    st.booleans(),
)
def test_pods_lie_as_the_scheduler_could_have_placed_them(
    scene: tuple[dict[str, Labels], dict[str, int], Counter[str], frozenset[str]],
    even: list[SpreadTerm],
    count: int,
    level: str | None,
    required: bool,
) -> None:
    """By one constraint whatever it could place is placed; by two each answer is one that it could have come to.

    A preferred level says where the pods should be, not which domains there are.
    """
    nodes, free, there, tainted = scene
    if level is None:
        topology = TopologyRequest(unconstrained=True)
    elif required:
        topology = TopologyRequest(required=level)
    else:
        topology, level = TopologyRequest(preferred=level), None
    made = book(nodes, free, there, tainted)
    result = made.placement.place([request(count, topology, *even)])
    domains = list(inside(nodes, level))
    if result.fits:
        found = Counter({d.values[-1]: d.count for d in result.assignments["main"].domains})
        own = next(domain for domain in domains if found.keys() <= domain.keys())
        assert found.total() == count
        assert all(found[name] <= free[name] for name in found)
        assert reached(found, there, own, tuple(even), tainted)
    elif len(even) == 1 and even[0].min_domains == 1:
        for domain in domains:
            for way in ways(domain, free, count):
                assert not reached(way, there, domain, tuple(even), tainted), way
    assert made.audit() == []


def rows(number: int) -> dict[str, Labels]:
    """Racks of two hosts, blocks of two racks."""
    names = {f"n{i}": i for i in range(number)}
    return {
        n: {HOSTNAME_LABEL: n, BLOCK: f"b{i // 4}", RACK: f"r{i // 2}", ZONE: f"z{i % 2}"} for n, i in names.items()
    }


def test_what_does_not_lie_evenly_waits_and_says_by_which_key() -> None:
    """One rack has room for one pod only, so the other takes two."""
    nodes = rows(4)
    made = book(nodes, {"n0": 1, "n1": 0, "n2": 3, "n3": 3}, Counter(), frozenset())
    by_rack = SpreadTerm(term(RACK, "a"))
    assert made.placement.place([request(3, TopologyRequest(required=BLOCK), by_rack)]).fits
    assert shown(made.placement.place([request(4, TopologyRequest(required=BLOCK), by_rack)]), "main") == (
        'topology "default" allows to fit at most 3 out of 4 pod(s) evenly by example.com/rack, '
        'as their topologySpreadConstraints ask. Total nodes: 4; excluded: resource "cpu": 1'
    )
    assert made.placement.place([request(4, TopologyRequest(required=RACK), by_rack)]).fits, "one rack is one domain"
    by_host = SpreadTerm(term(HOSTNAME_LABEL, "a"), max_skew=1, min_domains=2)
    said = shown(made.placement.place([request(4, TopologyRequest(required=BLOCK), by_host)]), "main")
    assert "at most 3 out of 4 pod(s) evenly by kubernetes.io/hostname" in said
    assert "topologySpreadConstraints ask (with minDomains, at most 1 on a host)" in said


def test_pods_that_are_there_count() -> None:
    nodes = rows(4)
    made = book(nodes, dict.fromkeys(nodes, 4), Counter({"n0": 2}), frozenset())
    found = made.placement.place([request(2, TopologyRequest(unconstrained=True), SpreadTerm(term(RACK, "a")))])
    assert {d.values[-1] for d in found.assignments["main"].domains} <= {"n2", "n3"}


@pytest.mark.parametrize(("capacity", "fits"), [(1, True), (2, False)])
def test_slices_keep_their_rule_and_are_refused_where_they_break_the_other(capacity: int, fits: bool) -> None:
    """They go to as few racks as they can: to two of them, or to one."""
    nodes = rows(4)
    made = book(nodes, dict.fromkeys(nodes, capacity), Counter(), frozenset())
    topology = TopologyRequest(required=BLOCK, slices=(SliceLayer(RACK, 2),))
    result = made.placement.place([request(4, topology, SpreadTerm(term(RACK, "a")))])
    assert result.fits == fits
    assert fits or "lie less evenly by example.com/rack" in shown(result, "main")


def test_many_pods_over_many_hosts_and_two_keys() -> None:
    """The closed form and the steps agree on what one and two constraints give."""
    nodes = rows(40)
    made = book(nodes, dict.fromkeys(nodes, 5), Counter(), frozenset())
    for keys in ((HOSTNAME_LABEL,), (ZONE, HOSTNAME_LABEL)):
        found = made.placement.place(
            [request(60, TopologyRequest(unconstrained=True), *(SpreadTerm(term(key, "a")) for key in keys))]
        )
        assert sorted(Counter(d.count for d in found.assignments["main"].domains).items()) == [(1, 20), (2, 20)]


def test_a_key_that_no_node_has_is_named() -> None:
    """Two constraints: the one by hosts alone could be kept."""
    made = book(rows(4), dict.fromkeys(rows(4), 5), Counter(), frozenset())
    both = (SpreadTerm(term("no-such-key", "a")), SpreadTerm(term(HOSTNAME_LABEL, "a")))
    result = made.placement.place([request(4, TopologyRequest(unconstrained=True), *both)])
    assert "at most 0 out of 4 pod(s) evenly by no-such-key and kubernetes.io/hostname" in shown(result, "main")


@settings(max_examples=examples(30))
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_a_domain_is_passed_over_only_where_not_all_pods_can_lie_evenly(seed: int, closed: bool) -> None:
    """The bound of all domains at once is never below what one domain holds, alone or beside the others."""
    random = np.random.default_rng(seed)
    size, scopes = int(random.integers(2, 24)), int(random.integers(1, 4))
    scope = random.integers(0, scopes, size)
    alive = random.random(size) < 0.9
    fit = np.where(alive, random.integers(0, 4, size), 0)
    found = []
    for _ in range(int(random.integers(1, 3))):
        part = random.integers(0, 3, size)
        named = np.unique(scope * 3 + part if random.random() < 0.8 else part, return_inverse=True)[1]
        ids = np.where(alive & (random.random(size) < 0.9), named, -1)
        one = SpreadTerm(term(ZONE, "a"), max_skew=int(random.integers(1, 4)), min_domains=int(random.integers(1, 4)))
        counts = (ids >= 0) & (random.random(size) < 0.8)
        found.append(Spread(one, ids, random.integers(0, 3, size), counts, int(random.random() < 0.9)))
    bound = evenly_at_most(found, fit, scope, scopes, alive, closed=closed)
    for number in range(scopes):
        here = np.flatnonzero((scope == number) & alive)
        if closed:
            _, most = evenly([one.of(here) for one in found], fit[here], here, 1000)
        else:
            _, most = evenly(found, np.where(scope == number, fit, 0), np.arange(size), 1000)
        assert most <= bound[number]
