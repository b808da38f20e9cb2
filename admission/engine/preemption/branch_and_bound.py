"""Branch and bound for the cheapest set of candidates whose eviction frees enough capacity in one domain.

cheapest.py explains the terms and calls it. `floor` is a lower bound of the cost of every set in the domain. The search first
builds a greedy set: it removes the candidates that free most, then puts back those that are not needed. After that it
enumerates every set that could be cheaper than the best one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from admission.engine.model import FlavorResource
from admission.engine.preemption.candidates import Candidate
from admission.engine.preemption.cost import FREE, Cost, with_one
from admission.engine.preemption.tail_bounds import IMPOSSIBLE, LargestAmounts, SmallestAmounts, fewest
from admission.engine.preemption.victim_search import CandidatePool, VictimSearch, fewest_at_top, fewest_with
from admission.engine.topology.evictions.eviction_gains import CandidateDomain

MOST = 64
"""The search enumerates no larger sets, and abandons a branch at twice this size: no proof is in reach there."""


@dataclass(frozen=True, slots=True, eq=False)
class DomainBound:
    """A domain, and what is known of the sets in it at little cost."""

    domain: CandidateDomain | None
    """None if no topology is requested or its capacity is not counted."""
    inside: Sequence[Candidate]
    """The candidates that use capacity in the domain (all candidates without a domain), in Kueue's order."""
    top: int
    """A lower bound of the highest priority in any set."""
    number: int
    """A lower bound of how many of these candidates a set has."""
    free: bool

    @classmethod
    def of(
        cls, victim_search: VictimSearch, domain: CandidateDomain | None, inside: Sequence[Candidate], top_by_quota: int
    ) -> DomainBound:
        """Bounds the sets in the domain. `top_by_quota` is a lower bound of the highest priority in any set."""
        missing = 0 if domain is None else domain.missing
        top, number = top_by_quota, 0
        if domain is not None and missing:
            gains = [domain.gain.get(c.key, 0) for c in inside]
            priorities = [c.workload.priority for c in inside]
            if gains and sum(gains) - min(gains) < missing <= sum(gains):
                top, number = max(top, *priorities), len(gains)
            else:
                top = max(top, _top_by_capacity(list(zip(priorities, gains, strict=True)), missing))
                number = fewest(gains, missing)
        return cls(domain, inside, top, number, not (missing or victim_search.quota_shortages))

    @property
    def possible(self) -> bool:
        """Reports whether all candidates inside free enough capacity."""
        return self.number < IMPOSSIBLE

    def cost(self, *, beside: bool) -> Cost:
        """Returns a lower bound of every set's cost. `beside`: the set has at least one candidate more, for its quota."""
        if self.free and not beside:
            return FREE
        return Cost(self.top, 1, max(1, self.number + beside), FREE.top, 0)

    def closer(self, victim_search: VictimSearch) -> Cost:
        """Returns a closer bound than `cost` of the sets of `inside` alone: what all of them cost, if each set has all."""
        if not self.number or self.number < len(self.inside):
            return self.cost(beside=False)
        together = victim_search.cost_of(self.inside)
        return together if together.top == self.top else self.cost(beside=False)


class BranchAndBound:
    """The search in one domain.

    `quota_givers` holds keys of candidates that free missing quota; if given, every set contains at least one of them.
    """

    def __init__(self, victim_search: VictimSearch, bound: DomainBound, quota_givers: Collection[str] = ()) -> None:
        self._victim_search, self._bound, self._quota_givers = victim_search, bound, quota_givers
        self._domain, self._inside = bound.domain, bound.inside
        self._chosen: list[Candidate] = []
        self.cut = False
        self.floor, self.possible = self._lowest()

    # ---- the floor

    def _lowest(self) -> tuple[Cost, bool]:
        """Returns a lower bound of the cost, and whether any set can exist.

        Each figure of a cost is bounded under the assumption that the figures before it are at their bound. That is
        enough, because costs compare figure by figure.
        """
        missing = 0 if self._domain is None else self._domain.missing
        quota = self._victim_search.quota_shortages
        if not (missing or quota or self._quota_givers):
            return FREE, True
        everybody = self._victim_search.priorities
        priorities = everybody if self._quota_givers else sorted({c.workload.priority for c in self._inside})
        for top in priorities:
            if top >= self._bound.top and (cost := self._cheapest_up_to(top, missing, quota)) is not None:
                return cost, True
        return FREE, False

    def _cheapest_up_to(self, top: int, missing: int, quota: Sequence[tuple[FlavorResource, int]]) -> Cost | None:
        """Returns a lower bound of the cost of sets whose highest priority is `top`; None if there is no such set."""
        inside = CandidatePool.of(self._victim_search, self._inside, top)
        pool = self._victim_search.pool_of_all(top) if self._quota_givers else inside
        shares = [(pool.shares(fr), deficit) for fr, deficit in quota] + [(inside.amounts(self._gain), missing)]
        needed = [1, *(fewest_at_top(share, deficit) for share, deficit in shares)]
        at_top = max(needed)
        if at_top > len(pool.at_top) or needed[-1] > len(inside.at_top):
            return None
        need = max(fewest_with(share, deficit, at_top) for share, deficit in shares)
        if self._quota_givers:
            need = max(need, self._bound.number + 1)
        return pool.cost(at_top, need)

    @cached_property
    def _members(self) -> list[Candidate]:
        if not self._quota_givers:
            return list(self._inside)
        return self._victim_search.open_among(
            {**dict.fromkeys(c.key for c in self._inside), **dict.fromkeys(self._quota_givers)}
        )

    def _gain(self, candidate: Candidate) -> int:
        return 0 if self._domain is None else self._domain.gain.get(candidate.key, 0)

    # ---- both

    def search(self) -> None:
        """Searches the domain and keeps the best set in `best`; `cut` tells whether the search ended before it was complete."""
        best = self._victim_search.best
        with self._victim_search.removal.only(self._domain):
            if not best.spent:
                self._victim_search.try_kueue_choice(self._members)
                if self._domain is not None or not self._victim_search.needs_capacity:
                    self._greedy()
            if best.beaten_by(self.floor):
                if best.spent or self.floor.gangs > MOST:
                    self.cut = True
                else:
                    self._search_sets()

    # ---- a first set

    def _greedy(self) -> None:
        """Builds one minimal set, if there is one, and keeps it if it is the best so far."""
        best = self._victim_search.best
        chosen = self._greedy_set()
        for candidate in sorted(chosen, key=self._price, reverse=True):
            self._victim_search.removal.put_back(candidate)
            if self._short():
                self._victim_search.removal.remove(candidate)
            else:
                chosen.remove(candidate)
        cost = self._victim_search.cost_of(chosen)
        if not self._short() and best.beaten_by(cost) and self._allowed_together(chosen):
            self._victim_search.accept(cost, chosen)
        for candidate in chosen:
            self._victim_search.removal.put_back(candidate)

    def _greedy_set(self) -> list[Candidate]:
        chosen: list[Candidate] = []
        for candidate in self._greedy_order():
            missing = self._victim_search.removal.quota_shortages()
            needs_more = self._domain is not None and self._domain.missing > 0
            if not (missing or needs_more):
                break
            self._victim_search.best.expanded += 1
            if (
                (needs_more and self._gain(candidate)) or any(candidate.usage.get(fr, 0) for fr, _ in missing)
            ) and self._victim_search.may_evict(candidate):
                self._victim_search.removal.remove(candidate)
                chosen.append(candidate)
        return chosen

    def _greedy_order(self) -> list[Candidate]:
        """Returns candidates below the floor's highest priority first, then by capacity freed, descending, then by price."""
        top = self.floor.top
        return sorted(self._members, key=lambda c: (c.workload.priority >= top, -self._gain(c), self._price(c)))

    def _price(self, candidate: Candidate) -> tuple[int, int, str]:
        return candidate.workload.priority, self._victim_search.lost(candidate), candidate.key

    def _allowed_together(self, chosen: Sequence[Candidate]) -> bool:
        """Reports whether policy lets the chosen be evicted in Kueue's order. They are removed before and after the call."""
        for candidate in chosen:
            self._victim_search.removal.put_back(candidate)
        allowed_together = self._victim_search.allowed_together(chosen)
        for candidate in chosen:
            self._victim_search.removal.remove(candidate)
        return allowed_together

    # ---- all sets

    def _search_sets(self) -> None:
        """Enumerates every set that could be cheaper than the best one."""
        best, members = self._victim_search.best, self._members
        if best.cost is not None:
            top = best.cost.top
            members = [c for c in members if c.workload.priority <= top]
        self._ordered = members
        best.expanded += len(members) // 4
        most = min(len(members), MOST, MOST if best.cost is None else best.cost.gangs + 1)
        self._priorities = [c.workload.priority for c in members]
        self._lost = list(map(self._victim_search.lost, members))
        self._low_priorities, self._low_lost = (
            SmallestAmounts(self._priorities, most),
            SmallestAmounts(self._lost, most),
        )
        self._gains = LargestAmounts([self._gain(c) for c in members], most)
        self._quota = {
            fr: LargestAmounts([c.usage.get(fr, 0) for c in members], most)
            for fr, _ in self._victim_search.removal.quota_shortages()
        }
        self._branch(0, FREE)

    def _branch(self, start: int, cost: Cost) -> None:
        best = self._victim_search.best
        if len(self._chosen) > 2 * MOST:
            self.cut = True
            return
        missing = [(self._quota[fr], deficit) for fr, deficit in self._victim_search.removal.quota_shortages()]
        if self._domain is not None and self._domain.missing:
            missing.append((self._gains, self._domain.missing))
        if not missing and (not best.beaten_by(cost) or self._victim_search.accept(cost, self._chosen)):
            return
        for index in range(start, len(self._ordered)):
            best.expanded += 1
            self.cut = self.cut or best.spent
            need = max((largest.needed(index, deficit) for largest, deficit in missing), default=1)
            if self.cut or need >= IMPOSSIBLE or not best.beaten_by(self._with_more(cost, index, need)):
                return
            child = with_one(cost, self._priorities[index], self._lost[index])
            after = max(
                (largest.needed(index + 1, deficit - largest.amounts[index]) for largest, deficit in missing), default=0
            )
            if after >= IMPOSSIBLE or not best.beaten_by(self._with_more(child, index + 1, after) if after else child):
                continue
            candidate = self._ordered[index]
            if self._victim_search.may_evict(candidate):
                self._victim_search.removal.remove(candidate)
                self._chosen.append(candidate)
                self._branch(index + 1, child)
                self._chosen.pop()
                self._victim_search.removal.put_back(candidate)

    def _with_more(self, cost: Cost, start: int, need: int) -> Cost:
        """Returns a lower bound of the cost after adding `need` more candidates of `self._ordered[start:]`."""
        top = max(cost.top, self.floor.top, self._low_priorities.least(start))
        at_top = cost.at_top if cost.top == top else 0
        if top == self.floor.top:
            at_top = max(at_top, self.floor.at_top)
        return Cost(
            top,
            max(at_top, 1),
            cost.gangs + need,
            cost.priorities + self._low_priorities.sum_of(start, need),
            cost.lost + self._low_lost.sum_of(start, need),
        )

    def _short(self) -> bool:
        return (self._domain is not None and self._domain.missing > 0) or not self._victim_search.removal.quota_fits()


def _top_by_capacity(shares: Sequence[tuple[int, int]], missing: int) -> int:
    """Returns the lowest priority p such that evicting all candidates up to p frees enough capacity.

    `shares` holds pairs (priority, units of capacity).
    """
    top = FREE.top
    for priority, gain in sorted(shares):
        if missing <= 0:
            break
        top = priority
        missing -= gain
    return top
