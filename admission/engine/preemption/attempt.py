"""What all domains' searches of one attempt share: who may go, who is out, the best set so far and the budget.

Terms and theory are in cheapest.py, which makes the attempts; the searches are in dive.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from admission.engine.decision import Certificate, Proof
from admission.engine.ledger import Ledger
from admission.engine.preemption.bounds import fewest
from admission.engine.preemption.candidates import Candidate, Question, Right
from admission.engine.preemption.classical import may_go
from admission.engine.preemption.cost import FREE, Cost, lost_work
from admission.engine.preemption.hole import Hole, Taken

_PLACEMENT = 10
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


class Floors:
    """What any set of some candidates must come to: how many, and what so many cost at least."""

    def __init__(self, attempt: Attempt, members: Sequence[Candidate]) -> None:
        self._attempt, self._members = attempt, members

    @cached_property
    def for_quota(self) -> int:
        """The fewest that could give the quota that is short."""
        lacks = self._attempt.hole.quota_lacks()
        return max((fewest([c.usage.get(fr, 0) for c in self._members], lack) for fr, lack in lacks), default=0)

    def priorities(self, count: int) -> int:
        """The least that the priorities of so many add up to."""
        return self._priorities[min(count, len(self._members))]

    def lost(self, count: int) -> int:
        """The least that the lost work of so many adds up to."""
        return self._lost[min(count, len(self._members))]

    @cached_property
    def _priorities(self) -> list[int]:
        return [0, *accumulate(sorted(c.workload.priority for c in self._members))]

    @cached_property
    def _lost(self) -> list[int]:
        return [0, *accumulate(sorted(self._attempt.lost[c.key] for c in self._members))]


class Attempt:
    """With or without borrowing. `hole` is open; who is evicted already is out of it, whoever else could go is `open`."""

    def __init__(
        self,
        ledger: Ledger,
        question: Question,
        ordered: Sequence[Candidate],
        hole: Hole,
        best: Best,
        *,
        borrowing: bool,
    ) -> None:
        self._ledger, self._question, self._borrowing = ledger, question, borrowing
        self.hole, self.best = hole, best
        allowed = [c for c in ordered if not (borrowing and c.right is Right.WITHOUT_BORROWING)]
        self._rank = {c.key: index for index, c in enumerate(allowed)}
        self._leaving = [c for c in allowed if c.workload.evicted and self._leave(c)]
        self.open = [c for c in allowed if not c.workload.evicted]
        self.lost = {c.key: lost_work(c.workload, question.now) for c in self.open}
        self._by_key = {c.key: c for c in self.open}
        self.all = Floors(self, self.open)

    def _leave(self, candidate: Candidate) -> bool:
        if not self.may_go(candidate):
            return False
        self.hole.take(candidate)
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
                if self.hole.quota_fits():
                    return top
                self._ledger.quota.remove(candidate.node.name, candidate.usage)
                top = candidate.workload.priority
            return top if self.hole.quota_fits() else None

    def givers(self) -> dict[str, None]:
        """Who gives any of the quota that is short."""
        lacking = [fr for fr, _ in self.hole.quota_lacks()]
        return {c.key: None for c in self.open if any(c.usage.get(fr, 0) for fr in lacking)}

    def named(self, keys: Collection[str]) -> list[Candidate]:
        """Those of these that could go, in order."""
        known = [key for key in keys if key in self._by_key]
        return [self._by_key[key] for key in sorted(known, key=self._rank.__getitem__)]

    def in_order(self, chosen: Iterable[Candidate]) -> list[Candidate]:
        """In the peer's order."""
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

    def accept(self, cost: Cost, chosen: Iterable[Candidate]) -> bool:
        """These are out, and quota fits: whether the gang has a place. The set is the best from now on if it is better."""
        if not self.hole.placement_is_cheap:
            self.best.expanded += _PLACEMENT
        if not self.hole.placement_fits():
            return False
        if self.best.beaten_by(cost):
            out = self.in_order((*self._leaving, *chosen))
            self.best.taken = [Taken(candidate, candidate.right.claim) for candidate in out]
            self.best.cost, self.best.borrowing = cost, self._borrowing
        return True
