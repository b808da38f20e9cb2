"""Counts the hosts without workloads, in all and in the domain of a level that has the most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from admission.engine.ledger.ledger import Ledger
from admission.engine.pauses import no_pause
from admission.engine.topology.tree.level import Ints
from admission.engine.topology.tree.tree import Tree


@dataclass(frozen=True, slots=True)
class FreeHosts:
    """Of `hosts` hosts of a flavor, `free` have no workloads, and `largest` of these are in one domain of the level."""

    hosts: int
    free: int
    largest: int

    @property
    def idle(self) -> float:
        """The share of hosts without workloads, in percent."""
        return 100.0 * self.free / self.hosts if self.hosts else 0.0


def free_hosts(ledger: Ledger, flavor: str, level: str, pause: Callable[[], None] = no_pause) -> FreeHosts | None:
    """Returns the counts; None if the flavor has no such level. Held places count as workloads."""
    tree = ledger.capacity.trees.get(flavor)
    number = None if tree is None else tree.level_of(level)
    if tree is None or number is None:
        return None
    used: set[int] = set()
    for key in list(ledger.admissions):
        pause()
        cells = ledger.footprint(key).get(flavor) if key in ledger.admissions else None
        used |= set() if cells is None else set(cells.rows.tolist())
    pause()
    slots = slots_at(tree, number)
    free = [row for row in tree.rows.ids().tolist() if row not in used]
    by_domain = Counter(slots[row] for row in free)
    return FreeHosts(len(tree.rows.ids()), len(free), max(by_domain.values(), default=0))


def slots_at(tree: Tree, number: int) -> list[int]:
    """Returns, by row, the slot of the row's domain at the level of this number."""
    slots: Ints = np.arange(tree.rows.size, dtype=np.int64)
    if tree.rows is not tree.levels[-1]:
        slots = tree.rows.parent[slots]
    for level in range(tree.depth - 1, number, -1):
        slots = tree.levels[level].parent[slots]
    listed: list[int] = slots.tolist()
    return listed
