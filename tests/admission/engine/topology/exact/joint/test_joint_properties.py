"""Exact against trying everything, on clusters small enough for that: several pod sets and groups of one workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.decision import PlacementResult, Proof
from admission.engine.model import (
    HOSTNAME_LABEL,
    Node,
    PlacementOptions,
    PlacementRequest,
    PodSet,
    SliceLayer,
    TopologyRequest,
)
from tests.admission.engine.topology.brute import BruteGang, BruteRequest, Free, fewest, over, racks_hold
from tests.admission.engine.topology.vectors import BLOCK, FLAVOR, LEVELS, RACK, ledger
from tests.budgets import examples, quick

SHAPES = [(1, 0), (1, 0), (2, 0), (1, 1), (0, 2)]


@dataclass(frozen=True)
class JointCase:
    """Hosts as (rack, cpus, gpus) and gangs."""

    hosts: tuple[tuple[int, int, int], ...]
    gangs: tuple[BruteGang, ...]

    def nodes(self) -> list[Node]:
        """Two racks to a block."""
        return [
            Node(
                f"n{index}",
                {BLOCK: f"b{rack // 2}", RACK: f"r{rack}", HOSTNAME_LABEL: f"n{index}", "even": str(index % 2 == 0)},
                {"cpu": cpus, "gpu": gpus, "pods": 50},
            )
            for index, (rack, cpus, gpus) in enumerate(self.hosts)
        ]

    def paths(self) -> list[tuple[str, ...]]:
        """By host."""
        return [tuple(node.labels[level] for level in LEVELS) for node in self.nodes()]

    def free(self) -> Free:
        """By host."""
        return tuple((cpus, gpus) for _, cpus, gpus in self.hosts)

    def requests(self) -> list[PlacementRequest]:
        """`g0-0`, `g0-1`, ... for each gang."""
        return [
            _request(f"g{number}-{index}", gang, wanted)
            for number, gang in enumerate(self.gangs)
            for index, wanted in enumerate(gang.members)
        ]


def _request(name: str, gang: BruteGang, wanted: BruteRequest) -> PlacementRequest:
    slices = () if wanted.slices is None else (SliceLayer(LEVELS[wanted.slices[0]], wanted.slices[1]),)
    level = LEVELS[gang.level]
    group = name.partition("-")[0] if len(gang.members) > 1 else None
    if gang.required:
        topology = TopologyRequest(required=level, slices=slices, group=group)
    else:
        topology = TopologyRequest(preferred=level, slices=slices, group=group)
    needs = {resource: amount for resource, amount in zip(("cpu", "gpu"), wanted.need, strict=True) if amount}
    selector = {"even": "True"} if wanted.even else {}
    pod_set = PodSet(name, wanted.count, needs, topology=topology, node_selector=selector)
    return PlacementRequest(pod_set, FLAVOR, wanted.count)


@st.composite
def cases(draw: st.DrawFn) -> JointCase:
    """2 to 4 racks of 1 to 3 hosts; 2 to 4 groups of pods, one of them perhaps of several pod sets.

    Most have hosts of just the size that one way to place everything takes, give or take a little: there, being greedy hurts.
    """
    racks = [rack for rack in range(draw(st.integers(2, 4))) for _ in range(draw(st.integers(1, 3 if rack < 2 else 2)))]
    gangs = [draw(_gang(several=False)) for _ in range(draw(st.integers(2, 4)))]
    if draw(st.integers(0, 3)) == 0:
        gangs[draw(st.integers(0, len(gangs) - 1))] = draw(_gang(several=True))
    if draw(st.integers(0, 4)) == 0:
        hosts = [(draw(st.integers(0, 4)), draw(st.sampled_from([0, 0, 1, 2]))) for _ in racks]
    else:
        hosts = draw(_just_enough(racks, gangs))
    return JointCase(tuple((rack, *host) for rack, host in zip(racks, hosts, strict=True)), tuple(gangs))


@st.composite
def _just_enough(draw: st.DrawFn, racks: list[int], gangs: list[BruteGang]) -> list[tuple[int, int]]:
    """What each host has when every gang stands somewhere, one of them changed by a little."""
    amounts = [[0, 0] for _ in racks]
    for gang in gangs:
        rack = draw(st.sampled_from(sorted(set(racks))))
        hosts = [index for index, other in enumerate(racks) if other == rack]
        for member in gang.members:
            size = 1 if member.slices is None else member.slices[1]
            for _ in range(member.count // size):
                host = amounts[
                    draw(st.sampled_from([h for h in hosts if not h % 2] if member.even and len(hosts) > 1 else hosts))
                ]
                for resource, amount in enumerate(member.need):
                    host[resource] += amount * size
    changed = amounts[draw(st.integers(0, len(racks) - 1))]
    changed[0] = max(0, changed[0] + draw(st.integers(-1, 2)))
    return [(cpus, gpus) for cpus, gpus in amounts]


@st.composite
def _gang(draw: st.DrawFn, *, several: bool) -> BruteGang:
    level = draw(st.sampled_from([0, 1, 1, 1, 2]))
    required = draw(st.sampled_from([True, True, False]))
    members = [draw(_wanted(level)) for _ in range(draw(st.integers(2, 3)) if several else 1)]
    if len(members) == 2:
        members[0] = replace(members[0], count=1, slices=None)
    return BruteGang(level, required, tuple(members))


@st.composite
def _wanted(draw: st.DrawFn, level: int) -> BruteRequest:
    need = draw(st.sampled_from(SHAPES))
    if draw(st.integers(0, 5)) == 0:
        return BruteRequest(draw(st.sampled_from([2, 4])), need, (draw(st.integers(level, 2)), 2))
    return BruteRequest(draw(st.integers(1, 5)), need, even=draw(st.integers(0, 7)) == 0)


def counts_and_capacity(case: JointCase, result: PlacementResult) -> None:
    """Every pod counted once, and no host holds more than it has, all pod sets together."""
    taken: Counter[tuple[str, str]] = Counter()
    for request in case.requests():
        domains = result.assignments[request.pod_set.name].domains
        assert sum(domain.count for domain in domains) == request.count
        for domain in domains:
            assert domain.count > 0
            for resource, amount in {**request.pod_set.requests, "pods": 1}.items():
                taken[domain.values[-1], resource] += amount * domain.count
    assert over({node.name: node.allocatable for node in case.nodes()}, taken) == []


def opened(case: JointCase, result: PlacementResult) -> int:
    """Domains of the asked levels, summed over the gangs; a required one may not be more than one."""
    paths = {path[-1]: path for path in case.paths()}
    total = 0
    for number, gang in enumerate(case.gangs):
        names = [f"g{number}-{index}" for index in range(len(gang.members))]
        hosts = [domain.values[-1] for name in names for domain in result.assignments[name].domains]
        domains = {paths[host][: gang.level + 1] for host in hosts}
        assert len(domains) == 1 or not gang.required
        total += len(domains)
    return total


def sliced(case: JointCase, result: PlacementResult) -> None:
    """Slices are whole."""
    paths = {path[-1]: path for path in case.paths()}
    for number, gang in enumerate(case.gangs):
        for index, wanted in enumerate(gang.members):
            if wanted.slices is not None:
                level, size = wanted.slices
                pods: Counter[tuple[str, ...]] = Counter()
                for domain in result.assignments[f"g{number}-{index}"].domains:
                    pods[paths[domain.values[-1]][: level + 1]] += domain.count
                assert all(count % size == 0 for count in pods.values())


def check(case: JointCase, order: Sequence[Node] | None = None) -> None:
    """One case against trying everything."""
    result = ledger(PlacementOptions(), order or case.nodes()).placement.place(case.requests())
    best = fewest(case.paths(), case.free(), case.gangs)
    proofs = {certificate.proof for certificate in result.certificates.values()}
    assert result.fits == (best is not None)
    if best is None:
        assert all(result.certificates[name].proof is Proof.INFEASIBLE for name in result.failures)
        return
    counts_and_capacity(case, result)
    sliced(case, result)
    assert len(proofs) == 1
    if proofs == {Proof.OPTIMAL}:
        assert opened(case, result) == best
        assert {certificate.cost for certificate in result.certificates.values()} == {(best,)}
    else:
        (bound,) = {certificate.bound for certificate in result.certificates.values()}
        assert bound[0] <= best <= opened(case, result)


@settings(max_examples=quick(80), deadline=None)
@given(cases())
def test_exactly_when_trying_everything_finds_a_way_and_as_few_domains(case: JointCase) -> None:
    check(case)


@pytest.mark.long
@settings(max_examples=10_000, deadline=None)
@given(cases())
def test_the_same_of_ten_thousand(case: JointCase) -> None:
    check(case)


@settings(max_examples=examples(40), deadline=None)
@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_nodes_does_not_matter(case: JointCase, random: Random) -> None:
    nodes = case.nodes()
    mixed = random.sample(nodes, len(nodes))
    results = [ledger(PlacementOptions(), order).placement.place(case.requests()) for order in (nodes, mixed)]
    assert results[0] == results[1]


def test_many_pod_sets_fill_racks_that_are_alike() -> None:
    wrong = [seed for seed in range(examples(100)) if not _solved_like_all_subsets(Random(seed))]
    assert wrong == []


def _solved_like_all_subsets(random: Random) -> bool:
    """Up to 8 sizes cut out of 2 or 3 racks to the last slot, sometimes with a pod too many."""
    capacities = [random.choice([23, 23, 23, 29]) for _ in range(random.randint(2, 3))]
    sizes = [random.randint(0, 1)]
    for capacity in capacities:
        cuts = sorted(random.sample(range(1, capacity), random.randint(1, 2)))
        sizes += [after - before for before, after in zip([0, *cuts], [*cuts, capacity], strict=True)]
    random.shuffle(sizes)
    demands = [size for size in sizes if size][:8]
    nodes = [
        Node(f"n{i}", {BLOCK: "b", RACK: f"r{i}", HOSTNAME_LABEL: f"n{i}"}, {"cpu": capacity, "pods": 50})
        for i, capacity in enumerate(capacities)
    ]
    one = [BruteRequest(pods, (1, 0)) for pods in demands]
    asked = [_request(f"g{i}-0", BruteGang(1, True, (wanted,)), wanted) for i, wanted in enumerate(one)]
    result = ledger(PlacementOptions(), nodes).placement.place(asked)
    names = result.assignments if result.fits else result.failures
    proof = Proof.OPTIMAL if result.fits else Proof.INFEASIBLE
    return result.fits == racks_hold(capacities, demands) and all(result.certificates[n].proof is proof for n in names)


@settings(max_examples=examples(25), deadline=None)
@given(cases(), st.integers(1, 30))
def test_a_small_budget_claims_nothing_wrong(case: JointCase, budget: int) -> None:
    result = ledger(PlacementOptions(exact_budget=budget), case.nodes()).placement.place(case.requests())
    best = fewest(case.paths(), case.free(), case.gangs)
    if result.fits:
        counts_and_capacity(case, result)
        for certificate in result.certificates.values():
            assert best is not None
            assert certificate.bound[0] <= best <= certificate.cost[0]
            assert certificate.proof is not Proof.OPTIMAL or certificate.cost[0] == best
    elif any(certificate.proof is Proof.INFEASIBLE for certificate in result.certificates.values()):
        assert best is None
