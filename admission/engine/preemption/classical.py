"""Kueue's classical preemption, exactly: cycle.md 4.8.

Candidates are removed in order until the workload fits; then the ones it does not need are reprieved. Depending on the
policy this is tried with and without borrowing. A workload of another queue may be evicted only while its queue, and
each cohort between the queue and the lowest common cohort, exceeds its quota of a needed resource: a queue within its
quota is protected. Under a policy that keeps nominal quotas a queue that the eviction would bring below its quota is
protected too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from admission.engine.ledger.ledger import Ledger
from admission.engine.preemption.candidates import (
    Candidate,
    Candidates,
    PreemptionContext,
    PreemptionVariant,
    find,
    within_nominal,
)
from admission.engine.preemption.removal import PreemptionTarget, TrialRemoval, gains_of, quota_fits_without
from admission.engine.quota.cohorts import admitted
from admission.engine.topology.evictions.eviction_gains import EvictionGains


def classical(ledger: Ledger, context: PreemptionContext) -> list[PreemptionTarget]:
    """Returns the victims in the order chosen; none if evictions do not help."""
    candidates = find(ledger, context)
    ordered = candidates.in_order
    if context.requests and not quota_might_do(ledger, context, candidates):
        return []
    return choose(ledger, context, candidates, gains_of(ledger, context, ordered))


def choose(
    ledger: Ledger,
    context: PreemptionContext,
    candidates: Candidates,
    gains: EvictionGains | None,
    *,
    placed: bool = True,
) -> list[PreemptionTarget]:
    """Returns the victims among known candidates. With `placed` False, a result counted exactly is not verified by a
    placement.
    """
    if gains is not None and not gains.domains:
        return []
    ordered = candidates.in_order
    for borrowing in attempts(context, candidates):
        with TrialRemoval(ledger, context, gains, borrowing=borrowing) as removal:
            own = len(candidates.own) == len(ordered)
            evictable = ordered if own else in_turn(context, ordered, borrowing)
            if removal.placement_is_cheap:
                out = removal.remove_until_counted(evictable, own=own)
            else:
                out = removal.remove_until_fit(PreemptionTarget(one, one.variant.claim) for one in evictable)
            if out:
                return removal.reprieve_and_place(out) if placed else removal.reprieve(out)
    return []


def attempts(context: PreemptionContext, candidates: Candidates) -> tuple[bool, ...]:
    """Returns whether to try with borrowing (True) and without, in the order of the attempts."""
    relatives = candidates.hierarchical or candidates.reclaimable
    if not relatives or (not context.may_borrow and not _under_nominal(context)):
        return (True,)
    if not context.may_borrow and not candidates.hierarchical:
        return (False, True)
    return (True, False)


def quota_might_do(ledger: Ledger, context: PreemptionContext, candidates: Candidates) -> bool:
    """Reports whether quota suffices if every candidate of some attempt is evicted: a cheap check before counting capacity."""
    ordered = candidates.in_order
    return bool(ordered) and any(
        _quota_without(ledger, context, ordered, borrowing) for borrowing in attempts(context, candidates)
    )


def _quota_without(ledger: Ledger, context: PreemptionContext, ordered: Sequence[Candidate], borrowing: bool) -> bool:
    without = PreemptionVariant.RECLAIM_WITHOUT_BORROWING
    removed = [c for c in ordered if not (borrowing and c.variant is without)]
    return quota_fits_without(ledger, context, removed, borrowing=borrowing)


def _under_nominal(context: PreemptionContext) -> bool:
    node = context.node
    return all(node.usage.get(fr, 0) < node.quota(fr).nominal for fr in context.needed)


def in_turn(context: PreemptionContext, ordered: Sequence[Candidate], borrowing: bool) -> Iterator[Candidate]:
    """Yields the candidates that may be evicted, each checked after the ones before it are removed."""
    for candidate in ordered:
        if may_evict(context, candidate, borrowing):
            yield candidate


def may_evict(context: PreemptionContext, candidate: Candidate, borrowing: bool) -> bool:
    """Reports whether the candidate may be evicted at current usage."""
    if candidate.variant is PreemptionVariant.WITHIN_CLUSTER_QUEUE:
        return True
    if borrowing and candidate.variant is PreemptionVariant.RECLAIM_WITHOUT_BORROWING:
        return False
    if within_nominal(candidate.node, context.needed):
        return False
    if context.policy.keeps_nominal and _falls_short(candidate):
        return False
    for node in candidate.node.ancestors():
        if node is candidate.top:
            break
        if within_nominal(node, context.needed):
            return False
    return True


def _falls_short(candidate: Candidate) -> bool:
    """Reports whether the candidate's queue has its nominal quota of some resource in use now, but not without the
    candidate."""
    node = candidate.node
    return any(
        used - amount < node.quota(fr).nominal <= used
        for fr, amount in candidate.usage.items()
        for used in (admitted(node, fr),)
    )
