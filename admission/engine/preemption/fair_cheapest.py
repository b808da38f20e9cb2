"""Finds victims under fair sharing when the freed capacity must lie in one domain: the choice of Profile Exact.

Kueue compares shares only (fair.py) and may run out of allowed candidates before any one domain has enough capacity. So three
ways are tried in turn: workloads that are already being evicted, Kueue's choice, and a search. In the search a set is allowed
if Kueue, offered only this set and the workloads already leaving, would take all of it. The same rules and shares decide;
candidates that do not help are simply not offered. Among the allowed sets that free enough capacity the cheapest (cost.py) is
searched as in cheapest.py, domain by domain, within a budget; each set offered to Kueue's rules counts as one placement.

A candidate that no order of evictions allows is dropped first. The less the preemptor's side uses and the more the candidate's
side uses, the more is allowed, so this check uses those extremes. No candidate remains where shares are already fair.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from admission.engine.decision import Certificate, Proof
from admission.engine.ledger.ledger import Ledger
from admission.engine.preemption.branch_and_bound import MOST
from admission.engine.preemption.candidates import Candidate, PreemptionContext, find_for_fairness
from admission.engine.preemption.cheapest import VictimChoice, reprieved, search
from admission.engine.preemption.cost import Cost, cost_of
from admission.engine.preemption.fair import ever_evictable, fair_choice
from admission.engine.preemption.removal import PreemptionTarget, TrialRemoval, gains_of
from admission.engine.preemption.victim_search import PLACEMENT, BestVictims, VictimSearch
from admission.engine.quota.fairness import FairSharingRules
from admission.engine.topology.evictions.eviction_gains import EvictionGains


def fair_cheapest(ledger: Ledger, context: PreemptionContext, sharing: FairSharingRules, budget: int) -> VictimChoice:
    """Returns Kueue's victims, else the cheapest allowed ones found within the budget; none if evictions do not help."""
    candidates = find_for_fairness(ledger, context)
    gains = gains_of(ledger, context, candidates)
    if not candidates or (gains is not None and not gains.domains):
        return VictimChoice((), BestVictims(budget).certificate())
    with TrialRemoval(ledger, context, gains) as removal:
        leaving = [one for one in candidates if one.workload.evicted]
        targets = _kueue_choice(leaving, removal, context, sharing) or _kueue_choice(
            candidates, removal, context, sharing
        )
    if targets or not context.requests:
        return VictimChoice(tuple(targets), Certificate(Proof.FEASIBLE, _cost(context, targets) if targets else ()))
    return _searched(ledger, context, sharing, candidates, gains, BestVictims(budget))


def _kueue_choice(
    some: Sequence[Candidate], removal: TrialRemoval, context: PreemptionContext, sharing: FairSharingRules
) -> list[PreemptionTarget]:
    """Returns Kueue's choice from these candidates. Nothing is left removed."""
    out = fair_choice(some, removal, context, sharing) if some else []
    targets = removal.reprieve_and_place(out) if out else []
    removal.restore()
    return targets


def _searched(
    ledger: Ledger,
    context: PreemptionContext,
    sharing: FairSharingRules,
    candidates: Sequence[Candidate],
    gains: EvictionGains | None,
    best: BestVictims,
) -> VictimChoice:
    with TrialRemoval(ledger, context, gains) as removal:
        possible = ever_evictable(candidates, removal, context, sharing)
    if not possible:
        return VictimChoice((), best.certificate())
    if len(possible) < len(candidates):
        gains = gains_of(ledger, context, possible)
    with TrialRemoval(ledger, context, gains) as removal:
        search(_FairSearch(ledger, context, possible, removal, best, sharing), gains)
    targets = reprieved(ledger, context, best, gains)
    best.cost = _cost(context, targets) if targets else None
    return VictimChoice(tuple(targets), best.certificate())


def _cost(context: PreemptionContext, targets: Iterable[PreemptionTarget]) -> Cost:
    return cost_of((one.candidate.workload for one in targets), context.now)


class _FairSearch(VictimSearch):
    """A search that checks each set as a whole with Kueue's rules: part of an allowed set need not be allowed."""

    def __init__(
        self,
        ledger: Ledger,
        context: PreemptionContext,
        ordered: Sequence[Candidate],
        removal: TrialRemoval,
        best: BestVictims,
        sharing: FairSharingRules,
    ) -> None:
        super().__init__(ledger, context, ordered, removal, best, borrowing=True)
        self._sharing = sharing

    def may_evict(self, candidate: Candidate) -> bool:
        """Always True: only `accept` can decide."""
        return True

    def allowed_together(self, chosen: Iterable[Candidate]) -> bool:
        """Always True: only `accept` can decide."""
        return True

    def try_kueue_choice(self, members: Sequence[Candidate]) -> None:
        """Offers only the domain's members to Kueue's rules, which find no victims when offered all candidates."""
        if len(members) < len(self.open):
            self._suffices(members, reprieve_and_place=True)

    def accept(self, cost: Cost, chosen: Iterable[Candidate]) -> bool:
        """Reports whether Kueue's rules find victims among these removed candidates.

        Sets that are too large to enumerate are not offered.
        """
        chosen = tuple(chosen)
        if len(chosen) > 2 * MOST:
            return False
        for one in chosen:
            self.removal.put_back(one)
        sufficient = self._suffices(chosen)
        for one in chosen:
            self.removal.remove(one)
        return sufficient

    def _suffices(self, some: Iterable[Candidate], *, reprieve_and_place: bool = False) -> bool:
        self.best.expanded += PLACEMENT
        for one in self.leaving:
            self.removal.put_back(one)
        out = fair_choice(self.in_order((*self.leaving, *some)), self.removal, self._context, self._sharing)
        victims = self.removal.reprieve_and_place(out) if reprieve_and_place and out else out
        self.removal.restore()
        for one in self.leaving:
            self.removal.remove(one)
        if victims and self.best.beaten_by(cost := _cost(self._context, victims)):
            self.best.targets, self.best.cost = victims, cost
        return bool(victims)
