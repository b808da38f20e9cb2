"""Counts the hosts without workloads, in all and in the domain of a level that has the most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from admission.engine.ledger import Ledger
from admission.engine.moves.movers import no_pause
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
    free = [row for row in tree.rows.ids().tolist() if row not in used]
    by_domain = Counter(slot_at(tree, row, number) for row in free)
    return FreeHosts(len(tree.rows.ids()), len(free), max(by_domain.values(), default=0))


def slot_at(tree: Tree, row: int, number: int) -> int:
    """Returns the slot of the row's domain at the level of this number."""
    slot = row if tree.rows is tree.levels[-1] else int(tree.rows.parent[row])
    for level in range(tree.depth - 1, number, -1):
        slot = int(tree.levels[level].parent[slot])
    return slot
