"""State that the searches of all domains share: which candidates may be evicted, the best set so far, and the budget.

One `VictimSearch` covers one attempt, with or without borrowing. cheapest.py creates it and explains the terms and the
theory; branch_and_bound.py searches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from admission.engine.decision import Certificate, Proof
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import FlavorResource
from admission.engine.preemption.candidates import Candidate, PreemptionContext, PreemptionVariant
from admission.engine.preemption.classical import may_evict
from admission.engine.preemption.cost import FREE, Cost, lost_work, with_one
from admission.engine.preemption.removal import PreemptionTarget, TrialRemoval, totals
from admission.engine.preemption.tail_bounds import SortedAmounts

Share = Callable[[Candidate], int]
"""Returns how much a candidate would free of a resource that is short."""

PLACEMENT = 25
"""The cost of one placement in the budget, which counts the candidate sets that a search examines."""


@dataclass(slots=True, eq=False)
class BestVictims:
    """The best set so far and the remaining budget; `floors` are lower bounds of domains whose search did not finish."""

    budget: int
    cost: Cost | None = None
    targets: Sequence[PreemptionTarget] = ()
    borrowing: bool = True
    expanded: int = 0
    floors: list[Cost] = field(default_factory=list)

    def beaten_by(self, cost: Cost) -> bool:
        """Reports whether a set of this cost would be better."""
        return self.cost is None or cost < self.cost

    @property
    def spent(self) -> bool:
        """Reports whether the budget is used up."""
        return self.expanded >= self.budget

    def certificate(self) -> Certificate:
        """Returns the certificate for what has been proved so far."""
        if self.cost is None:
            proof = Proof.FEASIBLE if self.floors else Proof.INFEASIBLE
            return Certificate(proof, (), min(self.floors, default=()), self.expanded)
        bound = min((*self.floors, self.cost))
        proof = Proof.OPTIMAL if bound == self.cost else Proof.FEASIBLE
        return Certificate(proof, self.cost, bound, self.expanded)


@dataclass(frozen=True, slots=True, eq=False)
class CandidatePool:
    """The candidates of priority `top` or lower, which are those of a set with highest priority `top`.

    Their shares of each flavor's resource are sorted once, for all domains that ask.
    """

    top: int
    at_top: Sequence[Candidate]
    below: Sequence[Candidate]
    priorities: Sequence[int]
    lost: Sequence[int]
    _shares: dict[FlavorResource, tuple[SortedAmounts, SortedAmounts]] = field(default_factory=dict)

    @classmethod
    def of(cls, victim_search: VictimSearch, members: Sequence[Candidate], top: int) -> CandidatePool:
        """Builds a pool of these members.

        `priorities[n]` is the least sum of priorities of n candidates below `top`; `lost[n]` is the least sum of lost work of
        n candidates of the pool.
        """
        at_top = [c for c in members if c.workload.priority == top]
        below = [c for c in members if c.workload.priority < top]
        priorities = [0, *accumulate(sorted(c.workload.priority for c in below))]
        lost = [0, *accumulate(sorted(map(victim_search.lost, (*at_top, *below))))]
        return cls(top, at_top, below, priorities, lost)

    def shares(self, fr: FlavorResource) -> tuple[SortedAmounts, SortedAmounts]:
        """Returns what candidates of priority `top` and lower ones free of the flavor's resource."""
        if (known := self._shares.get(fr)) is None:
            known = self._shares[fr] = self.amounts(lambda candidate: candidate.usage.get(fr, 0))
        return known

    def amounts(self, share: Share) -> tuple[SortedAmounts, SortedAmounts]:
        """Returns what candidates of priority `top` and lower ones free."""
        return SortedAmounts(map(share, self.at_top)), SortedAmounts(map(share, self.below))

    def cost(self, at_top: int, need: int) -> Cost:
        """Returns a lower bound of the cost of `need` candidates, `at_top` of them of priority `top`."""
        priorities = self.top * at_top + self.priorities[min(need - at_top, len(self.priorities) - 1)]
        return Cost(self.top, at_top, need, priorities, self.lost[min(need, len(self.lost) - 1)])


def fewest_at_top(shares: tuple[SortedAmounts, SortedAmounts], deficit: int) -> int:
    """Returns a lower bound of how many candidates of the highest priority a set needs, given what these and lower ones free.

    It is the number that covers the rest of the deficit after all lower candidates are evicted.
    """
    at_top, below = shares
    return at_top.fewest(deficit - below.total)


def fewest_with(shares: tuple[SortedAmounts, SortedAmounts], deficit: int, number: int) -> int:
    """Returns a lower bound of the size of a set that contains exactly so many candidates of the highest priority."""
    at_top, below = shares
    return number + below.fewest(deficit - at_top.largest(number))


class VictimSearch:
    """One attempt, with or without borrowing.

    `removal` must be open. Candidates that are already being evicted (`leaving`) are removed from it; the other
    candidates are `open`.
    """

    def __init__(
        self,
        ledger: Ledger,
        context: PreemptionContext,
        ordered: Sequence[Candidate],
        removal: TrialRemoval,
        best: BestVictims,
        *,
        borrowing: bool,
    ) -> None:
        self._ledger, self._context, self._borrowing = ledger, context, borrowing
        self.removal, self.best = removal, best
        allowed = [c for c in ordered if not (borrowing and c.variant is PreemptionVariant.RECLAIM_WITHOUT_BORROWING)]
        self._rank = {c.key: index for index, c in enumerate(allowed)}
        self.leaving = [c for c in allowed if c.workload.evicted and self._leave(c)]
        self.open = [c for c in allowed if not c.workload.evicted]
        self._lost: dict[str, int] = {}
        self._by_key = {c.key: c for c in self.open}
        self.priorities = sorted({c.workload.priority for c in self.open})
        self._pools: dict[int, CandidatePool] = {}

    def _leave(self, candidate: Candidate) -> bool:
        if not self.may_evict(candidate):
            return False
        self.removal.remove(candidate)
        return True

    @property
    def needs_capacity(self) -> bool:
        """Reports whether pods have to be placed on a topology."""
        return bool(self._context.requests)

    @cached_property
    def quota_shortages(self) -> list[tuple[FlavorResource, int]]:
        """The (flavor, resource) pairs whose quota is short before any open candidate is removed, and by how much."""
        return self.removal.quota_shortages()

    def top_by_quota(self) -> int | None:
        """Returns the lowest priority p such that quota suffices after every open candidate of priority p or lower is evicted.

        Returns None if quota never suffices. Protected queues are ignored, so the answer is a lower bound.
        """
        if self.removal.quota_fits():
            return FREE.top
        by_priority: dict[int, list[Candidate]] = {}
        for candidate in self.open:
            by_priority.setdefault(candidate.workload.priority, []).append(candidate)
        with self._ledger.trial():
            for top in self.priorities:
                for node, usage in totals(by_priority[top]).items():
                    self._ledger.quota.remove(node.name, usage)
                if self.removal.quota_fits():
                    return top
            return None

    def quota_givers(self) -> dict[str, None]:
        """Returns the keys of the open candidates that use any of the quota that is short."""
        short_of = [fr for fr, _ in self.quota_shortages]
        return {c.key: None for c in self.open if any(c.usage.get(fr, 0) for fr in short_of)}

    def pool_of_all(self, top: int) -> CandidatePool:
        """Returns the pool of all open candidates."""
        if top not in self._pools:
            self._pools[top] = CandidatePool.of(self, self.open, top)
        return self._pools[top]

    def open_among(self, keys: Collection[str]) -> list[Candidate]:
        """Returns the open candidates among these keys, in Kueue's order."""
        known = [key for key in keys if key in self._by_key]
        return [self._by_key[key] for key in sorted(known, key=self._rank.__getitem__)]

    def in_order(self, chosen: Iterable[Candidate]) -> list[Candidate]:
        """Returns these candidates in Kueue's order."""
        return sorted(chosen, key=lambda c: self._rank[c.key])

    def lost(self, candidate: Candidate) -> int:
        """Returns the work that is lost if the candidate is evicted."""
        lost = self._lost.get(candidate.key)
        if lost is None:
            lost = self._lost[candidate.key] = lost_work(candidate.workload, self._context.now)
        return lost

    def cost_of(self, chosen: Iterable[Candidate]) -> Cost:
        """Returns what these open candidates cost."""
        cost = FREE
        for candidate in chosen:
            cost = with_one(cost, candidate.workload.priority, self.lost(candidate))
        return cost

    def may_evict(self, candidate: Candidate) -> bool:
        """Reports whether policy lets the candidate be evicted at current usage."""
        return may_evict(self._context, candidate, self._borrowing)

    def allowed_together(self, chosen: Iterable[Candidate]) -> bool:
        """Reports whether policy lets all of these be evicted one after the other; none of them may be removed yet."""
        with self._ledger.trial():
            for candidate in self.in_order(chosen):
                if not self.may_evict(candidate):
                    return False
                self._ledger.quota.remove(candidate.node.name, candidate.usage)
        return True

    def try_kueue_choice(self, members: Sequence[Candidate]) -> None:
        """Hook before one domain's search. Does nothing: the search already starts from Kueue's choice among all candidates."""

    def accept(self, cost: Cost, chosen: Iterable[Candidate]) -> bool:
        """Reports whether the gang can be placed now, with quota known to fit; keeps the set if it is the best so far."""
        if not self.removal.placement_is_cheap:
            self.best.expanded += PLACEMENT
        if not self.removal.placement_fits():
            return False
        if self.best.beaten_by(cost):
            out = self.in_order((*self.leaving, *chosen))
            self.best.targets = [PreemptionTarget(candidate, candidate.variant.claim) for candidate in out]
            self.best.cost, self.best.borrowing = cost, self._borrowing
        return True
