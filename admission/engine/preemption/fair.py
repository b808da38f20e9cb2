"""Kueue's choice of victims under fair sharing, to the letter: cycle.md 4.9.

Shares are compared as they would be with the preemptor's usage charged. Target queues come by the largest share: from the
root down to the child with the largest, a cohort before a queue where they are equal. What is not borrowing, and not on the
way to the preemptor, is left alone. In the own queue the next candidate goes; in another one the next that the strategy
allows, by the shares of the two subtrees that meet in the lowest common cohort. Whom the first strategy passed over is
looked at once more by the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cmp_to_key

from admission.engine.decision import Claim
from admission.engine.ledger import Ledger
from admission.engine.preemption.candidates import Candidate, Question, Right, find_for_fairness, rank
from admission.engine.preemption.removal import Removal, Taken, room_for
from admission.engine.quota.cohorts import Node
from admission.engine.quota.fairness import FairSharing, FairStrategy, Share, Shares


def fair(ledger: Ledger, question: Question, sharing: FairSharing) -> list[Taken]:
    """The victims in the order chosen; none if nothing helps."""
    candidates = find_for_fairness(ledger, question)
    if not candidates:
        return []
    room = room_for(ledger, question, candidates)
    if room is not None and not room.sites:
        return []
    with Removal(ledger, question, room) as removal:
        out = told_of(candidates, removal, question, sharing)
        return removal.reprieve_and_place(out) if out else []


def told_of(candidates: Iterable[Candidate], removal: Removal, question: Question, sharing: FairSharing) -> list[Taken]:
    """Who goes if these, in order, are all that could, until the workload fits: they are out; none if it never does."""
    removal.assume(True)
    out = removal.remove_until_fit(_Fair(removal, question, sharing).sequence(candidates))
    removal.assume(False)
    return out


def ever_allowed(
    candidates: Sequence[Candidate], removal: Removal, question: Question, sharing: FairSharing
) -> list[Candidate]:
    """The candidates that may go at some time, after any others: the preemptor's shares at their least, theirs as they are."""
    removal.assume(True)
    standing = _Fair(removal, question, sharing).standing
    now = {one.key: standing(one) for one in candidates if one.right is not Right.OWN_QUEUE}
    for one in candidates:
        removal.take(one)
    allowed = _Fair(removal, question, sharing).ever_allowed
    found = [one for one in candidates if one.key not in now or allowed(one, now[one.key])]
    for one in candidates:
        removal.put_back(one)
    removal.assume(False)
    return found


class _Fair:
    def __init__(self, removal: Removal, question: Question, sharing: FairSharing) -> None:
        self._hole, self._question, self._sharing = removal, question, sharing
        self._shares = Shares()
        self._path = (question.node, *question.node.ancestors())

    def sequence(self, candidates: Iterable[Candidate]) -> Iterator[Taken]:
        passed: list[Candidate] = []
        yield from self._first(candidates, passed)
        if len(self._sharing.strategies) > 1:
            yield from self._second(passed)

    def _first(self, candidates: Iterable[Candidate], passed: list[Candidate]) -> Iterator[Taken]:
        targets = _Targets(self._question, candidates, self._shares)
        for node in targets:
            if node is self._question.node:
                yield from self._out(targets.pop(node), Claim.IN_CLUSTER_QUEUE)
            elif self._sharing.within_nominal and self._within_nominal():
                yield from self._out(targets.pop(node), Claim.IN_COHORT_RECLAMATION)
            else:
                while targets.waiting(node):
                    candidate = targets.pop(node)
                    if self._allowed(candidate):
                        yield from self._out(candidate, Claim.IN_COHORT_FAIR_SHARING)
                        break
                    passed.append(candidate)

    def _second(self, candidates: Iterable[Candidate]) -> Iterator[Taken]:
        targets = _Targets(self._question, candidates, self._shares)
        for node in targets:
            mine, theirs = self._meeting(node)
            if FairStrategy.INITIAL_SHARE.allows(
                self._shares.of(mine), self._shares.of(theirs), self._shares.of(theirs)
            ):
                yield from self._out(targets.pop(node), Claim.IN_COHORT_FAIR_SHARING)
            targets.drop(node)

    def _out(self, candidate: Candidate, claim: Claim) -> Iterator[Taken]:
        yield Taken(candidate, claim)
        self._shares.changed(candidate.node)

    def _within_nominal(self) -> bool:
        node = self._question.node
        return all(node.usage.get(fr, 0) <= node.quota(fr).nominal for fr in self._question.needed)

    def _allowed(self, candidate: Candidate) -> bool:
        mine, theirs = self._meeting(candidate.node)
        preemptor, before = self._shares.of(mine), self._shares.of(theirs)
        strategy = self._sharing.strategies[0]
        if strategy is FairStrategy.INITIAL_SHARE:
            return strategy.allows(preemptor, before, before)
        return strategy.allows(preemptor, before, self._share_without(candidate, theirs))

    def standing(self, candidate: Candidate) -> tuple[bool, Share, Share]:
        """Whether all up to the subtree that meets the preemptor's borrow; its share, and that without the candidate."""
        _, theirs = self._meeting(candidate.node)
        below = (candidate.node, *(node for node in candidate.node.ancestors() if node not in self._path))
        borrowing = all(self._shares.of(node).borrowing for node in below)
        return borrowing, self._shares.of(theirs), self._share_without(candidate, theirs)

    def ever_allowed(self, candidate: Candidate, standing: tuple[bool, Share, Share]) -> bool:
        """Whether it could go now, if it stood like this."""
        borrowing, before, after = standing
        if not borrowing or (self._sharing.within_nominal and self._within_nominal()):
            return borrowing
        preemptor = self._shares.of(self._meeting(candidate.node)[0])
        second = (FairStrategy.INITIAL_SHARE,) if len(self._sharing.strategies) > 1 else ()
        return any(one.allows(preemptor, before, after) for one in (self._sharing.strategies[0], *second))

    def _share_without(self, candidate: Candidate, node: Node) -> Share:
        self._hole.take(candidate)
        self._shares.changed(candidate.node)
        share = self._shares.of(node)
        self._hole.put_back(candidate)
        self._shares.changed(candidate.node)
        return share

    def _meeting(self, target: Node) -> tuple[Node, Node]:
        """The two children of the lowest common cohort that lead to the preemptor and to the target."""
        theirs = target
        while theirs.parent is not None and theirs.parent not in self._path:
            theirs = theirs.parent
        mine = next(node for node in self._path if node.parent is theirs.parent)
        return mine, theirs


class _Targets:
    """Iterates over the queues to take from next, until none is left."""

    def __init__(self, question: Question, candidates: Iterable[Candidate], shares: Shares) -> None:
        self._question, self._shares = question, shares
        self._path = (question.node, *question.node.ancestors())
        self._left: dict[Node, list[Candidate]] = {}
        self._pruned: set[Node] = set()
        for candidate in candidates:
            self._left.setdefault(candidate.node, []).append(candidate)
        for some in self._left.values():
            some.reverse()

    def waiting(self, node: Node) -> bool:
        return bool(self._left.get(node))

    def pop(self, node: Node) -> Candidate:
        return self._left[node].pop()

    def drop(self, node: Node) -> None:
        self._pruned.add(node)

    def __iter__(self) -> Iterator[Node]:
        own = self._question.node
        if own.parent is None:
            while self.waiting(own):
                yield own
            return
        root = own.root()
        while root not in self._pruned:
            if (node := self._next(root)) is not None:
                yield node

    def _next(self, cohort: Node) -> Node | None:
        queue = self._largest(child for child in cohort.queues if self._eligible_queue(child))
        below = self._largest(child for child in cohort.cohorts if self._eligible_cohort(child))
        if queue is None and below is None:
            self._pruned.add(cohort)
            return None
        if below is not None and (queue is None or self._shares.of(below) >= self._shares.of(queue)):
            return self._next(below)
        return queue

    def _eligible_queue(self, node: Node) -> bool:
        if node in self._pruned:
            return False
        if self.waiting(node) and (node is self._question.node or self._shares.of(node).borrowing):
            return True
        self._pruned.add(node)
        return False

    def _eligible_cohort(self, node: Node) -> bool:
        if node in self._pruned:
            return False
        if node in self._path or self._shares.of(node).borrowing:
            return True
        self._pruned.add(node)
        return False

    def _largest(self, nodes: Iterable[Node]) -> Node | None:
        """Largest share first; of equal queues the one with the foremost candidate, of equal cohorts the last by name."""
        return max(nodes, key=cmp_to_key(self._compare), default=None)

    def _compare(self, one: Node, other: Node) -> int:
        mine, theirs = self._shares.of(one), self._shares.of(other)
        if mine != theirs:
            return 1 if mine > theirs else -1
        if self.waiting(one) and self.waiting(other):
            first = rank(self._question, self._left[one][-1]) < rank(self._question, self._left[other][-1])
            return 1 if first else -1
        return (one.name > other.name) - (one.name < other.name)
