"""Fair shares: dominant resource shares in the cohort tree, weights, and the evictions that fairness permits.

preemption/fair.py asks which evictions a strategy permits, and controllers publish `Share.status`. The share of a node
(ClusterQueue or Cohort) is what it borrows, in thousandths of what its parent's tree can lend, of the resource where that is
largest, divided by the node's weight. Shares are exact fractions, so equal shares compare as equal whatever the amounts. A
borrowing node of weight 0 has a larger share than every node of positive weight; such nodes compare among themselves by the
unweighted share. Formulas: cycle.md 4.3 and 4.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from math import ceil

from admission.engine.model import FlavorResource
from admission.engine.quota.cohorts import QuotaNode, potential

UNBOUNDED = 2**63 - 1
"""The status value of an unbounded share."""

_NOTHING: Mapping[FlavorResource, int] = {}


@dataclass(frozen=True, slots=True, order=True)
class Share:
    """A dominant resource share."""

    unbounded: bool = False
    """Whether the weight is 0 and it borrows."""
    value: Fraction = Fraction(0)
    """The share; the unweighted one if it is unbounded."""
    resource: str = field(default="", compare=False)
    """The dominant resource; empty without borrowing."""
    borrowing: bool = field(default=False, compare=False)
    """True even if only resources are borrowed of which nothing can be lent, which do not count in the value."""

    @property
    def status(self) -> int:
        """The share in the status of the queue or cohort."""
        return UNBOUNDED if self.unbounded else ceil(self.value)


NO_SHARE = Share()


def lendable(parent: QuotaNode) -> dict[str, int]:
    """Returns, by resource, the most that could be used below the node if no quota were in use."""
    pairs = set(parent.subtree).union(*(ancestor.subtree for ancestor in parent.ancestors()))
    total: dict[str, int] = {}
    for flavor, resource in pairs:
        total[resource] = total.get(resource, 0) + potential(parent, (flavor, resource))
    return total


def dominant_share(
    node: QuotaNode, extra: Mapping[FlavorResource, int] = _NOTHING, lending: Mapping[str, int] | None = None
) -> Share:
    """Returns the node's share with `extra` usage added; `lending` is `lendable` of its parent, if known."""
    if node.parent is None:
        return NO_SHARE
    borrowed: dict[str, int] = {}
    for fr in node.usage.keys() | extra.keys():
        beyond = node.usage.get(fr, 0) + extra.get(fr, 0) - node.subtree.get(fr, 0)
        if beyond > 0:
            borrowed[fr[1]] = borrowed.get(fr[1], 0) + beyond
    if not borrowed:
        return NO_SHARE
    return _weighted(borrowed, lendable(node.parent) if lending is None else lending, node.weight_milli)


def _weighted(borrowed: Mapping[str, int], lending: Mapping[str, int], weight_milli: int) -> Share:
    ratios = {
        resource: Fraction(1000 * amount, lending[resource])
        for resource, amount in borrowed.items()
        if lending.get(resource, 0) > 0
    }
    if not ratios:
        return Share(borrowing=True)
    largest = max(ratios.values())
    resource = min(name for name, ratio in ratios.items() if ratio == largest)
    if weight_milli == 0:
        return Share(True, largest, resource, True)
    return Share(False, largest * 1000 / weight_milli, resource, True)


class ShareCache:
    """A cache of shares: each is computed once until usage below its node changes."""

    def __init__(self) -> None:
        self._lending: dict[QuotaNode, dict[str, int]] = {}
        self._known: dict[QuotaNode, Share] = {}

    def of(self, node: QuotaNode) -> Share:
        """Returns the node's present share."""
        share = self._known.get(node)
        if share is None:
            share = self._known[node] = dominant_share(node, lending=self._lending_of(node.parent))
        return share

    def changed(self, queue: QuotaNode) -> None:
        """Invalidates the shares that depend on the queue's usage."""
        self._known.pop(queue, None)
        for node in queue.ancestors():
            self._known.pop(node, None)

    def _lending_of(self, parent: QuotaNode | None) -> Mapping[str, int] | None:
        if parent is None:
            return None
        lending = self._lending.get(parent)
        if lending is None:
            lending = self._lending[parent] = lendable(parent)
        return lending


class FairStrategy(StrEnum):
    """When fairness permits an eviction from another queue (values of the setting fairSharing.preemptionStrategies)."""

    FINAL_SHARE = "LessThanOrEqualToFinalShare"
    INITIAL_SHARE = "LessThanInitialShare"

    def allows(self, preemptor: Share, before: Share, after: Share) -> bool:
        """Reports whether the preemptor's share permits the eviction, given the target's share before and after it."""
        return preemptor <= after if self is FairStrategy.FINAL_SHARE else preemptor < before


@dataclass(frozen=True, slots=True)
class FairSharingRules:
    """The rules while fair sharing is on; `strategies` are tried in order.

    With `within_nominal`, a queue within its own quota may reclaim whatever the shares (Kueue's gate
    FairSharingPreemptWithinNominal).
    """

    strategies: tuple[FairStrategy, ...] = (FairStrategy.FINAL_SHARE, FairStrategy.INITIAL_SHARE)
    within_nominal: bool = True
