"""Finds the cheapest victims, proved within a budget: the choice of Profile Exact.

*Allowed sets.* A set of candidates is allowed if its members, taken in Kueue's order, may each be evicted in turn
(classical.py), with or without borrowing as Kueue would try. Kueue's own choice is one of these sets, and the search starts
from it, so the answer is never worse. Workloads that are already being evicted come first and cost nothing. cost.py defines
the cost.

*Search.* For a gang that must stay within a domain the search takes one domain after the other, the most promising first. In a
domain it considers only candidates that use capacity there and, if quota is also short, candidates that free quota
(eviction_gains.py counts pods without placing any). Each domain starts with a greedy set, then enumerates all sets depth first
in Kueue's order. A branch ends if even the best completion cannot beat the best known set (tail_bounds.py), or if policy
protects the candidate. Leaving out a candidate never protects another one, and more capacity never makes a placement
impossible, so no set is missed. A set counts only after its gang was really placed.

*Proof.* Optimal: every branch was closed. Feasible: the budget of examined sets was spent (a placement counts as 25); the
certificate's bound is a lower bound of every answer, and a certificate without a cost means that no set was found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import IntEnum
from heapq import heapify, heappop, heappush

from admission.engine.decision import Certificate
from admission.engine.ledger.ledger import Ledger
from admission.engine.preemption.branch_and_bound import BranchAndBound, DomainBound
from admission.engine.preemption.candidates import Candidates, PreemptionContext, PreemptionVariant, find
from admission.engine.preemption.classical import attempts, choose, quota_might_do
from admission.engine.preemption.cost import cost_of
from admission.engine.preemption.removal import PreemptionTarget, TrialRemoval, gains_of
from admission.engine.preemption.victim_search import BestVictims, VictimSearch
from admission.engine.topology.evictions.eviction_gains import EvictionGains


class _Bound(IntEnum):
    """What is known of the sets in a domain, the quickest first."""

    QUICK = 0
    CLOSER = 1
    FLOOR = 2


@dataclass(frozen=True, slots=True)
class VictimChoice:
    """The victims in order, and the certificate of the choice (cost and bound as `Cost`)."""

    targets: tuple[PreemptionTarget, ...]
    certificate: Certificate


def cheapest(ledger: Ledger, context: PreemptionContext, budget: int) -> VictimChoice:
    """Returns the cheapest victims found within the budget of examined sets; none if evictions do not help."""
    best = BestVictims(budget)
    candidates = find(ledger, context)
    ordered = candidates.in_order
    if not quota_might_do(ledger, context, candidates):
        return VictimChoice((), best.certificate())
    gains = gains_of(ledger, context, ordered)
    if gains is not None and not gains.domains:
        return VictimChoice((), best.certificate())
    kueue_choice = choose(ledger, context, candidates, gains, placed=False)
    if kueue_choice:
        best.targets, best.cost = kueue_choice, cost_of((one.candidate.workload for one in kueue_choice), context.now)
    for borrowing in _attempts(context, candidates):
        with TrialRemoval(ledger, context, gains, borrowing=borrowing) as removal:
            search(VictimSearch(ledger, context, ordered, removal, best, borrowing=borrowing), gains)
    better = [] if best.targets is kueue_choice else reprieved(ledger, context, best, gains)
    targets = better or _placed(ledger, context, kueue_choice, gains)
    best.cost = cost_of((one.candidate.workload for one in targets), context.now) if targets else None
    return VictimChoice(tuple(targets), best.certificate())


def _attempts(context: PreemptionContext, candidates: Candidates) -> tuple[bool, ...]:
    """Returns Kueue's attempts; the one without borrowing is left out unless it permits further candidates."""
    ways = attempts(context, candidates)
    only_then = any(c.variant is PreemptionVariant.RECLAIM_WITHOUT_BORROWING for c in candidates.reclaimable)
    return ways if only_then or True not in ways else (True,)


def search(victim_search: VictimSearch, gains: EvictionGains | None) -> None:
    """Searches the domains one by one for a set better than the best known. The removal of `victim_search` must be open."""
    top = victim_search.top_by_quota()
    if top is None:
        return
    if gains is None or not gains.together:
        _search_all(victim_search, [DomainBound.of(victim_search, None, victim_search.open, top)])
        return
    bounds = [
        DomainBound.of(victim_search, domain, victim_search.open_among(domain.takes), top) for domain in gains.domains
    ]
    _search_all(victim_search, bounds)
    if any(victim_search.best.beaten_by(one.cost(beside=True)) for one in bounds) and (
        quota_givers := victim_search.quota_givers()
    ):
        _search_all(victim_search, bounds, quota_givers)


def _search_all(victim_search: VictimSearch, bounds: Iterable[DomainBound], quota_givers: Collection[str] = ()) -> None:
    """Searches the domains, lowest floor first, and skips those that cannot beat the best set.

    A closer bound of a domain, and then its floor, is not computed before its bound is the lowest of all.
    """
    best, beside = victim_search.best, bool(quota_givers)
    bounds = [one for one in bounds if one.possible]
    first = _Bound.CLOSER if beside else _Bound.QUICK
    waiting = [(one.cost(beside=beside), first, number) for number, one in enumerate(bounds)]
    searches: dict[int, BranchAndBound] = {}
    heapify(waiting)
    while waiting:
        lowest, which, number = heappop(waiting)
        if not best.beaten_by(lowest):
            return
        if which is _Bound.QUICK:
            heappush(waiting, (bounds[number].closer(victim_search), _Bound.CLOSER, number))
            continue
        if which is _Bound.CLOSER:
            one_search = BranchAndBound(victim_search, bounds[number], quota_givers)
            if one_search.possible:
                searches[number] = one_search
                heappush(waiting, (one_search.floor, _Bound.FLOOR, number))
            continue
        one_search = searches.pop(number)
        one_search.search()
        if one_search.cut:
            best.floors.append(one_search.floor)


def reprieved(
    ledger: Ledger, context: PreemptionContext, best: BestVictims, gains: EvictionGains | None
) -> list[PreemptionTarget]:
    """Returns the best victims without those that need not be evicted, since not all workloads already leaving may be
    needed."""
    with TrialRemoval(ledger, context, gains, borrowing=best.borrowing) as removal:
        for one in best.targets:
            removal.remove(one.candidate)
        return removal.reprieve_and_place(best.targets) if removal.fits() else []


def _placed(
    ledger: Ledger, context: PreemptionContext, targets: list[PreemptionTarget], gains: EvictionGains | None
) -> list[PreemptionTarget]:
    """Returns the same victims; none if no placement is found for the workload without them after all."""
    with TrialRemoval(ledger, context, gains) as removal:
        for one in targets:
            removal.remove(one.candidate)
        return targets if targets and removal.places() else []
