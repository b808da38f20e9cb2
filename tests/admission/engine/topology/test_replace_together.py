"""Pods of two pod sets that lost several nodes at once: they get new places if and only if there are some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import (
    Assignment,
    DomainCount,
    PlacementOptions,
    PlacementRequest,
    PodSet,
    Profile,
    TopologyRequest,
)
from tests.admission.engine.builders import CPU, HOST, RACK, host, racks
from tests.budgets import examples


@dataclass(frozen=True)
class Lost:
    """Pods of so many cpus: `kept` on a healthy host of rack r0, the others by failed host."""

    cpus: int
    kept: int
    lost: tuple[int, int]
    required: bool

    def request(self, name: str) -> PlacementRequest:
        topology = TopologyRequest(
            required=RACK if self.required else None, unconstrained=None if self.required else True
        )
        count = self.kept + sum(self.lost)
        places = (("keeps", self.kept), ("gone0", self.lost[0]), ("gone1", self.lost[1]))
        previous = Assignment((HOST,), tuple(DomainCount((at,), number) for at, number in places if number))
        pod_set = PodSet(name, count, {"cpu": self.cpus * CPU}, topology=topology)
        return PlacementRequest(pod_set, "tas", count, previous=previous, profile=Profile.EXACT)


Hosts = Mapping[str, tuple[str, int]]


def ways(hosts: Hosts, free: Mapping[str, int], lost: Lost) -> Iterator[dict[str, int]]:
    count = sum(lost.lost)
    for numbers in product(*(range(min(count, free[name] // lost.cpus) + 1) for name in hosts)):
        inside = {hosts[name][0] for name, number in zip(hosts, numbers, strict=True) if number}
        if sum(numbers) != count:
            continue
        if lost.required and len(inside | ({"r0"} if lost.kept else set())) > 1:
            continue
        yield {name: free[name] - number * lost.cpus for name, number in zip(hosts, numbers, strict=True)}


def fits(hosts: Hosts, every: list[Lost]) -> bool:
    free = {name: cpus for name, (_, cpus) in hosts.items()}
    return any(True for rest in ways(hosts, free, every[0]) for _ in ways(hosts, rest, every[1]))


HOSTS = st.lists(st.tuples(st.sampled_from(["r0", "r0", "r1"]), st.integers(0, 5)), min_size=1, max_size=4).map(
    lambda hosts: {f"h{index}": one for index, one in enumerate(hosts)}
)
LOST = st.builds(
    Lost, st.sampled_from([1, 2, 3]), st.integers(0, 1), st.tuples(st.integers(0, 2), st.integers(0, 2)), st.booleans()
)


@settings(max_examples=examples(100))
@given(HOSTS, st.lists(LOST, min_size=2, max_size=2))
def test_what_two_pod_sets_lost_gets_places_if_there_are_some(hosts: Hosts, every: list[Lost]) -> None:
    ledger = Ledger(PlacementOptions())
    ledger.apply(racks())
    ledger.apply(host("keeps", "r0", 0))
    for name, (rack, cpus) in hosts.items():
        ledger.apply(host(name, rack, cpus))
    requests = [one.request(name) for name, one in zip("ab", every, strict=True)]
    result = ledger.placement.replace(requests, ["gone0", "gone1"])
    assert result.fits == fits(hosts, every)
    if result.fits:
        used = dict.fromkeys(hosts, 0)
        for one, request in zip(every, requests, strict=True):
            assignment = result.assignments[request.pod_set.name]
            assert sum(domain.count for domain in assignment.domains) == request.count
            there = {domain.values[-1]: domain.count for domain in assignment.domains}
            assert there.pop("keeps", 0) == one.kept
            for name, number in there.items():
                used[name] += number * one.cpus
            inside = {hosts[name][0] for name in there} | ({"r0"} if one.kept else set())
            assert not one.required or len(inside) <= 1
        assert all(used[name] <= cpus for name, (_, cpus) in hosts.items())
    assert ledger.audit() == []
