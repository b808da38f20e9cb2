"""What all domains' searches of one attempt share: who may go, who is out, the best set so far and the budget.

Terms and theory are in cheapest.py, which makes the attempts; the searches are in branch_and_bound.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from admission.engine.decision import Certificate, Proof
from admission.engine.ledger import Ledger
from admission.engine.preemption.bounds import fewest
from admission.engine.preemption.candidates import Candidate, Question, Right
from admission.engine.preemption.classical import may_go
from admission.engine.preemption.cost import FREE, Cost, lost_work
from admission.engine.preemption.removal import Removal, Taken

Share = Callable[[Candidate], int]
"""What a candidate gives of something that is lacking."""

PLACEMENT = 25
"""What a placement counts, in sets looked at."""


@dataclass(slots=True, eq=False)
class Best:
    """The best set known, and what may still be spent. `floors`: of the domains that were not searched to the end."""

    budget: int
    cost: Cost | None = None
    taken: Sequence[Taken] = ()
    borrowing: bool = True
    expanded: int = 0
    floors: list[Cost] = field(default_factory=list)

    def beaten_by(self, cost: Cost) -> bool:
        """Whether a set of this cost would be better."""
        return self.cost is None or cost < self.cost

    @property
    def spent(self) -> bool:
        """Whether the budget is used up."""
        return self.expanded >= self.budget

    def certificate(self) -> Certificate:
        """What is proved by now."""
        if self.cost is None:
            proof = Proof.FEASIBLE if self.floors else Proof.INFEASIBLE
            return Certificate(proof, (), min(self.floors, default=()), self.expanded)
        bound = min((*self.floors, self.cost))
        proof = Proof.OPTIMAL if bound == self.cost else Proof.FEASIBLE
        return Certificate(proof, self.cost, bound, self.expanded)


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Candidates of priority `top` and of lower ones: those that a set may have whose highest is `top`."""

    top: int
    at_top: Sequence[Candidate]
    below: Sequence[Candidate]
    priorities: Sequence[int]
    lost: Sequence[int]

    @classmethod
    def of(cls, attempt: Attempt, members: Sequence[Candidate], top: int) -> Pool:
        """`priorities` (of those below) and `lost` (of all): what the cheapest so many add up to."""
        at_top = [c for c in members if c.workload.priority == top]
        below = [c for c in members if c.workload.priority < top]
        priorities = [0, *accumulate(sorted(c.workload.priority for c in below))]
        lost = [0, *accumulate(sorted(attempt.lost[c.key] for c in (*at_top, *below)))]
        return cls(top, at_top, below, priorities, lost)

    def important(self, share: Share, deficit: int) -> int:
        """How many of the highest it takes at least, even if all below go."""
        return fewest([share(c) for c in self.at_top], deficit - sum(map(share, self.below)))

    def with_important(self, share: Share, deficit: int, important: int) -> int:
        """How many it takes at least, so many of the highest among them."""
        best = sorted(map(share, self.at_top), reverse=True)[:important]
        return important + fewest([share(c) for c in self.below], deficit - sum(best))

    def cost(self, important: int, need: int) -> Cost:
        """What so many cost at least."""
        priorities = self.top * important + self.priorities[min(need - important, len(self.priorities) - 1)]
        return Cost(self.top, important, need, priorities, self.lost[min(need, len(self.lost) - 1)])


class Attempt:
    """With or without borrowing. `removal` is open; evicted workloads are out of it, the other candidates are `open`."""

    def __init__(
        self,
        ledger: Ledger,
        question: Question,
        ordered: Sequence[Candidate],
        removal: Removal,
        best: Best,
        *,
        borrowing: bool,
    ) -> None:
        self._ledger, self._question, self._borrowing = ledger, question, borrowing
        self.removal, self.best = removal, best
        allowed = [c for c in ordered if not (borrowing and c.right is Right.WITHOUT_BORROWING)]
        self._rank = {c.key: index for index, c in enumerate(allowed)}
        self.leaving = [c for c in allowed if c.workload.evicted and self._leave(c)]
        self.open = [c for c in allowed if not c.workload.evicted]
        self.lost = {c.key: lost_work(c.workload, question.now) for c in self.open}
        self._by_key = {c.key: c for c in self.open}
        self._pools: dict[int, Pool] = {}

    def _leave(self, candidate: Candidate) -> bool:
        if not self.may_go(candidate):
            return False
        self.removal.take(candidate)
        return True

    @property
    def asks_for_room(self) -> bool:
        """Whether pods are to be placed on a topology."""
        return bool(self._question.requests)

    def top_by_quota(self) -> int | None:
        """The lowest priority so that quota would do if all up to it went, the protected too; None if it never does."""
        top = FREE.top
        with self._ledger.trial():
            for candidate in sorted(self.open, key=lambda c: c.workload.priority):
                if self.removal.quota_fits():
                    return top
                self._ledger.quota.remove(candidate.node.name, candidate.usage)
                top = candidate.workload.priority
            return top if self.removal.quota_fits() else None

    def givers(self) -> dict[str, None]:
        """Who gives any of the quota that is short."""
        lacking = [fr for fr, _ in self.removal.quota_shortages()]
        return {c.key: None for c in self.open if any(c.usage.get(fr, 0) for fr in lacking)}

    def everybody(self, top: int) -> Pool:
        """The pool of all that could go."""
        if top not in self._pools:
            self._pools[top] = Pool.of(self, self.open, top)
        return self._pools[top]

    def named(self, keys: Collection[str]) -> list[Candidate]:
        """Those of these that could go, in order."""
        known = [key for key in keys if key in self._by_key]
        return [self._by_key[key] for key in sorted(known, key=self._rank.__getitem__)]

    def in_order(self, chosen: Iterable[Candidate]) -> list[Candidate]:
        """In Kueue's order."""
        return sorted(chosen, key=lambda c: self._rank[c.key])

    def may_go(self, candidate: Candidate) -> bool:
        """Whether the candidate may go now."""
        return may_go(self._question, candidate, self._borrowing)

    def lawful(self, chosen: Iterable[Candidate]) -> bool:
        """Whether these, of whom none is out yet, may go together."""
        with self._ledger.trial():
            for candidate in self.in_order(chosen):
                if not self.may_go(candidate):
                    return False
                self._ledger.quota.remove(candidate.node.name, candidate.usage)
        return True

    def look_at_all(self, members: Sequence[Candidate]) -> None:
        """Before one domain's search: Kueue's choice among its members. Here it was made among all, beforehand."""

    def accept(self, cost: Cost, chosen: Iterable[Candidate]) -> bool:
        """These are out, and quota fits: whether the gang has a place. The set is the best from now on if it is better."""
        if not self.removal.placement_is_cheap:
            self.best.expanded += PLACEMENT
        if not self.removal.placement_fits():
            return False
        if self.best.beaten_by(cost):
            out = self.in_order((*self.leaving, *chosen))
            self.best.taken = [Taken(candidate, candidate.right.claim) for candidate in out]
            self.best.cost, self.best.borrowing = cost, self._borrowing
        return True
