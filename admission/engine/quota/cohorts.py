"""The arithmetic of one node of the cohort tree: its quota, what it withholds, and what it contributes to its parent.

Only tree.py calls it, which maps names to nodes. A node is a ClusterQueue or a Cohort. Every node keeps two sums per (flavor,
resource): `subtree`, the quota available to it and its children, and `usage`. What a child adds to its parent's sums is its
*contribution*: the quota beyond what its lending limit withholds, and the usage beyond that withheld part. So a change costs
one walk to the root (`change`), O(depth) whatever the number of siblings, and subtracting undoes an addition exactly. Zeros
are never stored: equal trees have equal dictionaries, which rollback and audit compare. Source of the formulas: cycle.md 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from admission.engine.model import FlavorResource, Quota

Sums = dict[FlavorResource, int]
NO_QUOTA = Quota(0)


@dataclass(slots=True, eq=False)
class QuotaNode:
    """A ClusterQueue or Cohort."""

    name: str
    declared: bool = False
    """Whether an object of that name exists; else its members or usage imply it."""
    wants: str | None = None
    """The declared parent cohort."""
    parent: QuotaNode | None = None
    """The effective link; None at a root and on a cycle."""
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    weight_milli: int = 1000
    subtree: Sums = field(default_factory=dict)
    usage: Sums = field(default_factory=dict)
    queues: set[QuotaNode] = field(default_factory=set)
    cohorts: set[QuotaNode] = field(default_factory=set)
    waiting: Sums = field(default_factory=dict)
    """The part of a queue's usage that is kept for pending workloads."""
    awaited: set[QuotaNode] = field(default_factory=set)
    """The children below which there is some such usage."""

    def quota(self, fr: FlavorResource) -> Quota:
        """Returns the node's own quota of the flavor's resource."""
        return self.quotas.get(fr, NO_QUOTA)

    def ancestors(self) -> Iterator[QuotaNode]:
        """Yields the ancestors, parent first, root last."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def root(self) -> QuotaNode:
        """Returns the root of the node's tree, which is the node itself without a cohort."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def height(self) -> int:
        """Returns the distance to the furthest leaf: 0 for a queue, 1 for a cohort of queues only."""
        if not self.queues and not self.cohorts:
            return 0
        return 1 + max((child.height() for child in self.cohorts), default=0)

    def members(self) -> Iterator[QuotaNode]:
        """Yields all queues below the node."""
        yield from self.queues
        for child in self.cohorts:
            yield from child.members()


def held_back(node: QuotaNode, fr: FlavorResource) -> int:
    """Returns localQuota: what the lending limit withholds from the rest of the tree."""
    limit = node.quota(fr).lending_limit
    return 0 if limit is None else max(0, node.subtree.get(fr, 0) - limit)


def local_available(node: QuotaNode, fr: FlavorResource) -> int:
    """Returns the free part of the withheld quota."""
    return max(0, held_back(node, fr) - node.usage.get(fr, 0))


def contribution(node: QuotaNode, fr: FlavorResource) -> tuple[int, int]:
    """Returns (quota, usage) that the node adds to its parent's sums."""
    kept = held_back(node, fr)
    return node.subtree.get(fr, 0) - kept, max(0, node.usage.get(fr, 0) - kept)


def bump(sums: Sums, fr: FlavorResource, by: int) -> None:
    """Adds to a sum, and removes a sum that becomes zero."""
    total = sums.get(fr, 0) + by
    if total:
        sums[fr] = total
    else:
        sums.pop(fr, None)


def change(node: QuotaNode | None, fr: FlavorResource, *, quota: int = 0, usage: int = 0) -> None:
    """Changes the node's sums, and those of its ancestors by the resulting changes of contributions."""
    if not quota:
        use(node, fr, usage)
        return
    while node is not None and (quota or usage):
        before = contribution(node, fr)
        bump(node.subtree, fr, quota)
        bump(node.usage, fr, usage)
        after = contribution(node, fr)
        quota, usage = after[0] - before[0], after[1] - before[1]
        node = node.parent


def use(node: QuotaNode | None, fr: FlavorResource, amount: int) -> None:
    """Like `change` for usage alone, optimized because searches for victims call it tens of thousands of times."""
    while node is not None and amount:
        usage = node.usage
        before = usage.get(fr, 0)
        after = before + amount
        if after:
            usage[fr] = after
        else:
            usage.pop(fr, None)
        quota = node.quotas.get(fr)
        if before < 0 or after < 0 or (quota is not None and quota.lending_limit is not None):
            kept = held_back(node, fr)
            amount = max(0, after - kept) - max(0, before - kept)
        node = node.parent


def passed_on(node: QuotaNode, fr: FlavorResource, amount: int) -> int:
    """Returns how much of `amount` more usage at the node would be charged to its parent."""
    before, kept = node.usage.get(fr, 0), held_back(node, fr)
    return max(0, before + amount - kept) - max(0, before - kept)


def wait(node: QuotaNode, fr: FlavorResource, amount: int) -> None:
    """Counts this part of the queue's usage as kept for pending workloads; a negative amount counts it no longer."""
    bump(node.waiting, fr, amount)
    _note_waiting(node)


def _note_waiting(node: QuotaNode) -> None:
    while node.parent is not None:
        if node.waiting or node.awaited:
            node.parent.awaited.add(node)
        else:
            node.parent.awaited.discard(node)
        node = node.parent


def admitted(node: QuotaNode, fr: FlavorResource) -> int:
    """Returns the node's usage without what is kept for pending workloads."""
    used = node.usage.get(fr, 0)
    return used - _waiting(node, fr) if node.waiting or node.awaited else used


def _waiting(node: QuotaNode, fr: FlavorResource) -> int:
    total = node.waiting.get(fr, 0)
    for child in node.awaited:
        beyond = child.usage.get(fr, 0) - held_back(child, fr)
        total += max(0, beyond) - max(0, beyond - _waiting(child, fr))
    return total


def _pass_up(node: QuotaNode, sign: int) -> None:
    for fr in node.subtree.keys() | node.usage.keys():
        quota, usage = contribution(node, fr)
        change(node.parent, fr, quota=sign * quota, usage=sign * usage)


def set_quotas(node: QuotaNode, quotas: Mapping[FlavorResource, Quota]) -> None:
    """Replaces the node's own quota and limits; usage stays."""
    old = node.quotas
    _pass_up(node, -1)
    node.quotas = quotas
    for fr in old.keys() | quotas.keys():
        bump(node.subtree, fr, quotas.get(fr, NO_QUOTA).nominal - old.get(fr, NO_QUOTA).nominal)
    _pass_up(node, +1)


def set_parent(node: QuotaNode, parent: QuotaNode | None) -> None:
    """Gives the node, with its subtree, another parent. The caller updates the parents' sets of children."""
    _pass_up(node, -1)
    if node.parent is not None:
        node.parent.awaited.discard(node)
        _note_waiting(node.parent)
    node.parent = parent
    _note_waiting(node)
    _pass_up(node, +1)


def available(node: QuotaNode, fr: FlavorResource) -> int:
    """Returns what may still be used at the node, including borrowing; negative if usage exceeds quota."""
    used = node.usage.get(fr, 0)
    if node.parent is None:
        return node.subtree.get(fr, 0) - used
    from_above = available(node.parent, fr)
    quota = node.quotas.get(fr, NO_QUOTA)
    if (limit := quota.borrowing_limit) is not None:
        lent, used_above = contribution(node, fr)
        from_above = min(from_above, lent - used_above + limit)
    if quota.lending_limit is None and used >= 0:
        return from_above  # nothing is withheld
    return local_available(node, fr) + from_above


def potential(node: QuotaNode, fr: FlavorResource) -> int:
    """Returns the most that could be used at the node if no other queue used anything."""
    total = node.subtree.get(fr, 0)
    if node.parent is None:
        return total
    quota, reach = node.quotas.get(fr, NO_QUOTA), potential(node.parent, fr)
    if quota.lending_limit is not None:
        reach += held_back(node, fr)
    return reach if quota.borrowing_limit is None else min(reach, total + quota.borrowing_limit)


def expected_sums(node: QuotaNode) -> tuple[Sums, Sums]:
    """Recomputes (subtree, usage) of a cohort from its own quota and its children."""
    subtree: Sums = {}
    usage: Sums = {}
    for fr, quota in node.quotas.items():
        bump(subtree, fr, quota.nominal)
    for child in node.queues | node.cohorts:
        for fr in child.subtree.keys() | child.usage.keys():
            lent, used = contribution(child, fr)
            bump(subtree, fr, lent)
            bump(usage, fr, used)
    return subtree, usage
