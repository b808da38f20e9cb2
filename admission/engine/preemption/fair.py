"""Kueue's fair-sharing preemption: cycle.md 4.9.

Shares are compared as if the preemptor were admitted. The next target queue is found from the root down, at each cohort
in the child with the largest share. Of equal shares the child comes first whose next candidate has the lower priority, then
the one whose next candidate reserved quota last (`candidates.rank`). Nodes that do not borrow and are not ancestors of the
preemptor are skipped. In the preemptor's own queue the next candidate is a victim. In another queue the next candidate is one
that the strategy allows, by the shares of the two subtrees that meet in the lowest common cohort. Candidates that the first
strategy rejects are tried again by the second.

A cohort's own quota counts like a queue's, whatever other flavors its queues borrow (Kueue looks at the queue alone): a queue
below a cohort that stays within its quota of what is needed may reclaim, and from a cohort that is within it nothing is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cmp_to_key

from admission.engine.decision import PreemptionReason
from admission.engine.ledger.ledger import Ledger
from admission.engine.preemption.candidates import (
    Candidate,
    PreemptionContext,
    PreemptionVariant,
    find_for_fairness,
    rank,
    within_nominal,
)
from admission.engine.preemption.removal import PreemptionTarget, TrialRemoval, gains_of
from admission.engine.quota.cohorts import QuotaNode
from admission.engine.quota.fairness import FairSharingRules, FairStrategy, Share, ShareCache


def fair(ledger: Ledger, context: PreemptionContext, sharing: FairSharingRules) -> list[PreemptionTarget]:
    """Returns the victims in the order chosen; none if evictions do not help."""
    candidates = find_for_fairness(ledger, context)
    if not candidates:
        return []
    gains = gains_of(ledger, context, candidates)
    if gains is not None and not gains.domains:
        return []
    with TrialRemoval(ledger, context, gains) as removal:
        out = fair_choice(candidates, removal, context, sharing)
        return removal.reprieve_and_place(out) if out else []


def fair_choice(
    candidates: Iterable[Candidate], removal: TrialRemoval, context: PreemptionContext, sharing: FairSharingRules
) -> list[PreemptionTarget]:
    """Returns Kueue's choice from these candidates, in order, or an empty list. The chosen candidates are left removed."""
    removal.assume(True)
    out = removal.remove_until_fit(_Fair(removal, context, sharing).sequence(candidates))
    removal.assume(False)
    return out


def ever_evictable(
    candidates: Sequence[Candidate], removal: TrialRemoval, context: PreemptionContext, sharing: FairSharingRules
) -> list[Candidate]:
    """Returns the candidates that may be evicted after some set of others.

    The check is optimistic: it uses the preemptor's smallest share and the candidate's present share.
    """
    removal.assume(True)
    share_standing = _Fair(removal, context, sharing).share_standing
    now = {
        one.key: share_standing(one) for one in candidates if one.variant is not PreemptionVariant.WITHIN_CLUSTER_QUEUE
    }
    for one in candidates:
        removal.remove(one)
    allowed = _Fair(removal, context, sharing).ever_evictable
    evictable = [one for one in candidates if one.key not in now or allowed(one, now[one.key])]
    for one in candidates:
        removal.put_back(one)
    removal.assume(False)
    return evictable


class _Fair:
    def __init__(self, removal: TrialRemoval, context: PreemptionContext, sharing: FairSharingRules) -> None:
        self._removal, self._context, self._sharing = removal, context, sharing
        self._shares = ShareCache()
        self._path = (context.node, *context.node.ancestors())

    def sequence(self, candidates: Iterable[Candidate]) -> Iterator[PreemptionTarget]:
        passed: list[Candidate] = []
        yield from self._first(candidates, passed)
        if len(self._sharing.strategies) > 1:
            yield from self._second(passed)

    def _first(self, candidates: Iterable[Candidate], passed: list[Candidate]) -> Iterator[PreemptionTarget]:
        targets = _Targets(self._context, candidates, self._shares)
        for node in targets:
            if node is self._context.node:
                yield from self._out(targets.pop(node), PreemptionReason.IN_CLUSTER_QUEUE)
            elif self._within_nominal():
                yield from self._out(targets.pop(node), PreemptionReason.IN_COHORT_RECLAMATION)
            else:
                while targets.waiting(node):
                    candidate = targets.pop(node)
                    if self._allowed(candidate):
                        yield from self._out(candidate, PreemptionReason.IN_COHORT_FAIR_SHARING)
                        break
                    if self._cohort_reclaims_from(node):
                        yield from self._out(candidate, PreemptionReason.IN_COHORT_RECLAMATION)
                        break
                    passed.append(candidate)

    def _second(self, candidates: Iterable[Candidate]) -> Iterator[PreemptionTarget]:
        targets = _Targets(self._context, candidates, self._shares)
        for node in targets:
            mine, theirs = self._meeting(node)
            if FairStrategy.INITIAL_SHARE.allows(
                self._shares.of(mine), self._shares.of(theirs), self._shares.of(theirs)
            ):
                yield from self._out(targets.pop(node), PreemptionReason.IN_COHORT_FAIR_SHARING)
            targets.drop(node)

    def _out(self, candidate: Candidate, claim: PreemptionReason) -> Iterator[PreemptionTarget]:
        yield PreemptionTarget(candidate, claim)
        self._shares.changed(candidate.node)

    def _within_nominal(self) -> bool:
        node = self._context.node
        return self._sharing.within_nominal and all(
            node.usage.get(fr, 0) <= node.quota(fr).nominal for fr in self._context.needed
        )

    def _cohort_reclaims_from(self, target: QuotaNode) -> bool:
        """Reports whether a cohort above the preemptor is within its quota of what is needed, and the target's side is not."""
        mine, theirs = self._meeting(target)
        needed, below = self._context.needed, self._path[1 : self._path.index(mine) + 1]
        return (
            self._sharing.within_nominal
            and not within_nominal(theirs, needed)
            and any(all(c.usage.get(fr, 0) <= c.subtree.get(fr, 0) for fr in needed) for c in below)
        )

    def _allowed(self, candidate: Candidate) -> bool:
        mine, theirs = self._meeting(candidate.node)
        preemptor, before = self._shares.of(mine), self._shares.of(theirs)
        strategy = self._sharing.strategies[0]
        if strategy is FairStrategy.INITIAL_SHARE:
            return strategy.allows(preemptor, before, before)
        return strategy.allows(preemptor, before, self._share_without(candidate, theirs))

    def share_standing(self, candidate: Candidate) -> tuple[bool, Share, Share]:
        """Returns whether every node from the candidate's queue up to the subtree below the lowest common cohort borrows, the
        subtree's share, and the subtree's share without the candidate.
        """
        _, theirs = self._meeting(candidate.node)
        cohorts = [node for node in candidate.node.ancestors() if node not in self._path]
        borrowing = all(self._shares.of(node).borrowing for node in (candidate.node, *cohorts))
        borrowing &= not any(within_nominal(cohort, self._context.needed) for cohort in cohorts)
        return borrowing, self._shares.of(theirs), self._share_without(candidate, theirs)

    def ever_evictable(self, candidate: Candidate, share_standing: tuple[bool, Share, Share]) -> bool:
        """Reports whether the candidate could be evicted if its subtree had these shares."""
        borrowing, before, after = share_standing
        if not borrowing or self._within_nominal() or self._cohort_reclaims_from(candidate.node):
            return borrowing
        preemptor = self._shares.of(self._meeting(candidate.node)[0])
        second = (FairStrategy.INITIAL_SHARE,) if len(self._sharing.strategies) > 1 else ()
        return any(one.allows(preemptor, before, after) for one in (self._sharing.strategies[0], *second))

    def _share_without(self, candidate: Candidate, node: QuotaNode) -> Share:
        self._removal.remove(candidate)
        self._shares.changed(candidate.node)
        share = self._shares.of(node)
        self._removal.put_back(candidate)
        self._shares.changed(candidate.node)
        return share

    def _meeting(self, target: QuotaNode) -> tuple[QuotaNode, QuotaNode]:
        """Returns the two children of the lowest common cohort that contain the preemptor and the target."""
        theirs = target
        while theirs.parent is not None and theirs.parent not in self._path:
            theirs = theirs.parent
        mine = next(node for node in self._path if node.parent is theirs.parent)
        return mine, theirs


class _Targets:
    """Iterates over the queues to evict from, until none is left."""

    def __init__(self, context: PreemptionContext, candidates: Iterable[Candidate], shares: ShareCache) -> None:
        self._context, self._shares = context, shares
        self._path = (context.node, *context.node.ancestors())
        self._left: dict[QuotaNode, list[Candidate]] = {}
        self._pruned: set[QuotaNode] = set()
        for candidate in candidates:
            self._left.setdefault(candidate.node, []).append(candidate)
        for some in self._left.values():
            some.reverse()

    def waiting(self, node: QuotaNode) -> bool:
        return bool(self._left.get(node))

    def pop(self, node: QuotaNode) -> Candidate:
        return self._left[node].pop()

    def drop(self, node: QuotaNode) -> None:
        self._pruned.add(node)

    def __iter__(self) -> Iterator[QuotaNode]:
        own = self._context.node
        if own.parent is None:
            while self.waiting(own):
                yield own
            return
        root = own.root()
        while root not in self._pruned:
            if (node := self._next(root)) is not None:
                yield node

    def _next(self, cohort: QuotaNode) -> QuotaNode | None:
        queue = self._largest(child for child in cohort.queues if self._eligible_queue(child))
        below = self._largest(child for child in cohort.cohorts if self._eligible_cohort(child))
        if queue is None and below is None:
            self._pruned.add(cohort)
            return None
        if below is None or queue is None:
            return queue if below is None else self._next(below)
        mine, theirs = self._shares.of(queue), self._shares.of(below)
        if mine != theirs:
            return queue if mine > theirs else self._next(below)
        lower = self._next(below)
        return queue if lower is None or self._is_before(queue, lower) else lower

    def _next_candidate(self, node: QuotaNode) -> Candidate | None:
        queue = node if self.waiting(node) else self._next(node)
        return None if queue is None else self._left[queue][-1]

    def _is_before(self, node: QuotaNode, other: QuotaNode) -> bool:
        """Reports whether the next candidate below the one node comes before that below the other."""
        mine, theirs = self._next_candidate(node), self._next_candidate(other)
        if mine is None or theirs is None:
            return (mine is None, node.name) < (theirs is None, other.name)
        return rank(self._context, mine) < rank(self._context, theirs)

    def _eligible_queue(self, node: QuotaNode) -> bool:
        if node in self._pruned:
            return False
        if self.waiting(node) and (node is self._context.node or self._shares.of(node).borrowing):
            return True
        self._pruned.add(node)
        return False

    def _eligible_cohort(self, node: QuotaNode) -> bool:
        if node in self._pruned:
            return False
        if node in self._path:
            return True
        if self._shares.of(node).borrowing and not within_nominal(node, self._context.needed):
            return True
        self._pruned.add(node)
        return False

    def _largest(self, nodes: Iterable[QuotaNode]) -> QuotaNode | None:
        """Returns the node with the largest share; of equal ones that with the first candidate."""
        return max(nodes, key=cmp_to_key(self._compare), default=None)

    def _compare(self, first: QuotaNode, second: QuotaNode) -> int:
        mine, theirs = self._shares.of(first), self._shares.of(second)
        if mine != theirs:
            return 1 if mine > theirs else -1
        return 1 if self._is_before(first, second) else -1
