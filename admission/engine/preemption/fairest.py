"""The victims of fair sharing where placement needs the freed room in one domain: what Profile Exact evicts.

Kueue goes by shares alone (fair.py), and may come to an end of what it may take before there is room in any one domain.
Workloads that leave anyway go first where that makes room, else Kueue's choice where that does. Else a set of candidates is
lawful if Kueue, told of no others but those and the ones that leave anyway, would take all of them: the same rules and shares
decide, only that nobody is considered who does not help. Of the lawful sets that make room the cheapest (cost.py) is looked
for as in cheapest.py, domain by domain, within a budget of sets looked at; a set asked about counts as a placement.

A candidate that could not go in any order is left out from the beginning: the fewer the preemptor's side uses, and the more
theirs, the more is allowed. That leaves nobody where the shares are as they should be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from admission.engine.decision import Certificate, Proof
from admission.engine.ledger import Ledger
from admission.engine.preemption.attempt import PLACEMENT, Attempt, Best
from admission.engine.preemption.branch_and_bound import MOST
from admission.engine.preemption.candidates import Candidate, Question, find_for_fairness
from admission.engine.preemption.cheapest import Choice, search, without_needless
from admission.engine.preemption.cost import Cost, cost_of
from admission.engine.preemption.fair import ever_allowed, told_of
from admission.engine.preemption.removal import Removal, Taken, room_for
from admission.engine.quota.fairness import FairSharing
from admission.engine.topology.relief import Relief


def fairest(ledger: Ledger, question: Question, sharing: FairSharing, budget: int) -> Choice:
    """Kueue's victims, else the cheapest lawful ones found within the budget; none if nothing helps."""
    candidates = find_for_fairness(ledger, question)
    room = room_for(ledger, question, candidates)
    if not candidates or (room is not None and not room.sites):
        return Choice((), Best(budget).certificate())
    with Removal(ledger, question, room) as removal:
        leaving = [one for one in candidates if one.workload.evicted]
        taken = _kueue_choice(leaving, removal, question, sharing) or _kueue_choice(
            candidates, removal, question, sharing
        )
    if taken or not question.requests:
        return Choice(tuple(taken), Certificate(Proof.FEASIBLE, _cost(question, taken) if taken else ()))
    return _searched(ledger, question, sharing, candidates, room, Best(budget))


def _kueue_choice(some: Sequence[Candidate], removal: Removal, question: Question, sharing: FairSharing) -> list[Taken]:
    """Kueue's choice of these; nobody is out afterwards."""
    out = told_of(some, removal, question, sharing) if some else []
    taken = removal.reprieve_and_place(out) if out else []
    removal.restore()
    return taken


def _searched(
    ledger: Ledger,
    question: Question,
    sharing: FairSharing,
    candidates: Sequence[Candidate],
    room: Relief | None,
    best: Best,
) -> Choice:
    with Removal(ledger, question, room) as removal:
        possible = ever_allowed(candidates, removal, question, sharing)
    if not possible:
        return Choice((), best.certificate())
    if len(possible) < len(candidates):
        room = room_for(ledger, question, possible)
    with Removal(ledger, question, room) as removal:
        search(_Told(ledger, question, possible, removal, best, sharing), room)
    taken = without_needless(ledger, question, best, room)
    best.cost = _cost(question, taken) if taken else None
    return Choice(tuple(taken), best.certificate())


def _cost(question: Question, taken: Iterable[Taken]) -> Cost:
    return cost_of((one.candidate.workload for one in taken), question.now)


class _Told(Attempt):
    """An attempt whose sets are put to Kueue as a whole: nothing is known of a part of a lawful set."""

    def __init__(
        self,
        ledger: Ledger,
        question: Question,
        ordered: Sequence[Candidate],
        removal: Removal,
        best: Best,
        sharing: FairSharing,
    ) -> None:
        super().__init__(ledger, question, ordered, removal, best, borrowing=True)
        self._sharing = sharing

    def may_go(self, candidate: Candidate) -> bool:
        """Only `accept` knows."""
        return True

    def lawful(self, chosen: Iterable[Candidate]) -> bool:
        """Only `accept` knows."""
        return True

    def look_at_all(self, members: Sequence[Candidate]) -> None:
        """Kueue, told of the domain's members; told of all it found nobody."""
        if len(members) < len(self.open):
            self._ask(members, reprieve_and_place=True)

    def accept(self, cost: Cost, chosen: Iterable[Candidate]) -> bool:
        """Whether Kueue, told of these, who are out, finds victims. It is not asked about more than are gone through."""
        chosen = tuple(chosen)
        if len(chosen) > 2 * MOST:
            return False
        for one in chosen:
            self.removal.put_back(one)
        found = self._ask(chosen)
        for one in chosen:
            self.removal.take(one)
        return found

    def _ask(self, some: Iterable[Candidate], *, reprieve_and_place: bool = False) -> bool:
        self.best.expanded += PLACEMENT
        for one in self.leaving:
            self.removal.put_back(one)
        out = told_of(self.in_order((*self.leaving, *some)), self.removal, self._question, self._sharing)
        found = self.removal.reprieve_and_place(out) if reprieve_and_place and out else out
        self.removal.restore()
        for one in self.leaving:
            self.removal.take(one)
        if found and self.best.beaten_by(cost := _cost(self._question, found)):
            self.best.taken, self.best.cost = found, cost
        return bool(found)
