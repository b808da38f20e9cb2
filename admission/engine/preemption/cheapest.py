"""The victims that cost least, proved within a budget: what Profile Exact evicts.

*What may go.* A set of candidates is lawful if its members, taken in the peer's order, may each go when its turn comes
(classical.py), with or without borrowing as the peer would try. So the peer's own choice is one of them, and the answer,
which starts from it, is never worse. Workloads that are evicted already go first and cost nothing. Costs: cost.py.

*How it is found.* A gang that must stay within a domain is looked for in one domain after the other, the most promising
first; there only those who take room in it matter, and, if quota is short as well, those who could give quota instead
(relief.py counts pods without placing any). In each domain a greedy set comes first; then all sets, depth first in the
peer's order: a branch ends where even the best that is left cannot beat the best set known (bounds.py), or where somebody
may not go. Leaving a candidate out never makes others' right to go smaller, and more room never makes a place impossible, so
nothing is missed. A set that beats the best is placed for real before it counts: what comes out provably fits.

*What is proved.* Optimal: every branch was closed. Feasible: the budget of sets looked at was spent (a placement counts as
ten); the certificate's bound is what no answer can cost less than.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from admission.engine.decision import Certificate, Proof
from admission.engine.ledger import Ledger
from admission.engine.preemption.candidates import Candidate, Question, Right, find
from admission.engine.preemption.classical import attempts, classical, may_go
from admission.engine.preemption.cost import FREE, Cost, cost_of, lost_work
from admission.engine.preemption.dive import Dive
from admission.engine.preemption.hole import Hole, Taken
from admission.engine.topology.relief import Site

PLACEMENT = 10


@dataclass(frozen=True, slots=True)
class Choice:
    """The victims in order, and what is proved of them (cost and bound as `Cost`)."""

    taken: tuple[Taken, ...]
    certificate: Certificate


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


def cheapest(ledger: Ledger, question: Question, budget: int) -> Choice:
    """The cheapest victims found within the budget; none if nothing helps."""
    best = Best(budget)
    peers = classical(ledger, question)
    if peers:
        best.taken, best.cost = peers, cost_of((one.candidate.workload for one in peers), question.now)
    candidates = find(ledger, question)
    ordered = candidates.in_order()
    for borrowing in attempts(question, candidates) if ordered else ():
        with ledger.trial():
            Attempt(ledger, question, ordered, best, borrowing=borrowing).run()
    taken = best.taken if best.taken is peers else _without_needless(ledger, question, best)
    return Choice(tuple(taken), best.certificate())


def _without_needless(ledger: Ledger, question: Question, best: Best) -> list[Taken]:
    """Those whom the workload fits beside stay: of the workloads that are leaving anyway not all may be needed."""
    with ledger.trial():
        hole = Hole(ledger, question, borrowing=best.borrowing)
        for one in best.taken:
            hole.take(one.candidate)
        return hole.fill(best.taken) if hole.fits() else []


class Attempt:
    """All lawful sets, with or without borrowing. Inside a trial."""

    def __init__(
        self, ledger: Ledger, question: Question, ordered: Sequence[Candidate], best: Best, *, borrowing: bool
    ) -> None:
        self._ledger, self._question, self._borrowing, self.best = ledger, question, borrowing, best
        self.hole = Hole(ledger, question, borrowing=borrowing)
        allowed = [c for c in ordered if not (borrowing and c.right is Right.WITHOUT_BORROWING)]
        self._leaving = [c for c in allowed if c.workload.evicted]
        self._open = [c for c in allowed if not c.workload.evicted]
        self._rank = {c.key: index for index, c in enumerate(allowed)}
        self.lost = {c.key: lost_work(c.workload, question.now) for c in self._open}
        self.asks_for_room = bool(question.requests)

    def run(self) -> None:
        """Search, and leave the best in `best`."""
        self._leaving = [candidate for candidate in self._leaving if self._leave(candidate)]
        self.hole.settle()
        top = self._top_by_quota()
        if top is None:
            return
        requests = self._question.requests
        sites = self._ledger.sites(requests, [c.key for c in self._open]) if requests else None
        if sites is None:
            self._search([Dive(self, None, self._open, top)])
            return
        self._search([Dive(self, site, self._inside(site, set()), top) for site in sites])
        lacking = [fr for fr, lack in self.hole.quota_lacks() if lack > 0]
        givers = {c.key for c in self._open if any(c.usage.get(fr, 0) for fr in lacking)}
        beyond = [site for site in sites if not givers <= site.takes.keys()]
        self._search([Dive(self, site, self._inside(site, givers), top, outsiders=True) for site in beyond])

    def _leave(self, candidate: Candidate) -> bool:
        if not self.may_go(candidate):
            return False
        self.hole.take(candidate)
        return True

    def _inside(self, site: Site, others: Collection[str]) -> list[Candidate]:
        """Those who take room in the domain, and these others."""
        return [c for c in self._open if c.key in site.takes or c.key in others]

    def _top_by_quota(self) -> int | None:
        """The lowest priority so that quota would do if all up to it went, the protected too; None if it never does."""
        top = FREE.top
        with self._ledger.trial():
            for candidate in sorted(self._open, key=lambda c: c.workload.priority):
                if self.hole.quota_fits():
                    return top
                self._ledger.quota.remove(candidate.node.name, candidate.usage)
                top = candidate.workload.priority
            return top if self.hole.quota_fits() else None

    def _search(self, dives: list[Dive]) -> None:
        """Most promising first."""
        for dive in sorted((one for one in dives if one.possible), key=lambda one: one.floor):
            if self.best.beaten_by(dive.floor):
                dive.greedy()
                dive.run()
                if dive.cut:
                    self.best.floors.append(dive.floor)

    # ---- what dives ask

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

    def in_order(self, chosen: Iterable[Candidate]) -> list[Candidate]:
        """In the peer's order."""
        return sorted(chosen, key=lambda c: self._rank[c.key])

    def accept(self, cost: Cost, chosen: Iterable[Candidate]) -> bool:
        """These are out: whether there is a place for the gang. The set is the best from now on if it is better."""
        if self._question.requests:
            self.best.expanded += PLACEMENT
            if not self.hole.placement_fits():
                return False
        if self.best.beaten_by(cost):
            out = self.in_order((*self._leaving, *chosen))
            self.best.taken = [Taken(candidate, candidate.right.claim) for candidate in out]
            self.best.cost, self.best.borrowing = cost, self._borrowing
        return True
