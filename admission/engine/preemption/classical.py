"""Kueue's classical choice of victims, to the letter: cycle.md 4.8.

Candidates go out in their order until the workload fits; then those it can do without come back. Depending on the policy
that is tried with and without borrowing. A relative's workload goes only while its queue, and each cohort between it and the
lowest common one, uses more than its quota of something needed: a queue within its quota is protected. Where the preemptor's
policy is elastic, a queue that the eviction would bring within its quota is protected too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from admission.engine.ledger import Ledger
from admission.engine.preemption.candidates import Candidate, Candidates, Question, Right, find, within_nominal
from admission.engine.preemption.removal import Removal, Taken, room_for
from admission.engine.topology.relief import Relief


def classical(ledger: Ledger, question: Question) -> list[Taken]:
    """The victims in the order chosen; none if nothing helps."""
    candidates = find(ledger, question)
    ordered = candidates.in_order()
    if not quota_might_do(ledger, question, candidates):
        return []
    return choose(ledger, question, candidates, room_for(ledger, question, ordered))


def choose(
    ledger: Ledger, question: Question, candidates: Candidates, room: Relief | None, *, placed: bool = True
) -> list[Taken]:
    """The same, for candidates that are known. `placed` False: where room is only counted, nothing is placed for proof."""
    if room is not None and not room.sites:
        return []
    ordered = candidates.in_order()
    for borrowing in attempts(question, candidates):
        with Removal(ledger, question, room, borrowing=borrowing) as removal:
            out = removal.remove_until_fit(sequence(question, ordered, borrowing))
            if out:
                return removal.reprieve_and_place(out) if placed else removal.reprieve(out)
    return []


def attempts(question: Question, candidates: Candidates) -> tuple[bool, ...]:
    """With borrowing (True) or without, in the order in which that is tried."""
    relatives = candidates.hierarchical or candidates.reclaimable
    if not relatives or (not question.may_borrow and not _under_nominal(question)):
        return (True,)
    if not question.may_borrow and not candidates.hierarchical:
        return (False, True)
    return (True, False)


def quota_might_do(ledger: Ledger, question: Question, candidates: Candidates) -> bool:
    """Whether quota would suffice if all went who may go in some attempt. Asked before room, which is dearer to look at."""
    ordered = candidates.in_order()
    return bool(ordered) and any(
        _quota_without(ledger, question, ordered, borrowing) for borrowing in attempts(question, candidates)
    )


def _quota_without(ledger: Ledger, question: Question, ordered: Sequence[Candidate], borrowing: bool) -> bool:
    with Removal(ledger, question, None, borrowing=borrowing) as removal:
        for candidate in ordered:
            if not (borrowing and candidate.right is Right.WITHOUT_BORROWING):
                removal.take(candidate)
        return removal.quota_fits()


def _under_nominal(question: Question) -> bool:
    node = question.node
    return all(node.usage.get(fr, 0) < node.quota(fr).nominal for fr in question.needed)


def sequence(question: Question, ordered: Sequence[Candidate], borrowing: bool) -> Iterator[Taken]:
    """Those who may go, each looked at when those before are gone."""
    for candidate in ordered:
        if may_go(question, candidate, borrowing):
            yield Taken(candidate, candidate.right.claim)


def may_go(question: Question, candidate: Candidate, borrowing: bool) -> bool:
    """Whether the candidate may be evicted, as usage is now."""
    if candidate.right is Right.OWN_QUEUE:
        return True
    if borrowing and candidate.right is Right.WITHOUT_BORROWING:
        return False
    if within_nominal(candidate.node, question.needed):
        return False
    if question.policy.elastic and _falls_short(candidate):
        return False
    for node in candidate.node.ancestors():
        if node is candidate.top:
            break
        if within_nominal(node, question.needed):
            return False
    return True


def _falls_short(candidate: Candidate) -> bool:
    """Whether its queue has its nominal quota of something, and would not any more without the candidate."""
    node = candidate.node
    return any(
        node.usage.get(fr, 0) - amount < node.quota(fr).nominal <= node.usage.get(fr, 0)
        for fr, amount in candidate.usage.items()
    )
