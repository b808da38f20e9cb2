"""Pods that are admitted but not bound yet, where nodes are counted one by one under a wider lowest level.

The assignment only names a domain, so the pod's node is not known yet. Until the pod is bound, an
assumed pod holds its room on one of the domain's nodes (first fit by name). It gives way when the pod is bound, when its node
goes, or when bound pods need the node. Entries whose pods find no node at all are kept in mind and tried again where room
may have come. Called by booking.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from admission.engine.topology.allocation.capacity import Capacity, Kind, Spot
from admission.engine.topology.allocation.shares import Domain, Share, Slot, nodes_with_room
from admission.engine.trial import Journal


class AssumedPods:
    """Which node holds room for which entry's unbound pods (the counts are in the shares)."""

    def __init__(self, capacity: Capacity, share_of: Callable[[Slot], Share | None], journal: Journal) -> None:
        self._capacity = capacity
        self._share_of = share_of
        self._journal = journal
        self._on: dict[str, set[Slot]] = {}
        self._homeless: dict[Domain, set[Slot]] = {}

    def homeless(self) -> dict[Domain, set[Slot]]:
        """Entries with pods that are on no node, by domain."""
        return {domain: set(slots) for domain, slots in self._homeless.items() if slots}

    def pack(self, share: Share) -> None:
        """Give the entry's pods that are on no node a place, as far as there is room."""
        if not share.by_node:
            return
        rest = share.unplaced
        if rest > 0:
            nodes = list(nodes_with_room(self._capacity, share.flavor, share.domain, share.vector, share.wants))
            for node, fit in nodes:
                count = min(fit, rest)
                if count:
                    self.shift(share, node, count)
                    rest -= count
        self.count_homeless(share)

    def shift(self, share: Share, node: str, count: int) -> None:
        """`count` shadows of the entry come to the node (negative: leave)."""
        total = share.assumed.get(node, 0) + count
        if total:
            self._journal.put(share.assumed, node, total)
            self._journal.add(self._on.setdefault(node, set()), share.slot)
        else:
            self._journal.drop(share.assumed, node)
            self._journal.discard(self._on.setdefault(node, set()), share.slot)
        self._capacity.charge(Spot(Kind.NODE, share.flavor, (node,)), share.vector, count)

    def count_homeless(self, share: Share) -> None:
        """Remember whether the entry has pods that are on no node."""
        if share.unplaced > 0:
            self._journal.add(self._homeless.setdefault(share.domain, set()), share.slot)
        elif share.domain in self._homeless:
            self._journal.discard(self._homeless[share.domain], share.slot)

    def house(self, domain: Domain) -> None:
        """Room may have come: try again for the domain's pods that are on no node."""
        for slot in sorted(self._homeless.get(domain, ())):
            self._with(slot, self.pack)

    def house_at(self, node: str) -> None:
        """Room may have come on this node."""
        if self._homeless:
            for levels in sorted({tree.shape.levels for tree in self._capacity.trees.values()}):
                values = self._capacity.domain_of(node, levels)
                if values is not None:
                    self.house((levels, values))

    def house_all(self) -> None:
        """Room may have come anywhere."""
        for domain in sorted(self._homeless):
            self.house(domain)

    def leave(self, node: str) -> None:
        """Nothing that is not there may count on this node any more: its assumed pods go elsewhere."""
        for slot in sorted(self._on.get(node, ())):
            self._with(slot, partial(self._move, node))

    def _move(self, node: str, share: Share) -> None:
        self.shift(share, node, -share.assumed[node])
        self.pack(share)

    def clear(self, share: Share) -> None:
        """The entry is no more."""
        for node in sorted(share.assumed):
            self.shift(share, node, -share.assumed[node])
        if share.domain in self._homeless:
            self._journal.discard(self._homeless[share.domain], share.slot)

    def give_way(self, share: Share, node: str) -> None:
        """A pod of the entry is bound to this node: one assumed pod less, there if there is one."""
        if share.unplaced < 0:
            self.shift(share, node if node in share.assumed else max(share.assumed), -1)

    def _with(self, slot: Slot, act: Callable[[Share], None]) -> None:
        share = self._share_of(slot)
        if share is not None:
            act(share)

    def relieve(self, name: str) -> None:
        """The node may hold more than it has: assumed pods on it give way."""
        for slot in sorted(self._on.get(name, ()), reverse=True):
            self._with(slot, partial(self._thin, name))

    def _thin(self, name: str, share: Share) -> None:
        while share.assumed.get(name) and self._overfull(name, share):
            self.shift(share, name, -1)
            self.pack(share)

    def _overfull(self, name: str, share: Share) -> bool:
        """Whether something that the share takes of the node is promised more often than it is there."""
        tree = self._capacity.trees.get(share.flavor)
        row = None if tree is None else tree.row_of_node.get(name)
        if tree is None or row is None:
            return False
        return any(amount > 0 and tree.free_at(row, column) < 0 for column, amount in share.vector)
