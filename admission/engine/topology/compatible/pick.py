"""Picks domains one by one as in placement.md 5.7 and 5.8: with leaders, with affinity, inside one parent.

A PickedDomain has its own copy of the counts, which picking changes. The orders and `minimize` follow the document exactly,
including its quirks. For requests without leader and affinity, select.py computes the same answer faster. Called by
tree_search.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile


@dataclass(slots=True)
class PickedDomain:
    """A domain with its own counts."""

    id: int
    label: int
    """Sorts like its values."""
    pod: int
    pod_l: int
    slice: int
    slice_l: int
    leader: int = 0
    affinity: int = 0
    children: list[PickedDomain] | None = None
    """Set only in copies for balanced placement."""


Sizes = Callable[[PickedDomain], int]


@dataclass(frozen=True, slots=True)
class PickOrder:
    """The order in which domains are picked: smallest first if `least` (LeastFree), else largest first (BestFit).

    BestFit takes the tightest domain as the last one; LeastFree does not.
    """

    least: bool
    by_affinity: bool

    def with_leader(self, domains: Sequence[PickedDomain]) -> list[PickedDomain]:
        """Returns the domains sorted for picking with a leader: those with capacity for a leader first."""
        sign = 1 if self.least else -1
        return sorted(domains, key=lambda d: (-d.leader, self._affinity(d), sign * d.slice_l, d.pod_l, d.label))

    def plain(self, domains: Sequence[PickedDomain]) -> list[PickedDomain]:
        """Returns the domains sorted by slices in the order of the profile, then by ascending pods."""
        sign = 1 if self.least else -1
        return sorted(domains, key=lambda d: (self._affinity(d), sign * d.slice, d.pod, d.label))

    def _affinity(self, domain: PickedDomain) -> int:
        return -domain.affinity if self.by_affinity else 0

    def tightest(self, domains: Sequence[PickedDomain], need: int, leaders: int, *, slices: bool) -> PickedDomain:
        """Returns the first domain with the fewest slices (or pods) that holds `need`; the first of all if none does."""
        beside, alone = _sizes(slices)
        size = beside if leaders else alone
        among = takewhile(lambda d: d.affinity == domains[0].affinity, domains) if self.by_affinity else domains
        fitting = [d for d in among if d.leader >= leaders and size(d) >= need]
        return min(fitting, key=size) if fitting else domains[0]

    def minimize(
        self, domains: Sequence[PickedDomain], count: int, leaders: int, size: int, *, slices: bool
    ) -> list[PickedDomain]:
        """Returns the needed domains of a sorted list, each with the pods that it gets; empty if they do not hold all pods."""
        domains = prioritize_leader(domains, count, leaders, size, slices=slices)
        taker = _Taker(self, size if slices else 1, slices)
        taker.rest, taker.leaders = (count // size if slices else count), leaders
        for index in range(len(domains)):
            if taker.take(domains[index:]):
                return taker.out
        return []


class _Taker:
    """The state of one call of `minimize`: the slices (or pods) and leaders that are not placed yet."""

    def __init__(self, profile: PickOrder, factor: int, slices: bool) -> None:
        self.out: list[PickedDomain] = []
        self.rest = self.leaders = 0
        self._profile = profile
        self._factor = factor
        self._slices = slices

    def take(self, domains: Sequence[PickedDomain]) -> bool:
        """Takes from the first domain, or from the tightest if that holds the rest. Reports whether all pods are placed."""
        return self._with_leader(domains) if self.leaders > 0 else self._alone(domains)

    def _with_leader(self, domains: Sequence[PickedDomain]) -> bool:
        beside, _ = _sizes(self._slices)
        domain = domains[0]
        if not self._profile.least and beside(domain) >= self.rest and domain.leader >= self.leaders:
            domain = self._profile.tightest(domains, self.rest, self.leaders, slices=self._slices)
        done = beside(domain) >= self.rest and domain.leader >= self.leaders
        domain.leader = min(domain.leader, self.leaders)
        self._give(domain, min(beside(domain), self.rest))
        self.leaders -= domain.leader
        return done

    def _alone(self, domains: Sequence[PickedDomain]) -> bool:
        _, alone = _sizes(self._slices)
        domain = domains[0]
        if not self._profile.least and alone(domain) >= self.rest:
            domain = self._profile.tightest(domains, self.rest, 0, slices=self._slices)
        domain.leader = 0
        done = alone(domain) >= self.rest
        self._give(domain, min(alone(domain), self.rest))
        return done

    def _give(self, domain: PickedDomain, amount: int) -> None:
        if self._slices:
            domain.slice = domain.slice_l = amount
        domain.pod = amount * self._factor
        self.rest -= amount
        self.out.append(domain)


def _sizes(slices: bool) -> tuple[Sizes, Sizes]:
    """Returns two functions of a domain: what fits beside a leader, and what fits without one (slices or pods)."""
    if slices:
        return (lambda d: d.slice_l), (lambda d: d.slice)
    return (lambda d: d.pod_l), (lambda d: d.pod)


def prioritize_leader(
    domains: Sequence[PickedDomain], count: int, leaders: int, size: int, *, slices: bool
) -> list[PickedDomain]:
    """Returns the domains with the first one in front that can hold the leader and still leaves enough capacity in total."""
    domains = list(domains)
    if leaders == 0 or len(domains) < 2:
        return domains
    beside, alone = _sizes(slices)
    need = count // size if slices else count
    spare = sum(alone(d) for d in domains) - need
    for index, domain in enumerate(domains):
        if domain.leader >= leaders and alone(domain) - beside(domain) <= spare:
            return [domain, *domains[:index], *domains[index + 1 :]]
    return domains
