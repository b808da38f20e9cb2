"""The victims that cost least, proved within a budget: what Profile Exact evicts.

*What may go.* A set of candidates is lawful if its members, taken in Kueue's order, may each go when its turn comes
(classical.py), with or without borrowing as Kueue would try. So Kueue's own choice is one of them, and the answer,
which starts from it, is never worse. Workloads that are evicted already go first and cost nothing. Costs: cost.py.

*How it is found.* A gang that must stay within a domain is looked for in one domain after the other, the most promising
first; there only those who take room in it matter, and, if quota is short as well, those who could give quota instead
(relief.py counts pods without placing any). In each domain a greedy set comes first; then all sets, depth first in the
Kueue's order: a branch ends where even the best that is left cannot beat the best set known (bounds.py), or where somebody
may not go. Leaving a candidate out never makes others' right to go smaller, and more room never makes a place impossible, so
nothing is missed. A set that beats the best is placed for real before it counts: what comes out provably fits.

*What is proved.* Optimal: every branch was closed. Feasible: the budget of sets looked at was spent (a placement counts as
25); the certificate's bound is what no answer can cost less than, and if it has no cost, no set was found.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from admission.engine.decision import Certificate
from admission.engine.ledger import Ledger
from admission.engine.preemption.attempt import Attempt, Best
from admission.engine.preemption.branch_and_bound import BranchAndBound
from admission.engine.preemption.candidates import Candidates, Question, Right, find
from admission.engine.preemption.classical import attempts, choose, quota_might_do
from admission.engine.preemption.cost import cost_of
from admission.engine.preemption.removal import Removal, Taken, room_for
from admission.engine.topology.relief import Relief


@dataclass(frozen=True, slots=True)
class Choice:
    """The victims in order, and what is proved of them (cost and bound as `Cost`)."""

    taken: tuple[Taken, ...]
    certificate: Certificate


def cheapest(ledger: Ledger, question: Question, budget: int) -> Choice:
    """The cheapest victims found within the budget; none if nothing helps."""
    best = Best(budget)
    candidates = find(ledger, question)
    ordered = candidates.in_order()
    if not quota_might_do(ledger, question, candidates):
        return Choice((), best.certificate())
    room = room_for(ledger, question, ordered)
    if room is not None and not room.sites:
        return Choice((), best.certificate())
    kueue_choice = choose(ledger, question, candidates, room, placed=False)
    if kueue_choice:
        best.taken, best.cost = kueue_choice, cost_of((one.candidate.workload for one in kueue_choice), question.now)
    for borrowing in _ways(question, candidates):
        with Removal(ledger, question, room, borrowing=borrowing) as removal:
            search(Attempt(ledger, question, ordered, removal, best, borrowing=borrowing), room)
    better = [] if best.taken is kueue_choice else without_needless(ledger, question, best, room)
    taken = better or _placed(ledger, question, kueue_choice, room)
    best.cost = cost_of((one.candidate.workload for one in taken), question.now) if taken else None
    return Choice(tuple(taken), best.certificate())


def _ways(question: Question, candidates: Candidates) -> tuple[bool, ...]:
    """Kueue's attempts; who may not borrow can evict nobody more unless it gives somebody a right."""
    ways = attempts(question, candidates)
    only_then = any(c.right is Right.WITHOUT_BORROWING for c in candidates.reclaimable)
    return ways if only_then or True not in ways else (True,)


def search(attempt: Attempt, room: Relief | None) -> None:
    """Look in one domain after the other for sets better than the best known. The attempt's hole is open."""
    top = attempt.top_by_quota()
    if top is None:
        return
    if room is None or not room.together:
        _search_all(attempt, [BranchAndBound(attempt, None, attempt.open, top)])
        return
    inside = [(site, attempt.named(site.takes)) for site in room.sites]
    _search_all(attempt, [BranchAndBound(attempt, site, members, top) for site, members in inside])
    if givers := attempt.givers():
        _search_all(attempt, [BranchAndBound(attempt, site, members, top, givers) for site, members in inside])


def _search_all(attempt: Attempt, searches: Iterable[BranchAndBound]) -> None:
    """Most promising first."""
    for one_search in sorted((one for one in searches if one.possible), key=lambda one: one.floor):
        if attempt.best.beaten_by(one_search.floor):
            one_search.search()
            if one_search.cut:
                attempt.best.floors.append(one_search.floor)


def without_needless(ledger: Ledger, question: Question, best: Best, room: Relief | None) -> list[Taken]:
    """Those whom the workload fits beside stay: of the workloads that are leaving anyway not all may be needed."""
    with Removal(ledger, question, room, borrowing=best.borrowing) as removal:
        for one in best.taken:
            removal.take(one.candidate)
        return removal.reprieve_and_place(best.taken) if removal.fits() else []


def _placed(ledger: Ledger, question: Question, taken: list[Taken], room: Relief | None) -> list[Taken]:
    """The same; none where the workload has no place without them after all."""
    with Removal(ledger, question, room) as removal:
        for one in taken:
            removal.take(one.candidate)
        return taken if taken and removal.places() else []
