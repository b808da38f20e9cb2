"""The next head under fair sharing (cycle.md 4.2).

The search descends from the root of each cohort tree. The child wins whose dominant resource share is smallest with the
request of its candidate added; a subtree that stays within its quota comes before any that borrows. Equal shares come by
priority, then by age. Each pick is a new tournament, because usage has grown since the last one; what cannot have changed since
then is kept: an admission changes only the entries of the nodes above its queue. Called by head_order.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from admission.engine.cycle.nomination import Nomination
from admission.engine.ledger.ledger import Ledger
from admission.engine.model import FlavorResource
from admission.engine.queue.cluster_queue import order_of
from admission.engine.queue.positions import Order
from admission.engine.quota.cohorts import QuotaNode, Sums, passed_on
from admission.engine.quota.fairness import dominant_share, lendable

Score = tuple[bool, bool, Fraction | int, Order]
"""How an entrant does in a cohort; less is better: whether it borrows the requested amounts, its share, its age."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A child of a cohort with its candidate."""

    candidate: Nomination
    usage: Sums
    """That of the child."""
    above: Mapping[FlavorResource, int]
    """What the candidate adds to the cohort."""
    score: Score


class Tournament:
    """The tournaments of one cohort tree, one after the other. Quotas stay as they are between them."""

    def __init__(self, ledger: Ledger, nominal_first: bool = True) -> None:
        self._ledger, self._nominal_first = ledger, nominal_first
        self._entries: dict[QuotaNode, _Entry] = {}
        self._best: dict[QuotaNode, _Entry | None] = {}
        self._lendable: dict[QuotaNode, dict[str, int]] = {}

    def winner(self, left: Mapping[str, Nomination]) -> Nomination:
        """Returns the candidate that is next in the cohort tree of the first queue by name.

        `left` maps each queue to its candidate and must not be empty. An unchanged candidate is the same object as before.
        """
        first = min(left)
        node = self._ledger.quota.node(first)
        if node is None or node.parent is None:
            return left[first]
        best, _ = self._best_of(node.root(), left)
        return left[first] if best is None else best.candidate

    def _best_of(self, cohort: QuotaNode, left: Mapping[str, Nomination]) -> tuple[_Entry | None, bool]:
        """Returns the entry that wins in the cohort, and whether it is another one than last time."""
        entries, changed = [], cohort not in self._best
        candidate: Nomination | None
        amounts: Mapping[FlavorResource, int]
        for child in cohort.cohorts:
            best, other = self._best_of(child, left)
            candidate, amounts = (None, {}) if best is None else (best.candidate, best.above)
            changed |= self._enter(child, cohort, candidate, amounts, anew=other)
            entries.append(self._entries.get(child))
        for child in cohort.queues:
            candidate = left.get(child.name)
            amounts = {} if candidate is None else candidate.assignment.usage
            changed |= self._enter(child, cohort, candidate, amounts)
            entries.append(self._entries.get(child))
        if not changed:
            return self._best[cohort], False
        before = self._best.get(cohort)
        best = min((entry for entry in entries if entry is not None), key=lambda entry: entry.score, default=None)
        self._best[cohort] = best
        return best, best is not before

    def _enter(
        self,
        node: QuotaNode,
        cohort: QuotaNode,
        candidate: Nomination | None,
        amounts: Mapping[FlavorResource, int],
        *,
        anew: bool = False,
    ) -> bool:
        """Enters the node in the tournament of its cohort with these amounts added; True if its entry has changed."""
        entry = self._entries.get(node)
        if candidate is None:
            self._entries.pop(node, None)
            return entry is not None
        if entry is not None and not anew and entry.candidate is candidate and entry.usage == node.usage:
            return False
        if cohort not in self._lendable:
            self._lendable[cohort] = lendable(cohort)
        share = dominant_share(node, amounts, self._lendable[cohort])
        borrows = self._nominal_first and any(
            node.usage.get(fr, 0) + amounts.get(fr, 0) > node.subtree.get(fr, 0)
            for fr, amount in candidate.assignment.usage.items()
            if amount
        )
        above = {fr: passed_on(node, fr, amount) for fr, amount in amounts.items()}
        # Most shares are 0, and comparing fractions takes long.
        score = borrows, share.unbounded, share.value or 0, order_of(candidate.workload)
        self._entries[node] = _Entry(candidate, dict(node.usage), above, score)
        return True


def winner(left: Mapping[str, Nomination], ledger: Ledger, nominal_first: bool = True) -> Nomination:
    """Returns the candidate that is next in the cohort tree of the first queue by name: a tournament on its own."""
    return Tournament(ledger, nominal_first).winner(left)
