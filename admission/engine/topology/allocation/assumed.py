"""Assumed pods: pods that are admitted but not bound yet, where nodes are counted below a wider lowest level.

The assignment names only a domain, so the node of such a pod is not known. Until the pod is bound, an assumed pod holds
its capacity on one of the domain's nodes (first fit by name). The assumed pod is removed when the pod is bound, and moved
when its node is deleted or bound pods need the node. Entries with pods that fit on no node are remembered and tried again
when capacity may have been freed. Called by allocations.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from admission.engine.journal import Journal
from admission.engine.topology.allocation.capacity import Capacity, Spot, SpotKind
from admission.engine.topology.allocation.entries import Domain, EntryUsage, Slot, nodes_with_capacity


class AssumedPods:
    """The nodes on which capacity is held for unbound pods, by entry. The counts are in the entries."""

    def __init__(self, capacity: Capacity, entry_of: Callable[[Slot], EntryUsage | None], journal: Journal) -> None:
        self._capacity = capacity
        self._entry_of = entry_of
        self._journal = journal
        self._on: dict[str, set[Slot]] = {}
        self._unplaced: dict[Domain, set[Slot]] = {}

    def pack(self, entry: EntryUsage) -> None:
        """Holds capacity on nodes for the entry's unplaced pods, as far as they fit."""
        if not entry.by_node:
            return
        rest = entry.unplaced
        if rest > 0:
            nodes = list(nodes_with_capacity(self._capacity, entry.flavor, entry.domain, entry.vector, entry.wants))
            for node, fit in nodes:
                count = min(fit, rest)
                if count:
                    self.shift(entry, node, count)
                    rest -= count
        self.track_unplaced(entry)

    def shift(self, entry: EntryUsage, node: str, count: int) -> None:
        """Adds `count` assumed pods of the entry to the node (negative: remove)."""
        total = entry.assumed.get(node, 0) + count
        if total:
            self._journal.put(entry.assumed, node, total)
            self._journal.add(self._on.setdefault(node, set()), entry.slot)
        else:
            self._journal.drop(entry.assumed, node)
            self._journal.discard(self._on.setdefault(node, set()), entry.slot)
        self._capacity.charge(Spot(SpotKind.NODE, entry.flavor, (node,)), entry.vector, count)

    def track_unplaced(self, entry: EntryUsage) -> None:
        """Records whether the entry has pods that are neither bound nor assumed."""
        if entry.unplaced > 0:
            self._journal.add(self._unplaced.setdefault(entry.domain, set()), entry.slot)
        elif entry.domain in self._unplaced:
            self._journal.discard(self._unplaced[entry.domain], entry.slot)

    def place_unplaced(self, domain: Domain) -> None:
        """Tries again to place the domain's unplaced pods, since capacity may have been freed there."""
        for slot in sorted(self._unplaced.get(domain, ())):
            self._act_on(slot, self.pack)

    def place_unplaced_on(self, node: str) -> None:
        """Tries again to place unplaced pods of every domain that contains the node."""
        if self._unplaced:
            for levels in sorted({tree.shape.levels for tree in self._capacity.trees.values()}):
                values = self._capacity.domain_of(node, levels)
                if values is not None:
                    self.place_unplaced((levels, values))

    def place_all_unplaced(self) -> None:
        """Tries again to place the unplaced pods of every domain."""
        for domain in sorted(self._unplaced):
            self.place_unplaced(domain)

    def leave(self, node: str) -> None:
        """Puts the node's assumed pods on other nodes of their domains."""
        for slot in sorted(self._on.get(node, ())):
            self._act_on(slot, partial(self._move, node))

    def _move(self, node: str, entry: EntryUsage) -> None:
        self.shift(entry, node, -entry.assumed[node])
        self.pack(entry)

    def clear(self, entry: EntryUsage) -> None:
        """Removes all assumed pods of the entry."""
        for node in sorted(entry.assumed):
            self.shift(entry, node, -entry.assumed[node])
        if entry.domain in self._unplaced:
            self._journal.discard(self._unplaced[entry.domain], entry.slot)

    def replace_by_bound(self, entry: EntryUsage, node: str) -> None:
        """Removes one assumed pod after a pod of the entry was bound to the node, preferably an assumed pod on this node."""
        if entry.unplaced < 0:
            self.shift(entry, node if node in entry.assumed else max(entry.assumed), -1)

    def _act_on(self, slot: Slot, act: Callable[[EntryUsage], None]) -> None:
        entry = self._entry_of(slot)
        if entry is not None:
            act(entry)

    def move_from_overcommitted(self, name: str) -> None:
        """Puts assumed pods on other nodes while this node is overcommitted."""
        for slot in sorted(self._on.get(name, ()), reverse=True):
            self._act_on(slot, partial(self._move_while_overcommitted, name))

    def _move_while_overcommitted(self, name: str, entry: EntryUsage) -> None:
        while entry.assumed.get(name) and self._overcommitted(name, entry):
            self.shift(entry, name, -1)
            self.pack(entry)

    def _overcommitted(self, name: str, entry: EntryUsage) -> bool:
        """Reports whether the node is overcommitted in a resource that the entry uses."""
        tree = self._capacity.trees.get(entry.flavor)
        row = None if tree is None else tree.row_of_node.get(name)
        if tree is None or row is None:
            return False
        return any(amount > 0 and tree.free_at(row, column) < 0 for column, amount in entry.vector)
