"""Spread constraints with DoNotSchedule hold in every way of placing pods, by a model that counts the pods of each domain.

test_even.py compares plain gangs with the scheduler, and finds those that wait for no reason.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import pytest

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    HOSTNAME_LABEL,
    Admission,
    BoundPod,
    LevelConstraint,
    Node,
    ObjectRemoved,
    PlacementOptions,
    PlacementRequest,
    PodFacts,
    PodSet,
    PodSetAdmission,
    Profile,
    RemovedKind,
    SliceLayer,
    Spreading,
    SpreadTerm,
    Taint,
    TopologyRequest,
)
from tests.admission.engine.builders import workload
from tests.admission.engine.topology.test_even import CPU, ZONE, Labels, term
from tests.admission.engine.topology.vectors import BLOCK, FLAVOR, LEVELS, RACK, ledger
from tests.budgets import examples

MODES = (
    "plain",
    "above hosts",
    "slices",
    "constraints",
    "spare hosts",
    "leader",
    "together",
    "apart",
    "grows",
    "fails",
)
SEEDS = range(examples(300))


@dataclass
class Cluster:
    """Nodes by name, the pods `there` beside the gang, and the constraints of the gang's pods."""

    nodes: dict[str, Labels]
    tainted: frozenset[str]
    there: Counter[str]
    book: Ledger
    facts: PodFacts

    @classmethod
    def drawn(cls, dice: random.Random, levels: tuple[str, ...]) -> Cluster:
        nodes: dict[str, Labels] = {}
        for number in range(dice.randint(2, 6)):
            rack, name = dice.randint(0, 2), f"n{number}"
            nodes[name] = {HOSTNAME_LABEL: name, BLOCK: f"b{rack // 2}", RACK: f"r{rack}", ZONE: dice.choice("xyz")}
        tainted = frozenset(dice.sample(sorted(nodes), 1) if dice.random() < 0.2 else ())
        there = +Counter({name: dice.choice((0, 0, 0, 1, 2)) for name in nodes})
        options = PlacementOptions(profile=dice.choice(list(Profile)), balanced=dice.random() < 0.3)
        taints = (Taint("reserved", "NoSchedule"),)
        size = {name: there[name] + (0 if name in tainted else dice.randint(0, 4)) for name in nodes}
        hosts = [
            Node(name, labels, {"cpu": 1000 * size[name], "pods": 20}, taints=taints if name in tainted else ())
            for name, labels in nodes.items()
        ]
        book = ledger(options, hosts, levels)
        for name, number in there.items():
            for index in range(number):
                book.apply(BoundPod(f"ns/{name}-{index}", name, CPU, facts=PodFacts("ns", (("app", "a"),))))
        even = tuple(_constraint(dice) for _ in range(dice.choice((1, 1, 2))))
        return cls(nodes, tainted, there, book, PodFacts("ns", (("app", "a"),), even=even))

    def request(self, name: str, count: int, topology: TopologyRequest) -> PlacementRequest:
        pod_set = PodSet(name, count, CPU, topology=topology, facts=self.facts)
        return PlacementRequest(pod_set, FLAVOR, count, facts=self.facts)

    def broken(self, pods: Counter[str], used: Collection[str], nodes: Mapping[str, Labels]) -> Iterator[str]:
        """Yields each constraint that does not hold for the pods on the `used` nodes, where only `nodes` count."""
        keys = [one.term.key for one in self.facts.even]
        for one in self.facts.even:
            counts: Counter[str] = Counter()
            for name, labels in nodes.items():
                if not (one.taints and name in self.tainted):
                    counts[labels[one.term.key]] += pods[name]
            fewest = min(counts.values(), default=0) if len(counts) >= one.min_domains else 0
            most = max((counts[nodes[name][one.term.key]] for name in used), default=0)
            if one.term.selects({"app": "a"}) and most - fewest > one.max_skew:
                yield f"{one.term.key} of {keys}: {dict(counts)}, maxSkew {one.max_skew}"


def _constraint(dice: random.Random) -> SpreadTerm:
    key, app = dice.choice((HOSTNAME_LABEL, RACK, ZONE)), dice.choice("aaab")
    return SpreadTerm(term(key, app), dice.randint(1, 2), dice.choice((1, 1, 1, 2, 3)), dice.random() < 0.5)


def _topology(dice: random.Random, mode: str) -> TopologyRequest:
    level = dice.choice((BLOCK, RACK))
    ways = [TopologyRequest(required=level), TopologyRequest(preferred=level), TopologyRequest(unconstrained=True)]
    if mode == "slices":
        slices = (SliceLayer(dice.choice((RACK, HOSTNAME_LABEL)), 2),)
        return replace(dice.choice(ways[:2]), slices=slices)
    topology = dice.choice(ways)
    if mode == "constraints":
        least, most = dice.choice((None, 1, 2)), dice.choice((None, 2, 3))
        spreading = dice.choice(list(Spreading))
        rule = LevelConstraint(dice.choice(LEVELS), spreading, minimum=least, maximum=most, hard=dice.random() < 0.5)
        return replace(topology, constraints=(rule,))
    if mode in ("leader", "together"):
        return replace(topology, group="g")
    return replace(topology, spare_hosts=1) if mode == "spare hosts" else topology


def _requests(dice: random.Random, mode: str, cluster: Cluster) -> list[PlacementRequest]:
    topology, count = _topology(dice, mode), dice.randint(1, 5)
    main = cluster.request("main", count + count % 2 if mode == "slices" else count, topology)
    if mode in ("leader", "together"):
        others = [cluster.request("leader", 1, topology)]
        if mode == "together":
            others.append(cluster.request("more", dice.randint(1, 2), topology))
        return [*others, main]
    if mode == "apart":
        return [main, cluster.request("more", dice.randint(1, 3), _topology(dice, mode))]
    return [main]


def uneven(mode: str, seed: int) -> tuple[int, list[str]]:
    """Returns how many pod sets got places in this scene, and which constraints do not hold there."""
    dice = random.Random(f"{mode} {seed}")
    cluster = Cluster.drawn(dice, LEVELS[:2] if mode == "above hosts" else LEVELS)
    requests, nodes = _requests(dice, mode, cluster), dict(cluster.nodes)
    result = cluster.book.placement.place(requests)
    if result.fits and mode == "grows":
        more = cluster.request("main", requests[0].count + dice.randint(1, 3), _asked(requests[0]))
        requests = [replace(more, previous=result.assignments["main"])]
        result = cluster.book.placement.place(requests)
    elif result.fits and mode == "fails":
        before = result.assignments["main"]
        used = [domain.values[-1] for domain in before.domains]
        gone = set(dice.sample(used, min(len(used), dice.randint(1, 2))))
        nodes = {name: labels for name, labels in nodes.items() if name not in gone}
        admitted = PodSetAdmission("main", {"cpu": FLAVOR}, dict(CPU), requests[0].count, assignment=before)
        cluster.book.charge(replace(workload("ns/w"), pod_sets=(requests[0].pod_set,)), Admission("q", (admitted,)))
        for name in gone:
            cluster.book.apply(ObjectRemoved(RemovedKind.NODE, name))
        requests = [replace(requests[0], previous=before)]
        result = cluster.book.placement.replace(requests, gone)
    if not result.fits:
        return 0, []
    pods = Counter(cluster.there)
    for assignment in result.assignments.values():
        pods.update({domain.values[-1]: domain.count for domain in assignment.domains})
    wrong: list[str] = []
    for request in requests:
        now = {domain.values[-1]: domain.count for domain in result.assignments[request.pod_set.name].domains}
        assert now.keys() <= nodes.keys()
        kept = {} if request.previous is None else {one.values[-1]: one.count for one in request.previous.domains}
        fresh = [name for name, number in now.items() if number > kept.get(name, 0)]
        wrong += cluster.broken(pods, fresh, _scope(nodes, _asked(request), now))
    return len(requests), [f"{mode}, seed {seed}: {why}" for why in wrong]


def _asked(request: PlacementRequest) -> TopologyRequest:
    assert request.pod_set.topology is not None
    return request.pod_set.topology


def _scope(nodes: Mapping[str, Labels], topology: TopologyRequest, used: Collection[str]) -> Mapping[str, Labels]:
    """The nodes whose domains count: those of the required domain, or all. A preferred level does not say which count."""
    if topology.required is None:
        return nodes
    keys = LEVELS[: LEVELS.index(topology.required) + 1]
    domains = {tuple(nodes[name][key] for key in keys) for name in used}
    return {name: labels for name, labels in nodes.items() if tuple(labels[key] for key in keys) in domains}


@pytest.mark.parametrize("mode", MODES)
def test_spread_constraints_hold(mode: str) -> None:
    drawn = [uneven(mode, seed) for seed in SEEDS]
    assert [why for _, wrong in drawn for why in wrong] == []
    assert sum(placed for placed, _ in drawn) >= len(SEEDS) // 12, "hardly anything was placed"
