"""Fair shares: dominant resource shares in the cohort tree, weights, and which evictions fairness allows.

The share of a node (ClusterQueue or Cohort) is what it borrows, in thousandths of what its parent's tree can lend, of the
resource where that is largest, divided by the node's weight. Shares are exact fractions: two that are equal on paper compare
as equal, whatever the amounts. A node of weight 0 that borrows has more than every node of a positive weight; among
themselves such nodes compare by the share before weighting. Formulas: cycle.md 4.3 and 4.9.

Decides nothing by itself: preemption/fair.py asks which eviction a strategy allows, the shell shows `Share.status`.
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
"""The status value of a share beyond all others."""

_NOTHING: Mapping[FlavorResource, int] = {}


@dataclass(frozen=True, slots=True, order=True)
class Share:
    """A dominant resource share, comparable. `unbounded`: weight 0 and borrowing; then `value` is the unweighted one.

    `resource`: the dominant one, empty where nothing is borrowed. `borrowing`: something is borrowed, be it of a resource of
    which nothing can be lent, which counts for nothing.
    """

    unbounded: bool = False
    value: Fraction = Fraction(0)
    resource: str = field(default="", compare=False)
    borrowing: bool = field(default=False, compare=False)

    @property
    def status(self) -> int:
        """What the status of the queue or cohort shows."""
        return UNBOUNDED if self.unbounded else ceil(self.value)


NO_SHARE = Share()


def lendable(parent: QuotaNode) -> dict[str, int]:
    """By resource, the most that could be used below the node if no quota were in use."""
    pairs = set(parent.subtree).union(*(ancestor.subtree for ancestor in parent.ancestors()))
    total: dict[str, int] = {}
    for flavor, resource in pairs:
        total[resource] = total.get(resource, 0) + potential(parent, (flavor, resource))
    return total


def dominant_share(
    node: QuotaNode, extra: Mapping[FlavorResource, int] = _NOTHING, lending: Mapping[str, int] | None = None
) -> Share:
    """The node's share, with `extra` used beside what it uses. `lending`: `lendable` of its parent, where it is known."""
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
    """Shares of many nodes while usage changes: each is computed once until something below it changes."""

    def __init__(self) -> None:
        self._lending: dict[QuotaNode, dict[str, int]] = {}
        self._known: dict[QuotaNode, Share] = {}

    def of(self, node: QuotaNode) -> Share:
        """The node's share now."""
        share = self._known.get(node)
        if share is None:
            share = self._known[node] = dominant_share(node, lending=self._lending_of(node.parent))
        return share

    def changed(self, queue: QuotaNode) -> None:
        """The queue's usage has changed."""
        self._known.pop(queue, None)
        for node in queue.ancestors():
            self._known.pop(node, None)

    def _lending_of(self, parent: QuotaNode | None) -> Mapping[str, int] | None:
        if parent is None:
            return None
        found = self._lending.get(parent)
        if found is None:
            found = self._lending[parent] = lendable(parent)
        return found


class FairStrategy(StrEnum):
    """Which eviction from another queue fairness allows (values as fairSharing.preemptionStrategies of the settings)."""

    FINAL_SHARE = "LessThanOrEqualToFinalShare"
    INITIAL_SHARE = "LessThanInitialShare"

    def allows(self, preemptor: Share, before: Share, after: Share) -> bool:
        """Whether the preemptor, with what it asks for, has no more than the target will have, or less than it has."""
        return preemptor <= after if self is FairStrategy.FINAL_SHARE else preemptor < before


@dataclass(frozen=True, slots=True)
class FairSharingRules:
    """Fair sharing is on. `strategies`: tried in that order. `within_nominal`: a queue within its own quota may reclaim
    whatever the shares (Kueue's gate FairSharingPreemptWithinNominal).
    """

    strategies: tuple[FairStrategy, ...] = (FairStrategy.FINAL_SHARE, FairStrategy.INITIAL_SHARE)
    within_nominal: bool = True
