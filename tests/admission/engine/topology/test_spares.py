"""Pods beside their spare hosts: there is a place if and only if an exhaustive search finds one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.engine.ledger.ledger import Ledger
from admission.engine.model import PlacementOptions, PlacementRequest, PodSet, Profile, TopologyRequest
from admission.engine.topology import spares
from tests.admission.engine.builders import CPU, RACK, host, racks
from tests.budgets import examples

Hosts = Mapping[str, tuple[str, int]]
"""The rack and the free cpus of each host."""


@dataclass(frozen=True)
class Asked:
    """Pods of so many cpus each with spare hosts, in one rack (`required`) or anywhere."""

    pods: int
    cpus: int
    spares: int
    required: bool

    def request(self, name: str, profile: Profile) -> PlacementRequest:
        topology = TopologyRequest(
            required=RACK if self.required else None,
            unconstrained=None if self.required else True,
            spare_hosts=self.spares,
        )
        pod_set = PodSet(name, self.pods, {"cpu": self.cpus * CPU}, topology=topology)
        return PlacementRequest(pod_set, "tas", self.pods, profile=profile)


def book(hosts: Hosts) -> Ledger:
    ledger = Ledger(PlacementOptions())
    ledger.apply(racks())
    for name, (rack, cpus) in hosts.items():
        ledger.apply(host(name, rack, cpus))
    return ledger


def ways(hosts: Hosts, asked: Asked, free: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """All places of the pods alone."""
    for numbers in product(*(range(min(asked.pods, free[name] // asked.cpus) + 1) for name in hosts)):
        way = {name: number for name, number in zip(hosts, numbers, strict=True) if number}
        if sum(numbers) == asked.pods and (not asked.required or len({hosts[name][0] for name in way}) == 1):
            yield way


def usable(hosts: Hosts, asked: Asked, way: Mapping[str, int], used: set[str]) -> set[str]:
    """The hosts that can be spare beside these pods."""
    inside = {hosts[name][0] for name in way} if asked.required else {rack for rack, _ in hosts.values()}
    need = max(way.values()) * asked.cpus
    return {name for name, (rack, cpus) in hosts.items() if rack in inside and cpus >= need and name not in used}


def fits(hosts: Hosts, every: Sequence[Asked]) -> bool:
    free = {name: cpus for name, (_, cpus) in hosts.items()}

    def placed(left: Sequence[Asked], free: Mapping[str, int]) -> Iterator[list[dict[str, int]]]:
        if not left:
            yield []
            return
        for way in ways(hosts, left[0], free):
            rest = {name: cpus - way.get(name, 0) * left[0].cpus for name, cpus in free.items()}
            for others in placed(left[1:], rest):
                yield [way, *others]

    for found in placed(every, free):
        used = {name for way in found for name in way}
        sets = [usable(hosts, asked, way, used) for asked, way in zip(every, found, strict=True)]
        wanted = [asked.spares for asked in every]
        # Hall's theorem for at most two sets
        enough = all(len(each) >= number for each, number in zip(sets, wanted, strict=True))
        if enough and len(set().union(*sets)) >= sum(wanted):
            return True
    return False


HOSTS = st.lists(st.tuples(st.sampled_from(["r0", "r0", "r1"]), st.integers(0, 4)), min_size=1, max_size=5).map(
    lambda hosts: {f"h{index}": one for index, one in enumerate(hosts)}
)
ASKED = st.builds(Asked, st.integers(1, 4), st.sampled_from([1, 1, 2]), st.integers(1, 2), st.booleans())


def says(hosts: Hosts, every: Sequence[Asked], profile: Profile) -> bool:
    ledger = book(hosts)
    requests = [asked.request(f"p{index}", profile) for index, asked in enumerate(every)]
    result = ledger.placement.place(requests)
    assert ledger.placement.place(requests, simulate_empty=True).fits == result.fits
    if result.fits:
        placed = [(one, result.assignments[one.pod_set.name]) for one in requests]
        with ledger.trial():
            ledger.placement.assume(placed)
            present = [
                PlacementRequest(one.pod_set, one.flavor, one.count, previous=there, profile=profile)
                for one, there in placed
            ]
            assert spares.present(ledger.placement.steps, present).shortage is None
    assert ledger.audit() == []
    return result.fits


@settings(max_examples=examples(120))
@given(HOSTS, ASKED, st.sampled_from(list(Profile)))
def test_one_pod_set_has_a_place_if_there_is_one(hosts: Hosts, asked: Asked, profile: Profile) -> None:
    assert says(hosts, [asked], profile) == fits(hosts, [asked])


@settings(max_examples=examples(80))
@given(HOSTS, st.lists(ASKED, min_size=2, max_size=2))
def test_two_pod_sets_have_places_if_there_are_some(hosts: Hosts, every: list[Asked]) -> None:
    assert says(hosts, every, Profile.EXACT) == fits(hosts, every)


@pytest.mark.parametrize("required", [True, False])
def test_the_largest_host_is_spare_where_the_others_hold_the_pods(required: bool) -> None:
    """Hosts of 4, 2 and 2: two pods on each of the small ones, which the host of 4 can replace."""
    hosts = {"h0": ("r0", 4), "h1": ("r0", 2), "h2": ("r0", 2)}
    assert says(hosts, [Asked(4, 1, 1, required)], Profile.EXACT)
